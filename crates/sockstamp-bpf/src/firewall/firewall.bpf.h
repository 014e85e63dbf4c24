/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Count segments of TCP that netfilter of this host drops, by connection. Whoever waits for one
 * sees a loss, or nothing at all. The kernel tells why it drops a packet since v5.17.
 */
#ifndef SOCKSTAMP_FIREWALL_FIREWALL_BPF_H
#define SOCKSTAMP_FIREWALL_FIREWALL_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"
#include "select/select.bpf.h"
#include "wait/wait.bpf.h"

#define TCP_SYN 0x02 /* RFC 9293, section 3.1 */
#define TCP_ACK 0x10

/* Connections; user space takes them all each time it asks. One where nobody asks. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct firewall_key);
	__type(value, struct firewall_drops);
} firewall SEC(".maps");

/* The headers that are read; IP options and extension headers are left out. */
struct firewall_ipv4 {
	__u8 version_length;
	__u8 before_protocol[8];
	__u8 protocol;
	__be16 checksum;
	__u8 source[4];
	__u8 destination[4];
};

struct firewall_ipv6 {
	__u8 before_next[6];
	__u8 next;
	__u8 hops;
	__u8 source[16];
	__u8 destination[16];
};

struct firewall_tcp {
	__be16 source;
	__be16 destination;
	__u32 numbers[2];
	__u8 offset;
	__u8 flags;
};

/* Read the IP header; return the address of TCP's behind it, 0 if there is none. */
static __always_inline __u64 firewall_read_ip(struct firewall_key *key, const struct sk_buff *skb)
{
	__u64 network = (__u64)skb->head + skb->network_header;
	struct firewall_ipv4 ipv4;
	struct firewall_ipv6 ipv6;

	if (skb->protocol == bpf_htons(0x0800)) {
		if (bpf_probe_read_kernel(&ipv4, sizeof(ipv4), (void *)network) ||
		    ipv4.protocol != IPPROTO_TCP)
			return 0;
		key->family = AF_INET;
		__builtin_memcpy(key->source, ipv4.source, sizeof(ipv4.source));
		__builtin_memcpy(key->destination, ipv4.destination, sizeof(ipv4.destination));
		return network + (ipv4.version_length & 15) * 4;
	}
	if (skb->protocol != bpf_htons(0x86DD) ||
	    bpf_probe_read_kernel(&ipv6, sizeof(ipv6), (void *)network) || ipv6.next != IPPROTO_TCP)
		return 0;
	key->family = AF_INET6;
	__builtin_memcpy(key->source, ipv6.source, sizeof(ipv6.source));
	__builtin_memcpy(key->destination, ipv6.destination, sizeof(ipv6.destination));
	return network + sizeof(ipv6);
}

/* Return the namespace of a packet: a packet on its way out may have no device yet. */
static __always_inline __u32 firewall_netns(const struct sk_buff *skb)
{
	const struct net_device *device = skb->dev;
	const struct sock *sk = skb->sk;

	if (device)
		return device->nd_net.net->ns.inum;
	return sk ? sk->__sk_common.skc_net.net->ns.inum : 0;
}

/* A packet is dropped. A function of its own, for its stack. */
static __noinline int firewall_dropped(const struct sk_buff *skb)
{
	const struct firewall_drops none = {};
	struct firewall_key key = {};
	struct firewall_drops *found;
	struct firewall_tcp tcp;
	__u64 transport = firewall_read_ip(&key, skb);

	if (!transport || bpf_probe_read_kernel(&tcp, sizeof(tcp), (void *)transport))
		return 0;
	key.netns = firewall_netns(skb);
	key.source_port = bpf_ntohs(tcp.source);
	key.destination_port = bpf_ntohs(tcp.destination);
	/* Another CPU may be first. */
	bpf_map_update_elem(&firewall, &key, &none, BPF_NOEXIST);
	found = bpf_map_lookup_elem(&firewall, &key);
	if (!found)
		return 0;
	__sync_fetch_and_add(&found->packets, 1);
	if ((tcp.flags & (TCP_SYN | TCP_ACK)) == TCP_SYN)
		__sync_fetch_and_add(&found->syns, 1);
	return 0;
}

/* Return true if netfilter is why a packet is dropped. */
static __always_inline bool firewall_is_reason(int reason)
{
	return setting_waits && !stopping &&
	       bpf_core_enum_value_exists(enum skb_drop_reason, SKB_DROP_REASON_NETFILTER_DROP) &&
	       reason == (int)bpf_core_enum_value(enum skb_drop_reason,
						  SKB_DROP_REASON_NETFILTER_DROP);
}

#endif
