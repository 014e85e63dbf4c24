// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs of kinds that sockstamp can do without: `sockstamp doctor` tries whether the kernel
 * accepts them. Their targets are exported functions, which no compiler inlines.
 */
#include "bpf/vmlinux.h"
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

char LICENSE[] SEC("license") = "GPL";
