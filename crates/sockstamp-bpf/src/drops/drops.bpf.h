/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Count packets of TCP and UDP that the kernel of this host drops, by connection and reason. The
 * end that waits for one sees a loss, or nothing at all. The kernel tells why it drops a packet
 * since v5.17.
 */
#ifndef SOCKSTAMP_DROPS_DROPS_BPF_H
#define SOCKSTAMP_DROPS_DROPS_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"
#include "select/select.bpf.h"
#include "wait/wait.bpf.h"

#define EEXIST 17 /* include/uapi/asm-generic/errno-base.h */

#define TCP_SYN 0x02 /* RFC 9293, section 3.1 */
#define TCP_ACK 0x10

#define FRAGMENT_OFFSET 0x1fff /* of another one than the first: it has no ports (RFC 791) */

/* Reasons that are counted, one bit each: their numbers differ between kernels. */
const volatile __u64 setting_drop_reasons[DROP_REASONS / 64];
const volatile __u8 setting_drop_firewall; /* the number of netfilter's; 0: it has none */
__u64 drops_untold; /* packets that found no room */
__u64 drops_added; /* elements that were made */
bool drops_full; /* there is no room, until user space has taken some */
bool dropped_syns; /* a firewall dropped some: their connections may come through later */

/*
 * Connections; user space takes them once a second, but for those that a firewall keeps from being
 * opened. One where nobody asks.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct drop_key);
	__type(value, struct drop_count);
} drops SEC(".maps");

/* The headers that are read; IP options and extension headers are left out. */
struct drop_ipv4 {
	__u8 version_length;
	__u8 before_fragment[5];
	__be16 fragment;
	__u8 lifetime;
	__u8 protocol;
	__be16 checksum;
	__u8 source[4];
	__u8 destination[4];
};

struct drop_ipv6 {
	__u8 version;
	__u8 before_next[5];
	__u8 next;
	__u8 hops;
	__u8 source[16];
	__u8 destination[16];
};

struct drop_tcp {
	__be16 source;
	__be16 destination;
	__u32 numbers[2];
	__u8 offset;
	__u8 flags;
};

static __always_inline bool drop_is_counted(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP;
}

/* Read the IP header; return the address of the transport's behind it, 0 if there is none. */
static __always_inline __u64 drop_read_ip(struct drop_key *key, const struct sk_buff *skb)
{
	__u64 network = (__u64)skb->head + skb->network_header;
	struct drop_ipv4 ipv4;
	struct drop_ipv6 ipv6;

	if (skb->protocol == bpf_htons(0x0800)) {
		if (bpf_probe_read_kernel(&ipv4, sizeof(ipv4), (void *)network) ||
		    ipv4.version_length >> 4 != 4 || !drop_is_counted(ipv4.protocol) ||
		    ipv4.fragment & bpf_htons(FRAGMENT_OFFSET))
			return 0;
		key->family = AF_INET;
		key->protocol = ipv4.protocol;
		__builtin_memcpy(key->source, ipv4.source, sizeof(ipv4.source));
		__builtin_memcpy(key->destination, ipv4.destination, sizeof(ipv4.destination));
		return network + (ipv4.version_length & 15) * 4;
	}
	if (skb->protocol != bpf_htons(0x86DD) ||
	    bpf_probe_read_kernel(&ipv6, sizeof(ipv6), (void *)network) || ipv6.version >> 4 != 6 ||
	    !drop_is_counted(ipv6.next))
		return 0;
	key->family = AF_INET6;
	key->protocol = ipv6.next;
	__builtin_memcpy(key->source, ipv6.source, sizeof(ipv6.source));
	__builtin_memcpy(key->destination, ipv6.destination, sizeof(ipv6.destination));
	return network + sizeof(ipv6);
}

/* Return the namespace of a packet: a packet on its way out may have no device yet. */
static __always_inline __u32 drop_netns(const struct sk_buff *skb)
{
	const struct net_device *device = skb->dev;
	const struct sock *sk = skb->sk;

	if (device)
		return device->nd_net.net->ns.inum;
	return sk ? sk->__sk_common.skc_net.net->ns.inum : 0;
}

/* Read the ports, which both protocols begin with, and the flags of TCP; return false if not. */
static __always_inline bool drop_read_transport(struct drop_key *key, __u64 transport, bool *syn)
{
	struct drop_tcp tcp = {};
	__u32 length = key->protocol == IPPROTO_TCP ? sizeof(tcp) : 4;

	if (!transport || bpf_probe_read_kernel(&tcp, length, (void *)transport))
		return false;
	key->source_port = bpf_ntohs(tcp.source);
	key->destination_port = bpf_ntohs(tcp.destination);
	*syn = (tcp.flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
	return true;
}

/* Return how many packets of the wire this one is. */
static __always_inline __u32 drop_segments(const struct sk_buff *skb)
{
	__u32 segments = skb_shared(skb)->gso_segs;

	return segments ?: 1;
}

/* Return the element of a packet that is dropped; NULL if there is no room. */
static __always_inline struct drop_count *drop_find(const struct drop_key *key)
{
	struct drop_count *found = bpf_map_lookup_elem(&drops, key);
	struct drop_count none = {};
	long failed;

	if (found || drops_full)
		return found;
	/* Another CPU may be first. */
	failed = bpf_map_update_elem(&drops, key, &none, BPF_NOEXIST);
	if (failed && failed != -EEXIST) {
		drops_full = true;
		return NULL;
	}
	fully_ordered(__sync_fetch_and_add(&drops_added, 1));
	return bpf_map_lookup_elem(&drops, key);
}

/* Count a packet that is dropped. */
static __always_inline void drop_count(struct drop_count *found, __u32 segments)
{
	__u64 now = bpf_ktime_get_ns();

	if (!found->first_ns)
		found->first_ns = now;
	found->last_ns = now;
	__sync_fetch_and_add(&found->packets, segments);
}

/* A packet is dropped. A function of its own, for its stack. */
static __noinline int drop_packet(const struct sk_buff *skb, int reason)
{
	bool is_firewall = reason == setting_drop_firewall;
	struct drop_key key = {};
	struct drop_count *found;
	bool syn = false;

	if (!drop_read_transport(&key, drop_read_ip(&key, skb), &syn))
		return 0;
	/* In a queue of TCP, other members have the place of the device. */
	if (is_firewall)
		key.netns = drop_netns(skb);
	key.reason = reason;
	found = drop_find(&key);
	if (!found) {
		__sync_fetch_and_add(&drops_untold, drop_segments(skb));
		return 0;
	}
	drop_count(found, drop_segments(skb));
	if (syn) {
		__sync_fetch_and_add(&found->syns, 1);
		if (is_firewall)
			dropped_syns = true;
	}
	return 0;
}

/* Set the ends of the packets that the client of an accepted connection sends. */
static __always_inline void drop_set_ends(struct drop_key *key, const struct sock_common *common)
{
	key->family = common->skc_family;
	key->source_port = bpf_ntohs(common->skc_dport);
	key->destination_port = common->skc_num;
	if (bpf_core_field_exists(common->skc_v6_daddr) && key->family == AF_INET6) {
		__be32 prefix[3];

		BPF_CORE_READ_INTO(&key->source, common, skc_v6_daddr.in6_u.u6_addr8);
		BPF_CORE_READ_INTO(&key->destination, common, skc_v6_rcv_saddr.in6_u.u6_addr8);
		__builtin_memcpy(prefix, key->source, sizeof(prefix));
		if (prefix[0] || prefix[1] || prefix[2] != bpf_htonl(0xffff))
			return;
		/* A client of IPv4, at a socket of IPv6 (RFC 4291, section 2.5.5.2). */
		__builtin_memset(key->source, 0, sizeof(key->source));
		__builtin_memset(key->destination, 0, sizeof(key->destination));
		key->family = AF_INET;
	}
	*(__be32 *)key->source = common->skc_daddr;
	*(__be32 *)key->destination = common->skc_rcv_saddr;
}

/* A connection was opened by its client, SYNs of which a firewall may have dropped before. */
static __noinline int drop_came_through(const struct sock *sk)
{
	const struct sock_common *common = &untrusted(sk, struct sock)->__sk_common;
	struct drop_key key = {};
	struct drop_count *found;

	key.netns = common->skc_net.net->ns.inum;
	key.protocol = IPPROTO_TCP;
	key.reason = setting_drop_firewall;
	drop_set_ends(&key, common);
	found = bpf_map_lookup_elem(&drops, &key);
	if (found && found->syns)
		found->came_ns = bpf_ktime_get_ns();
	return 0;
}

/* Return true for a reason that is counted. */
static __always_inline bool drop_has_reason(int reason)
{
	__u32 number = reason;

	return setting_waits && !stopping && number < DROP_REASONS &&
	       setting_drop_reasons[number / 64 % (DROP_REASONS / 64)] & 1ULL << number % 64;
}

#endif
