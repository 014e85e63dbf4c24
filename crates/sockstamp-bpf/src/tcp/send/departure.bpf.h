/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Find when the bytes of a message left TCP. A packet has one key, and where TCP splits it (cwnd,
 * the peer's window, pacing, TSO sizing) the key goes with the last part (tcp_fragment_tstamp(),
 * net/ipv4/tcp_output.c, v6.18): earlier parts leave without a callback. But each unacknowledged
 * packet is in the retransmit queue, with its range of bytes and its time. Look it up under the
 * socket lock, before TCP processes the next ACK: before it frees, merges or retransmits packets
 * that have left since the last one.
 */
#ifndef SOCKSTAMP_TCP_SEND_DEPARTURE_BPF_H
#define SOCKSTAMP_TCP_SEND_DEPARTURE_BPF_H

#include "demand/demand.bpf.h"
#include "tcp/packet.bpf.h"
#include "tcp/send/cause.bpf.h"
#include "tcp/send/slots.bpf.h"

/* include/net/tcp.h, v6.18: in tcp_skb_cb::sacked. */
#define TCPCB_SACKED_ACKED 0x01
#define TCPCB_EVER_RETRANS 0x80
#define SK_PACING_FQ	   2 /* include/net/sock.h */

/* Height of a red-black tree of 64 k packets; none of sndbuf's size has more. */
#define RTX_TREE_HEIGHT 32

/* Where fq paces: the largest difference of two times that count as one. */
#define FQ_TOLERANCE_NS 50000ULL

/* A packet of the retransmit queue. */
struct sent_packet {
	struct packet bytes;
	__u64 time; /* skb_mstamp_ns, CLOCK_MONOTONIC; 0: it was sent again, or there is none */
};

struct rtx_search {
	__u64 node;
	__u64 seq;
	struct sent_packet *found;
};

/*
 * Return true if the packet's time is that of its bytes. SACK merges packets, and keeps the time of
 * the first (tcp_shifted_skb(), net/ipv4/tcp_input.c, v6.18): that comes too late to matter only
 * where each segment is looked at before.
 */
static __always_inline bool sent_time_known(const struct tcp_skb_cb *cb)
{
	if (cb->sacked & TCPCB_EVER_RETRANS)
		return false;
	return setting_causes || !(cb->sacked & TCPCB_SACKED_ACKED);
}

static long rtx_descend(__u32 index, struct rtx_search *search)
{
	struct sent_packet *found = search->found;
	const struct tcp_skb_cb *cb;
	const struct rb_node *links;
	const struct sk_buff *skb;
	__u32 seq = search->seq;

	if (!search->node)
		return 1;
	skb = cast_kernel((void *)search->node, struct sk_buff);
	links = cast_kernel((void *)search->node, struct rb_node);
	cb = cast_kernel(&skb->cb, struct tcp_skb_cb);
	if (seq_before(seq, cb->seq)) {
		search->node = (__u64)links->rb_left;
		return 0;
	}
	if (!seq_before(seq, cb->end_seq)) {
		search->node = (__u64)links->rb_right;
		return 0;
	}
	found->bytes.first = cb->seq;
	found->bytes.last = cb->end_seq - 1;
	if (sent_time_known(cb))
		found->time = skb->skb_mstamp_ns;
	return 1;
}

/*
 * Find the packet that has a byte, in the tree whose root is at an address. A global function, so
 * that the verifier walks it once.
 */
__noinline int rtx_find(__u64 root, __u32 seq, struct sent_packet *found)
{
	struct rtx_search search = {.node = root, .seq = seq, .found = found};

	/* Check again, because the verifier walks it even where it is not called. */
	if (!found || !setting_casts)
		return 0;
	found->time = 0;
	found->bytes.first = seq;
	found->bytes.last = seq;
	bpf_loop(RTX_TREE_HEIGHT, rtx_descend, &search, 0);
	return 0;
}

/*
 * Note how long a message's packet has waited for its neighbour since it left TCP. Each packet has
 * a wait of its own: they leave TCP one after the other, and wait together.
 */
static __always_inline void tx_waited_for_neighbour(struct tx_message *message, __u64 left,
						    __u64 at)
{
	if (left < message->stamps.queued)
		left = message->stamps.queued;
	message->neighbour = cause_ticks(at - left);
}

/*
 * Note that a message's last byte entered the packet scheduler `at` a time; it left TCP before, if
 * it had to wait for its neighbour. Messages come here in order, so the time between two of them is
 * what held the later one.
 */
static __always_inline void tx_message_departs(struct flow *flow, struct tx_message *message,
					       __u64 pacing_gap, __u64 left, __u64 at)
{
	__u32 held = 0;

	if (setting_causes) {
		cause_head_departs(flow, pacing_gap, left);
		if (left != at)
			flow->tx.waiting.since = at;
		for (int i = 0; i < CAUSE_COUNT; i++) {
			message->waited[i] =
				cause_ticks(flow->tx.waiting.waited[i]) - message->waited[i];
			held |= message->waited[i];
		}
		if (left != at)
			tx_waited_for_neighbour(message, left, at);
	}
	if (held)
		message->flags |= MESSAGE_HELD;
	message->stamps.sched = at;
	message->stamps.sched_last = at;
}

/* A global function, so that the verifier walks it once, and not once per way into the loop. */
__noinline int tx_message_departed(struct flow *flow, struct tx_message *message, __u64 pacing_gap,
				   __u64 at)
{
	if (flow && message)
		tx_message_departs(flow, message, pacing_gap, at, at);
	return 0;
}

struct departures {
	const struct sock *sk;
	struct flow *flow;
	__u64 queue; /* root of the retransmit queue */
	__u32 end; /* messages whose last byte is before this one */
	struct sent_packet packet; /* the last one found */
};

/*
 * Where fq paces, the time is the earliest departure, and the packet entered fq at some time
 * before: accept it only if that makes no difference.
 */
static __always_inline bool departure_known(const struct sock *sk, const struct flow *flow,
					    const struct tx_message *message, __u64 time)
{
	__u64 earliest = message->stamps.queued;

	if (!time)
		return false;
	if (sk->sk_pacing_status != SK_PACING_FQ)
		return true;
	if (flow->tx.waiting.since > earliest)
		earliest = flow->tx.waiting.since;
	return time < earliest + FQ_TOLERANCE_NS;
}

static long tx_note_departures_step(__u32 index, struct departures *departures)
{
	const struct sock *sk = departures->sk;
	struct flow *flow = departures->flow;
	struct tx_message *message;
	__u64 time;

	if (flow->tx.sched == flow->tx.head)
		return 1;
	message = tx_find_slot(flow, flow->tx.sched);
	if (!message || !seq_before(message->seq_last, departures->end))
		return 1;
	if (!packet_carries(&departures->packet.bytes, message->seq_last))
		rtx_find(departures->queue, message->seq_last, &departures->packet);
	time = departures->packet.time;
	if (departure_known(sk, flow, message, time)) {
		if (time < message->stamps.queued)
			time = message->stamps.queued;
		tx_message_departed(flow, message, cause_pacing_gap(sk), time);
		demand_used(DEMAND_PARTS, time);
		demand_request(DEMAND_PARTS);
		message->interface_first = flow->interface;
	}
	flow->tx.sched++;
	return 0;
}

/*
 * Take note of messages that end before `end` and left with no callback; the socket is locked.
 * Where every packet is seen there are none.
 */
static __always_inline void tx_note_departures(const struct sock *sk, struct flow *flow, __u32 end)
{
	struct departures departures = {
		.sk = sk,
		.flow = flow,
		.queue = (__u64)BPF_CORE_READ(sk, tcp_rtx_queue.rb_node),
		.end = end,
		/* No packet: carries nothing. */
		.packet.bytes = {.first = 1, .last = 0},
	};

	bpf_loop(TX_INFLIGHT_MAX, tx_note_departures_step, &departures, 0);
}

/* Look up what has left since the last look, if anything waits at all. */
static __always_inline void tx_update_departures(const struct sock *sk, struct flow *flow)
{
	if (!setting_by_packets && flow->tx.sched != flow->tx.head)
		tx_note_departures(sk, flow, tcp_of(sk)->snd_nxt);
}

#endif
