/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Questions and answers of TCP. At the end that asks, a send is (a part of) a question, and the
 * first bytes that come after it are its answer: peer.answer. What the reader then waits for more
 * of it is peer.rest. At the other end it is the reverse: app.service; and what the client did
 * before, which is client.pause and client.request.
 */
#ifndef SOCKSTAMP_TCP_ANSWER_BPF_H
#define SOCKSTAMP_TCP_ANSWER_BPF_H

#include "answer/answer.bpf.h"
#include "tcp/asking.bpf.h"
#include "tcp/flow.bpf.h"
#include "wait/wait.bpf.h"

/* Bytes that come sooner after a question than by a round trip less this left before it. */
#define ANSWER_SLACK_NS 100000

/* Return true if bytes were received and not read: a FIN, which has a number too, is none. */
static __always_inline bool tcp_has_unread(const struct sock *sk, const struct tcp_sock *tp)
{
	__u32 unread = tp->rcv_nxt - tp->copied_seq;

	return unread && (unread > 1 || !(sk->sk_shutdown & RCV_SHUTDOWN));
}

/*
 * A message is queued at the end that asks. `now` 0: do not measure its answer; `unread`: bytes of
 * the peer wait to be read. A global function for the same reason as exchange_answered().
 */
__noinline int flow_asked(struct flow *flow, __u32 rtt, __u32 length, __u64 now, bool unread)
{
	__u8 task = bpf_get_current_pid_tgid();
	struct exchange *exchange;

	if (!flow)
		return 0;
	exchange = &flow->exchange;
	if (!exchange->open || !exchange->asked)
		flow->tx.question = now / HEARD_NS;
	if (!exchange->open && now)
		exchange_rest(exchange,
			      (__u64)((__u32)(now / HEARD_NS) - flow->rx.heard) * HEARD_NS);
	exchange_asked(exchange, rtt, length, now, task != exchange->task);
	exchange->task = task;
	exchange->asked = now;
	if (unread)
		exchange->unpaired = NO_PAIR(PIPELINED);
	return 0;
}

/* Called when a message is queued, with the socket locked; `now` as that of flow_asked(). */
static __always_inline void answer_asked(const struct sock *sk, struct flow *flow, __u32 length,
					 __u64 now)
{
	const struct tcp_sock *tp = tcp_of(sk);

	if (flow->exchange.asks)
		flow_asked(flow, tp->rtt_min.s[0].v, length, now, tcp_has_unread(sk, tp));
}

/*
 * More of an answer comes, `gap` after the bytes before it, all of which have been read. A peer
 * that speaks at a pace of its own, whatever it is asked, began something else long ago (a
 * subscription).
 */
static __always_inline void answer_rest(const struct tcp_sock *tp, struct flow *flow, __u32 start,
					__u64 gap)
{
	const struct exchange *exchange = &flow->exchange;

	if (gap >= PAUSE_NS && exchange->paired && exchange->pauses < MOST_PAUSES &&
	    tp->copied_seq == start)
		flow->tx.more = true;
}

/*
 * Return NO_PAIR() of the reason why bytes that come after a question may not be its answer; 0 if
 * there is none. TCP has already processed their segment's ACK (tcp_rcv_established(),
 * net/ipv4/tcp_input.c, v6.18). `gap`: since the bytes before them.
 */
static __always_inline __u8 answer_doubt(const struct tcp_sock *tp, const struct flow *flow,
					 __u64 since, __u64 gap)
{
	const struct exchange *exchange = &flow->exchange;
	__u32 rtt = tp->rtt_min.s[0].v;

	if (exchange->multiplexed)
		return NO_PAIR(MULTIPLEXED);
	if (exchange->unpaired)
		return exchange->unpaired;
	if (seq_before(tp->snd_una, flow->tx.seq))
		return NO_PAIR(PIPELINED);
	if (rtt != RTT_UNKNOWN && since + ANSWER_SLACK_NS < 1000ULL * rtt)
		return NO_PAIR(PUSHED);
	if (exchange->pauses >= PAUSES && octave(gap) <= exchange->pace + 1)
		return NO_PAIR(STREAM);
	return 0;
}

/* Return when the open question began; not known is what was more than 73 minutes before. */
static __always_inline __u64 question_began(const struct flow *flow)
{
	__u64 asked = flow->exchange.asked;
	__u32 before = asked / HEARD_NS - flow->tx.question;

	return asked - (__u64)before * HEARD_NS;
}

/* A function of its own: on a message's way there is no room for it on the stack. */
static __noinline int question_emit_asking(const struct flow *flow, const struct sock *sk)
{
	const struct tx_message *asked = &flow->tx.messages[0];
	struct wait_record *record;

	record = wait_new(WAIT_REQUEST, END_DATA, question_began(flow), flow->exchange.asked);
	if (!record)
		return 0;
	record->flow.pid = asked->pid;
	__builtin_memcpy(record->flow.comm, asked->comm, sizeof(asked->comm));
	flow_identify(&record->flow, sk);
	record->flow.opened_by = OPENED_BY_US | flow_earlier(flow);
	wait_emit(record);
	return 0;
}

/*
 * An answer comes to a question that was asked in parts, with pauses: in these the program may have
 * waited for a sign of the peer (100-continue), or for more to ask.
 */
static __always_inline void question_was_asked(const struct tcp_sock *tp, const struct flow *flow)
{
	const struct exchange *exchange = &flow->exchange;

	if (setting_waits && !exchange->multiplexed && exchange->pauses < PAUSES &&
	    wait_wanted(END_DATA, exchange->asked - question_began(flow)))
		question_emit_asking(flow, (const struct sock *)tp);
}

/* A request begins to come. Before the first one nothing was answered: it has no pause. */
static __always_inline void request_begins(struct flow *flow, __u64 now)
{
	flow->tx.question = now / HEARD_NS;
	if (!flow->exchange.answered)
		flow->exchange.answered = now;
}

/*
 * Return how long the client paused before the request that a send answers (in the upper half, in
 * HEARD_NS), and how long the request took to come; 0 where there is none, or it is unknown: more
 * of the request came after the send was `entry`ed, or the last answer was 73 minutes before.
 */
static __always_inline __u64 client_times(const struct flow *flow, __u64 entry)
{
	__u64 answered = flow->exchange.answered, asked = flow->exchange.asked;
	__u32 request, both;

	if (!flow->exchange.serves || !flow->exchange.open || !answered || asked < answered ||
	    asked > entry || asked - answered >= (__u64)HEARD_NS << 32)
		return 0;
	both = (asked - answered) / HEARD_NS;
	request = (__u32)(asked / HEARD_NS) - flow->tx.question;
	return (__u64)(both > request ? both - request : 0) << 32 | request;
}

/*
 * A message that is not measured is queued at the end that answers. TCP has read the clock when it
 * sent it (tcp_write_xmit(), net/ipv4/tcp_output.c, v6.18), if it did.
 */
static __always_inline void answered_unmeasured(const struct sock *sk, struct flow *flow)
{
	const struct tcp_sock *tp = tcp_of(sk);

	if (flow->exchange.serves)
		flow->exchange.answered = tp->snd_nxt == tp->write_seq ? tp->tcp_clock_cache : 0;
}

/* Called when bytes from `start` to `end` become readable, with the socket locked. */
static __always_inline void answer_arrived(const struct tcp_sock *tp, struct flow *flow,
					   __u32 start, __u32 end, __u64 ready)
{
	const struct sock *sk = (const struct sock *)tp;
	struct exchange *exchange = &flow->exchange;
	__u32 now = ready / HEARD_NS;
	__u64 gap = (__u64)(now - flow->rx.heard) * HEARD_NS;
	__u64 state, since;

	flow->rx.heard = now;
	if (!exchange->asks) {
		/* A FIN alone asks nothing: tcp_data_queue() reports it as if it were a byte. */
		if (end - start == 1 && sk->sk_shutdown & RCV_SHUTDOWN)
			return;
		if (!exchange->open) {
			exchange_rest(exchange, ready - exchange->asked);
			if (exchange->serves)
				request_begins(flow, ready);
		}
		exchange_asked(exchange, tp->rtt_min.s[0].v, end - start, ready, false);
		exchange->asked = ready;
		return;
	}
	if (!exchange->open) {
		exchange_take(exchange);
		answer_rest(tp, flow, start, gap);
		exchange_goes_on(exchange, tp->rtt_min.s[0].v, gap);
		return;
	}
	if (!exchange->asked) {
		exchange->open = false;
		exchange->paired = false;
		exchange_take(exchange);
		return;
	}
	since = ready - exchange->asked;
	question_was_asked(tp, flow);
	trips_arrive(flow, sk, gap, ready);
	state = exchange_answered(exchange, answer_doubt(tp, flow, since, gap), since);
	exchange->paired = !state;
	state = EXCHANGE_ANSWERED | state << EXCHANGE_UNPAIRED_SHIFT | start;
	exchange->state = 0;
	order_stores();
	exchange->ns = since;
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

/* Return when the reader of a read began to wait for more of an answer: when its last one ended. */
static __always_inline __u64 rest_take(struct flow *flow)
{
	if (!*(volatile __u8 *)&flow->tx.more)
		return STAGE_ABSENT;
	flow->tx.more = false;
	return flow->rx.service_from ?: STAGE_ABSENT;
}

/* Take the answer whose first byte is in a read. Readers hold no lock: one of them gets it. */
static __always_inline struct answer answer_take(const struct sock *sk, struct flow *flow,
						 __u32 start, __u32 end)
{
	struct exchange *exchange = &flow->exchange;
	__u64 state = *(volatile __u64 *)&exchange->state;
	struct answer answer = {.ns = STAGE_ABSENT, .rest = rest_take(flow)};
	__u32 seq = state;
	__u64 ns;

	if (!state || seq_before(seq, start) || !seq_before(seq, end))
		return answer;
	/* The time is of this state, or of a later answer, which has cleared the state. */
	order_loads();
	ns = *(volatile __u64 *)&exchange->ns;
	if (__sync_val_compare_and_swap(&exchange->state, state, 0) != state)
		return answer;
	answer.unpaired = state >> EXCHANGE_UNPAIRED_SHIFT;
	if (answer.unpaired)
		return answer;
	answer.ns = ns;
	answer.network = answer_network(sk, ns);
	return answer;
}

/* Return true if a send at a time comes at the pace of those that answered nothing. */
static __always_inline bool service_pushes(const struct exchange *exchange, __u64 entry)
{
	__u64 before = exchange->answered;

	if (!exchange->serves || exchange->pauses < PAUSES || !before || entry < before)
		return false;
	return octave(entry - before) <= exchange->pace + 1;
}

/*
 * Called when a send is `entry`ed at the end that answers, with the socket locked: return NO_PAIR()
 * of the reason why it may not be the answer to what was read last; 0 if there is none. An end that
 * sends without a question more often than to one may have got a mere acknowledgement.
 */
static __always_inline __u8 service_doubt(const struct sock *sk, const struct exchange *exchange,
					  __u64 entry)
{
	if (tcp_has_unread(sk, tcp_of(sk)))
		return NO_PAIR(PIPELINED);
	if (exchange->asks)
		return 0;
	if (exchange->multiplexed)
		return NO_PAIR(MULTIPLEXED);
	if (exchange->unpaired)
		return exchange->unpaired;
	return service_pushes(exchange, entry) ? NO_PAIR(STREAM) : 0;
}

/*
 * Called when a send is queued that answers no read of which is known. `now` 0: it is not measured.
 */
static __always_inline void service_goes_on(const struct sock *sk, struct exchange *exchange,
					    __u64 now)
{
	if (exchange->asks)
		return;
	exchange->open = false;
	exchange_take(exchange);
	if (exchange->serves && exchange->answered && now > exchange->answered)
		exchange_goes_on(exchange, tcp_of(sk)->rtt_min.s[0].v, now - exchange->answered);
}

/* Called when that send is queued. Return `reason`, or NO_PAIR() of one that shows now. */
static __always_inline __u8 service_answered(struct exchange *exchange, __u8 reason, __u64 ns)
{
	return exchange->asks ? reason : exchange_answered(exchange, reason, ns);
}

#endif
