/* SPDX-License-Identifier: GPL-2.0-only */
/* Read the headers of a packet: its source and destination, and where its payload begins. */
#ifndef SOCKSTAMP_PACKETS_HEADERS_BPF_H
#define SOCKSTAMP_PACKETS_HEADERS_BPF_H

#include "kernel/kernel.bpf.h"
#include "packets/packets.h"

#define ETH_P_IP	 0x0800 /* include/uapi/linux/if_ether.h */
#define ETH_P_IPV6	 0x86DD
#define IPPROTO_FRAGMENT 44 /* include/uapi/linux/in6.h */
#define IPV4_OFFSET	 0x1fff /* RFC 791, section 3.1 */
#define IPV4_MORE	 0x2000
#define IPV6_OFFSET	 0xfff8 /* RFC 8200, section 4.5 */
#define IPV6_MORE	 0x1

/* Extension headers that are skipped: more are no traffic of applications. */
#define IPV6_EXTENSIONS 4

struct ipv4_header {
	__u8 version_length;
	__u8 service;
	__be16 length;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__be16 checksum;
	__be32 source;
	__be32 destination;
};

struct ipv6_header {
	__be32 version_class_label;
	__be16 length; /* behind this header */
	__u8 next;
	__u8 hops;
	__u32 source[4];
	__u32 destination[4];
};

/* An extension header of either kind begins so. */
struct ipv6_extension {
	__u8 next;
	__u8 length;
	__be16 fragment;
	__be32 id;
};

/* The begin of a header of TCP; of one of UDP, the ports. */
struct transport_header {
	__be16 source;
	__be16 destination;
	__u32 seq;
	__u32 ack_seq;
	__u8 offset;
};

/*
 * The first bytes of a packet: the headers of most, and the fields that are read of all without IP
 * options. Behind a shorter packet is more of the same memory, for struct skb_shared_info lies
 * behind the room for bytes (__alloc_skb(), v6.18).
 */
#define PACKET_BEGIN 56

union packet_begin {
	__u64 words[PACKET_BEGIN / 8];
	struct ipv4_header ipv4;
	struct ipv6_header ipv6;
	struct {
		struct ipv4_header ip;
		struct transport_header transport;
	} behind_ipv4;
	struct {
		struct ipv6_header ip;
		struct transport_header transport;
	} behind_ipv6;
};

struct packet_head {
	struct packet_key key;
	__u64 network; /* address of the IP header */
	__u32 offset; /* of the IP header from skb->data */
	__u32 linear; /* bytes from there on that lie in one piece */
	__u32 length; /* of the packet, from there on */
	__u32 headers; /* length of all headers */
	__u32 fragment; /* its id */
	bool fragmented;
	bool later; /* not the first fragment: it has no ports */
};

static __always_inline void packet_map_address(__u32 *to, __be32 address)
{
	to[0] = 0;
	to[1] = 0;
	to[2] = bpf_htonl(0xffff);
	to[3] = address;
}

static __always_inline bool packet_is_ip(const struct sk_buff *skb)
{
	return skb->protocol == bpf_htons(ETH_P_IP) || skb->protocol == bpf_htons(ETH_P_IPV6);
}

/* Read all at one go: what each header needs takes a call of a helper of its own, or more. */
static __always_inline bool packet_read_begin(union packet_begin *begin, __u64 network)
{
	if (!setting_casts)
		return !bpf_probe_read_kernel(begin, sizeof(*begin), (void *)network);
#pragma unroll
	for (int i = 0; i < PACKET_BEGIN / 8; i++)
		begin->words[i] = cast_kernel((void *)(network + 8 * i), struct timespec64)->tv_sec;
	return true;
}

static __always_inline bool packet_read_ipv4(struct packet_head *head, const struct ipv4_header *ip,
					     bool sent)
{
	struct packet_key *key = &head->key;
	__u16 fragment;

	if (head->linear < sizeof(*ip))
		return false;
	packet_map_address(key->local_address, sent ? ip->source : ip->destination);
	packet_map_address(key->remote_address, sent ? ip->destination : ip->source);
	key->protocol = ip->protocol;
	head->headers = (ip->version_length & 15) * 4;
	/* Of large packets that are cut later it may be 0; short frames have padding behind it. */
	if (ip->length)
		head->length = bpf_ntohs(ip->length);
	fragment = bpf_ntohs(ip->fragment);
	head->fragmented = fragment & (IPV4_MORE | IPV4_OFFSET);
	head->later = fragment & IPV4_OFFSET;
	head->fragment = ip->id;
	return true;
}

static __always_inline bool ipv6_is_extension(__u8 next)
{
	/* Hop-by-hop, routing, destination options: RFC 8200, section 4. */
	return next == 0 || next == 43 || next == 60 || next == IPPROTO_FRAGMENT;
}

static __always_inline bool packet_read_ipv6(struct packet_head *head, const struct ipv6_header *ip,
					     bool sent)
{
	struct packet_key *key = &head->key;
	struct ipv6_extension extension;
	__u8 next;

	if (head->linear < sizeof(*ip))
		return false;
	__builtin_memcpy(key->local_address, sent ? ip->source : ip->destination, 16);
	__builtin_memcpy(key->remote_address, sent ? ip->destination : ip->source, 16);
	if (ip->length)
		head->length = sizeof(*ip) + bpf_ntohs(ip->length);
	head->headers = sizeof(*ip);
	next = ip->next;
	for (int i = 0; i < IPV6_EXTENSIONS && ipv6_is_extension(next); i++) {
		if (head->linear < head->headers + sizeof(extension) ||
		    bpf_probe_read_kernel(&extension, sizeof(extension),
					  (void *)head->network + head->headers))
			return false;
		if (next == IPPROTO_FRAGMENT) {
			__u16 fragment = bpf_ntohs(extension.fragment);

			head->fragmented = true;
			head->later = fragment & IPV6_OFFSET;
			head->fragment = extension.id;
			head->headers += sizeof(extension);
		} else {
			head->headers += (extension.length + 1) * 8;
		}
		next = extension.next;
	}
	key->protocol = next;
	return true;
}

static __always_inline void packet_take_ports(struct packet_head *head,
					      const struct transport_header *header, bool tcp,
					      bool sent)
{
	struct packet_key *key = &head->key;

	key->local_port = bpf_ntohs(sent ? header->source : header->destination);
	key->remote_port = bpf_ntohs(sent ? header->destination : header->source);
	head->headers += tcp ? header->offset / 16 * 4 : 8;
}

static __always_inline bool packet_read_ports(struct packet_head *head,
					      const union packet_begin *begin, bool sent)
{
	bool tcp = head->key.protocol == IPPROTO_TCP;
	struct transport_header header;

	if (head->later)
		return true;
	if (head->linear < head->headers + (tcp ? 20 : 8))
		return false;
	switch (head->headers) {
	case sizeof(struct ipv4_header):
		packet_take_ports(head, &begin->behind_ipv4.transport, tcp, sent);
		return true;
	case sizeof(struct ipv6_header):
		packet_take_ports(head, &begin->behind_ipv6.transport, tcp, sent);
		return true;
	}
	if (bpf_probe_read_kernel(&header, sizeof(header), (void *)head->network + head->headers))
		return false;
	packet_take_ports(head, &header, tcp, sent);
	return true;
}

enum packet_kind {
	PACKET_OTHER, /* neither TCP nor UDP */
	PACKET_UNREADABLE,
	PACKET_READ,
};

/* `network`: the address of its IP header, which is not the same field in every hook. */
static __always_inline enum packet_kind packet_head_read(const struct sk_buff *skb, __u64 network,
							 const union packet_begin *begin, bool sent,
							 struct packet_head *head)
{
	__be16 protocol = skb->protocol;
	bool read;

	head->network = network;
	head->offset = network - (__u64)skb->data;
	head->length = skb->len - head->offset;
	head->linear = head->length - skb->data_len;
	read = protocol == bpf_htons(ETH_P_IP) ? packet_read_ipv4(head, &begin->ipv4, sent) :
						 packet_read_ipv6(head, &begin->ipv6, sent);
	if (!read)
		return PACKET_UNREADABLE;
	if (head->key.protocol != IPPROTO_TCP && head->key.protocol != IPPROTO_UDP)
		return PACKET_OTHER;
	return packet_read_ports(head, begin, sent) ? PACKET_READ : PACKET_UNREADABLE;
}

#endif
