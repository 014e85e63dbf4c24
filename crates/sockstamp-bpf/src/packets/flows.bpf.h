/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The flows whose packets are recorded. A received packet has no socket yet where tcpdump sees it,
 * and packets of a closed connection never have one: so flows are found by their addresses. A flow
 * is known from its socket's first packet, from its listener's port, or because a task holds it at
 * the start.
 */
#ifndef SOCKSTAMP_PACKETS_FLOWS_BPF_H
#define SOCKSTAMP_PACKETS_FLOWS_BPF_H

#include "packets/headers.bpf.h"
#include "select/filter.bpf.h"
#include "select/target.bpf.h"

struct packet_flow {
	__u64 cookie;
	__u64 cgroup;
	__u32 pid; /* 0: not known */
	__u8 directions; /* bits of those whose packets are recorded */
	__u8 of_task; /* of a selected task */
	__u8 spared; /* of a sockstamp: made by measuring */
	__u8 padding;
	char comm[COMM_LENGTH];
};

/*
 * Flows that are not selected are in it, too, so that their packets cost no more than a look. When
 * it is full the one that was not used for longest goes: it is known again from its next packet
 * that is sent. The kernel does not say how many have gone: user space counts those that are left.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, struct packet_key);
	__type(value, struct packet_flow);
} packet_flows SEC(".maps");

struct packet_port {
	__u32 netns;
	__u32 protocol;
	__u32 port;
};

/* Ports on which sockets listen: a packet to one begins a flow, or is a datagram from anywhere. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct packet_port);
	__type(value, struct packet_flow);
} packet_ports SEC(".maps");

/* The task that made a UDP socket: its packets may leave in the context of any task. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct packet_flow);
} packet_makers SEC(".maps");

struct packet_fragment {
	__u32 local_address[4];
	__u32 remote_address[4];
	__u32 netns;
	__u32 id;
	__u32 protocol;
	__u32 sent;
};

/* Datagrams of which the first fragment was seen: as many as may be on their way at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct packet_fragment);
	__type(value, struct packet_key);
} packet_fragments SEC(".maps");

__u64 packet_losses[PACKET_LOSSES];

/* Entries that were added to `packet_flows` and `packet_ports`; none is ever removed. */
__u64 packet_flows_added;
__u64 packet_ports_added;

static __always_inline void packet_lost(enum packet_loss loss)
{
	__sync_fetch_and_add(&packet_losses[loss], 1);
}

static __always_inline void packet_note_task(struct packet_flow *flow,
					     const struct task_struct *task)
{
	if (setting_by_pid && task_selected(task, task->tgid))
		flow->of_task = true;
	if (flow->pid == task->tgid)
		return;
	flow->pid = task->tgid;
	flow->spared = task_spared(task);
	bpf_probe_read_kernel_str(flow->comm, sizeof(flow->comm), task->group_leader->comm);
}

static __always_inline __u8 packet_directions(const struct packet_key *key)
{
	struct filter_end local, remote;

	if (!setting_filtered)
		return BOTH_DIRECTIONS;
	__builtin_memcpy(local.address, key->local_address, sizeof(local.address));
	__builtin_memcpy(remote.address, key->remote_address, sizeof(remote.address));
	local.port = key->local_port;
	remote.port = key->remote_port;
	return filter_directions(&local, &remote, key->protocol);
}

/*
 * A task owns the lock of the socket: it is the one that runs, for softirqs leave their work to it
 * (tcp_v4_rcv(), tcp_tasklet_func(), v6.18).
 */
static __always_inline bool packet_of_current(const struct sock *sk)
{
	return sk->sk_protocol == IPPROTO_TCP && sk->sk_lock.owned;
}

static __always_inline void packet_flow_of_socket(struct packet_flow *flow, const struct sock *sk,
						  const struct packet_key *key)
{
	flow->cookie = sk->__sk_common.skc_cookie.counter;
	flow->cgroup = sk->sk_cgrp_data.cgroup->kn->id;
	flow->directions = !setting_cgroup || cgroup_selected(sk) ? packet_directions(key) : 0;
}

static __always_inline void packet_flow_add(const struct packet_key *key,
					    const struct packet_flow *flow)
{
	bool known = bpf_map_lookup_elem(&packet_flows, key);

	if (bpf_map_update_elem(&packet_flows, key, flow, BPF_ANY))
		packet_lost(PACKET_LOSS_FLOW);
	else if (!known)
		fully_ordered(__sync_fetch_and_add(&packet_flows_added, 1));
}

/* The flow of a packet that is known by its port alone, or by its socket; NULL if it is not. */
static __always_inline struct packet_flow *packet_flow_new(const struct packet_key *key,
							   const struct sock *sk)
{
	struct packet_port address = {
		.netns = key->netns,
		.protocol = key->protocol,
		.port = key->local_port,
	};
	struct packet_flow *port = bpf_map_lookup_elem(&packet_ports, &address);
	struct packet_flow flow = {};

	if (port) {
		flow = *port;
		flow.directions = port->directions ? packet_directions(key) : 0;
	}
	if (sk) {
		packet_flow_of_socket(&flow, sk, key);
		if (sk->sk_protocol == IPPROTO_UDP) {
			port = bpf_sk_storage_get(&packet_makers, (void *)sk, 0, 0);
			if (port) {
				flow.pid = port->pid;
				flow.of_task = port->of_task;
				flow.spared = port->spared;
				__builtin_memcpy(flow.comm, port->comm, sizeof(flow.comm));
			}
		}
	} else if (!port) {
		return NULL;
	}
	packet_flow_add(key, &flow);
	return bpf_map_lookup_elem(&packet_flows, key);
}

/* `sk`: its socket, if it is known by now. */
static __always_inline struct packet_flow *packet_flow_find(const struct packet_key *key,
							    const struct sock *sk)
{
	struct packet_flow *flow = bpf_map_lookup_elem(&packet_flows, key);

	if (!flow)
		flow = packet_flow_new(key, sk);
	if (!flow)
		return NULL;
	/* Known by its listener so far, or the addresses are another socket's now. */
	if (sk && (!flow->cgroup || flow->cookie != sk->__sk_common.skc_cookie.counter))
		packet_flow_of_socket(flow, sk, key);
	if (sk && packet_of_current(sk))
		packet_note_task(flow, bpf_get_current_task_btf());
	return flow;
}

/* Give a later fragment the ports of its first one. */
static __always_inline bool packet_fragment_key(struct packet_head *head, bool sent)
{
	struct packet_fragment fragment = {
		.netns = head->key.netns,
		.id = head->fragment,
		.protocol = head->key.protocol,
		.sent = sent,
	};
	const struct packet_key *first;

	__builtin_memcpy(fragment.local_address, head->key.local_address, 16);
	__builtin_memcpy(fragment.remote_address, head->key.remote_address, 16);
	if (!head->later) {
		bpf_map_update_elem(&packet_fragments, &fragment, &head->key, BPF_ANY);
		return true;
	}
	first = bpf_map_lookup_elem(&packet_fragments, &fragment);
	if (!first)
		return false;
	head->key = *first;
	return true;
}

static __always_inline bool packet_flow_wanted(const struct packet_flow *flow,
					       enum direction direction)
{
	return flow->directions & DIRECTION_BIT(direction) && !flow->spared &&
	       (!setting_by_pid || flow->of_task);
}

/* A socket that is bound, by the current task, or held at the start: packets to its port are its.
 */
static __always_inline void packet_port_note(struct packet_port *place,
					     const struct task_struct *task, bool selected)
{
	struct packet_flow flow = {.directions = selected ? BOTH_DIRECTIONS : 0};

	bool known = bpf_map_lookup_elem(&packet_ports, place);

	packet_note_task(&flow, task);
	if (bpf_map_update_elem(&packet_ports, place, &flow, BPF_ANY))
		packet_lost(PACKET_LOSS_FLOW);
	else if (!known)
		fully_ordered(__sync_fetch_and_add(&packet_ports_added, 1));
}

/* A program at a cgroup runs for its sockets alone. */
static __always_inline void packet_bound(struct bpf_sock *ctx)
{
	const struct task_struct *task = bpf_get_current_task_btf();
	struct packet_port address = {
		.netns = task->nsproxy->net_ns->ns.inum,
		.protocol = ctx->protocol,
		.port = ctx->src_port,
	};

	if (address.protocol == IPPROTO_TCP || address.protocol == IPPROTO_UDP)
		packet_port_note(&address, task, true);
}

static __always_inline void packet_made(void *sk, const struct task_struct *task)
{
	struct packet_flow *maker =
		bpf_sk_storage_get(&packet_makers, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (maker)
		packet_note_task(maker, task);
	else
		packet_lost(PACKET_LOSS_FLOW);
}

/* A socket that a task holds at the start. */
static __always_inline void packet_held(const struct task_struct *task, struct file *file)
{
	struct socket *socket = bpf_sock_from_file(file);
	struct sock *sk = socket ? socket->sk : NULL;
	struct packet_flow flow = {};
	struct filter_end local, remote;
	struct packet_key key = {};

	if (!sk || (sk->sk_protocol != IPPROTO_TCP && sk->sk_protocol != IPPROTO_UDP))
		return;
	if (sk->__sk_common.skc_family != AF_INET && sk->__sk_common.skc_family != AF_INET6)
		return;
	key.netns = sk->__sk_common.skc_net.net->ns.inum;
	if (!namespace_selected(key.netns))
		return;
	if (sk->sk_protocol == IPPROTO_UDP)
		packet_made(sk, task);
	filter_read(sk, &local, &remote);
	if (!local.port)
		return;
	if (!remote.port) {
		struct packet_port address = {
			.netns = key.netns,
			.protocol = sk->sk_protocol,
			.port = local.port,
		};

		packet_port_note(&address, task, !setting_cgroup || cgroup_selected(sk));
		return;
	}
	__builtin_memcpy(key.local_address, local.address, sizeof(key.local_address));
	__builtin_memcpy(key.remote_address, remote.address, sizeof(key.remote_address));
	key.local_port = local.port;
	key.remote_port = remote.port;
	key.protocol = sk->sk_protocol;
	packet_flow_of_socket(&flow, sk, &key);
	packet_note_task(&flow, task);
	packet_flow_add(&key, &flow);
}

#endif
