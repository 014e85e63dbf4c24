// SPDX-License-Identifier: GPL-2.0-only
/* Write a TCP option into every segment, in the plain way: for benchmarks of tags. */
#include "bpf/common.bpf.h"

struct naive_option {
	__u8 kind;
	__u8 length;
	__be16 experiment;
	__be32 value;
};

SEC("sockops")
int naive_sockops(struct bpf_sock_ops *ctx)
{
	struct naive_option option = {.kind = 253, .length = 8, .experiment = 0x4e4e};

	switch (ctx->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		bpf_sock_ops_cb_flags_set(ctx, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		bpf_reserve_hdr_opt(ctx, sizeof(option), 0);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		bpf_store_hdr_opt(ctx, &option, sizeof(option), 0);
		break;
	}
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
