/* SPDX-License-Identifier: GPL-2.0-only */
/* The walks over sockets that exist already, at the start and at the end. */
#ifndef SOCKSTAMP_BPF_WALKS_BPF_H
#define SOCKSTAMP_BPF_WALKS_BPF_H

#include "kernel/kernel.bpf.h"
#include "tcp/flows/adopt.bpf.h"
#include "tcp/flows/sockets.bpf.h"
#include "tcp/gap/release.bpf.h"
#include "udp/departure.bpf.h"
#include "udp/hops.bpf.h"
#include "udp/select.bpf.h"

SEC("iter/task_file")
int mark_sockets(struct bpf_iter__task_file *ctx)
{
	const struct task_struct *task = ctx->task;
	struct file *file = ctx->file;

	if (task && file)
		mark_file(task, file);
	return 0;
}

SEC("iter/task_file")
int mark_datagram_sockets(struct bpf_iter__task_file *ctx)
{
	const struct task_struct *task = ctx->task;
	struct file *file = ctx->file;

	if (task && file)
		udp_select_file(task, file);
	return 0;
}

SEC("iter/task_file")
int give_up_datagrams(struct bpf_iter__task_file *ctx)
{
	const struct task_struct *task = ctx->task;
	struct file *file = ctx->file;

	if (setting_hops && !ctx->meta->seq_num)
		hops_give_up();
	if (task && file)
		udp_give_up_held(file);
	return 0;
}

SEC("iter/tcp")
int mark_listening_subflows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;

	if (common)
		mark_listening_subflow(common);
	return 0;
}

SEC("iter/tcp")
int adopt_flows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;

	if (common)
		adopt_flow(common);
	return 0;
}

SEC("iter/tcp")
int switch_flows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;

	if (common)
		release_or_recall_flow(common);
	return 0;
}

SEC("iter/tcp")
int deselect_flows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;

	if (common)
		deselect_flow(common);
	return 0;
}

#endif
