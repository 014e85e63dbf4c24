/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A connect() of TCP that fails before a SYN is made: no route leads there, or another program
 * denies it (inet_stream_connect(), tcp_v4_connect(), v6.18). The socket's state does not change.
 * connect() shows its address; if the socket is closed, and never was about to send a SYN, the
 * connect has failed.
 */
#ifndef SOCKSTAMP_CONNECTION_UNTRIED_BPF_H
#define SOCKSTAMP_CONNECTION_UNTRIED_BPF_H

#include "connection/connection.bpf.h"

struct untried {
	struct flow_identity flow;
	bool denied; /* by a program of a cgroup, which ran before ours */
};

/* Whose connect it is, from the call until a SYN is made. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct untried);
} untried SEC(".maps");

/* `remote`: as the filter has it. The socket has no peer yet. */
static __always_inline bool untried_selected(const struct sock *sk, const struct filter_end *remote)
{
	const struct task_struct *task = bpf_get_current_task_btf();
	struct filter_end local, none;

	if (!setting_waits || stopping || setting_interface || !pid_selected(task->tgid) ||
	    task_spared(task) || !netns_selected(sk) || !cgroup_selected(sk))
		return false;
	if (!setting_filtered)
		return true;
	filter_read(sk, &local, &none);
	return filter_directions(&local, remote, IPPROTO_TCP);
}

/*
 * Return true if another program has denied this connect(). Programs of a cgroup run before those
 * of its ancestors (compute_effective_progs(), kernel/bpf/cgroup.c, v6.18), and ours is the root's
 * or the target's. bpf_get_retval() may be called here since v6.1 (bed89185af0d), in which
 * iter/cgroup came later (d4ccaf58a847).
 */
static __always_inline bool connect_denied_before(void)
{
	return bpf_core_type_exists(struct bpf_iter__cgroup) && bpf_get_retval() == -EPERM;
}

/* connect(2) of a socket without a connection. A function of its own: it has a stack of its own. */
static __noinline int untried_note(struct bpf_sock *socket, const struct filter_end *remote,
				   bool ipv6, bool denied)
{
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(socket);
	const struct sock *sk = (const struct sock *)tp;
	struct flow_identity *flow;
	struct untried *tried;

	if (!tp || !untried_selected(sk, remote))
		return 0;
	tried = bpf_sk_storage_get(&untried, socket, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!tried) {
		count_loss(LOSS_FLOW);
		return 0;
	}
	tried->denied = denied;
	flow = &tried->flow;
	flow_identify(flow, sk);
	flow->opened_by = OPENED_BY_US;
	flow->remote_port = remote->port;
	if (ipv6)
		__builtin_memcpy(flow->remote_address, remote->address, sizeof(remote->address));
	else
		*(__u32 *)flow->remote_address = remote->address[3];
	flow->pid = current_process();
	comm_read(flow->comm);
	return 0;
}

static __always_inline void untried_begins4(struct bpf_sock_addr *ctx)
{
	struct filter_end remote = {.port = bpf_ntohs(ctx->user_port)};

	if (!ctx->sk || ctx->sk->protocol != IPPROTO_TCP)
		return;
	filter_map(&remote, ctx->user_ip4);
	untried_note(ctx->sk, &remote, false, connect_denied_before());
}

static __always_inline void untried_begins6(struct bpf_sock_addr *ctx)
{
	struct filter_end remote = {.port = bpf_ntohs(ctx->user_port)};

	if (!ctx->sk || ctx->sk->protocol != IPPROTO_TCP)
		return;
	remote.address[0] = ctx->user_ip6[0];
	remote.address[1] = ctx->user_ip6[1];
	remote.address[2] = ctx->user_ip6[2];
	remote.address[3] = ctx->user_ip6[3];
	untried_note(ctx->sk, &remote, true, connect_denied_before());
}

/* The socket is about to send a SYN: what becomes of that is seen elsewhere. */
static __always_inline void untried_is_tried(const struct sock *sk)
{
	if (setting_waits)
		bpf_sk_storage_delete(&untried, (void *)sk);
}

/* A socket is closed. */
static __always_inline void untried_ends(struct bpf_sock *socket)
{
	struct wait_record *record;
	struct untried *tried;
	struct bank *bank;
	__u64 now;

	if (!setting_waits || stopping || socket->protocol != IPPROTO_TCP)
		return;
	tried = bpf_sk_storage_get(&untried, socket, 0, 0);
	bank = this_bank();
	if (!tried || !bank)
		return;
	account_connection(bank, DIRECTION_TX, VERDICT_CONNECT_FAILED, 0);
	now = bpf_ktime_get_ns();
	record = wait_new(WAIT_CONNECT, tried->denied ? END_DENIED : END_NO_ROUTE, now, now);
	if (!record)
		return;
	record->flow = tried->flow;
	record->syns = 0;
	attempts_count_unanswered(record);
	wait_emit(record);
}

#endif
