// SPDX-License-Identifier: GPL-2.0-only
/*
 * Empty programs, for trials. Of kinds that sockstamp can do without, `sockstamp doctor` shows
 * whether the kernel accepts them; their targets are exported functions, which no compiler inlines.
 * On each hook of cgroups that sockstamp uses, they show whether the target's cgroup admits it.
 */
#include "kernel/vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

SEC("fentry/tcp_sendmsg")
int BPF_PROG(probe_fentry)
{
	return 0;
}

SEC("kprobe/tcp_sendmsg")
int probe_kprobe(void *ctx)
{
	return 0;
}

SEC("cgroup_skb/ingress")
int admits_ingress(void *ctx)
{
	return 1;
}

SEC("cgroup/connect4")
int admits_connect4(void *ctx)
{
	return 1;
}

SEC("cgroup/connect6")
int admits_connect6(void *ctx)
{
	return 1;
}

SEC("cgroup/sendmsg4")
int admits_sendmsg4(void *ctx)
{
	return 1;
}

SEC("cgroup/sendmsg6")
int admits_sendmsg6(void *ctx)
{
	return 1;
}

SEC("cgroup/getpeername4")
int admits_getpeername4(void *ctx)
{
	return 1;
}

SEC("cgroup/getpeername6")
int admits_getpeername6(void *ctx)
{
	return 1;
}

SEC("cgroup/sock_release")
int admits_sock_release(void *ctx)
{
	return 1;
}

SEC("cgroup/sock_create")
int admits_sock_create(void *ctx)
{
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
