/* SPDX-License-Identifier: GPL-2.0-only */
/* Read the headers of a packet: its source and destination, and where its payload begins. */
#ifndef SOCKSTAMP_PACKETS_HEADERS_BPF_H
#define SOCKSTAMP_PACKETS_HEADERS_BPF_H

#include "bpf/common.bpf.h"
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

struct transport_header {
	__be16 source;
	__be16 destination;
	__u32 seq;
	__u32 ack_seq;
	__u8 offset;
};

struct packet_head {
	struct packet_key key;
	__u64 network; /* address of the IP header */
	__u32 offset; /* of the IP header from skb->data */
	__u32 linear; /* bytes from there on that lie in one piece */
	__u32 length; /* of the packet, from there on */
	__u32 headers; /* length of all headers */
	__u32 fragment; /* its id */
	__u32 seq; /* of TCP */
	__u32 ack_seq;
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

static __always_inline bool packet_read_ipv4(struct packet_head *head, bool sent)
{
	struct packet_key *key = &head->key;
	struct ipv4_header ip;
	__u16 fragment;

	if (head->linear < sizeof(ip) ||
	    bpf_probe_read_kernel(&ip, sizeof(ip), (void *)head->network))
		return false;
	packet_map_address(key->local_address, sent ? ip.source : ip.destination);
	packet_map_address(key->remote_address, sent ? ip.destination : ip.source);
	key->protocol = ip.protocol;
	head->headers = (ip.version_length & 15) * 4;
	/* Of large packets that are cut later it may be 0; short frames have padding behind it. */
	if (ip.length)
		head->length = bpf_ntohs(ip.length);
	fragment = bpf_ntohs(ip.fragment);
	head->fragmented = fragment & (IPV4_MORE | IPV4_OFFSET);
	head->later = fragment & IPV4_OFFSET;
	head->fragment = ip.id;
	return true;
}

static __always_inline bool ipv6_is_extension(__u8 next)
{
	/* Hop-by-hop, routing, destination options: RFC 8200, section 4. */
	return next == 0 || next == 43 || next == 60 || next == IPPROTO_FRAGMENT;
}

static __always_inline bool packet_read_ipv6(struct packet_head *head, bool sent)
{
	struct packet_key *key = &head->key;
	struct ipv6_extension extension;
	struct ipv6_header ip;
	__u8 next;

	if (head->linear < sizeof(ip) ||
	    bpf_probe_read_kernel(&ip, sizeof(ip), (void *)head->network))
		return false;
	__builtin_memcpy(key->local_address, sent ? ip.source : ip.destination, 16);
	__builtin_memcpy(key->remote_address, sent ? ip.destination : ip.source, 16);
	if (ip.length)
		head->length = sizeof(ip) + bpf_ntohs(ip.length);
	head->headers = sizeof(ip);
	next = ip.next;
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

static __always_inline bool packet_read_ports(struct packet_head *head, bool sent)
{
	struct packet_key *key = &head->key;
	__u32 length = key->protocol == IPPROTO_TCP ? 20 : 8;
	struct transport_header header = {};

	if (head->later)
		return true;
	if (head->linear < head->headers + length)
		return false;
	if (bpf_probe_read_kernel(&header, key->protocol == IPPROTO_TCP ? 13 : 8,
				  (void *)head->network + head->headers))
		return false;
	key->local_port = bpf_ntohs(sent ? header.source : header.destination);
	key->remote_port = bpf_ntohs(sent ? header.destination : header.source);
	head->seq = header.seq;
	head->ack_seq = header.ack_seq;
	head->headers += key->protocol == IPPROTO_TCP ? header.offset / 16 * 4 : length;
	return true;
}

enum packet_kind {
	PACKET_OTHER, /* neither TCP nor UDP */
	PACKET_UNREADABLE,
	PACKET_READ,
};

/* `network`: the address of its IP header, which is not the same field in every hook. */
static __always_inline enum packet_kind packet_head_read(const struct sk_buff *skb, __u64 network,
							 bool sent, struct packet_head *head)
{
	__be16 protocol = skb->protocol;
	bool read;

	if (protocol != bpf_htons(ETH_P_IP) && protocol != bpf_htons(ETH_P_IPV6))
		return PACKET_OTHER;
	head->network = network;
	head->offset = network - (__u64)skb->data;
	head->length = skb->len - head->offset;
	head->linear = head->length - skb->data_len;
	read = protocol == bpf_htons(ETH_P_IP) ? packet_read_ipv4(head, sent) :
						 packet_read_ipv6(head, sent);
	if (!read)
		return PACKET_UNREADABLE;
	if (head->key.protocol != IPPROTO_TCP && head->key.protocol != IPPROTO_UDP)
		return PACKET_OTHER;
	return packet_read_ports(head, sent) ? PACKET_READ : PACKET_UNREADABLE;
}

#endif
