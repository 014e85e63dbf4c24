/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packets that were recorded when a driver took them. One that stays on this host is received in
 * the same memory. It is written once, where it was seen first, so it is left out there, before
 * its flow is looked up. User space recognises packets by their fields (packet/ids.rs of the
 * model), and with them those few whose place another one took.
 */
#ifndef SOCKSTAMP_PACKETS_SENT_BPF_H
#define SOCKSTAMP_PACKETS_SENT_BPF_H

#include "packets/headers.bpf.h"

const volatile bool setting_once; /* a packet is recorded once: where it is seen first */

/* Enough for the addresses, ports and sequence number of IPv6. */
#define PACKET_SENT_WORDS 6

struct packet_sent {
	__u64 memory; /* skb->head; 0: none */
	__u64 words[PACKET_SENT_WORDS];
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
					     const struct packet_head *head,
					     const union packet_begin *begin)
{
	__u64 memory = word_at(&skb->head);
	struct packet_sent *sent = packet_sent_place(memory);

	if (!sent || head->fragmented)
		return;
	sent->memory = memory;
	__builtin_memcpy(sent->words, begin->words, sizeof(sent->words));
}

/*
 * Compare all but what routers change: the time to live with the checksum that covers it (RFC 1812,
 * section 5.3.1), and the octet of the traffic class, which has the marks of congestion (RFC 3168).
 * IPv6 has no checksum. The words behind options or extension headers are compared, too.
 */
static __always_inline bool packet_same_ipv4(const __u64 *a, const __u64 *b)
{
	const __u64 first = bpf_cpu_to_be64(0xff00ffffffffffff);
	const __u64 second = bpf_cpu_to_be64(0x00ff0000ffffffff);

	return (a[0] & first) == (b[0] & first) && (a[1] & second) == (b[1] & second) &&
	       a[2] == b[2] && a[3] == b[3];
}

static __always_inline bool packet_same_ipv6(const __u64 *a, const __u64 *b)
{
	const __u64 first = bpf_cpu_to_be64(0xf00fffffffffff00);

	return (a[0] & first) == (b[0] & first) && a[1] == b[1] && a[2] == b[2] && a[3] == b[3] &&
	       a[4] == b[4] && a[5] == b[5];
}

/* Return true if this is a packet that was recorded, and forget it. */
static __always_inline bool packet_was_sent(const struct sk_buff *skb,
					    const union packet_begin *begin)
{
	__u64 memory = word_at(&skb->head);
	struct packet_sent *sent = packet_sent_place(memory);
	bool ipv4 = skb->protocol == bpf_htons(ETH_P_IP);

	if (!sent || sent->memory != memory)
		return false;
	if (ipv4 ? !packet_same_ipv4(sent->words, begin->words) :
		   !packet_same_ipv6(sent->words, begin->words))
		return false;
	sent->memory = 0;
	return true;
}

#endif
