// SPDX-License-Identifier: GPL-2.0-only
/* `sockstamp stuck`: sockets that may be waited on, at one look. Loaded for that alone. */
#include "kernel/kernel.bpf.h"
#include "stuck/visit.bpf.h"

SEC("iter/task_file")
int find_stuck_sockets(struct bpf_iter__task_file *ctx)
{
	const struct task_struct *task = ctx->task;
	struct file *file = ctx->file;

	if (task && file)
		stuck_visit(ctx, task, file);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
