/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packets that were recorded when a driver took them. One that stays on this host is received in
 * the same memory. It is written once, where it was seen first, so it is left out there, before its
 * flow is looked up. User space recognises packets in the same way, and with them those few whose
 * place another one took.
 */
#ifndef SOCKSTAMP_PACKETS_SENT_BPF_H
#define SOCKSTAMP_PACKETS_SENT_BPF_H

#include "packets/headers.bpf.h"

const volatile bool setting_once; /* a packet is recorded once: where it is seen first */

struct packet_sent {
	__u64 memory; /* skb->head; 0: none */
	struct packet_key key; /* its sender's */
	__u32 length;
	__u32 id;
	__u32 seq;
	__u32 ack_seq;
};

/* As many as may wait on some CPUs (net.core.netdev_max_backlog is 1000). */
#define PACKETS_SENT_BITS 12

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << PACKETS_SENT_BITS);
	__type(key, __u32);
	__type(value, struct packet_sent);
} packets_sent SEC(".maps");

/* 2^64 over the golden ratio spreads addresses that differ in their middle bits. */
static __always_inline struct packet_sent *packet_sent_place(__u64 memory)
{
	__u32 place = memory * 0x9e3779b97f4a7c15 >> (64 - PACKETS_SENT_BITS);

	return bpf_map_lookup_elem(&packets_sent, &place);
}

static __always_inline void packet_note_sent(const struct sk_buff *skb,
					     const struct packet_head *head)
{
	__u64 memory = word_at(&skb->head);
	struct packet_sent *sent = packet_sent_place(memory);

	if (!sent || head->fragmented)
		return;
	sent->memory = memory;
	sent->key = head->key;
	sent->length = head->length;
	sent->id = head->fragment;
	sent->seq = head->seq;
	sent->ack_seq = head->ack_seq;
}

static __always_inline bool packet_same_address(const __u32 *a, const __u32 *b)
{
	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3];
}

/* Return true if this is a packet that was recorded, and forget it. */
static __always_inline bool packet_was_sent(const struct sk_buff *skb,
					    const struct packet_head *head)
{
	__u64 memory = word_at(&skb->head);
	struct packet_sent *sent = packet_sent_place(memory);

	if (!sent || sent->memory != memory || sent->length != head->length ||
	    sent->id != head->fragment || sent->seq != head->seq ||
	    sent->ack_seq != head->ack_seq || sent->key.protocol != head->key.protocol ||
	    sent->key.local_port != head->key.remote_port ||
	    sent->key.remote_port != head->key.local_port ||
	    !packet_same_address(sent->key.local_address, head->key.remote_address) ||
	    !packet_same_address(sent->key.remote_address, head->key.local_address))
		return false;
	sent->memory = 0;
	return true;
}

#endif
