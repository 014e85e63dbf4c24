/* SPDX-License-Identifier: GPL-2.0-only */
/* Sockets that exist already, visited once at the start and once at the end. */
#ifndef SOCKSTAMP_SOCKETS_BPF_H
#define SOCKSTAMP_SOCKETS_BPF_H

#include "flow.bpf.h"

/* Listening sockets that a selected task holds, its own or inherited. */
SEC("iter/task_file")
int mark_listeners(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct socket *socket;
	struct sock *sk;

	if (!task || !file || !task_selected(task, task->tgid))
		return 0;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	sk = socket->sk;
	if (sk && sk->sk_protocol == IPPROTO_TCP && sk->__sk_common.skc_state == TCP_LISTEN)
		mark_listener(sk);
	return 0;
}

/* The bit would make the kernel call other sockops programs for stamps that nobody wants now. */
SEC("iter/tcp")
int deselect_flows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct tcp_sock *tp;
	int flags = 0;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (tp && bpf_sk_storage_get(&marks, tp, 0, 0))
		bpf_setsockopt(tp, SOL_SOCKET, SK_BPF_CB_FLAGS, &flags, sizeof(flags));
	return 0;
}

#endif
