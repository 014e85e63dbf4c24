/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * peer.answer of UDP: from the last datagram sent to the arrival of the next one from the same
 * peer, on the side that asks: the one with the higher port. Datagrams sent at once are one
 * question (a resolver asks for both kinds of addresses). A datagram names no question, so the
 * answer is known to be its question's only if no other one is in flight. Datagrams that are apart
 * by more than a small part of the answer's time may be a question each.
 */
#ifndef SOCKSTAMP_UDP_ANSWER_BPF_H
#define SOCKSTAMP_UDP_ANSWER_BPF_H

#include "answer/answer.bpf.h"
#include "udp/peer.bpf.h"
#include "udp/state.bpf.h"
#include "window/window.bpf.h"

#define UDP_ANSWER_PIPELINED (1ULL << 63)

/* Datagrams of one question follow each other so closely. */
#define UDP_QUESTION_NS 10000000
/* Count a question as lost if it has no answer when the next one comes so much later. */
#define UDP_REPEAT_NS 1000000000
/* The answer takes this many times as long as its question, at least: they differ by one bucket. */
#define UDP_ANSWER_TIMES 12

/* The port of a packet's source or destination, in host order. Ports come first: RFC 768. */
static __always_inline __u16 udp_port(const struct sk_buff *skb, bool source)
{
	__be16 port = 0;

	bpf_probe_read_kernel(&port, sizeof(port),
			      skb->head + skb->transport_header + (source ? 0 : 2));
	return bpf_ntohs(port);
}

/* Return true if the peer of a connected socket is the service. */
static __always_inline bool udp_is_client(const struct sock *sk)
{
	return bpf_ntohs(sk->__sk_common.skc_dport) < sk->__sk_common.skc_num;
}

/*
 * Return a number for the peer of a packet if it is the service, otherwise 0. The peer of a
 * connected socket, which has no other, is 1.
 */
static __always_inline __u64 udp_peer_name(const struct sock *sk, const struct sk_buff *skb,
					   bool source)
{
	struct udp_remote peer = {};
	__u32 *address = (__u32 *)peer.address;

	if (sk->__sk_common.skc_dport)
		return udp_is_client(sk);
	if (udp_port(skb, source) >= sk->__sk_common.skc_num)
		return 0;
	udp_peer(sk, skb, source, &peer);
	return (__u64)(address[0] ^ address[1] ^ address[2] ^ address[3]) << 32 |
	       (__u32)(peer.port << 1) | 1;
}

/*
 * Return true if questions that were asked before are answered or lost. In windows an answer that
 * takes as long as their programs were attached before is not told either.
 */
static __always_inline bool udp_questions_over(__u64 since)
{
	return since >= (window_bounded() ? WINDOW_LEAD_NS : UDP_REPEAT_NS);
}

/* A datagram is on its way to `peer`, in the sender's task. A global function: many call it. */
__noinline int udp_ask(struct udp_flow *flow, __u64 peer, __u64 now)
{
	struct udp_exchange *exchange;
	__u64 since;
	bool more;

	if (!flow || !peer)
		return 0;
	exchange = &flow->exchange;
	since = now - exchange->last;
	more = exchange->asked && exchange->peer == peer && since < UDP_QUESTION_NS;
	if (udp_questions_over(since))
		exchange->in_flight = 0;
	if (!more) {
		exchange->pipelined = exchange->in_flight > 0;
		exchange->first = now;
	}
	exchange->pipelined |= flow->rx_head != flow->rx_tail;
	__sync_fetch_and_add(&exchange->in_flight, 1);
	exchange->peer = peer;
	exchange->last = now;
	/* Atomic for its order: the CPU that sees the time sees all else. */
	__sync_lock_test_and_set(&exchange->asked, now);
	return 0;
}

/* The datagram with this counter has arrived, in softirq. */
static __always_inline void udp_answer_arrives(const struct sock *sk, const struct sk_buff *skb,
					       struct udp_flow *flow, __u64 counter, __u64 now)
{
	struct udp_exchange *exchange = &flow->exchange;
	__u64 asked = exchange->asked;
	__u64 state = counter + 1;
	__u64 since;

	if (exchange->in_flight <= 0 || udp_peer_name(sk, skb, true) != exchange->peer)
		return;
	__sync_fetch_and_add(&exchange->in_flight, -1);
	if (!asked || __sync_val_compare_and_swap(&exchange->asked, asked, 0) != asked)
		return;
	since = now - asked;
	if (exchange->pipelined || UDP_ANSWER_TIMES * (asked - exchange->first) > since ||
	    window_exceeded(since, WINDOW_LEAD_NS))
		state |= UDP_ANSWER_PIPELINED;
	exchange->state = 0;
	barrier();
	exchange->ns = since;
	/* Atomic for its order: a reader that sees the state sees the time. */
	__sync_lock_test_and_set(&exchange->state, state);
}

/* The datagram with this counter was not queued, and the next one gets the counter. */
static __always_inline void udp_answer_dropped(struct udp_flow *flow, __u64 counter)
{
	struct udp_exchange *exchange = &flow->exchange;

	if ((exchange->state & ~UDP_ANSWER_PIPELINED) == counter + 1)
		exchange->state = 0;
}

/* Take the answer that a read is, if it is one. */
static __always_inline struct answer udp_answer_take(struct udp_flow *flow, __u64 counter)
{
	struct udp_exchange *exchange = &flow->exchange;
	__u64 state = *(volatile __u64 *)&exchange->state;
	struct answer answer = {.ns = STAGE_ABSENT};
	__u64 ns = *(volatile __u64 *)&exchange->ns;

	if ((state & ~UDP_ANSWER_PIPELINED) != counter + 1 ||
	    __sync_val_compare_and_swap(&exchange->state, state, 0) != state)
		return answer;
	answer.pipelined = !!(state & UDP_ANSWER_PIPELINED);
	if (!answer.pipelined)
		answer.ns = ns;
	return answer;
}

#endif
