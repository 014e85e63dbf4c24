/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Requests that a service has not answered when their connection ends: the client gives up, the
 * connection is reset, or the service closes it. Those that are open have no end: looks find them
 * (stuck/). No message pays for that: sockets change their state once.
 *
 * Bytes that were read and not answered may be no request. A task that sleeps in a read of this
 * very socket waits for more of them; who sends on at a pace, asks nothing; a last word, and the
 * end of a request (SHUT_WR), come with the FIN or just before it.
 */
#ifndef SOCKSTAMP_TCP_UNSERVED_BPF_H
#define SOCKSTAMP_TCP_UNSERVED_BPF_H

#include "stuck/watch.bpf.h"
#include "tcp/answer.bpf.h"
#include "tcp/flow.bpf.h"
#include "tcp/turned_away.bpf.h"
#include "wait/attempts.bpf.h"
#include "wait/ending.bpf.h"
#include "wait/wait.bpf.h"

/*
 * Return true for the length of the alert that ends a connection in TLS: its record's head, and two
 * bytes under the ciphers in use (RFC 5246, sections 6.2.3 and 7.2.1; RFC 8446, section 5.2). The
 * peer answers it by closing.
 */
static __always_inline bool tls_ends(__u32 length)
{
	switch (length) {
	case 24: /* TLS 1.3 */
	case 31: /* AES-GCM */
	case 23: /* ChaCha20 */
	case 53: /* AES-CBC with SHA1, SHA256, SHA384 */
	case 69:
	case 85:
		return true;
	}
	return false;
}

/* Return how a request ends with the state of its connection; END_OPEN: it does not. */
static __always_inline enum end request_end(const struct sock *sk, int state)
{
	switch (state) {
	case TCP_CLOSE_WAIT:
		return END_CLOSED_BY_PEER;
	case TCP_FIN_WAIT1:
		return sk->sk_shutdown == SHUTDOWN_MASK ? END_GIVEN_UP : END_OPEN;
	case TCP_CLOSE:
		/* A client that vanished gave nothing up; a program that aborts has its reasons. */
		return end_by_error(sk->sk_err) == END_RESET ? END_RESET : END_OPEN;
	}
	return END_OPEN;
}

#define WATCHED_FOR_DATA (STUCK_IN_CALL | STUCK_POLLS_IN | STUCK_EPOLL_IN | STUCK_URING)

/*
 * Return true if the socket has sent since it heard. Where a send was passed over, TCP's own times
 * tell, in ticks: what came within one after a send confirms that. Where all were seen, a client
 * may ask as soon as it is answered.
 */
static __always_inline bool request_met(const struct flow *flow, const struct tcp_sock *tp)
{
	const struct exchange *exchange = &flow->exchange;
	__s32 later = tp->inet_conn.icsk_ack.lrcvtime - tp->lsndtime;

	if (!tp->data_segs_out)
		return false;
	if (exchange->serves && exchange->answered && flow->tx.seq == tp->write_seq)
		return exchange->answered > exchange->asked;
	return later <= 1;
}

/*
 * Return true if it came a round trip after something was sent, and the program watches many: it
 * confirms that.
 */
static __always_inline bool request_confirms(const struct flow *flow, const struct tcp_sock *tp,
					     __u32 watch)
{
	__u64 began = question_began(flow), answered = flow->exchange.answered;
	__u32 rtt = tp->rtt_min.s[0].v;

	return (watch & WATCHED_FOR_DATA) && tp->data_segs_out && answered && began >= answered &&
	       rtt != RTT_UNKNOWN &&
	       began - answered <= 1000ULL * (rtt + rtt / 8) + setting_tick_ns;
}

/*
 * Return true if nobody is known to wait for an answer, as question_doubted(). A service that ends
 * a connection after answers may have got a last word. What was not read is no service's yet.
 */
static __always_inline bool request_doubted(const struct flow *flow, const struct sock *sk,
					    enum end end, __u64 now)
{
	const struct exchange *exchange = &flow->exchange;
	__u64 began = question_began(flow);

	if (tcp_has_unread(sk, tcp_of(sk)) || (end == END_GIVEN_UP && exchange->usual))
		return true;
	return exchange->multiplexed || exchange->doubts >= DOUBTS || tls_rejected(flow) ||
	       exchange->asked - began > now - exchange->asked ||
	       (exchange->usual && tls_ends(exchange->length));
}

/*
 * Return true if a task's memory is still that of the task that has read: another one that has it
 * now was started later.
 */
static __always_inline bool reader_is_same(const struct task_struct *reader,
					   const struct flow *flow)
{
	__u64 read = flow->rx.service_from ?: flow->exchange.asked;

	return reader && kernel_read(reader, struct task_struct, start_time) <= read;
}

/* Note whose a request is: the task's that read last, or else the one's that has accepted. */
static __always_inline void request_whose(struct flow_identity *whose, const struct flow *flow,
					  const struct sock *sk)
{
	const struct task_struct *reader = (const struct task_struct *)flow->rx.waiter.reader.last;
	const struct mark *mark = flow_mark_lookup(sk);

	if (reader_is_same(reader, flow)) {
		whose->pid = kernel_read(reader, struct task_struct, tgid);
		bpf_probe_read_kernel_str(whose->comm, sizeof(whose->comm), reader->comm);
	} else if (mark) {
		whose->pid = mark->opening.pid;
		__builtin_memcpy(whose->comm, mark->opening.comm, sizeof(whose->comm));
	}
}

/* A function of its own: describing a connection takes room on the stack. */
static __noinline int request_emit(const struct flow *flow, const struct sock *sk, enum end end,
				   __u64 now, bool owed)
{
	struct wait_record *record;

	record = wait_new(WAIT_SERVICE, end, flow->exchange.asked, now);
	if (!record)
		return 0;
	request_whose(&record->flow, flow, sk);
	flow_identify(&record->flow, sk);
	record->flow.local_port = port_of(sk);
	record->flow.opened_by = OPENED_BY_PEER | flow_earlier(flow);
	wait_describe_connection(record, sk);
	record->owed = owed;
	if (end_fails(end))
		attempts_count_unserved(record, sk);
	wait_emit(record);
	return 0;
}

/* The connection of an open request gets into another state, locked. */
static __always_inline void request_settles(const struct flow *flow, const struct sock *sk,
					    int before, int state)
{
	enum end end = request_end(sk, state);
	__u32 watch;
	__u64 now;

	if (before != TCP_ESTABLISHED || end == END_OPEN || !flow->exchange.asked ||
	    request_met(flow, tcp_of(sk)))
		return;
	now = bpf_ktime_get_ns();
	if (now - flow->exchange.asked < setting_wait_ns || request_doubted(flow, sk, end, now))
		return;
	watch = sock_watch(sk);
	if (watch & (STUCK_IN_CALL | STUCK_OTHERWISE))
		return;
	if (request_confirms(flow, tcp_of(sk), watch))
		return;
	/* A program that closes has taken the socket out of what it watches. */
	request_emit(flow, sk, end, now, end != END_GIVEN_UP && !(watch & WATCHED_FOR_DATA));
}

#endif
