/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Split tx.network by what an ACK shows. The peer's kernel may delay it (RFC 1122, 4.2.3.2): until
 * its answer leaves, or by a timer. `path` is the smallest RTT that TCP has seen on the connection
 * (tcp_min_rtt()); `delayed-ack` is the peer's possible delay; `excess` is the network's.
 */
#ifndef SOCKSTAMP_TCP_SEND_NETWORK_BPF_H
#define SOCKSTAMP_TCP_SEND_NETWORK_BPF_H

#include "tcp/flow.bpf.h"
#include "tcp/packet.bpf.h"

#define ACK_SMALL   (1 << 6) /* in tx.ack_flags: for less than two full segments, and no data */
#define ACK_DELAYED (1 << 7) /* ... and late enough for a timer */

/*
 * Shorter than any timer known (TCP_DELACK_MIN of Linux: 40 ms, less a jiffy or two), and longer
 * than all (TCP_DELACK_MAX, 200 ms; include/net/tcp.h, v6.18).
 */
#define DELAYED_ACK_MIN_NS 30000000ULL
#define DELAYED_ACK_MAX_NS 200000000ULL

struct network {
	__u64 delayed_ack;
	__u64 excess;
};

/*
 * A segment, before TCP works on it: is it one that the peer sent for the ACK's sake? Every second
 * full segment is acknowledged at once (RFC 5681, 4.2; __tcp_ack_snd_check(), v6.18).
 */
static __always_inline void network_note_segment(const struct tcp_sock *tp, struct flow *flow,
						 const struct tcp_skb_cb *cb)
{
	if (cb->seq != cb->end_seq)
		flow->tx.ack_flags = MESSAGE_ACK_WITH_DATA;
	else if (cb->ack_seq - tp->snd_una < 2 * tp->mss_cache)
		flow->tx.ack_flags = ACK_SMALL;
	else
		flow->tx.ack_flags = 0;
}

/*
 * Once either end has half closed the connection, tcp_probe is silent: known values are of an
 * earlier segment. Stamps that come with segments are never silent.
 */
static __always_inline void network_forget_stale(const struct sock *sk, struct flow *flow)
{
	if (!setting_by_packets && sk->__sk_common.skc_state != TCP_ESTABLISHED)
		flow->tx.ack_flags = 0;
}

static __always_inline __u64 network_beyond_path(const struct tx_message *message, __u64 ns)
{
	__u64 path = (__u64)message->min_rtt_us * 1000;

	return ns > path ? ns - path : 0;
}

/* The oldest message that an ACK is for tells whether it came late enough for a timer. */
static __always_inline void network_judge_delayed_ack(struct flow *flow, struct tx_message *message)
{
	__u64 ns = message->stamps.ack - message->stamps.snd;

	/* It is refused, and has no difference. */
	if (!message->stamps.snd || message->stamps.snd > message->stamps.ack)
		return;
	if (flow->tx.ack_flags & ACK_SMALL &&
	    network_beyond_path(message, ns) >= DELAYED_ACK_MIN_NS)
		flow->tx.ack_flags = ACK_DELAYED;
	else if (flow->tx.ack_flags & ACK_SMALL)
		flow->tx.ack_flags = 0;
	if (flow->tx.ack_flags & ACK_DELAYED)
		message->flags |= MESSAGE_ACK_DELAYED;
}

/* Split the time beyond the path. A retransmitted message was late for that reason. */
static __always_inline struct network network_split(const struct tx_message *message, __u64 ns)
{
	__u64 beyond = network_beyond_path(message, ns);
	struct network network = {};

	if (!message->retransmits && !(message->flags & MESSAGE_RESENT)) {
		if (message->flags & MESSAGE_ACK_WITH_DATA)
			network.delayed_ack = beyond;
		else if (message->flags & MESSAGE_ACK_DELAYED)
			network.delayed_ack =
				beyond < DELAYED_ACK_MAX_NS ? beyond : DELAYED_ACK_MAX_NS;
	}
	network.excess = beyond - network.delayed_ack;
	return network;
}

#endif
