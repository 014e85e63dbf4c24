/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waits of TCP that end without what was waited for. A question is open until its answer comes
 * (tcp/answer.bpf.h); here it ends because the peer closes the connection or resets it, because the
 * kernel gives up, or because the program does. What was sent may never be acknowledged. A close()
 * waits, too, where the program has asked for it (SO_LINGER). No message pays for that: sockets
 * change their state once.
 */
#ifndef SOCKSTAMP_TCP_UNANSWERED_BPF_H
#define SOCKSTAMP_TCP_UNANSWERED_BPF_H

#include "sched/sched.bpf.h"
#include "tcp/answer.bpf.h"
#include "tcp/flow.bpf.h"
#include "tcp/moved.bpf.h"
#include "tcp/turned_away.bpf.h"
#include "tcp/unserved.bpf.h"
#include "tcp/until_close.bpf.h"
#include "wait/attempts.bpf.h"
#include "wait/ending.bpf.h"
#include "wait/wait.bpf.h"

#define SOCK_LINGER 4 /* enum sock_flags, include/net/sock.h */

#define PF_EXITING 0x4 /* include/linux/sched.h */

#define LINGER_TICKS_MOST (1ULL << 30) /* of more, there is no end */

/* An open question, and how it ends. */
struct question {
	__u64 began;
	__u64 asked; /* its last part was sent */
	__u64 now;
	enum end end;
};

/*
 * Note the times of a flow's open question. Where it was not measured, only that of the last data
 * is known.
 */
static __always_inline void question_look(struct question *question, const struct tcp_sock *tp,
					  const struct flow *flow)
{
	__u64 asked = flow->exchange.asked;

	question->now = bpf_ktime_get_ns();
	question->asked = asked ?: question->now - wait_since_jiffy(tp->lsndtime);
	question->began = asked ? question_began(flow) : question->asked;
}

/* Return true if a question after others that were answered may be the alert that ends TLS. */
static __always_inline bool question_says_goodbye(const struct question *question,
						  const struct flow *flow)
{
	return question->began == question->asked && flow->exchange.usual &&
	       tls_ends(flow->exchange.length);
}

/*
 * Return true if no task waits on a socket, or watches it: one that reads sleeps in its queue, and
 * an event loop keeps an entry there (sk_sleep(), include/net/sock.h, v6.18).
 */
static __always_inline bool sock_unwatched(const struct sock *sk)
{
	const struct socket_wq *queue = (const struct socket_wq *)word_at(&sk->sk_wq);
	const struct list_head *head = &queue->wait.head;

	return word_at(&head->next) == (__u64)head;
}

/*
 * Return true if the last of several questions, which the peer answers by closing, is for no
 * answer: its program says goodbye and goes on (COM_QUIT).
 */
static __always_inline bool question_unawaited(const struct question *question,
					       const struct flow *flow, const struct sock *sk)
{
	return question->end == END_CLOSED_BY_PEER && flow->exchange.usual && sock_unwatched(sk);
}

/*
 * Return true if nobody is known to wait for an answer: who goes on sending at a pace (a log,
 * statistics) does not stop for longer than it has sent. On a multiplexed connection the last bytes
 * sent may be no question. A reset is a failure all the same.
 */
static __always_inline bool question_doubted(const struct question *question,
					     const struct flow *flow)
{
	if (question->end != END_GIVEN_UP && question->end != END_CLOSED_BY_PEER)
		return false;
	if (question_says_goodbye(question, flow) || tls_rejected(flow))
		return true;
	return question->asked - question->began > question->now - question->asked ||
	       flow->exchange.doubts >= DOUBTS;
}

/* A function of its own: describing a connection takes room on the stack. */
static __noinline int question_emit(const struct question *question, const struct flow *flow,
				    const struct sock *sk)
{
	const struct tx_message *asked = &flow->tx.messages[0];
	const struct tcp_sock *tp = tcp_of(sk);
	struct wait_record *record;
	__u64 delivered;

	record = wait_new(WAIT_ANSWER, question->end, question->began, question->now);
	if (!record)
		return 0;
	/* Of a message that the flow itself has room for: the last one, or one with others. */
	record->flow.pid = asked->pid;
	__builtin_memcpy(record->flow.comm, asked->comm, sizeof(asked->comm));
	flow_identify(&record->flow, sk);
	record->flow.opened_by = OPENED_BY_US | flow_earlier(flow);
	record->asked = question->asked - question->began;
	wait_describe_connection(record, sk);
	record->bytes = record->connection.unacknowledged + record->connection.unsent;
	delivered = tp->delivered_mstamp * 1000;
	if (record->bytes)
		record->resent = tp->inet_conn.icsk_retransmits;
	else if (delivered > question->began)
		record->acknowledged = delivered - question->began;
	if (end_fails(question->end))
		attempts_count_unanswered(record);
	wait_emit(record);
	return 0;
}

/* The open question ends in this way. */
static __always_inline void question_ends(struct flow *flow, const struct sock *sk, enum end end)
{
	struct question question = {.end = end};

	question_look(&question, tcp_of(sk), flow);
	flow->exchange.open = false;
	if (wait_wanted(end, question.now - question.began) && !question_doubted(&question, flow) &&
	    !question_unawaited(&question, flow, sk))
		question_emit(&question, flow, sk);
}

/* Data that comes together with the FIN will be readable (tcp_data_queue(), v6.18): an answer. */
static __always_inline void question_meets_fin(struct flow *flow, const struct sock *sk)
{
	__u32 known = flow->rx.serial ? flow->rx.end : flow->rx.seq;

	if (tcp_of(sk)->rcv_nxt - known <= 1)
		question_ends(flow, sk, END_CLOSED_BY_PEER);
}

/* Return true while close() of a lingering socket waits: sk_stream_wait_close(), v6.18. */
static __always_inline bool lingers(const struct sock *sk, int state)
{
	return sk->__sk_common.skc_flags & 1UL << SOCK_LINGER && sk->sk_shutdown == SHUTDOWN_MASK &&
	       (state == TCP_FIN_WAIT1 || state == TCP_CLOSING || state == TCP_LAST_ACK);
}

/* A close() begins to wait. It is open until another record comes, or until this one's time. */
static __always_inline void linger_begins(struct wait_record *record, const struct sock *sk)
{
	__u64 ticks = untrusted(sk, struct sock)->sk_lingertime;

	record->end = END_OPEN;
	record->time += (ticks < LINGER_TICKS_MOST ? ticks : LINGER_TICKS_MOST) * setting_tick_ns;
	record->flow.pid = current_process();
	comm_read(record->flow.comm);
	wait_describe_connection(record, sk);
	record->bytes = record->connection.unacknowledged + record->connection.unsent;
}

/* A function of its own, as question_emit(). User space puts both records together. */
static __noinline int linger_emit(const struct sock *sk, bool begins)
{
	enum end end = sk->sk_err ? end_by_error(sk->sk_err) : END_DATA;
	__u64 now = bpf_ktime_get_ns();
	struct wait_record *record;

	record = wait_new(WAIT_ACKNOWLEDGEMENT, end, now, now);
	if (!record)
		return 0;
	if (begins)
		linger_begins(record, sk);
	flow_identify(&record->flow, sk);
	wait_emit(record);
	return 0;
}

/*
 * The socket gets into another state, locked: a close() may begin to wait until what was sent has
 * been acknowledged, or stop. At its exit, a task waits for nothing: inet_release(), v6.18.
 */
static __always_inline void linger_settles(const struct sock *sk, int before, int state)
{
	bool lingered = lingers(sk, before), waits = lingers(sk, state);

	if (!setting_waits || stopping || lingered == waits || !flow_lookup(sk))
		return;
	if (lingered || !(bpf_get_current_task_btf()->flags & PF_EXITING))
		linger_emit(sk, waits);
}

/* Return true for the states in which a program may still send. */
static __always_inline bool may_send(int state)
{
	return state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT;
}

/* Return true if data that a program sent, and no FIN alone, has timed out unacknowledged. */
static __always_inline bool has_undelivered(const struct tcp_sock *tp)
{
	return tp->inet_conn.icsk_backoff && !tp->inet_conn.icsk_probes_out && tp->packets_out &&
	       seq_before(tp->snd_una + 1, tp->write_seq);
}

/* Time for which TCP sends again without a program, by default (tcp_orphan_retries, v6.18). */
#define ORPHAN_NS 100000000000ULL

/*
 * A function of its own, as question_emit(). The wait began with the last acknowledgement. Without
 * an end it is open until that comes, or TCP gives up.
 */
static __noinline int undelivered_emit(const struct sock *sk, const struct flow *flow, enum end end)
{
	const struct tx_message *sent = &flow->tx.messages[0];
	const struct tcp_sock *tp = tcp_of(sk);
	__u64 now = bpf_ktime_get_ns(), delivered = tp->delivered_mstamp * 1000;
	struct wait_record *record;

	if (!delivered)
		delivered = now - wait_since_jiffy(tp->lsndtime);
	record = wait_new(WAIT_ACKNOWLEDGEMENT, end, delivered,
			  end == END_OPEN ? delivered + ORPHAN_NS : now);
	if (!record)
		return 0;
	record->flow.pid = sent->pid;
	__builtin_memcpy(record->flow.comm, sent->comm, sizeof(sent->comm));
	flow_identify(&record->flow, sk);
	record->flow.opened_by =
		(flow->exchange.serves ? OPENED_BY_PEER : OPENED_BY_US) | flow_earlier(flow);
	wait_describe_connection(record, sk);
	record->bytes = record->connection.unacknowledged + record->connection.unsent;
	wait_emit(record);
	return 0;
}

/*
 * Return true if a socket sends no more from this change of its state on: its program has ended
 * that, or had before, and now the peer ends the connection, or TCP gives it up.
 */
static __always_inline bool sends_no_more(int before, int state)
{
	if (may_send(before))
		return !may_send(state);
	return before == TCP_FIN_WAIT1 && (state == TCP_CLOSING || state == TCP_CLOSE);
}

/*
 * The socket gets into another state, locked: its program sends no more, and what it sent last has
 * timed out, and is not acknowledged. A probe of a closed window backs off, too. Who asks, waits
 * for an answer.
 */
static __always_inline void undelivered_settles(const struct sock *sk, int before, int state)
{
	enum end end = state == TCP_CLOSING ? END_CLOSED_BY_PEER : END_GIVEN_UP;
	struct flow *flow;

	if (!setting_waits || stopping || !sends_no_more(before, state))
		return;
	if (!has_undelivered(tcp_of(sk)))
		return;
	if (sk->sk_err)
		end = end_by_error(sk->sk_err);
	flow = flow_lookup(sk);
	if (flow && !(flow->exchange.open && flow->exchange.asks))
		undelivered_emit(sk, flow, end);
}

/*
 * Data times out for the second time. After its program's close() no open file leads to the socket,
 * and no look at the end finds it; the peer may wait for that data.
 */
static __always_inline void undelivered_times_out(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_of(sk);
	const struct flow *flow;

	if (!setting_waits || stopping || !(sk->__sk_common.skc_flags & 1UL << SOCK_DEAD))
		return;
	if (tp->inet_conn.icsk_backoff != 1 || !has_undelivered(tp))
		return;
	flow = flow_lookup(sk);
	if (flow)
		undelivered_emit(sk, flow, END_OPEN);
}

/* The socket of an open question gets into another state, locked. */
static __always_inline void question_settles(struct flow *flow, const struct sock *sk, int state)
{
	switch (state) {
	case TCP_CLOSE_WAIT:
	case TCP_CLOSING:
		question_meets_fin(flow, sk);
		break;
	case TCP_FIN_WAIT1:
	case TCP_LAST_ACK:
		/* One that has only ended its question (SHUT_WR) waits on. */
		if (sk->sk_shutdown == SHUTDOWN_MASK)
			question_ends(flow, sk, END_GIVEN_UP);
		break;
	case TCP_CLOSE:
		/* From FIN_WAIT2, the FIN leads here: tcp_time_wait(), v6.18. */
		if (!sk->sk_err && sk->__sk_common.skc_flags & 1UL << SOCK_DONE)
			question_meets_fin(flow, sk);
		else
			question_ends(flow, sk, end_by_error(sk->sk_err));
		break;
	}
}

/* The socket gets into another state, locked. */
static __always_inline void questions_settle(const struct sock *sk, int before, int state)
{
	struct flow *flow;

	if (!setting_waits || stopping)
		return;
	flow = flow_lookup(sk);
	if (!flow || flow_in_gap(flow))
		return;
	if (flow->exchange.asks)
		trips_settle(flow, sk);
	if (flow->exchange.open && flow->exchange.asks)
		question_settles(flow, sk, state);
	else if (flow->exchange.open && flow->exchange.serves)
		request_settles(flow, sk, before, state);
	else if (flow->exchange.paired && state == TCP_CLOSE_WAIT)
		until_close_settles(flow, sk);
}

#endif
