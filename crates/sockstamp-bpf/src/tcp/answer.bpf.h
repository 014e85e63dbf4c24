/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * peer.answer of TCP: from a send to the arrival of the first byte that answers it. An answer
 * belongs to a known request only if one request is in flight. If bytes were unread at the send, or
 * the answer arrives before the peer has acknowledged the whole send, the read counts as pipelined.
 */
#ifndef SOCKSTAMP_TCP_ANSWER_BPF_H
#define SOCKSTAMP_TCP_ANSWER_BPF_H

#include "answer/answer.bpf.h"
#include "tcp/flow.bpf.h"

/* Called when a message is queued, with the socket locked. `now` 0: do not measure its answer. */
static __always_inline void answer_asked(const struct tcp_sock *tp, struct exchange *exchange,
					 __u64 now)
{
	if (!exchange->asks)
		return;
	exchange->asked = now;
	exchange->pipelined = tp->copied_seq != tp->rcv_nxt;
}

/*
 * Called when bytes from `start` on become readable, with the socket locked. TCP has already
 * processed their segment's ACK (tcp_rcv_established(), net/ipv4/tcp_input.c, v6.18).
 */
static __always_inline void answer_arrived(const struct tcp_sock *tp, struct flow *flow,
					   __u32 start, __u64 ready)
{
	struct exchange *exchange = &flow->exchange;
	__u64 state = EXCHANGE_ANSWERED | start;

	if (!exchange->asked)
		return;
	if (exchange->pipelined || seq_before(tp->snd_una, flow->tx.seq))
		state |= EXCHANGE_PIPELINED;
	exchange->state = 0;
	barrier();
	exchange->ns = ready - exchange->asked;
	exchange->asked = 0;
	/* Atomic for its order: a reader that sees the state sees the time. */
	__sync_lock_test_and_set(&exchange->state, state);
}

/* Return the least time of the answer's path: tcp_min_rtt(); ~0U if there is none yet. */
static __always_inline __u64 answer_network(const struct sock *sk, __u64 ns)
{
	__u32 rtt = tcp_of(sk)->rtt_min.s[0].v;
	__u64 network = (__u64)rtt * 1000;

	if (rtt == RTT_UNKNOWN)
		return 0;
	return network < ns ? network : ns;
}

/* Take the answer whose first byte is in a read. Readers hold no lock: one of them gets it. */
static __always_inline struct answer answer_take(const struct sock *sk, struct exchange *exchange,
						 __u32 start, __u32 end)
{
	__u64 state = *(volatile __u64 *)&exchange->state;
	struct answer answer = {.ns = STAGE_ABSENT};
	__u64 ns = *(volatile __u64 *)&exchange->ns;
	__u32 seq = state;

	if (!state || seq_before(seq, start) || !seq_before(seq, end))
		return answer;
	if (__sync_val_compare_and_swap(&exchange->state, state, 0) != state)
		return answer;
	answer.pipelined = !!(state & EXCHANGE_PIPELINED);
	if (answer.pipelined)
		return answer;
	answer.ns = ns;
	answer.network = answer_network(sk, ns);
	return answer;
}

#endif
