// SPDX-License-Identifier: GPL-2.0-only
/* `sockstamp notifications`: error queues of registered sockets in memory of applications. */
#include "completions/alive.bpf.h"
#include "completions/queue.bpf.h"
#include "completions/tcp.bpf.h"
#include "kernel/kernel.bpf.h"

SEC("tp_btf/inet_sk_error_report")
int BPF_PROG(completions_error_report, struct sock *sk)
{
	queue_report(sk);
	return 0;
}

SEC("iter/bpf_map")
int completions_areas(struct bpf_iter__bpf_map *ctx)
{
	area_exists(ctx);
	return 0;
}

SEC("cgroup/setsockopt")
int completions_select(struct bpf_sockopt *ctx)
{
	tcp_select(ctx);
	return 1;
}

SEC("sockops")
int completions_sockops(struct bpf_sock_ops *ctx)
{
	if (ctx->op >= BPF_SOCK_OPS_TSTAMP_SCHED_CB)
		tcp_callback(ctx);
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
