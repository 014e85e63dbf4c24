/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Find why data waits in the TCP write queue. tcp_write_xmit() (net/ipv4/tcp_output.c, v6.18) makes
 * a series of tests and stops at the first that fails; nothing reports which. The same tests are
 * therefore made on the socket's state, under its lock: for a message's last byte when it is
 * queued, and for the head of the queue each time that a segment arrives, before TCP processes it
 * (tracepoint tcp_probe). The cause found then has held the queue since the last packet left.
 */
#ifndef SOCKSTAMP_TCP_SEND_CAUSE_BPF_H
#define SOCKSTAMP_TCP_SEND_CAUSE_BPF_H

#include "tcp/flow.bpf.h"
#include "tcp/send/resent.bpf.h"

const volatile bool setting_causes = true; /* tell causes in the write queue apart */

#define TCP_NAGLE_CORK	 2 /* include/net/tcp.h */
#define TCP_NAGLE_PUSH	 4
#define TCPHDR_PSH	 0x08
#define SK_PACING_NEEDED 1 /* include/net/sock.h */

/*
 * TSQ_THROTTLED, TSQ_QUEUED, TCP_TSQ_DEFERRED (enum tsq_enum, include/linux/tcp.h, v6.18): once a
 * packet is done with, tcp_wfree() trades the first for the second, which stands until
 * tcp_tsq_handler() sends more. ACKs may well come in between.
 */
#define TSQF_WAITING 7UL

/* Return the room in the congestion window, in bytes; tcp_cwnd_test() counts packets. */
static __always_inline __s64 cause_cwnd_room(const struct tcp_sock *tp)
{
	__s64 in_flight = (__s64)tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;

	return ((__s64)tp->snd_cwnd - in_flight) * tp->mss_cache;
}

/* Return the room in the peer's window, from the first unsent byte: tcp_snd_wnd_test(). */
static __always_inline __s64 cause_rwnd_room(const struct tcp_sock *tp, __u32 seq)
{
	return (__s32)(tp->snd_una + tp->snd_wnd - seq);
}

static __always_inline bool cause_recovers(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state) >= TCP_CA_RECOVERY;
}

/*
 * Note whether the peer had closed its window before TCP began to recover. It may close it on data
 * in flight, which it then drops: TCP waits for a timeout, and recovers as from a loss
 * (tcp_retransmit_timer(), net/ipv4/tcp_timer.c, v6.18), although the network lost nothing.
 */
static __always_inline void cause_note_window(const struct tcp_sock *tp, struct waiting *waiting)
{
	waiting->recovers = cause_recovers(tp);
	if (!waiting->recovers)
		waiting->closed = !tp->snd_wnd;
}

/*
 * Return the window that stops `length` bytes at `seq`; if both do, the narrower one, as in
 * tcp_tso_should_defer(). A closed window lets nothing pass, not even lost data. In recovery no
 * window moves until the lost data is delivered, which needs retransmissions, not the waiting data.
 */
static __always_inline enum part
cause_window(const struct tcp_sock *tp, const struct waiting *waiting, __u32 seq, __u32 length)
{
	__s64 cwnd = cause_cwnd_room(tp);
	__s64 rwnd = cause_rwnd_room(tp, seq);

	if (cwnd >= length && rwnd >= length)
		return PART_COUNT;
	if (!tp->snd_wnd)
		return PART_RWND;
	if (cause_recovers(tp) && !waiting->closed)
		return PART_RETRANSMIT;
	return cwnd <= rwnd ? PART_CWND : PART_RWND;
}

/* tcp_nagle_test() of a packet that is not full. */
static __always_inline enum part cause_nagle(const struct tcp_sock *tp)
{
	__u8 nonagle = BPF_CORE_READ_BITFIELD(tp, nonagle);

	if (nonagle & TCP_NAGLE_PUSH)
		return PART_COUNT;
	if (nonagle & TCP_NAGLE_CORK)
		return PART_CORK;
	/* tcp_minshall_check(): a small packet is still unacknowledged. */
	if (!nonagle && tp->packets_out && seq_after(tp->snd_sml, tp->snd_una) &&
	    !seq_after(tp->snd_sml, tp->snd_nxt))
		return PART_NAGLE;
	return PART_COUNT;
}

/* tcp_pacing_check() */
static __always_inline bool cause_paced(const struct sock *sk, const struct tcp_sock *tp, __u64 now)
{
	return sk->sk_pacing_status == SK_PACING_NEEDED && tp->tcp_wstamp_ns > now;
}

/*
 * Return what holds the head of the write queue; PART_COUNT for none of these causes. Causes that
 * only an ACK can lift are tested first, because pacing and TSQ end by themselves.
 */
static __always_inline enum part cause_of_head(const struct sock *sk, const struct waiting *waiting,
					       __u64 now)
{
	const struct sk_buff *head = untrusted(sk, struct sock)->sk_write_queue.next;
	const struct tcp_sock *tp = tcp_of(sk);
	const struct tcp_skb_cb *cb;
	enum part cause;
	__u32 length;

	/* Test the length, not the queue's address: clang 19 has loaded from its offset instead. */
	if (!sk->sk_write_queue.qlen)
		return PART_COUNT;
	cb = skb_tcp(head);
	length = head->len;
	cause = cause_window(tp, waiting, cb->seq, length);
	if (cause != PART_COUNT)
		return cause;
	if (length < tp->mss_cache) {
		cause = cause_nagle(tp);
		if (cause != PART_COUNT)
			return cause;
		/* tcp_push() does not mark a packet that MSG_MORE leaves open. */
		if (!(cb->tcp_flags & TCPHDR_PSH))
			return PART_CORK;
	}
	if (sk->sk_tsq_flags & TSQF_WAITING)
		return PART_TSQ;
	return cause_paced(sk, tp, now) ? PART_PACING : PART_COUNT;
}

/*
 * Return true if the qdisc and the driver hold as much of this socket as tcp_small_queue_check()
 * allows.
 */
static __always_inline bool cause_tsq_throttles(const struct sock *sk, __u32 unsent)
{
	__u64 limit = sk->sk_pacing_rate >> sk->sk_pacing_shift;
	__u64 held = sk->sk_wmem_alloc.refs.counter;

	return sk->sk_tsq_flags & TSQF_WAITING || (held > 1 && held + unsent > limit);
}

#define TSO_WIN_DIVISOR 3 /* net.ipv4.tcp_tso_win_divisor, by default */

/*
 * Return the window for which several segments wait that fit into it: tcp_tso_should_defer() holds
 * the end of the queue back while less than a third of the window is free, so that more leaves at
 * once. An ACK ends it.
 */
static __always_inline enum part cause_deferred(const struct tcp_sock *tp, __u32 unsent)
{
	__s64 cwnd = cause_cwnd_room(tp);
	__s64 rwnd = cause_rwnd_room(tp, tp->snd_nxt);
	__s64 room = cwnd < rwnd ? cwnd : rwnd;
	__s64 whole = (__s64)tp->snd_cwnd * tp->mss_cache;

	if (whole > tp->snd_wnd)
		whole = tp->snd_wnd;
	if (!tp->packets_out || unsent <= tp->mss_cache || room * TSO_WIN_DIVISOR >= whole)
		return PART_COUNT;
	return cwnd <= rwnd ? PART_CWND : PART_RWND;
}

/* Return what will stop the byte before `write_seq`, which is about to be pushed. */
static __always_inline enum part cause_of_tail(const struct sock *sk, const struct waiting *waiting,
					       bool more, __u64 now)
{
	const struct tcp_sock *tp = tcp_of(sk);
	__u32 unsent = tp->write_seq - tp->snd_nxt;
	enum part cause = cause_window(tp, waiting, tp->snd_nxt, unsent);

	if (cause != PART_COUNT)
		return cause;
	if (unsent % tp->mss_cache) {
		cause = more ? PART_CORK : cause_nagle(tp);
		if (cause != PART_COUNT)
			return cause;
	}
	if (cause_paced(sk, tp, now))
		return PART_PACING;
	return cause_tsq_throttles(sk, unsent) ? PART_TSQ : cause_deferred(tp, unsent);
}

/*
 * Messages note how long each cause has held the flow in ticks, 32 bits of them: 4.6 minutes. Ticks
 * are not nanoseconds for the sake of messages that wait for longer than four seconds.
 */
#define CAUSE_TICK_SHIFT 6

static __always_inline __u32 cause_ticks(__u64 ns)
{
	return ns >> CAUSE_TICK_SHIFT;
}

static __always_inline __u64 cause_ns(__u32 ticks)
{
	return (__u64)ticks << CAUSE_TICK_SHIFT;
}

/* A global function, so that the verifier does not walk what follows once per cause. */
__noinline int cause_add(struct waiting *waiting, __u32 cause, __u64 until)
{
	__u64 index = cause - CAUSE_FIRST;

	if (!waiting || (__s64)(until - waiting->since) <= 0)
		return 0;
	if (index < CAUSE_COUNT)
		waiting->waited[index] += until - waiting->since;
	waiting->since = until;
	return 0;
}

/* Account for a message that is queued behind waiting ones, or is the first to wait. */
static __always_inline void cause_message_queued(const struct sock *sk, struct flow *flow,
						 bool more, __u64 now)
{
	struct waiting *waiting = &flow->tx.waiting;

	if (flow->tx.sched == flow->tx.head) {
		waiting->since = now;
		waiting->cause = cause_of_tail(sk, waiting, more, now);
		waiting->seen_by_ack = false;
		return;
	}
	cause_add(waiting, waiting->cause, now);
}

/*
 * Return when the last packet left: tcp_update_skb_after_send() keeps them in the order of sending.
 */
static __always_inline __u64 cause_last_sent(const struct tcp_sock *tp)
{
	const struct list_head *newest = tp->tsorted_sent_queue.prev;
	const void *skb;

	if (newest == &tp->tsorted_sent_queue)
		return 0;
	skb = (const void *)newest - bpf_core_field_offset(struct sk_buff, tcp_tsorted_anchor);
	return kernel_read(skb, struct sk_buff, skb_mstamp_ns);
}

/* Account for an arriving segment: its cause has held the queue since the last packet left. */
static __always_inline void cause_segment_arrives(const struct sock *sk, struct flow *flow)
{
	struct waiting *waiting = &flow->tx.waiting;
	enum part cause;
	__u64 now, sent;

	if (!setting_causes)
		return;
	cause_note_window(tcp_of(sk), waiting);
	if (flow->tx.sched == flow->tx.head)
		return;
	now = bpf_ktime_get_ns();
	cause = cause_of_head(sk, waiting, now);
	sent = cause_last_sent(tcp_of(sk));
	if (sent < now)
		cause_add(waiting, waiting->cause, sent);
	cause_add(waiting, cause, now);
	waiting->cause = cause;
	waiting->seen_by_ack = true;
}

/*
 * Return the shortest time for which TCP's own timer paces: that of a full segment at its rate
 * (tcp_update_skb_after_send(), net/ipv4/tcp_output.c, v6.18); 0 if it does not pace.
 */
static __always_inline __u64 cause_pacing_gap(const struct sock *sk)
{
	__u64 rate = sk->sk_pacing_rate;

	if (sk->sk_pacing_status != SK_PACING_NEEDED || !rate)
		return 0;
	return tcp_of(sk)->mss_cache * 1000000000ULL / rate + 1;
}

/*
 * Account for the departure of the head. If an ACK lifted its cause, only pacing can have held it
 * since (or, briefly, the work itself). If nothing seemed to hold it when it was queued, what was
 * queued with it left first, and its last part waited for the timer of pacing: no ACK comes
 * meanwhile on a long path.
 */
static __always_inline void cause_head_departs(struct flow *flow, __u64 pacing_gap, __u64 now)
{
	struct waiting *waiting = &flow->tx.waiting;
	enum part cause = waiting->cause;
	bool waited = (__s64)(now - waiting->since) >= (__s64)pacing_gap;

	if (!waiting->seen_by_ack && cause == PART_COUNT)
		cause = pacing_gap && waited ? PART_PACING : PART_COUNT;
	else if (waiting->seen_by_ack && cause != PART_CORK && cause != PART_TSQ &&
		 cause != PART_PACING)
		cause = pacing_gap ? PART_PACING : PART_COUNT;
	cause_add(waiting, cause, now);
}

#endif
