/* SPDX-License-Identifier: GPL-2.0-only */
/* Packets that pass the host, or end in it. */
#ifndef SOCKSTAMP_BPF_PASSING_BPF_H
#define SOCKSTAMP_BPF_PASSING_BPF_H

#include "drops/drops.bpf.h"
#include "kernel/kernel.bpf.h"
#include "neighbour/neighbour.bpf.h"
#include "select/select.bpf.h"
#include "tcp/packet.bpf.h"
#include "tcp/send/by_packets.bpf.h"
#include "tcp/send/host_path.bpf.h"
#include "tcp/send/stamps.bpf.h"
#include "udp/departure.bpf.h"
#include "udp/hops.bpf.h"
#include "udp/receive.bpf.h"
#include "udp/state.bpf.h"

/* A packet is about to leave, and it is not known whether the address of its next hop is right. */
SEC("tp_btf/neigh_event_send_done")
int BPF_PROG(on_neigh_event_send, const struct neighbour *neighbour, int queued)
{
	neighbour_asked(neighbour, queued);
	return 0;
}

/* The state of a neighbour changes: an answer has come (ARP, neighbour discovery), or none. */
SEC("tp_btf/neigh_update")
int BPF_PROG(on_neigh_update, const struct neighbour *neighbour, const u8 *address, u8 state)
{
	neighbour_changes(neighbour, state);
	return 0;
}

static __always_inline void packet_queued(const struct sk_buff *skb)
{
	const struct sock *sk = skb->sk;

	if (!sk)
		return;
	if (udp_packets_followed(sk))
		udp_packet_to_qdisc(sk, skb);
	else if (setting_by_packets && sock_selected(sk) && (sk = tcp_known(sk)))
		tx_packet_to_qdisc(sk, skb);
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(on_net_dev_queue, const struct sk_buff *skb)
{
	packet_queued(skb);
	return 0;
}

/* A function of its own, for the same reason as on_stamp(). */
static __noinline int on_hop_queued(const struct sk_buff *skb)
{
	hop_packet_to_qdisc(skb);
	return 0;
}

/* With --host-path one program serves both: a packet pays for one call. */
SEC("tp_btf/net_dev_queue")
int BPF_PROG(on_host_queue, const struct sk_buff *skb)
{
	on_hop_queued(skb);
	packet_queued(skb);
	return 0;
}

static __always_inline void tx_taken(const struct sock *sk, const struct sk_buff *skb,
				     const struct net_device *device)
{
	if (setting_by_packets)
		tx_packet_to_driver(sk, skb, device);
	else
		tx_part_to_driver(sk, skb, device);
}

static __always_inline void packet_started(const struct sock *sk, const struct sk_buff *skb,
					   const struct net_device *device)
{
	if (udp_packets_followed(sk))
		udp_packet_to_driver(sk, skb, device);
	else if (sock_selected(sk) && (sk = tcp_known(sk)))
		tx_taken(sk, skb, device);
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(on_net_dev_start_xmit, const struct sk_buff *skb, const struct net_device *device)
{
	const struct sock *sk = skb->sk;

	if (sk)
		packet_started(sk, skb, device);
	else if (paths_detached)
		path_xmit(skb, device);
	return 0;
}

/* A function of its own, for the same reason as on_stamp(). */
static __noinline int on_hop_started(const struct sk_buff *skb, const struct net_device *device)
{
	hop_packet_to_driver(skb, device);
	return 0;
}

/* As on_host_queue(). A datagram is followed from its driver on: look for it first. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(on_host_xmit, const struct sk_buff *skb, const struct net_device *device)
{
	const struct sock *sk = skb->sk;

	if (setting_hops)
		on_hop_started(skb, device);
	if (sk)
		packet_started(sk, skb, device);
	else
		path_xmit(skb, device);
	return 0;
}

SEC("cgroup_skb/ingress")
int on_cgroup_ingress(struct __sk_buff *ctx)
{
	const struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	const struct sock *sk = skb->sk;

	if (sk && udp_followed(sk) && ctx->sk)
		udp_datagram_arrives(ctx->sk, ctx, skb, sk);
	return 1;
}

/* As above, of all cgroups. */
SEC("cgroup_skb/ingress")
int on_host_ingress(struct __sk_buff *ctx)
{
	hop_packet_arrives(bpf_cast_to_kern_ctx(ctx));
	return 1;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(on_kfree_skb, const struct sk_buff *skb, void *location, int reason,
	     const struct sock *receiver)
{
	bool followed = setting_hops && hop_packet_freed(skb, !receiver);

	if (drop_has_reason(reason))
		drop_packet(skb, reason);
	if (receiver && udp_selectable(receiver))
		udp_datagram_dropped(receiver, skb, reason);
	else if (!followed)
		udp_packet_dropped(skb, reason);
	else if (!receiver)
		udp_count_reason(DIRECTION_TX, reason);
	return 0;
}

/* Before v6.11, where it tells of no receiver. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(on_packet_dropped, const struct sk_buff *skb)
{
	if (!setting_hops || !hop_packet_freed(skb, true))
		udp_packet_dropped(skb, UDP_NO_REASON);
	return 0;
}

SEC("tp_btf/consume_skb")
int BPF_PROG(on_consume_skb, const struct sk_buff *skb)
{
	hop_packet_freed(skb, false);
	return 0;
}

#endif
