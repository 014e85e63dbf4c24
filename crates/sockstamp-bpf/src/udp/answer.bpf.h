/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * peer.answer of UDP: from the last datagram sent to the arrival of the next one from the same
 * peer, on the side that asks. Datagrams sent at once are one question (a resolver asks for both
 * kinds of addresses). A datagram names no question, so the answer is known to be its question's
 * only if no other one is in flight, and only while there are not more answers than questions: then
 * both ends send at their own pace. Datagrams that are apart by more than a small part of the
 * answer's time may be a question each.
 */
#ifndef SOCKSTAMP_UDP_ANSWER_BPF_H
#define SOCKSTAMP_UDP_ANSWER_BPF_H

#include "answer/answer.bpf.h"
#include "udp/matching.bpf.h"
#include "udp/peer.bpf.h"
#include "udp/state.bpf.h"
#include "window/window.bpf.h"

/* The counter of an answer's arrival is below, NO_PAIR() of its reason in the bits from here on. */
#define UDP_UNPAIRED_SHIFT 56
#define UDP_COUNTER_MASK   ((1ULL << UDP_UNPAIRED_SHIFT) - 1)

/* Datagrams of one question follow each other so closely. */
#define UDP_QUESTION_NS 10000000
/* Count a question as lost if it has no answer when a new one comes so much later. */
#define UDP_REPEAT_NS 1000000000
/* The answer takes this many times as long as its question, at least: they differ by one bucket. */
#define UDP_ANSWER_TIMES 12
/* A datagram like the one before is the same question, if it comes after so many times the time
 * of an answer. */
#define UDP_AGAIN_TIMES 2
/* An answer that takes less than all before by this factor may be none. */
#define UDP_SOONER_TIMES 8
/* A socket has answers again after so many questions with one each. */
#define UDP_IN_STEP 10

#define UDP_HEADER_LENGTH 8 /* RFC 768 */

#define RTP_VERSION  0x80
#define RTP_EXTENDED 0x10

#define PORT_OF_SYSTEM 1024 /* ports below are services: ip(7), ip_unprivileged_port_start */

/* The port of a packet's source or destination, in host order. Ports come first: RFC 768. */
static __always_inline __u16 udp_port(const struct sk_buff *skb, bool source)
{
	__be16 port = 0;

	bpf_probe_read_kernel(&port, sizeof(port),
			      skb->head + skb->transport_header + (source ? 0 : 2));
	return bpf_ntohs(port);
}

/*
 * Return the role of a socket by its first datagram, which it sends or receives. Without a port of
 * its own choice nobody could send to it before it has asked. With one, who begins asks, if the
 * measurement has seen the beginning; otherwise a port of the system tells, or nothing.
 */
static __noinline __u32 udp_role_of(const struct sock *sk, bool sends, __u16 remote)
{
	__u32 locks = BPF_CORE_READ_BITFIELD(untrusted(sk, struct sock), sk_userlocks);
	__u16 local = sk->__sk_common.skc_num;
	const struct mark *mark;

	if (!sends)
		return locks & SOCK_BINDPORT_LOCK || !sk->__sk_common.skc_dport ? UDP_ANSWERS :
										  UDP_ASKS;
	if (!(locks & SOCK_BINDPORT_LOCK) &&
	    (sk->__sk_common.skc_dport || !(locks & SOCK_BINDADDR_LOCK)))
		return UDP_ASKS;
	if (local < PORT_OF_SYSTEM)
		return UDP_ANSWERS;
	if (remote < PORT_OF_SYSTEM || sk->__sk_common.skc_dport)
		return UDP_ASKS;
	mark = bpf_sk_storage_get(&sockstamp_marks, (void *)sk, 0, 0);
	return mark && !mark->adopted ? UDP_ASKS : UDP_UNTOLD;
}

/* Return true if the socket is the end that asks. The last packet is one that it sends, or not. */
static __always_inline bool udp_asks(const struct sock *sk, struct udp_flow *flow,
				     const struct sk_buff *skb, bool sends)
{
	struct udp_exchange *exchange = &flow->exchange;

	if (exchange->role == UDP_UNTOLD)
		exchange->role = udp_role_of(sk, sends, skb ? udp_port(skb, !sends) : 0);
	return exchange->role == UDP_ASKS;
}

/* Return a number for a peer of a socket that may have several. */
static __always_inline __u64 udp_remote_name(const struct udp_remote *peer)
{
	const __u32 *address = (const __u32 *)peer->address;

	return (__u64)(address[0] ^ address[1] ^ address[2] ^ address[3]) << 32 |
	       (__u32)(peer->port << 1) | 1;
}

/* The peer of a connected socket, which has no other. */
#define UDP_ONLY_PEER 1

/* Return a number for the peer of a packet. */
static __always_inline __u64 udp_peer_name(const struct sock *sk, const struct sk_buff *skb,
					   bool source)
{
	struct udp_remote peer = {};

	if (sk->__sk_common.skc_dport)
		return UDP_ONLY_PEER;
	udp_peer(sk, skb, source, &peer);
	return udp_remote_name(&peer);
}

/* Return the port's question if the socket asks by this packet, which it sends; 0 if it does not.
 */
static __always_inline __u64 udp_asked_peer(const struct sock *sk, struct udp_flow *flow,
					    const struct sk_buff *skb)
{
	return udp_asks(sk, flow, skb, true) ? udp_peer_name(sk, skb, false) : 0;
}

/*
 * Return true if questions that were asked before are answered or lost. In windows an answer that
 * takes as long as their programs were attached before is not told either.
 */
static __always_inline bool udp_questions_over(__u64 since)
{
	return since >= (window_bounded() ? WINDOW_LEAD_NS : UDP_REPEAT_NS);
}

/* Return true if the last question, without an answer since, was asked again. */
static __always_inline bool udp_asked_again(const struct udp_exchange *exchange, __u32 length,
					    __u64 since)
{
	return length == exchange->length &&
	       (exchange->least ? since > UDP_AGAIN_TIMES * exchange->least :
				  udp_questions_over(since));
}

/* A datagram is a question of its own, or the last one, if that is `open`, once more. */
static __always_inline void udp_ask_another(struct udp_exchange *exchange, bool open, __u32 length,
					    __u64 now)
{
	__u64 since = now - exchange->last;
	bool again = open && udp_asked_again(exchange, length, since);

	if (again)
		exchange->unpaired = NO_PAIR(ASKED_AGAIN);
	else
		exchange->unpaired = exchange->in_flight > 0 ? NO_PAIR(PIPELINED) : 0;
	/* The answer to the earlier one may come late, and would be taken for that of this one. */
	if (again || (open && udp_questions_over(since)))
		exchange->late = now + (now - exchange->first);
	else
		exchange->first = now;
}

/* Return true if a datagram was not read. The tail may stay behind those that were. */
static __always_inline bool udp_has_unread(struct udp_flow *flow)
{
	__u64 head = flow->rx_head;

	return head != flow->rx_tail && udp_first_kept(flow, flow->rx_tail, head) != head;
}

/*
 * A datagram of `length` bytes is on its way to `peer`, in the sender's task. A global function:
 * many call it.
 */
__noinline int udp_ask(struct udp_flow *flow, __u64 peer, __u64 now, __u32 length)
{
	struct udp_exchange *exchange;
	bool open, more;
	__u64 since;

	if (!flow || !peer)
		return 0;
	exchange = &flow->exchange;
	since = now - exchange->last;
	open = exchange->asked && exchange->peer == peer;
	more = open && since < UDP_QUESTION_NS;
	if (!open && (udp_questions_over(since) || (exchange->late && now > exchange->late))) {
		exchange->in_flight = 0;
		exchange->former = 0;
		exchange->late = 0;
	}
	if (exchange->peer != peer)
		exchange->former = exchange->in_flight;
	if (!more)
		udp_ask_another(exchange, open, length, now);
	if (udp_has_unread(flow))
		exchange->unpaired = NO_PAIR(PIPELINED);
	__sync_fetch_and_add(&exchange->in_flight, 1);
	exchange->length = length;
	exchange->peer = peer;
	exchange->last = now;
	/* Atomic for its order: the CPU that sees the time sees all else. */
	__sync_lock_test_and_set(&exchange->asked, now);
	return 0;
}

/* Return NO_PAIR() of the reason why a datagram may not be the answer to what was asked; or 0. */
static __always_inline __u64 udp_answer_doubt(struct udp_exchange *exchange, __u64 asked,
					      __u64 since)
{
	__u64 least = exchange->least;

	if (exchange->unpaired)
		return exchange->unpaired;
	if (window_exceeded(since, WINDOW_LEAD_NS))
		return NO_PAIR(PIPELINED);
	if (UDP_ANSWER_TIMES * (asked - exchange->first) > since) {
		/* Of two that were asked at once, one has its answer: the other is waited for. */
		if (exchange->in_flight == 1)
			exchange->awaited = true;
		return NO_PAIR(PIPELINED);
	}
	if (!least || since < least)
		exchange->least = since;
	if (exchange->surplus) {
		exchange->surplus--;
		return NO_PAIR(STREAM);
	}
	return least && UDP_SOONER_TIMES * since < least ? NO_PAIR(STREAM) : 0;
}

/*
 * Return true if a datagram is one of RTP, which both ends send at a pace of their own: its first
 * byte is the version, with no other bit but that of an extension (RFC 3550, section 5.1), also
 * where the rest is encrypted. One of 128 random bytes is the same, as of the ids of DNS: services
 * of the system send no RTP.
 */
static __always_inline bool udp_is_rtp(const struct sk_buff *skb)
{
	const unsigned char *datagram = skb->head + skb->transport_header;
	__u8 first = 0;

	if (udp_port(skb, true) < PORT_OF_SYSTEM)
		return false;
	bpf_probe_read_kernel(&first, sizeof(first), datagram + UDP_HEADER_LENGTH);
	return (first & ~RTP_EXTENDED) == RTP_VERSION;
}

/* The datagram with this counter has arrived, in softirq, at a socket that has asked. */
static __always_inline void udp_answer_arrives(const struct sock *sk, const struct sk_buff *skb,
					       struct udp_flow *flow, __u64 counter, __u64 now)
{
	struct udp_exchange *exchange = &flow->exchange;
	__u64 asked = *(volatile __u64 *)&exchange->asked;
	__u64 since, state;

	/* See with the time what was written before it. */
	order_loads();
	if (udp_peer_name(sk, skb, true) != exchange->peer)
		return;
	/* More answers than questions. */
	if (exchange->in_flight <= 0) {
		exchange->surplus = UDP_IN_STEP;
		return;
	}
	__sync_fetch_and_add(&exchange->in_flight, -1);
	if (!asked || __sync_val_compare_and_swap(&exchange->asked, asked, 0) != asked)
		return;
	since = now - asked;
	if (udp_is_rtp(skb))
		state = NO_PAIR(STREAM);
	else
		state = udp_answer_doubt(exchange, asked, since);
	state = state << UDP_UNPAIRED_SHIFT | (counter + 1);
	exchange->state = 0;
	order_stores();
	exchange->ns = since;
	/* Atomic for its order: a reader that sees the state sees the time. */
	__sync_lock_test_and_set(&exchange->state, state);
}

/* The datagram with this counter was not queued, and the next one gets the counter. */
static __always_inline void udp_answer_dropped(struct udp_flow *flow, __u64 counter)
{
	struct udp_exchange *exchange = &flow->exchange;

	if ((exchange->state & UDP_COUNTER_MASK) == counter + 1)
		exchange->state = 0;
}

/* Take the answer that a read is, if it is one. */
static __always_inline struct answer udp_answer_take(struct udp_flow *flow, __u64 counter)
{
	struct udp_exchange *exchange = &flow->exchange;
	__u64 state = *(volatile __u64 *)&exchange->state;
	struct answer answer = {.ns = STAGE_ABSENT, .rest = STAGE_ABSENT};
	__u64 ns;

	if ((state & UDP_COUNTER_MASK) != counter + 1)
		return answer;
	/* The time is of this state, or of a later answer, which has cleared the state. */
	order_loads();
	ns = *(volatile __u64 *)&exchange->ns;
	if (__sync_val_compare_and_swap(&exchange->state, state, 0) != state)
		return answer;
	answer.unpaired = state >> UDP_UNPAIRED_SHIFT;
	if (!answer.unpaired)
		answer.ns = ns;
	return answer;
}

#endif
