// SPDX-License-Identifier: GPL-2.0-only
/*
 * Be a proxy inside the kernel: bytes that one socket receives, or that its program sends, leave by
 * another socket. For tests of sends without a call of a program.
 */
#include "kernel/kernel.bpf.h"

#define BPF_MAP_TYPE_SOCKMAP 15 /* include/uapi/linux/bpf.h */

/* A test redirects one socket: each map has one. */
#define SOCKET_MAP(name)                            \
	struct {                                    \
		__uint(type, BPF_MAP_TYPE_SOCKMAP); \
		__uint(max_entries, 1);             \
		__type(key, __u32);                 \
		__type(value, __u64);               \
	} name SEC(".maps")

SOCKET_MAP(redirect_receivers);
SOCKET_MAP(redirect_senders);
SOCKET_MAP(redirect_targets);

SEC("sk_skb/stream_verdict")
int redirect_received(struct __sk_buff *ctx)
{
	return bpf_sk_redirect_map(ctx, &redirect_targets, 0, 0);
}

SEC("sk_msg")
int redirect_sent(struct sk_msg_md *ctx)
{
	return bpf_msg_redirect_map(ctx, &redirect_targets, 0, 0);
}

char LICENSE[] SEC("license") = "GPL";
