// SPDX-License-Identifier: GPL-2.0-only
/*
 * Be a peer for benchmarks of senders that receives nothing, because the kernel copies lent pages
 * that are received on this host (skb_orphan_frags_rx() in __netif_receive_skb_core(),
 * net/core/dev.c, v6.18). Drop datagrams and long segments; turn a short segment into the
 * acknowledgement of everything up to it, at once. A TCP send should therefore end in a short one.
 * (Shortening a packet would copy all of it first: bpf_skb_change_tail() in net/core/filter.c.)
 * Handshakes pass, so the connection is with a socket of the peer.
 */
#include "kernel/kernel.bpf.h"

#define TC_ACT_OK   0 /* include/uapi/linux/pkt_cls.h */
#define TC_ACT_SHOT 2

#define ETH_P_IP    0x0800 /* include/uapi/linux/if_ether.h */
#define ETH_P_IPV6  0x86dd
#define IPPROTO_UDP 17 /* include/uapi/linux/in.h */

struct ethernet_header {
	__u8 to[6];
	__u8 from[6];
	__be16 type;
};

/* RFC 791, without options. */
struct ipv4_header {
	__u8 version_and_length;
	__u8 service;
	__be16 length;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__u16 checksum;
	__be32 from;
	__be32 to;
};

/* RFC 8200. */
struct ipv6_header {
	__be32 version_and_flow;
	__be16 payload_length;
	__u8 next;
	__u8 hops;
	__be32 from[4];
	__be32 to[4];
};

/* RFC 9293. */
struct tcp_header {
	__be16 from;
	__be16 to;
	__be32 sequence;
	__be32 acknowledged;
	__u8 words; /* in the upper half */
	__u8 flags;
	__be16 window;
	__u16 checksum;
	__be16 urgent;
};

/* Payload of a short segment, at most. */
#define SHORT 2048

#define TCP_WITHOUT_OPTIONS 0x50
#define TCP_FLAG_ACK	    0x10

/* Senders of this host have these headers in the linear part of the packet. */
static __always_inline void *header_at(struct __sk_buff *ctx, __u32 offset, __u32 length)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	return data + offset + length > end ? NULL : data + offset;
}

#define swap(a, b)                     \
	do {                           \
		typeof(a) first = (a); \
		(a) = (b);             \
		(b) = first;           \
	} while (0)

static __always_inline void turn_ethernet(struct ethernet_header *ethernet)
{
	int i;

	for (i = 0; i < 6; i++)
		swap(ethernet->from[i], ethernet->to[i]);
}

static __always_inline void turn_ipv4(struct ipv4_header *ip)
{
	__u32 sum;

	swap(ip->from, ip->to);
	ip->length = bpf_htons(sizeof(*ip) + sizeof(struct tcp_header));
	ip->checksum = 0;
	sum = bpf_csum_diff(NULL, 0, (__be32 *)ip, sizeof(*ip), 0);
	sum = (sum & 0xffff) + (sum >> 16);
	ip->checksum = ~((sum & 0xffff) + (sum >> 16));
}

static __always_inline void turn_ipv6(struct ipv6_header *ip)
{
	int i;

	for (i = 0; i < 4; i++)
		swap(ip->from[i], ip->to[i]);
	ip->payload_length = bpf_htons(sizeof(struct tcp_header));
}

/* Leave the checksum: no device computed it, and nothing checks it then (CHECKSUM_PARTIAL). */
static __always_inline void turn_tcp(struct tcp_header *tcp, __u32 end)
{
	swap(tcp->from, tcp->to);
	tcp->sequence = tcp->acknowledged;
	tcp->acknowledged = bpf_htonl(end);
	tcp->words = TCP_WITHOUT_OPTIONS;
	tcp->flags = TCP_FLAG_ACK;
	tcp->window = 0xffff;
}

static __always_inline int acknowledge(struct __sk_buff *ctx, bool is_ipv4)
{
	__u32 network = sizeof(struct ethernet_header);
	__u32 transport =
		network + (is_ipv4 ? sizeof(struct ipv4_header) : sizeof(struct ipv6_header));
	struct tcp_header *tcp = header_at(ctx, transport, sizeof(*tcp));
	__u32 headers, end;
	void *data;

	if (!tcp)
		return TC_ACT_OK;
	headers = transport + (tcp->words >> 4) * 4;
	if (ctx->len <= headers)
		return TC_ACT_OK;
	if (ctx->len > headers + SHORT)
		return TC_ACT_SHOT;
	end = bpf_ntohl(tcp->sequence) + ctx->len - headers;
	if (bpf_skb_change_tail(ctx, transport + sizeof(*tcp), 0))
		return TC_ACT_SHOT;
	data = header_at(ctx, 0, transport + sizeof(*tcp));
	if (!data)
		return TC_ACT_SHOT;
	turn_ethernet(data);
	if (is_ipv4)
		turn_ipv4(data + network);
	else
		turn_ipv6(data + network);
	turn_tcp(data + transport, end);
	/* A clone belongs to no socket (__skb_clone()), so it is not stamped for the sender again.
	 */
	bpf_clone_redirect(ctx, ctx->ifindex, 0);
	return TC_ACT_SHOT;
}

static __always_inline int sink(struct __sk_buff *ctx, __u8 protocol, bool is_ipv4)
{
	if (protocol == IPPROTO_UDP)
		return TC_ACT_SHOT;
	return protocol == IPPROTO_TCP ? acknowledge(ctx, is_ipv4) : TC_ACT_OK;
}

SEC("tc")
int sink_ingress(struct __sk_buff *ctx)
{
	struct ipv4_header *ipv4;
	struct ipv6_header *ipv6;

	switch (ctx->protocol) {
	case bpf_htons(ETH_P_IP):
		ipv4 = header_at(ctx, sizeof(struct ethernet_header), sizeof(*ipv4));
		return ipv4 ? sink(ctx, ipv4->protocol, true) : TC_ACT_OK;
	case bpf_htons(ETH_P_IPV6):
		ipv6 = header_at(ctx, sizeof(struct ethernet_header), sizeof(*ipv6));
		return ipv6 ? sink(ctx, ipv6->next, false) : TC_ACT_OK;
	}
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "GPL";
