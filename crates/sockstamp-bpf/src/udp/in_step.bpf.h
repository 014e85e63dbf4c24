/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Choose datagrams in step, so that both ends measure the same ones. A datagram has a number: a
 * hash of its length, by the header of UDP, and of the first bytes of its payload. It is made of
 * nothing that is changed on the way: neither addresses and ports (NAT), nor the checksum (a NIC
 * may fill it in behind us), nor IPv4's identification (RFC 6864: of a datagram that is not to be
 * fragmented it has no meaning). A datagram of n bytes is chosen with the probability of n bytes of
 * a stream: if the remainder of its number is below n.
 */
#ifndef SOCKSTAMP_UDP_IN_STEP_BPF_H
#define SOCKSTAMP_UDP_IN_STEP_BPF_H

#include "sample/sample.bpf.h"

/* Words of the payload that count: fewer than any driver puts behind the headers it copies. */
#define DATAGRAM_WORDS 8

struct datagram_head {
	__be16 source;
	__be16 destination;
	__be16 length; /* with this header of 8 bytes: RFC 768 */
	__be16 checksum;
	__be32 payload[DATAGRAM_WORDS];
};

#define DATAGRAM_HEADER __builtin_offsetof(struct datagram_head, payload)

/* Each word is mixed in by a multiplication; the end is that of MurmurHash3 (fmix32). */
static __always_inline __u32 datagram_hash(const struct datagram_head *head)
{
	__u32 hash = bpf_ntohs(head->length);

	for (int i = 0; i < DATAGRAM_WORDS; i++) {
		hash = (hash ^ bpf_ntohl(head->payload[i])) * 0x9e3779b1;
		hash ^= hash >> 15;
	}
	hash = (hash ^ hash >> 16) * 0x85ebca6b;
	hash = (hash ^ hash >> 13) * 0xc2b2ae35;
	hash ^= hash >> 16;
	return hash ?: 1;
}

/* Bytes of header and payload that are needed; 0 if the datagram has no payload. */
static __always_inline __u32 datagram_needed(const struct datagram_head *head)
{
	__u32 length = bpf_ntohs(head->length);

	if (length <= DATAGRAM_HEADER)
		return 0;
	return length < sizeof(*head) ? length : sizeof(*head);
}

/* Return the number of a datagram in memory; 0 if its payload lies in pages, or is none. */
static __always_inline __u32 datagram_number(const struct sk_buff *skb)
{
	const unsigned char *header = skb->head + skb->transport_header;
	__u32 linear = skb->len - skb->data_len - (header - skb->data);
	struct datagram_head head = {};
	__u32 needed;

	if (bpf_probe_read_kernel(&head, DATAGRAM_HEADER, header))
		return 0;
	needed = datagram_needed(&head);
	if (!needed || needed > sizeof(head) || needed > linear)
		return 0;
	if (bpf_probe_read_kernel(&head, needed, header))
		return 0;
	return datagram_hash(&head);
}

/*
 * Return the number of a datagram that arrives, wherever its payload lies. `data` is at the network
 * header (__cgroup_bpf_run_filter_skb(), v6.18).
 */
static __always_inline __u32 datagram_number_arrived(struct __sk_buff *ctx,
						     const struct sk_buff *skb)
{
	__u32 header = skb->head + skb->transport_header - skb->data;
	struct datagram_head head = {};
	__u32 needed;

	if (bpf_skb_load_bytes(ctx, header, &head, DATAGRAM_HEADER))
		return 0;
	needed = datagram_needed(&head);
	if (!needed || needed > sizeof(head))
		return 0;
	if (bpf_skb_load_bytes(ctx, header, &head, needed))
		return 0;
	return datagram_hash(&head);
}

/*
 * As sample_skip(), of datagrams. One whose number is not known is as probable as others, but the
 * other end cannot know whether it was chosen.
 */
static __always_inline bool datagram_skip(struct sampler *sampler, __u32 number, __u32 length)
{
	if (!setting_in_step)
		return sample_skip(sampler);
	if (!number)
		number = bpf_get_prandom_u32();
	return (number & (setting_in_step - 1)) >= length;
}

#endif
