/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waits for the first bytes of a connection that this end has opened and on which it has sent
 * nothing: the peer speaks first (SMTP, MySQL), or nobody does. A connection that ends so may have
 * been of no use to anybody, which only others to the same service can tell.
 */
#ifndef SOCKSTAMP_TCP_SILENCE_BPF_H
#define SOCKSTAMP_TCP_SILENCE_BPF_H

#include "tcp/flow.bpf.h"
#include "wait/attempts.bpf.h"
#include "wait/ending.bpf.h"
#include "wait/wait.bpf.h"

/* Return when it was established: tcp_finish_connect(), net/ipv4/tcp_input.c, v6.18. */
static __always_inline __u64 silence_began(const struct tcp_sock *tp, __u64 now)
{
	__u64 ago = wait_since_jiffy(tp->lsndtime);

	return ago < now ? now - ago : now;
}

/* A function of its own: a key takes room on the stack. */
static __noinline int silence_count(const struct sock *sk, const struct opening *opening, __u64 ns,
				    bool failed)
{
	struct attempts_key key = {};
	struct attempts *found;

	attempts_of(&key, sk, WAIT_GREETING, opening->pid);
	found = attempts_find(&key, opening->comm);
	if (found)
		attempts_add(found, ns, 1, failed);
	return 0;
}

/* A function of its own: describing a connection takes room on the stack. */
static __noinline int silence_emit(const struct sock *sk, const struct opening *opening,
				   enum end end, __u64 now)
{
	__u64 began = silence_began(tcp_of(sk), now);
	struct wait_record *record;

	if (end == END_DATA || wait_wanted(end, now - began))
		silence_count(sk, opening, now - began, end_fails(end));
	if (!wait_wanted(end, now - began))
		return 0;
	record = wait_new(WAIT_GREETING, end, began, now);
	if (!record)
		return 0;
	flow_identify(&record->flow, sk);
	record->flow.opened_by = OPENED_BY_US;
	record->flow.pid = opening->pid;
	__builtin_memcpy(record->flow.comm, opening->comm, sizeof(opening->comm));
	wait_describe_connection(record, sk);
	wait_emit(record);
	return 0;
}

/* The silence of a connection ends in this way. */
static __always_inline void silence_ends(const struct sock *sk, enum end end, __u64 now)
{
	struct mark *mark = flow_mark_lookup(sk);

	if (mark && mark->opened_by == OPENED_BY_US && mark_measures(mark, DIRECTION_RX))
		silence_emit(sk, &mark->opening, end, now);
}

/* The first bytes since the flow is known become readable, with the socket locked: or a FIN. */
static __always_inline void silence_meets_data(const struct sock *sk, __u32 bytes, __u64 now)
{
	const struct tcp_sock *tp = tcp_of(sk);

	if (setting_waits && !tp->data_segs_out && tp->data_segs_in && tp->bytes_received == bytes)
		silence_ends(sk, END_DATA, now);
}

/* The socket gets into another state, locked. */
static __always_inline void silence_settles(const struct sock *sk, int before, int state)
{
	const struct tcp_sock *tp = tcp_of(sk);

	if (!setting_waits || stopping || before != TCP_ESTABLISHED || tp->data_segs_out ||
	    tp->data_segs_in)
		return;
	if (state == TCP_CLOSE_WAIT)
		silence_ends(sk, END_CLOSED_BY_PEER, bpf_ktime_get_ns());
	else if (state == TCP_CLOSE)
		silence_ends(sk, end_by_error(sk->sk_err), bpf_ktime_get_ns());
	else if (state == TCP_FIN_WAIT1 && sk->sk_shutdown == SHUTDOWN_MASK)
		silence_ends(sk, END_GIVEN_UP, bpf_ktime_get_ns());
}

#endif
