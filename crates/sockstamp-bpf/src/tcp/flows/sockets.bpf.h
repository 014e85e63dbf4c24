/* SPDX-License-Identifier: GPL-2.0-only */
/* Sockets that exist already, visited at the start and at the end. */
#ifndef SOCKSTAMP_TCP_FLOWS_SOCKETS_BPF_H
#define SOCKSTAMP_TCP_FLOWS_SOCKETS_BPF_H

#include "tcp/flows/select.bpf.h"

const volatile bool setting_adopt; /* also existing connections */

struct listening {
	__u32 netns;
	__u32 port;
};

/* Ports on which selected tasks listened at the start: as many as a host can sensibly have. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct listening);
	__type(value, __u8);
} listening SEC(".maps");

static __always_inline struct listening listening_address(const struct sock *sk)
{
	struct listening address = {
		.netns = sk->__sk_common.skc_net.net->ns.inum,
		.port = sk->__sk_common.skc_num,
	};

	return address;
}

static __always_inline void note_listening_port(const struct sock *sk)
{
	struct listening address = listening_address(sk);
	__u8 noted = 1;

	if (bpf_map_update_elem(&listening, &address, &noted, BPF_ANY))
		count_loss(LOSS_FLOW);
}

/* Ports of listeners whose queue has the length 0, by any task. As many as `listening`. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct listening);
	__type(value, __u8);
} without_queue SEC(".maps");

static __always_inline void note_without_queue(const struct sock *sk)
{
	struct listening address = listening_address(sk);
	__u8 noted = 1;

	if (!untrusted(sk, struct sock)->sk_max_ack_backlog)
		bpf_map_update_elem(&without_queue, &address, &noted, BPF_ANY);
}

/*
 * Subflows by which MPTCP sockets of selected tasks listen, by address: a file leads to the MPTCP
 * socket, but a child clones the subflow, whether it speaks MPTCP or falls back to TCP
 * (mptcp_stream_accept(), subflow_syn_recv_sock(), v6.18). As many as `listening`.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u8);
} listening_subflows SEC(".maps");

/* The number of such subflows found. */
__u64 found_listening_subflows;

static __always_inline void note_listening_subflow(const struct sock *sk)
{
	__u64 subflow = (__u64)BPF_CORE_READ((const struct mptcp_sock *)sk, first);
	__u8 noted = 1;

	if (!subflow || bpf_map_update_elem(&listening_subflows, &subflow, &noted, BPF_ANY)) {
		count_loss(LOSS_FLOW);
		return;
	}
	found_listening_subflows++;
}

/* A mark that is there already stays as it is. MPTCP: as flow_select(), its subflows have no file.
 */
static __always_inline void mark_for_adoption(struct sock *sk)
{
	struct mark held = {.kind = MARK_HELD};

	if (bpf_sk_storage_get(&sockstamp_marks, sk, 0, 0))
		return;
	if (sk->sk_protocol == IPPROTO_MPTCP)
		count_loss(LOSS_MPTCP);
	if (!bpf_sk_storage_get(&sockstamp_marks, sk, &held, BPF_SK_STORAGE_GET_F_CREATE))
		count_loss(LOSS_FLOW);
}

/* A socket that a selected task holds, or one that is spared, its own or inherited. */
static __always_inline void mark_file(const struct task_struct *task, struct file *file)
{
	bool spared = task_spared(task);
	struct socket *socket;
	struct sock *sk;

	if (!spared && !(setting_by_pid && task_selected(task, task->tgid)))
		return;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return;
	sk = socket->sk;
	if (!sk || (sk->sk_protocol != IPPROTO_TCP && sk->sk_protocol != IPPROTO_MPTCP))
		return;
	if (spared) {
		mark_sockstamp_socket(sk);
		return;
	}
	switch (sk->__sk_common.skc_state) {
	case TCP_CLOSE:
		break;
	case TCP_LISTEN:
		mark_listener(sk);
		note_listening_port(sk);
		if (bpf_core_type_exists(struct mptcp_sock) && sk->sk_protocol == IPPROTO_MPTCP)
			note_listening_subflow(sk);
		break;
	default:
		if (setting_adopt)
			mark_for_adoption(sk);
	}
}

/* The iterator alone has pointers to subflows by which marks can be made. */
static __always_inline void mark_listening_subflow(struct sock_common *common)
{
	__u64 address = (__u64)common;
	struct tcp_sock *tp;

	visited_sockets++;
	if (common->skc_state != TCP_LISTEN)
		return;
	if (!bpf_map_lookup_elem(&listening_subflows, &address))
		return;
	tp = bpf_skc_to_tcp_sock(common);
	if (tp && bpf_core_field_exists(tp->is_mptcp) && tp->is_mptcp)
		mark_listener(tp);
}

/* Clear the bits, which would make the kernel call other sockops programs unnecessarily. */
static __always_inline void deselect_flow(struct sock_common *common)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(common);
	struct mark *mark;
	__u8 asked;

	if (!tp)
		return;
	visited_sockets++;
	mark = bpf_sk_storage_get(&sockstamp_marks, tp, 0, 0);
	if (!mark || !(mark->asked || mark->released))
		return;
	flow_count_traffic(mark, (const struct sock *)tp, tp, false);
	asked = mark->asked;
	bpf_sk_storage_delete(&sockstamp_marks, tp);
	tcp_callbacks_give_back(tp, tp, asked);
}

#endif
