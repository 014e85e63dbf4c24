/* SPDX-License-Identifier: GPL-2.0-only */
/* Find the peer of a message: an unconnected socket may have another one for each message. */
#ifndef SOCKSTAMP_UDP_PEER_BPF_H
#define SOCKSTAMP_UDP_PEER_BPF_H

#include "group/resolve.bpf.h"
#include "select/filter.bpf.h"
#include "udp/state.bpf.h"

#define ETH_P_IP 0x0800 /* include/uapi/linux/if_ether.h */

/* Return true if a message's peer is needed: for display, for the filter, or for its group. */
static __always_inline bool udp_peer_wanted(void)
{
	return setting_record || setting_filtered || setting_groups & GROUP_BY_END;
}

/*
 * Return true if a message passes the filter; called for each, because an unconnected socket may
 * have another peer for each message.
 */
static __always_inline bool udp_wants(const struct sock *sk, const struct udp_remote *remote,
				      enum direction direction)
{
	struct filter_end here, there;

	if (!setting_filtered)
		return true;
	filter_read(sk, &here, &there);
	if (!there.port && remote->port) {
		there.port = remote->port;
		if (sk->__sk_common.skc_family == AF_INET6)
			__builtin_memcpy(there.address, remote->address, sizeof(there.address));
		else
			filter_map(&there, *(__be32 *)remote->address);
	}
	return filter_directions(&here, &there, IPPROTO_UDP) & DIRECTION_BIT(direction);
}

/* Each message of an unconnected socket has a peer of its own, and sockets may be connected late.
 */
static __always_inline void udp_identify(struct flow_identity *identity, const struct sock *sk,
					 const struct udp_remote *remote)
{
	flow_identify(identity, sk);
	if (identity->remote_port || !remote->port)
		return;
	__builtin_memcpy(identity->remote_address, remote->address, sizeof(remote->address));
	identity->remote_port = remote->port;
}

/* A frame of its own for the key. The service is the end with the lower port. */
static __noinline __u32 udp_group_with(const struct sock *sk, const struct udp_remote *remote)
{
	struct group_key key = {};
	__u32 pid = 0, token;

	if (setting_groups & GROUP_BY_TASK)
		pid = bpf_get_current_pid_tgid() >> 32;
	group_describe(&key, sk, pid);
	if (setting_groups & GROUP_BY_PORT && remote->port < key.port)
		key.port = remote->port;
	if (setting_groups & (GROUP_BY_PEER | GROUP_BY_FLOW))
		__builtin_memcpy(key.identity.remote_address, remote->address,
				 sizeof(remote->address));
	if (setting_groups & GROUP_BY_FLOW)
		key.identity.remote_port = remote->port;
	token = group_find(&key);
	return token & GROUP_INDEX_MASK;
}

/*
 * The group of the current task's message. That of a connected socket is remembered; another socket
 * may have another peer for each message.
 */
static __always_inline __u32 udp_group(struct udp_flow *flow, const struct sock *sk,
				       const struct udp_remote *remote)
{
	if (!(setting_groups & GROUP_BY_END) || sk->__sk_common.skc_dport || !remote->port)
		return group_of_task(&flow->group, sk);
	return udp_group_with(sk, remote);
}

/*
 * Return the source or destination of a packet as the socket would see it: IPv4 on an IPv6 socket
 * is v4-mapped. Ports come first in the header: RFC 768.
 */
static __always_inline void udp_peer(const struct sock *sk, const struct sk_buff *skb, bool source,
				     struct udp_remote *remote)
{
	const unsigned char *network = skb->head + skb->network_header;
	const unsigned char *transport = skb->head + skb->transport_header;
	__be16 port = 0;

	if (skb->protocol != bpf_htons(ETH_P_IP)) {
		bpf_probe_read_kernel(remote->address, 16, network + (source ? 8 : 24));
	} else if (sk->__sk_common.skc_family == AF_INET6) {
		remote->address[10] = 0xff;
		remote->address[11] = 0xff;
		bpf_probe_read_kernel(&remote->address[12], 4, network + (source ? 12 : 16));
	} else {
		bpf_probe_read_kernel(remote->address, 4, network + (source ? 12 : 16));
	}
	bpf_probe_read_kernel(&port, sizeof(port), transport + (source ? 0 : 2));
	remote->port = bpf_ntohs(port);
}

#endif
