/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Connections that a service closes at once: it has as many as it may, or does not want the client.
 * A service reads nothing of them, and may say why; or it answers with an error that ends them. Who
 * opens one sees the end of what was said; or, if its question comes too late to be read, a reset
 * after that. A peer that closes first is none: a health check, or a client that has changed its
 * mind. A client may also reject what the service shows of itself, in a handshake of TLS.
 *
 * TCP's own counters tell what a service has read of a connection that ended, so that no message
 * pays for it.
 */
#ifndef SOCKSTAMP_TCP_TURNED_AWAY_BPF_H
#define SOCKSTAMP_TCP_TURNED_AWAY_BPF_H

#include "tcp/answer.bpf.h"
#include "tcp/flow.bpf.h"
#include "tcp/moved.bpf.h"
#include "wait/attempts.bpf.h"
#include "wait/ending.bpf.h"
#include "wait/wait.bpf.h"

/* Services wait for longer until they close connections on which nothing comes. */
#define TURNED_AWAY_NS 1000000000ULL

/* Return when the connection was established, unless data has come since. */
static __always_inline __u64 established_ago(const struct tcp_sock *tp)
{
	return wait_since_jiffy(tp->inet_conn.icsk_ack.lrcvtime);
}

/*
 * Count a connection of a service, once it ends. `opening`: of the task that has it. A function of
 * its own, for its stack.
 */
static __noinline int served_count(const struct sock *sk, const struct opening *opening, bool away)
{
	struct attempts_key key = {};
	struct attempts *found;

	attempts_at(&key, sk, WAIT_ACCEPT, opening->pid);
	found = attempts_find(&key, opening->comm);
	if (found)
		attempts_add(found, 0, 1, away);
	return 0;
}

/* A function of its own: describing a connection takes room on the stack. */
static __noinline int turned_away_emit(const struct sock *sk, const struct opening *opening,
				       enum wait kind, enum end end, __u64 ago)
{
	const struct mark *mark = flow_mark_lookup(sk);
	__u64 now = bpf_ktime_get_ns();
	struct wait_record *record;

	record = wait_new(kind, end, now - ago, now);
	if (!record)
		return 0;
	flow_identify(&record->flow, sk);
	if (kind == WAIT_ACCEPT)
		record->flow.local_port = port_of(sk);
	record->flow.opened_by = kind == WAIT_ACCEPT ? OPENED_BY_PEER : OPENED_BY_US;
	if (mark && mark->adopted)
		record->flow.opened_by |= OPENED_EARLIER;
	record->flow.pid = opening->pid;
	__builtin_memcpy(record->flow.comm, opening->comm, sizeof(opening->comm));
	wait_describe_connection(record, sk);
	record->bytes =
		record->connection.unread - !!(sk->__sk_common.skc_flags & 1UL << SOCK_DONE);
	wait_emit(record);
	return 0;
}

/* The current task turns a connection away, which ends now (`counts`), or when that is read. */
static __noinline int service_turns_away(const struct sock *sk, bool counts)
{
	struct opening opening = {.pid = current_process()};

	comm_read(opening.comm);
	if (counts)
		served_count(sk, &opening, true);
	return turned_away_emit(sk, &opening, WAIT_ACCEPT, END_TURNED_AWAY,
				established_ago(tcp_of(sk)));
}

/* Return true if a program closes: an error is the peer's reset, or the kernel's. */
static __always_inline bool closes_itself(const struct sock *sk, int state)
{
	bool closes = state == TCP_FIN_WAIT1 || state == TCP_LAST_ACK ||
		      (state == TCP_CLOSE && !sk->sk_err);

	return closes && untrusted(sk, struct sock)->sk_socket;
}

/*
 * Return true if a service that has read nothing turns a connection away by closing it. Data that
 * came was somebody's question, however old the connection is; a peer that has closed first may
 * have had an answer to that, or it was a check.
 */
static __always_inline bool service_closes_unread(const struct tcp_sock *tp, int before)
{
	if (before == TCP_CLOSE_WAIT)
		return tp->data_segs_in && tp->data_segs_out;
	return tp->data_segs_in || established_ago(tp) <= TURNED_AWAY_NS;
}

/* A connection of a service gets into another state. */
static __always_inline void service_settles(const struct sock *sk, const struct mark *mark,
					    int before, int state)
{
	const struct tcp_sock *tp = tcp_of(sk);

	if (!tcp_bytes_read(sk, tp, false)) {
		if (closes_itself(sk, state) && service_closes_unread(tp, before))
			service_turns_away(sk, true);
	} else if (before == TCP_ESTABLISHED) {
		served_count(sk, &mark->opening, false);
	}
}

/* Questions of a login. */
#define LOGIN_QUESTIONS 3

/*
 * Return true if the peer of a protocol in which clients end connections ends one right after its
 * answer to a login, as PostgreSQL does that has as many as it may.
 */
static __always_inline bool login_fails(const struct sock *sk, const struct mark *mark)
{
	const struct flow *flow = flow_lookup(sk);
	__u16 port = bpf_ntohs(sk->__sk_common.skc_dport);

	if (!CLIENT_ENDS(port) || tcp_of(sk)->data_segs_out > LOGIN_QUESTIONS)
		return false;
	return flow && !flow->exchange.open && !mark->adopted;
}

/*
 * Return true if the peer closed a connection that this end has opened after it has said something,
 * and before anything was asked; or if a reset came right after that, or for a question of which
 * nothing was acknowledged. By then the program may have read the end, and closed, too.
 */
static __always_inline bool peer_turns_away(const struct sock *sk, const struct mark *mark,
					    int before, int state)
{
	const struct tcp_sock *tp = tcp_of(sk);
	const struct flow *flow;

	if (!tp->data_segs_in)
		return false;
	if (before == TCP_ESTABLISHED && state == TCP_CLOSE_WAIT)
		return !tp->data_segs_out || login_fails(sk, mark);
	if (state != TCP_CLOSE || !sk->sk_err || tp->data_segs_in > 1 || tp->data_segs_out > 1)
		return false;
	if (before == TCP_CLOSE_WAIT || before == TCP_LAST_ACK)
		return tp->bytes_acked <= 1;
	flow = flow_lookup(sk);
	return before == TCP_ESTABLISHED && flow && !flow->exchange.open;
}

/*
 * Return true if a client has rejected the service in a handshake of TLS: after the service's part
 * of it, all that came was an alert. No other record of that place is as short: alone (RFC 5246,
 * section 7.2), or encrypted (RFC 8446, section 5.2), also behind a change of the cipher (D.4). An
 * alert behind the end of the handshake is a goodbye.
 */
static __always_inline bool tls_rejected(const struct flow *flow)
{
	const struct exchange *exchange = &flow->exchange;
	__u32 length = exchange->length;

	return exchange->handshake == 1 && exchange->open && exchange->asked &&
	       question_began(flow) == exchange->asked &&
	       (length == 7 || length == 24 || length == 30);
}

/* A connection ends, of which a client may have rejected the service. */
static __always_inline void rejected_settles(const struct sock *sk, const struct mark *mark)
{
	enum wait kind = mark->opened_by == OPENED_BY_PEER ? WAIT_ACCEPT : WAIT_GREETING;
	const struct flow *flow = flow_lookup(sk);

	if (flow && tls_rejected(flow))
		turned_away_emit(sk, &mark->opening, kind, END_REJECTED,
				 established_ago(tcp_of(sk)));
}

/* The socket gets into another state, locked; before its question ends. */
static __always_inline void turned_away_settles(const struct sock *sk, int before, int state)
{
	const struct mark *mark;
	__u64 ago;

	if (!setting_waits || stopping ||
	    (before != TCP_ESTABLISHED && before != TCP_CLOSE_WAIT && before != TCP_LAST_ACK))
		return;
	mark = flow_mark_lookup(sk);
	if (!mark || !mark_measures(mark, DIRECTION_RX))
		return;
	if (mark->opened_by == OPENED_BY_PEER && before != TCP_LAST_ACK)
		service_settles(sk, mark, before, state);
	if (before == TCP_ESTABLISHED)
		rejected_settles(sk, mark);
	if (mark->opened_by != OPENED_BY_US || !peer_turns_away(sk, mark, before, state))
		return;
	ago = wait_since_jiffy(tcp_of(sk)->lsndtime);
	if (ago <= TURNED_AWAY_NS)
		turned_away_emit(sk, &mark->opening, WAIT_GREETING, END_TURNED_AWAY, ago);
}

#endif
