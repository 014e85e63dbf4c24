/* SPDX-License-Identifier: GPL-2.0-only */
/* Find the bytes of a flow in a packet. */
#ifndef SOCKSTAMP_TCP_PACKET_BPF_H
#define SOCKSTAMP_TCP_PACKET_BPF_H

#include "kernel/kernel.bpf.h"

const volatile bool setting_by_packets; /* stamps of TCP are taken where its packets pass */

/* A callback is for one byte alone, the last of a send call. */
struct packet {
	__u32 first;
	__u32 last;
};

static __always_inline struct packet packet_of_key(__u32 key)
{
	struct packet packet = {.first = key, .last = key};

	return packet;
}

static __always_inline bool packet_carries(const struct packet *packet, __u32 seq)
{
	return !seq_before(seq, packet->first) && !seq_after(seq, packet->last);
}

/* The needed fields of a TCP header: RFC 9293, section 3.1. */
struct tcp_header {
	__be32 ports;
	__be32 seq;
	__be32 ack_seq;
	__u8 data_offset; /* in the upper half, in words of four bytes */
};

/* Memory that can be given a type is read without a helper call; what cannot be read is 0 there. */
static __always_inline bool tcp_header_read(struct tcp_header *header, const unsigned char *address)
{
	const struct tcphdr *tcp;

	if (!setting_casts)
		return !bpf_probe_read_kernel(header, sizeof(*header), address);
	tcp = cast_kernel(address, struct tcphdr);
	header->seq = tcp->seq;
	header->data_offset = BPF_CORE_READ_BITFIELD(tcp, doff) << 4;
	return true;
}

/* Return the packet's range of bytes; false if it carries none. */
static __always_inline bool packet_read(const struct sk_buff *skb, struct packet *packet)
{
	bool tunnelled = BPF_CORE_READ_BITFIELD(skb, encapsulation);
	const unsigned char *transport =
		skb->head + (tunnelled ? skb->inner_transport_header : skb->transport_header);
	struct tcp_header header;
	__s32 length;

	if (!tcp_header_read(&header, transport))
		return false;
	length = skb->len - (transport - skb->data) - (header.data_offset >> 4) * 4;
	packet->first = bpf_ntohl(header.seq);
	packet->last = packet->first + length - 1;
	return length > 0;
}

/* Return how many bytes after rcv_nxt TCP takes: tcp_receive_window(). */
static __always_inline __u32 receive_window(const struct tcp_sock *tp)
{
	__s32 window = tp->rcv_wup + tp->rcv_wnd - tp->rcv_nxt;

	return window < 0 ? 0 : window;
}

#endif
