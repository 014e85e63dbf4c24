/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Selection: which flows are watched, decided once a flow. The result is a bit on the socket
 * (sk_bpf_cb_flags, v6.15), so that a packet of any other flow costs one test of it, and the state
 * of the flow in socket storage, which dies with the socket. Without the bit the test is whether
 * the socket has any storage of that kind.
 */
#ifndef SOCKSTAMP_FLOW_BPF_H
#define SOCKSTAMP_FLOW_BPF_H

#include "common.bpf.h"
#include "asked.bpf.h"
#include "mark.bpf.h"
#include "../filter/filter.bpf.h"
#include "../group/group.bpf.h"
#include "../histogram/histogram.bpf.h"
#include "../rx/receiving.bpf.h"
#include "../sample/sample.bpf.h"

/*
 * Measured messages between send and ACK that the flow itself has room for: one request. More of
 * them are kept elsewhere (tx/slots.bpf.h), so that a flow in use stays below 1 kB.
 */
#define TX_SLOTS 1
/* Threads that may be inside send on one socket at once and still be told apart. */
#define SENDERS 2

struct tx_message {
	struct tx_stamps stamps;
	__u64 sndbuf;
	__u64 service; /* since the last read; STAGE_ABSENT: nothing was read */
	__u32 counter; /* flow.tx_head when it was queued: tells whether this slot holds it */
	__u32 waited[CAUSE_COUNT]; /* in ticks: the flow's when it was queued; its own once it left
				    */
	__u32 weight;
	__u32 min_rtt_us;
	__u32 seq_start;
	__u32 seq_last; /* sequence number of the last byte: the kernel's tskey */
	__u32 pid;
	__u32 packet; /* key of the stamps of the packet that its last byte left in */
	__u32 hash; /* of that packet */
	__u32 group; /* its place */
	__u16 interface_first; /* slots in `interfaces` */
	__u16 interface_last;
	__u16 retransmits;
	__u8 repeats;
	__u8 flags; /* MESSAGE_ */
};

/* How long the head of the write queue has been held, in all, by each cause. */
struct waiting {
	__u64 since; /* up to when it is accounted for */
	__u64 waited[CAUSE_COUNT];
	__u32 cause; /* enum part; what holds it since */
	__u32 seen_by_ack; /* that was found when a segment arrived */
};

/* The task that waited for the latest arrivals that found one waiting. */
struct waiter {
	__u64 task; /* its address: memory that may be gone, so only read through safely */
	__u64 run_delay; /* how long it had waited for a CPU by then */
	__u32 runs; /* how often it had got one */
	__u32 first; /* these arrivals, by serial number */
	__u32 last;
	__u32 asleep; /* and not only about to sleep, or about to look */
};

struct sender {
	__u64 entry;
	__u64 service; /* as tx_message's */
	__u64 full; /* since when it waits for room in the send buffer; 0: it does not */
	__u64 sndbuf; /* how long it has waited for room */
	__u64 call; /* address of its struct msghdr, which lives as long as the call; 0: it has none
		     */
	__u32 tid; /* 0: free */
	__u32 pid;
	__u32 flags; /* SENDER_ and MESSAGE_PIPELINED */
	/* Of the message, once it is queued. */
	__u32 group;
	__u32 crowded; /* the flow's tx_crowded */
	__u32 end; /* where write_seq is once all bytes of a call without a struct msghdr are queued
		    */
};

/* Why the next turn of a send may be another than its first. */
enum crowded {
	TX_CROWDED = 1, /* more tasks were inside send at once than `senders` has room for */
	TX_ADOPTED, /* some were when the flow was adopted */
};
#define SENDER_MORE (1 << 16) /* MSG_MORE */

/* Everything is written under the socket lock but what is marked otherwise. */
struct flow {
	/* Counters, not positions: slots.bpf.h finds the slot of each. */
	__u32 tx_head;
	__u32 tx_tail;
	__u32 tx_sched; /* first message that has not left TCP */
	__u32 tx_snd; /* first message that no driver has taken; written without the lock */
	__u32 tx_seq; /* where the next message starts */
	__u32 tx_crowded; /* no entry is noted: enum crowded */
	__u32 tx_chunks; /* how many hold messages of the flow */
	__u32 interface; /* slot in `interfaces` of the one that packets go to first */
	__u32 directions; /* as the mark's */
	__u32 ended; /* it is not one of live_flows any more */
	__u64 group; /* of the last message: pid (if groups differ in it) << 32 | token */
	__u32 ack_flags; /* MESSAGE_ACK_WITH_DATA, ACK_SMALL: of the segment that is worked on */
	__u64 rx_time; /* when the last read ended that no send has followed; 0: none */
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

const volatile __u32 setting_max_flows = ~0U; /* flows that have state at one time */

/* Flows that have state, and whose socket is not closed. */
__u64 live_flows;

enum opened_by {
	OPENED_BEFORE, /* nobody saw by whom */
	OPENED_BY_US,
	OPENED_BY_PEER,
};

struct mark {
	__u8 kind; /* this byte and the next are read by others, too */
	__u8 asked; /* enum asked */
	__u8 adopted; /* the flow was there before us */
	__u32 retransmits; /* how much of the kernel's count is in ours */
	__u32 tx_seq; /* where the first message starts */
	__u32 ooopack; /* segments that had come out of order when the flow was selected */
	__u8 directions; /* bits of those whose messages are measured; 0: of none any more */
	__u8 opened_by;
};

/* Ours, unlike the bit on the socket, which is everybody's who uses BPF timestamping. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct mark);
} sockstamp_marks SEC(".maps");

/* Thread group ids of the selected tasks: as many as a command line can sensibly name. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u8);
} pids SEC(".maps");

/* Names of the selected processes, padded with zeros. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, char[COMM_LENGTH]);
	__type(value, __u8);
} comms SEC(".maps");

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

static __always_inline bool comm_selected(const struct task_struct *task)
{
	char comm[COMM_LENGTH] = {};

	bpf_probe_read_kernel_str(comm, sizeof(comm), task->group_leader->comm);
	return bpf_map_lookup_elem(&comms, comm);
}

/* Every condition holds: the task's process is among the ids, and it has one of the names. */
static __always_inline bool task_selected(const struct task_struct *task, __u32 tgid)
{
	if (setting_pids && !bpf_map_lookup_elem(&pids, &tgid))
		return false;
	return !setting_comms || comm_selected(task);
}

/* Whether the current task, of this thread group, is one whose messages are measured. */
static __always_inline bool pid_selected(__u32 tgid)
{
	return !setting_by_pid || task_selected(bpf_get_current_task_btf(), tgid);
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

/* Sockops programs may not ask for the id by its own helper before v6.10. */
static __always_inline __u32 current_process(void)
{
	return bpf_get_current_task_btf()->tgid;
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

static __always_inline bool netns_selected(const struct sock *sk)
{
	return !setting_netns || sk->__sk_common.skc_net.net->ns.inum == setting_netns;
}

/*
 * The route that the socket keeps for what it sends. It is there before the SYN and in an accepted
 * socket: tcp_v4_connect(), tcp_v6_connect(), tcp_v4_syn_recv_sock(), tcp_v6_syn_recv_sock() call
 * sk_setup_caps() or ip6_dst_store() (v6.18). The socket is locked.
 */
static __always_inline bool route_selected(const struct sock *sk)
{
	if (!setting_interface)
		return true;
	if (!sk->sk_dst_cache)
		count_loss(LOSS_FLOW);
	return sk->sk_dst_cache->dev->ifindex == setting_interface;
}

/* In which directions messages of a connected socket are of the target; asked once a flow. */
static __always_inline __u8 flow_directions(const struct sock *sk)
{
	return netns_selected(sk) && route_selected(sk) ? filter_flow(sk) : 0;
}

static __always_inline const struct tcp_sock *tcp_of(const struct sock *sk)
{
	return setting_casts ? cast_kernel(sk, struct tcp_sock) : (const struct tcp_sock *)sk;
}

/*
 * Where there are no casts, the verifier must know what a socket is before tcp_of() may be asked:
 * it learns it here, once a program. NULL: not one of TCP.
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

/* Where there is no filter, the verifier leaves nothing of this. */
static __always_inline bool mark_wants(const struct mark *mark, enum direction direction)
{
	return !setting_filtered || mark->directions & DIRECTION_BIT(direction);
}

static __always_inline bool flow_wants(const struct flow *flow, enum direction direction)
{
	return !setting_filtered || flow->directions & DIRECTION_BIT(direction);
}

/* A flow that is turned away stays so: what of it was under way would not be known later on. */
static __always_inline bool flow_admitted(struct mark *mark)
{
	if (__sync_fetch_and_add(&live_flows, 1) < setting_max_flows)
		return true;
	__sync_fetch_and_add(&live_flows, -1);
	mark->directions = 0;
	count_loss(LOSS_TURNED_AWAY);
	return false;
}

/*
 * Makes the state of a flow, of which a reader and a hook under the socket lock may be the first
 * together: one of them does. A closed socket gets none, since nothing would count its end.
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
		__sync_fetch_and_add(&live_flows, -1);
		return flow;
	}
	receiving_clear(flow->rx.key);
	flow->tx_seq = mark->tx_seq;
	flow->rx.seq = rx_seq;
	flow->rx.done = rx_seq;
	flow->rx.ooopack = mark->ooopack;
	flow->rx.adopted = mark->adopted;
	flow->rx.filler_ns = ARRIVAL_HOL;
	flow->directions = mark->directions;
	sample_start(&flow->tx_sampler);
	sample_start(&flow->rx_sampler);
	if (setting_record)
		flow_identify(&flow->identity, sk);
	return flow;
}

/* Once a flow, with the socket locked. */
static __always_inline void flow_ended(struct flow *flow)
{
	if (flow->ended)
		return;
	flow->ended = true;
	__sync_fetch_and_add(&live_flows, -1);
}

/* For hooks that run under the socket lock, before the message that they are about. */
static __always_inline struct flow *flow_of(const struct sock *sk)
{
	struct flow *flow = flow_lookup(sk);

	return flow ? flow : flow_create(sk, tcp_of(sk)->copied_seq);
}

/* The socket is locked: what is sent, or comes, from here on is the flow's. */
static __always_inline void mark_selected(struct mark *mark, const struct tcp_sock *tp,
					  __u8 directions)
{
	mark->directions = directions;
	mark->kind = MARK_SELECTED;
	mark->adopted = false;
	mark->tx_seq = tp->write_seq;
	mark->ooopack = tp->rcv_ooopack;
	mark->retransmits = tp->total_retrans;
}

/* Have the socket call back, in the ways that are used. */
static __always_inline bool mark_asks(struct mark *mark, void *socket, const struct tcp_sock *tp)
{
	__u8 wanted = ASKED_STAMPS | (setting_entry_callback ? ASKED_ENTRY : 0);

	return !setting_bit || bits_ask(socket, tp, wanted, &mark->asked);
}

/*
 * Runs before the flow's first data segment, in either direction: in tcp_connect() and at the end
 * of the handshake of a passive open (net/ipv4/tcp_output.c and tcp_input.c, v6.18).
 */
static __always_inline void flow_select(struct bpf_sock_ops *ctx, const struct sock *kernel_sk)
{
	const struct tcp_sock *tp = tcp_of(kernel_sk);
	struct bpf_sock *sk = ctx->sk;
	struct bank *bank = this_bank();
	struct mark *mark;
	__u8 directions;

	if (!sk || !bank)
		return;
	directions = flow_directions(kernel_sk);
	if (!directions)
		return;
	if (bpf_core_field_exists(tp->is_mptcp) && tp->is_mptcp) {
		count_loss(LOSS_MPTCP);
		return;
	}
	mark = bpf_sk_storage_get(&sockstamp_marks, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!mark || !mark_asks(mark, ctx, tp)) {
		count_loss(LOSS_FLOW);
		return;
	}
	/* The kernel gives a socket its cookie when somebody asks for it first. */
	if (setting_record || setting_groups & GROUP_BY_FLOW)
		bpf_get_socket_cookie(ctx);
	mark_selected(mark, tp, directions);
	mark->opened_by = ctx->op == BPF_SOCK_OPS_TCP_CONNECT_CB ? OPENED_BY_US : OPENED_BY_PEER;
	/* SYN-ACKs sent again before the socket existed: tcp_create_openreq_child(), v6.18. */
	if (tp->total_retrans && mark_wants(mark, DIRECTION_TX)) {
		count(&bank->retransmits, tp->total_retrans);
		group_retransmitted(group_of_socket(NULL, kernel_sk), tp->total_retrans);
	}
}

/* A socket may be connected again (connect(2), AF_UNSPEC): nothing holds from before. */
static __always_inline void flow_forget(struct bpf_sock *sk)
{
	struct mark *mark = bpf_sk_storage_get(&sockstamp_marks, sk, 0, 0);
	struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);

	if (flow)
		flow_ended(flow);
	bpf_sk_storage_delete(&flows, sk);
	if (mark)
		mark->directions = 0;
}

static __always_inline void flow_connect(struct bpf_sock_ops *ctx, const struct sock *sk)
{
	struct bpf_sock *connecting = ctx->sk;

	if (connecting)
		flow_forget(connecting);
	if (pid_selected(current_process()))
		flow_select(ctx, sk);
}

/* The SYN has its sequence number by now. Data that went with it (RFC 7413) got no callback. */
static __always_inline void flow_connected(const struct sock *sk)
{
	struct bank *bank = this_bank();
	struct mark *mark;

	if (!bank || !sock_selected(sk))
		return;
	mark = flow_mark(sk);
	if (!mark || !mark_wants(mark, DIRECTION_TX))
		return;
	mark->tx_seq = tcp_of(sk)->write_seq;
	if (!mark->adopted && BPF_CORE_READ_BITFIELD(tcp_of(sk), syn_data)) {
		__u32 group = group_of_socket(NULL, sk);

		count(&bank->messages[DIRECTION_TX], 1);
		count_measured(bank, DIRECTION_TX, 1);
		count(&bank->refusals[DIRECTION_TX][VERDICT_FAST_OPEN], 1);
		group_message(group, DIRECTION_TX, 0);
		group_measured(group, DIRECTION_TX);
		group_ended(group, DIRECTION_TX, 1);
	}
}

static __always_inline void flow_accepted(struct bpf_sock_ops *ctx, const struct sock *sk)
{
	struct bpf_sock *accepted = ctx->sk;

	if (!accepted)
		return;
	if (setting_by_pid && !bpf_sk_storage_get(&sockstamp_marks, accepted, 0, 0))
		return;
	flow_select(ctx, sk);
}

static __always_inline void mark_listener(void *sk)
{
	struct mark *mark =
		bpf_sk_storage_get(&sockstamp_marks, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (mark)
		mark->kind = MARK_LISTENER;
	else
		count_loss(LOSS_FLOW);
}

static __always_inline void flow_listen(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	if (setting_by_pid && sk && pid_selected(current_process()))
		mark_listener(sk);
}

#endif
