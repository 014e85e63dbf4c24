/* SPDX-License-Identifier: GPL-2.0-only */
/* Keep the state of TCP flows in socket storage, which dies with the socket. */
#ifndef SOCKSTAMP_TCP_FLOW_BPF_H
#define SOCKSTAMP_TCP_FLOW_BPF_H

#include "answer/exchange.bpf.h"
#include "kernel/kernel.bpf.h"
#include "record/identity.bpf.h"
#include "sample/sample.bpf.h"
#include "select/admit.bpf.h"
#include "select/select.bpf.h"
#include "tcp/receiving.bpf.h"
#include "tcp/sending.bpf.h"
#include "window/window.bpf.h"

const volatile bool setting_tag; /* --tag: write tags and read them (tcp/tag) */
const volatile bool setting_entry; /* the entry of send calls is seen */
const volatile bool setting_entry_callback; /* ... by the callback for header options */

/* In the upper half of `state` of an exchange. */
#define EXCHANGE_ANSWERED	(1ULL << 32)
#define EXCHANGE_UNPAIRED_SHIFT 33 /* NO_PAIR() of the answer */

/* Everything is written under the socket lock, except as noted. */
struct flow {
	__u16 interface; /* slot in `interfaces` of the one that packets go to first */
	__u8 directions; /* as the mark's */
	__u8 ended; /* its state is not counted any more */
	__u32 window; /* number of the one that its state is of */
	__u64 group; /* of the last message: pid (if groups differ in it) << 32 | token */
	struct exchange exchange;
	struct sending tx;
	struct receiving rx;
	__u64 identity[SOCKET_IDENTITY_BYTES / sizeof(__u64)]; /* only where records are sent */
};

/* Made at the flow's first message: a selected connection that is idle costs a mark alone. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

/* Slab of a flow. */
#define FLOW_BYTES 1024
_Static_assert(sizeof(struct flow) + STORAGE_HEAD <= FLOW_BYTES, "a flow takes more slab");

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

/* Without the task: its last member is outside the flow. */
static __always_inline struct flow_identity *flow_identity(const struct flow *flow)
{
	return (struct flow_identity *)flow->identity;
}

/* Return the bit by which records of an adopted flow are known, where records are sent. */
static __always_inline __u8 flow_earlier(const struct flow *flow)
{
	return flow_identity(flow)->opened_by & OPENED_EARLIER;
}

static __always_inline struct flow *flow_lookup(const struct sock *sk)
{
	return bpf_sk_storage_get(&flows, (void *)sk, 0, 0);
}

static __always_inline bool flow_measures(const struct flow *flow, enum direction direction)
{
	return !setting_filtered || flow->directions & DIRECTION_BIT(direction);
}

/* Keep a rejected flow rejected: its messages under way would not be known later. */
static __always_inline bool flow_admit(struct mark *mark)
{
	bool admitted = state_admit(FLOW_BYTES);

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
	struct mark *mark = flow_mark_lookup(sk);
	struct flow *flow;

	if (!mark || sk->__sk_common.skc_state == TCP_CLOSE || !flow_admit(mark))
		return NULL;
	flow = bpf_sk_storage_get(&flows, (void *)sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow)
		count_loss(LOSS_FLOW);
	if (!flow || __sync_val_compare_and_swap(&flow->rx.key, 0, (__u64)sk)) {
		state_give_back(FLOW_BYTES);
		return flow;
	}
	receiving_clear(flow->rx.key);
	flow->tx.seq = mark->tx_seq;
	flow->rx.seq = rx_seq;
	flow->rx.shift = mark->tag.shift;
	flow->rx.done = rx_seq;
	flow->rx.ooopack = mark->ooopack;
	flow->rx.adopted = mark->adopted;
	flow->rx.filler_lag = LAG_HOL;
	flow->directions = mark->directions;
	/* The time before this window is unknown. */
	if (setting_windows) {
		flow->window = window.number ? window.number - 1 : 0;
		flow->rx.window = flow->window;
	}
	flow->exchange.asks = mark_measures(mark, DIRECTION_RX) && mark->opened_by == OPENED_BY_US;
	flow->exchange.serves = mark->opened_by == OPENED_BY_PEER;
	sample_start(&flow->tx.sampler);
	sample_start(&flow->rx.sampler);
	if (setting_record) {
		flow_identify(flow_identity(flow), untrusted(sk, struct sock));
		flow_identity(flow)->opened_by =
			mark->opened_by | (mark->adopted ? OPENED_EARLIER : 0);
	}
	return flow;
}

/* Called once per flow, with the socket locked. */
static __always_inline void flow_end(struct flow *flow)
{
	if (flow->ended)
		return;
	flow->ended = true;
	state_give_back(FLOW_BYTES);
}

/*
 * Return the flow, for hooks that run under the socket lock, before the message that they are
 * about.
 */
static __always_inline struct flow *flow_lookup_or_create(const struct sock *sk)
{
	struct flow *flow = flow_lookup(sk);

	return flow ? flow : flow_create(sk, tcp_of(sk)->copied_seq);
}

/* Return true if nothing is known of a flow since another window, or nothing will be any more. */
static __always_inline bool flow_in_gap(const struct flow *flow)
{
	return setting_windows && (window.off || flow->window != window.number);
}

/* Reset a flow's state after a gap (tcp/gap/reset.bpf.h). */
int flow_reset_after_gap(struct flow *flow, __u32 calls);

/* Before an event of a flow, with its socket locked. `calls`: a send call may be under way. */
static __always_inline void flow_reset_if_after_gap(struct flow *flow, bool calls)
{
	if (setting_windows && flow->window != window.number)
		flow_reset_after_gap(flow, calls);
}

#endif
