/* SPDX-License-Identifier: GPL-2.0-only */
/* The functions of UDP. */
#ifndef SOCKSTAMP_BPF_DATAGRAMS_BPF_H
#define SOCKSTAMP_BPF_DATAGRAMS_BPF_H

#include "kernel/kernel.bpf.h"
#include "udp/hops.bpf.h"
#include "udp/receive.bpf.h"
#include "udp/send.bpf.h"
#include "udp/state.bpf.h"

SEC("fentry/udp_sendmsg")
int BPF_PROG(on_udp_send_begun, struct sock *sk)
{
	if (udp_selectable_ipv4(sk))
		udp_sendmsg_begins(sk, NULL);
	return 0;
}

SEC("fexit/udp_sendmsg")
int BPF_PROG(on_udp_send_ended, const struct sock *sk, const struct msghdr *msg, unsigned long size,
	     int result)
{
	if (udp_selectable_ipv4(sk))
		udp_sendmsg_ends(sk, result);
	return 0;
}

SEC("fentry/udpv6_sendmsg")
int BPF_PROG(on_udpv6_send_begun, struct sock *sk)
{
	if (udp_selectable(sk))
		udp_sendmsg_begins(sk, NULL);
	return 0;
}

SEC("fexit/udpv6_sendmsg")
int BPF_PROG(on_udpv6_send_ended, const struct sock *sk, const struct msghdr *msg,
	     unsigned long size, int result)
{
	if (udp_selectable(sk))
		udp_sendmsg_ends(sk, result);
	return 0;
}

/* The functions of reading are of both families. */
SEC("fentry/__udp_enqueue_schedule_skb")
int BPF_PROG(on_datagram, const struct sock *sk, const struct sk_buff *skb)
{
	if (setting_hops)
		hop_packet_arrives(skb);
	if (udp_selectable(sk))
		udp_datagram_arrives(sk, NULL, skb, sk);
	return 0;
}

SEC("fexit/__udp_enqueue_schedule_skb")
int BPF_PROG(on_datagram_queued, const struct sock *sk, const struct sk_buff *skb, int result)
{
	if (result < 0 && udp_selectable(sk))
		udp_datagram_dropped(sk, skb, UDP_NO_REASON);
	return 0;
}

SEC("fentry/skb_consume_udp")
int BPF_PROG(on_datagram_read, const struct sock *sk, const struct sk_buff *skb, int length)
{
	if (udp_selectable(sk))
		udp_datagram_consumed(sk, skb, length);
	return 0;
}

#endif
