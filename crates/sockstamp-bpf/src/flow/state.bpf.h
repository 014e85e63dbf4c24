/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The marks of selected sockets, and the state of their flows: in socket storage, which dies with
 * the socket.
 */
#ifndef SOCKSTAMP_FLOW_STATE_BPF_H
#define SOCKSTAMP_FLOW_STATE_BPF_H

#include "answer/state.bpf.h"
#include "kernel/kernel.bpf.h"
#include "connection/state.bpf.h"
#include "filter/filter.bpf.h"
#include "flow/mark.bpf.h"
#include "histogram/histogram.bpf.h"
#include "sample/sample.bpf.h"
#include "sched/sched.bpf.h"
#include "tcp/receive/state.bpf.h"
#include "tcp/send/state.bpf.h"
#include "tcp/tag/state.bpf.h"
#include "window/window.bpf.h"

const volatile bool setting_record; /* send a record per message to the ring buffer */
const volatile bool setting_bit = true; /* a bit on the socket selects it (v6.15) */
const volatile bool setting_entry; /* the entry of send calls is seen */
const volatile bool setting_entry_callback; /* ... by the callback for header options */

/* Everything is written under the socket lock, except as noted. */
struct flow {
	/* Counters, not positions: slots.bpf.h finds the slot of each. */
	__u32 tx_head;
	__u32 tx_tail;
	__u32 tx_sched; /* first message that has not left TCP */
	__u32 tx_snd; /* first message that no driver has taken; written without the lock */
	__u32 tx_seq; /* where the next message starts */
	__u32 tx_chunks; /* how many hold messages of the flow */
	__u32 interface; /* slot in `interfaces` of the one that packets go to first */
	__u32 window; /* number of the one that its state is of */
	__u32 read_window; /* as `window`, of rx.seq; written as that */
	__u8 tx_crowded; /* no entry is noted: enum crowded */
	__u8 directions; /* as the mark's */
	__u8 ended; /* its state is not counted any more */
	__u64 group; /* of the last message: pid (if groups differ in it) << 32 | token */
	__u32 ack_flags; /* MESSAGE_ACK_WITH_DATA, ACK_SMALL: of the segment that is worked on */
	__u32 rx_shift; /* received numbers less the sender's own (tcp/tag) */
	__u64 rx_time; /* when the last read ended that no send has followed; 0: none */
	struct exchange exchange;
	struct sampler tx_sampler;
	struct sampler rx_sampler; /* of readers, without the lock */
	struct waiting waiting;
	struct waiter waiter;
	struct flow_identity identity; /* only where records are sent */
	struct sender senders[SENDERS];
	struct tx_message tx[TX_SLOTS];
	struct receiving rx;
};

/* Made at the flow's first message: a selected connection that is idle costs a mark alone. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

/*
 * Overhead of a slab object beside a value: struct bpf_local_storage_elem
 * (include/linux/bpf_local_storage.h, v6.18), rounded up.
 */
#define STORAGE_HEAD 128
/* Slab of a flow. */
#define FLOW_BYTES 1024
_Static_assert(sizeof(struct flow) + STORAGE_HEAD <= FLOW_BYTES, "a flow takes more slab");

/* Limit the state of TCP flows and UDP sockets at one time, and the slab memory that they take. */
const volatile __u64 setting_max_flows = ~0ULL;
const volatile __u64 setting_max_state = ~0ULL;

/* Those that have it, and are not closed. */
__u64 live_flows;
__u64 live_state;

struct mark {
	__u8 kind; /* this byte and the next are read by others, too */
	__u8 asked; /* enum asked */
	__u8 adopted; /* the flow was there before us */
	__u8 holds; /* a connected UDP socket: no hook but those of its packets shows its sends */
	__u32 retransmits; /* how much of the kernel's count is in ours */
	__u32 segments; /* data_segs_out when the flow was selected */
	__u32 tx_seq; /* where the first message starts */
	__u32 ooopack; /* segments that had come out of order when the flow was selected */
	__u8 directions; /* bits of those whose messages are measured; 0: of none any more */
	__u8 opened_by; /* enum opened_by */
	__u8 released; /* the bit is given back until the next window */
	struct opening opening;
	struct tagging tag;
};

/* Our own mark, unlike the bit on the socket, which all users of BPF timestamping share. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct mark);
} sockstamp_marks SEC(".maps");

/*
 * Programs go one after the other, which takes a while each. They end their work at once by this:
 * or the end of a send call would be seen, and an ACK, where the entry, or the packet, is no more.
 */
volatile bool stopping;

static __always_inline bool sock_selected(const struct sock *sk)
{
	if (setting_bit)
		return sk->sk_bpf_cb_flags & SK_BPF_CB_TX_TIMESTAMPING;
	return sk->sk_protocol == IPPROTO_TCP && sk->sk_bpf_storage && sock_is_full(sk) &&
	       !stopping;
}

/* Open sockets without their bit: after a walk that asks for it, those that it did not reach. */
__s64 released_flows;

/* As sock_selected(), also true while this may be a selected socket without its bit. */
static __always_inline bool sock_may_be_selected(const struct sock *sk)
{
	return (setting_windows && released_flows) || sock_selected(sk);
}

/*
 * Outside ESTABLISHED data, or an ACK of data, may come as well: after the first FIN (RFC 9293,
 * section 3.3.2), and for a server's answer by TCP Fast Open (RFC 7413).
 */
static __always_inline bool sock_transfers_unprobed(const struct sock *sk)
{
	switch (sk->__sk_common.skc_state) {
	case TCP_SYN_RECV:
	case TCP_FIN_WAIT1:
	case TCP_FIN_WAIT2:
	case TCP_CLOSE_WAIT:
	case TCP_LAST_ACK:
	case TCP_CLOSING:
		return true;
	}
	return false;
}

/* comm changes rarely and reading it costs a helper call, so it is read when the task changes. */
static __always_inline void remember_task(struct flow *flow, __u32 pid)
{
	struct flow_identity *identity = &flow->identity;

	if (!setting_record || identity->pid == pid)
		return;
	bpf_get_current_comm(identity->comm, sizeof(identity->comm));
	identity->pid = pid;
}

static __always_inline void flow_identify(struct flow_identity *identity, const struct sock *sk)
{
	const struct sock_common *common = &sk->__sk_common;

	identity->cookie = common->skc_cookie.counter;
	identity->cgroup = sk->sk_cgrp_data.cgroup->kn->id;
	identity->netns = common->skc_net.net->ns.inum;
	identity->family = common->skc_family;
	identity->protocol = sk->sk_protocol;
	identity->local_port = common->skc_num;
	identity->remote_port = bpf_ntohs(common->skc_dport);
	if (bpf_core_field_exists(common->skc_v6_daddr) && identity->family == AF_INET6) {
		BPF_CORE_READ_INTO(&identity->local_address, common,
				   skc_v6_rcv_saddr.in6_u.u6_addr8);
		BPF_CORE_READ_INTO(&identity->remote_address, common, skc_v6_daddr.in6_u.u6_addr8);
	} else {
		*(__be32 *)identity->local_address = common->skc_rcv_saddr;
		*(__be32 *)identity->remote_address = common->skc_daddr;
	}
}

static __always_inline const struct tcp_sock *tcp_of(const struct sock *sk)
{
	return setting_casts ? cast_kernel(sk, struct tcp_sock) : (const struct tcp_sock *)sk;
}

/*
 * Return the socket as a TCP socket, or NULL for another one. Where there are no casts, the
 * verifier must know the type before tcp_of() may be used: it learns it here, once per program.
 */
static __always_inline const struct sock *tcp_known(const struct sock *sk)
{
	return setting_casts ? sk : (const struct sock *)bpf_skc_to_tcp_sock((void *)sk);
}

static __always_inline struct flow *flow_lookup(const struct sock *sk)
{
	return bpf_sk_storage_get(&flows, (void *)sk, 0, 0);
}

/* The mark of a selected flow; NULL if this is none of ours. */
static __always_inline struct mark *flow_mark(const struct sock *sk)
{
	struct mark *mark = bpf_sk_storage_get(&sockstamp_marks, (void *)sk, 0, 0);

	return mark && mark->kind == MARK_SELECTED && mark->directions ? mark : NULL;
}

/* Without a filter the verifier removes all of this. */
static __always_inline bool mark_wants(const struct mark *mark, enum direction direction)
{
	return !setting_filtered || mark->directions & DIRECTION_BIT(direction);
}

static __always_inline bool flow_wants(const struct flow *flow, enum direction direction)
{
	return !setting_filtered || flow->directions & DIRECTION_BIT(direction);
}

/*
 * Return true if the service is at the other end: this one connected to it. Of connections that
 * existed before, it is unknown: the lower port is taken for the service's, for ephemeral ones are
 * high (ip(7), ip_local_port_range). An unconnected socket of UDP has no remote port.
 */
static __always_inline bool flow_asks(const struct sock *sk, const struct mark *mark)
{
	__u16 remote = bpf_ntohs(sk->__sk_common.skc_dport);

	if (mark && mark->opened_by != OPENED_BEFORE)
		return mark->opened_by == OPENED_BY_US;
	return remote && remote < sk->__sk_common.skc_num;
}

static __always_inline void state_given_back(__u64 bytes)
{
	__sync_fetch_and_add(&live_flows, -1);
	__sync_fetch_and_add(&live_state, -bytes);
}

/* Return true if there is room for the state of one more. */
static __always_inline bool state_admitted(__u64 bytes)
{
	__u64 flows = __sync_fetch_and_add(&live_flows, 1);
	__u64 state = __sync_fetch_and_add(&live_state, bytes);

	if (flows < setting_max_flows && state + bytes <= setting_max_state)
		return true;
	state_given_back(bytes);
	count_loss(LOSS_TURNED_AWAY);
	return false;
}

/* Keep a rejected flow rejected: its messages under way would not be known later. */
static __always_inline bool flow_admitted(struct mark *mark)
{
	bool admitted = state_admitted(FLOW_BYTES);

	if (!admitted)
		mark->directions = 0;
	return admitted;
}

/*
 * Allocate the state of a flow. A reader and a hook under the socket lock may be the first at once:
 * one of them allocates. A closed socket gets no state, because nothing would count its end.
 */
static __always_inline struct flow *flow_create(const struct sock *sk, __u32 rx_seq)
{
	struct mark *mark = flow_mark(sk);
	struct flow *flow;

	if (!mark || sk->__sk_common.skc_state == TCP_CLOSE || !flow_admitted(mark))
		return NULL;
	flow = bpf_sk_storage_get(&flows, (void *)sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow)
		count_loss(LOSS_FLOW);
	if (!flow || __sync_val_compare_and_swap(&flow->rx.key, 0, (__u64)sk)) {
		state_given_back(FLOW_BYTES);
		return flow;
	}
	receiving_clear(flow->rx.key);
	flow->tx_seq = mark->tx_seq;
	flow->rx.seq = rx_seq;
	flow->rx_shift = mark->tag.shift;
	flow->rx.done = rx_seq;
	flow->rx.ooopack = mark->ooopack;
	flow->rx.adopted = mark->adopted;
	flow->rx.filler_lag = LAG_HOL;
	flow->directions = mark->directions;
	/* The time before this window is unknown. */
	if (setting_windows) {
		flow->window = window.number ? window.number - 1 : 0;
		flow->read_window = flow->window;
	}
	flow->exchange.asks = mark_wants(mark, DIRECTION_RX) && flow_asks(sk, mark);
	sample_start(&flow->tx_sampler);
	sample_start(&flow->rx_sampler);
	if (setting_record) {
		flow_identify(&flow->identity, untrusted(sk, struct sock));
		flow->identity.opened_by = mark->opened_by;
	}
	return flow;
}

/* Called once per flow, with the socket locked. */
static __always_inline void flow_ended(struct flow *flow)
{
	if (flow->ended)
		return;
	flow->ended = true;
	state_given_back(FLOW_BYTES);
}

/*
 * Return the flow, for hooks that run under the socket lock, before the message that they are
 * about.
 */
static __always_inline struct flow *flow_of(const struct sock *sk)
{
	struct flow *flow = flow_lookup(sk);

	return flow ? flow : flow_create(sk, tcp_of(sk)->copied_seq);
}

/* Return true if nothing is known of a flow since another window, or nothing will be any more. */
static __always_inline bool flow_in_gap(const struct flow *flow)
{
	return setting_windows && (window.off || flow->window != window.number);
}

#endif
