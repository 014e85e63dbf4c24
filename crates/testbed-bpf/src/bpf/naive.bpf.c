// SPDX-License-Identifier: GPL-2.0-only
/*
 * Write a TCP option with the segment's number into every segment, in the plain way: for benchmarks
 * of tags, and tests of tags next to another program.
 */
#include "kernel/kernel.bpf.h"

struct naive_option {
	__u8 kind;
	__u8 length;
	__be16 experiment;
	__be32 value;
};

const volatile __u32 naive_netns; /* 0: all */

SEC("sockops")
int naive_sockops(struct bpf_sock_ops *ctx)
{
	struct naive_option option = {.kind = 253, .length = 8, .experiment = 0x4e4e};
	struct bpf_sock_ops_kern *kern = bpf_cast_to_kern_ctx(ctx);

	if (naive_netns && kern->sk->__sk_common.skc_net.net->ns.inum != naive_netns)
		return 1;
	switch (ctx->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags |
						       BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		bpf_reserve_hdr_opt(ctx, sizeof(option), 0);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		option.value = bpf_htonl(skb_tcp(kern->skb)->seq);
		bpf_store_hdr_opt(ctx, &option, sizeof(option), 0);
		break;
	}
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
