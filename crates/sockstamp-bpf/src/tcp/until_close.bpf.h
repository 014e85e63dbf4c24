/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Answers whose end nothing tells but the peer's close: HTTP without a length. All bytes are here
 * and were read, and a task sleeps for this very socket until the FIN comes. A connection that is
 * kept for another question looks so only where a task sleeps in a read of it meanwhile; so does a
 * subscription without news, whose server ends it.
 */
#ifndef SOCKSTAMP_TCP_UNTIL_CLOSE_BPF_H
#define SOCKSTAMP_TCP_UNTIL_CLOSE_BPF_H

#include "stuck/watch.bpf.h"
#include "tcp/answer.bpf.h"
#include "tcp/flow.bpf.h"
#include "wait/wait.bpf.h"

/* A function of its own: describing a connection takes room on the stack. */
static __noinline int until_close_emit(const struct flow *flow, const struct sock *sk, __u64 since,
				       __u64 now)
{
	const struct tx_message *asked = &flow->tx.messages[0];
	struct wait_record *record;

	record = wait_new(WAIT_REST, END_DATA, since, now);
	if (!record)
		return 0;
	record->flow.pid = asked->pid;
	__builtin_memcpy(record->flow.comm, asked->comm, sizeof(asked->comm));
	flow_identify(&record->flow, sk);
	record->flow.opened_by = OPENED_BY_US | flow_earlier(flow);
	wait_describe_connection(record, sk);
	wait_emit(record);
	return 0;
}

/* The peer closes a connection on which its last question was answered, locked. */
static __always_inline void until_close_settles(const struct flow *flow, const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_of(sk);
	__u64 now = bpf_ktime_get_ns();
	__u64 quiet = (__u64)((__u32)(now / HEARD_NS) - flow->rx.heard) * HEARD_NS;

	/* The FIN has a number, and data may have come with it. */
	if (tp->rcv_nxt - flow->rx.end > 1 || tp->rcv_nxt - tp->copied_seq > 1)
		return;
	if (quiet < setting_wait_ns || flow->exchange.pauses >= PAUSES)
		return;
	if (sock_watch(sk) & (STUCK_IN_CALL | STUCK_POLLS_IN))
		until_close_emit(flow, sk, now - quiet, now);
}

#endif
