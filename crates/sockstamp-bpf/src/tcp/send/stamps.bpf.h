/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * SCHED and SND: a packet enters the packet scheduler, and a driver takes it. A stamp is for
 * messages whose last byte is in the packet, and for no others: bytes queued before them left in
 * another packet. For that packet there is no call: departure.bpf.h finds when it left, and
 * net_dev_start_xmit() shows when a driver takes it.
 */
#ifndef SOCKSTAMP_TCP_SEND_STAMPS_BPF_H
#define SOCKSTAMP_TCP_SEND_STAMPS_BPF_H

#include "neighbour/neighbour.bpf.h"
#include "tcp/packet.bpf.h"
#include "tcp/send/departure.bpf.h"
#include "tcp/send/host_path.bpf.h"
#include "tcp/send/slots.bpf.h"

/* A callback comes only where one was asked for; a packet need not be the last of its message. */
static __always_inline void tx_count_unmatched(const struct sk_buff *skb)
{
	if (!setting_by_packets && skb_shared(skb)->tx_flags & SKBTX_BPF)
		count_loss(LOSS_UNMATCHED);
}

/* A packet on its way, and where the walk over its flow's messages is. */
struct tx_walk {
	struct flow *flow;
	const struct sock *sk;
	struct tx_message *found;
	struct packet packet;
	__u64 left; /* when it left TCP, if it has waited for its neighbour since; else `now` */
	__u64 now;
	__u32 counter;
	__u32 interface;
	__u32 key; /* names the packet */
	__u32 hash;
	__u32 length; /* with all headers */
};

/*
 * Return true if the header is the flow's own. In an encrypted packet (IPsec) the bytes in its
 * place are arbitrary, but hardly ever match an unacknowledged byte.
 */
static __always_inline bool packet_of_flow(const struct sock *sk, const struct sk_buff *skb,
					   struct packet *packet)
{
	const struct tcp_sock *tp = tcp_of(sk);

	return packet_read(skb, packet) && !seq_before(packet->last, tp->snd_una) &&
	       seq_before(packet->last, tp->write_seq);
}

/*
 * Return the range of bytes of a packet with a key. The key's byte need not be in it:
 * tcp_grow_skb() moves bytes to the preceding packet, and leaves the key behind
 * (net/ipv4/tcp_output.c, v6.18).
 */
static __always_inline struct packet tx_packet_bytes(const struct sock *sk,
						     const struct sk_buff *skb)
{
	struct packet packet;

	if (!packet_of_flow(sk, skb, &packet))
		packet = packet_of_key(skb_shared(skb)->tskey);
	return packet;
}

/* The name by which a packet is known at its next devices, and in `paths`. */
static __always_inline __u32 tx_packet_key(const struct sk_buff *skb, const struct packet *packet)
{
	const struct skb_shared_info *shared;

	if (setting_by_packets)
		return packet->last;
	shared = skb_shared(skb);
	return shared->tx_flags & SKBTX_BPF ? shared->tskey : packet->last;
}

static __always_inline __u32 tx_cursor_in_flight(const struct flow *flow, __u32 cursor)
{
	return (__s32)(cursor - flow->tx.tail) < 0 ? flow->tx.tail : cursor;
}

static long tx_find_message_step(__u32 index, struct tx_walk *walk)
{
	struct tx_message *message;

	if (walk->counter == walk->flow->tx.tail)
		return 1;
	message = tx_find_slot(walk->flow, --walk->counter);
	if (!message || seq_before(message->seq_last, walk->packet.first))
		return 1;
	if (!packet_carries(&walk->packet, message->seq_last))
		return 0;
	walk->found = message;
	return 1;
}

/*
 * Find the last message whose last byte is in a packet that was seen before. The newest first: most
 * packets that come again are at the next device.
 */
static __always_inline struct tx_message *tx_find_message(struct tx_walk *walk, __u32 newest)
{
	walk->counter = newest;
	walk->found = NULL;
	bpf_loop(TX_INFLIGHT_MAX, tx_find_message_step, walk, 0);
	return walk->found;
}

static long tx_sched_late_step(__u32 index, struct tx_walk *walk)
{
	struct tx_message *message = tx_find_slot(walk->flow, walk->counter);

	if (!message || !packet_carries(&walk->packet, message->seq_last) || message->stamps.snd)
		return 1;
	message->stamps.sched = walk->now;
	message->stamps.sched_last = walk->now;
	message->interface_first = walk->interface;
	if (setting_causes)
		tx_waited_for_neighbour(message, walk->left, walk->now);
	return walk->counter-- == walk->flow->tx.tail;
}

/*
 * A packet that waited for its neighbour comes to its first device. It was found in the retransmit
 * queue before, and its messages were noted as departed then.
 */
static __always_inline void tx_sched_late(struct tx_walk *walk)
{
	bpf_loop(TX_INFLIGHT_MAX, tx_sched_late_step, walk, 0);
}

/* Another device on the way (a veth, then a bridge's port), or the same one again: sent again. */
static __always_inline void tx_sched_again(const struct sk_buff *skb, struct flow *flow,
					   struct tx_walk *walk)
{
	struct tx_message *message = tx_find_message(walk, flow->tx.sched);

	if (!message) {
		tx_count_unmatched(skb);
		return;
	}
	if (walk->left != walk->now && !message->stamps.snd) {
		tx_sched_late(walk);
		return;
	}
	message->stamps.sched_last = walk->now;
	message->repeats++;
	if (message->interface_first == walk->interface)
		message->flags |= MESSAGE_RESENT;
}

static __always_inline long tx_sched_one(struct tx_walk *walk)
{
	struct flow *flow = walk->flow;
	struct tx_message *message;

	if (flow->tx.sched == flow->tx.head)
		return 1;
	message = tx_find_slot(flow, flow->tx.sched);
	if (!message || seq_after(message->seq_last, walk->packet.last))
		return 1;
	if (packet_carries(&walk->packet, message->seq_last)) {
		tx_message_departs(flow, message, cause_pacing_gap(walk->sk), walk->left,
				   walk->now);
		message->interface_first = walk->interface;
		flow->interface = walk->interface;
		message->packet = walk->key;
		message->hash = walk->hash;
		if (message->seq_last != walk->packet.last)
			message->flags |= MESSAGE_COALESCED;
	}
	flow->tx.sched++;
	return 0;
}

static long tx_sched_step(__u32 index, struct tx_walk *walk)
{
	return tx_sched_one(walk);
}

/* SCHED: __dev_queue_xmit() of each device on the way while the skb belongs to the socket. */
static __always_inline void tx_sched(const struct sock *sk, const struct sk_buff *skb,
				     struct flow *flow, const struct packet *packet)
{
	struct tx_message *message = NULL;
	struct tx_walk walk = {
		.flow = flow,
		.sk = sk,
		.packet = *packet,
		.interface = interface_slot(skb->dev),
		.now = bpf_ktime_get_ns(),
	};

	walk.left = neighbour_waited_since(sk, skb, walk.now);
	flow->tx.sched = tx_cursor_in_flight(flow, flow->tx.sched);
	if (flow->tx.sched != flow->tx.head)
		message = tx_find_slot(flow, flow->tx.sched);
	if (!message || seq_after(message->seq_last, packet->last)) {
		tx_sched_again(skb, flow, &walk);
		return;
	}
	if (!setting_by_packets && seq_before(message->seq_last, packet->first))
		tx_note_departures(sk, flow, packet->first);
	if (path_is_detached(walk.interface)) {
		walk.key = tx_packet_key(skb, packet);
		walk.hash = skb->hash;
		path_begin(skb, walk.key);
	}
	/* Most packets carry the end of one message: it needs no loop, which calls a function a
	 * turn. */
	if (!tx_sched_one(&walk) && flow->tx.sched != flow->tx.head)
		bpf_loop(TX_INFLIGHT_MAX, tx_sched_step, &walk, 0);
}

/*
 * Return true if the message's last byte is in the packet. One whose bytes cannot be read is known
 * by the key that the messages in it were given at the device before.
 */
static __always_inline bool tx_in_packet(const struct tx_walk *walk,
					 const struct tx_message *message)
{
	if (packet_carries(&walk->packet, message->seq_last))
		return true;
	return walk->packet.first == walk->packet.last && message->packet == walk->key &&
	       walk->key - message->seq_last < walk->length;
}

/*
 * A packet with the message's last byte comes to a further device, or to one that it was at:
 * everything after the first transmission is the network's time, also a retransmission.
 */
static __always_inline void tx_message_again(struct tx_walk *walk, struct tx_message *message)
{
	bool seen = message->stamps.snd;

	message->repeats++;
	if (walk->interface == message->interface_first ||
	    (seen && walk->interface == message->interface_last))
		message->flags |= MESSAGE_RESENT;
	if (seen)
		message->stamps.snd_last = walk->now;
	/* Its first packet may have left unseen. */
	if (message->flags & MESSAGE_RESENT || (!seen && message->retransmits))
		return;
	message->stamps.snd = walk->now;
	message->stamps.snd_last = walk->now;
	message->packet = walk->key;
	message->hash = walk->hash;
	message->interface_last = walk->interface;
}

static long tx_snd_again_step(__u32 index, struct tx_walk *walk)
{
	struct tx_message *message = tx_find_slot(walk->flow, walk->counter);

	if (!message || !tx_in_packet(walk, message))
		return 1;
	tx_message_again(walk, message);
	return walk->counter-- == walk->flow->tx.tail;
}

/*
 * A device may have cut the packet that the one before had whole: the messages are those whose last
 * bytes are in this part.
 */
static __always_inline void tx_snd_again(const struct sk_buff *skb, const struct net_device *device,
					 struct flow *flow, struct tx_walk *walk)
{
	if (!tx_find_message(walk, flow->tx.snd)) {
		tx_count_unmatched(skb);
		return;
	}
	walk->interface = interface_slot(device);
	bpf_loop(TX_INFLIGHT_MAX, tx_snd_again_step, walk, 0);
}

static __always_inline long tx_snd_one(struct tx_walk *walk)
{
	struct flow *flow = walk->flow;
	struct tx_message *message;

	if (flow->tx.snd == flow->tx.head)
		return 1;
	message = tx_find_slot(flow, flow->tx.snd);
	if (!message || seq_after(message->seq_last, walk->packet.last))
		return 1;
	if (packet_carries(&walk->packet, message->seq_last)) {
		message->stamps.snd = walk->now;
		message->stamps.snd_last = walk->now;
		message->packet = walk->key;
		message->hash = walk->hash;
		message->interface_last = walk->interface;
	}
	flow->tx.snd++;
	return 0;
}

static long tx_snd_step(__u32 index, struct tx_walk *walk)
{
	return tx_snd_one(walk);
}

/* SND software: the driver of each device on the way takes the skb; the socket is not locked. */
static __always_inline void tx_snd(const struct sk_buff *skb, const struct net_device *device,
				   struct flow *flow, const struct packet *packet)
{
	struct tx_message *message = NULL;
	struct tx_walk walk = {
		.flow = flow,
		.packet = *packet,
		.now = bpf_ktime_get_ns(),
		.key = tx_packet_key(skb, packet),
		.hash = skb->hash,
		.length = skb->len,
	};

	flow->tx.snd = tx_cursor_in_flight(flow, flow->tx.snd);
	if (flow->tx.snd != flow->tx.head)
		message = tx_find_slot(flow, flow->tx.snd);
	if (!message || seq_after(message->seq_last, packet->last)) {
		tx_snd_again(skb, device, flow, &walk);
		return;
	}
	walk.interface = interface_slot(device);
	if (setting_host_path)
		path_follow(skb, walk.key, walk.interface);
	/* One message needs no loop, as in tx_sched(). */
	if (!tx_snd_one(&walk) && flow->tx.snd != flow->tx.head)
		bpf_loop(TX_INFLIGHT_MAX, tx_snd_step, &walk, 0);
}

/*
 * Return true if packets leave the host by a device, or come back to it. The further path of a part
 * without a key, behind another device, is unknown.
 */
static __always_inline bool tx_path_ends(const struct net_device *device)
{
	const struct interface *interface = interface_at(interface_slot(device));

	return interface &&
	       (interface->medium == MEDIUM_PHYSICAL || interface->medium == MEDIUM_LOOPBACK);
}

/*
 * Handle net_dev_start_xmit(): the driver of a device takes a packet, or a part of it, without a
 * key and so without a callback.
 */
static __always_inline void tx_part_to_driver(const struct sock *sk, const struct sk_buff *skb,
					      const struct net_device *device)
{
	struct flow *flow;
	struct packet packet;

	if (skb_shared(skb)->tx_flags & SKBTX_BPF)
		return;
	flow = flow_lookup(sk);
	if (!flow || flow->tx.head == flow->tx.tail || !packet_of_flow(sk, skb, &packet))
		return;
	if (!setting_host_path || tx_path_ends(device))
		tx_snd(skb, device, flow, &packet);
}

#endif
