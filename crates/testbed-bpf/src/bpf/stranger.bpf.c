// SPDX-License-Identifier: GPL-2.0-only
/*
 * Another user of the bits that sockstamp sets on sockets, and an observer of them: for tests of
 * what a measurement leaves behind.
 */
#include "kernel/kernel.bpf.h"

const volatile __u32 stranger_netns;
const volatile __u32 stranger_port; /* of connections whose callbacks it requests, at either end */

static __always_inline bool stranger_wants(const struct sock_common *common)
{
	return common->skc_net.net->ns.inum == stranger_netns &&
	       (common->skc_num == stranger_port || bpf_ntohs(common->skc_dport) == stranger_port);
}

SEC("sockops")
int stranger_asks(struct bpf_sock_ops *ctx)
{
	struct bpf_sock_ops_kern *kern = bpf_cast_to_kern_ctx(ctx);
	int stamps = SK_BPF_CB_TX_TIMESTAMPING;

	if (ctx->op != BPF_SOCK_OPS_TCP_CONNECT_CB &&
	    ctx->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	if (!stranger_wants(&kern->sk->__sk_common))
		return 1;
	bpf_setsockopt(ctx, SOL_SOCKET, SK_BPF_CB_FLAGS, &stamps, sizeof(stamps));
	bpf_sock_ops_cb_flags_set(ctx, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG |
					       BPF_SOCK_OPS_STATE_CB_FLAG |
					       BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG);
	return 1;
}

#define SKBTX_BPF (1 << 7) /* include/linux/skbuff.h, v6.18 */

/* Packets of that network namespace that request stamps, and thus also stamps of the NIC. */
__u64 stranger_asking_packets;

SEC("tp_btf/net_dev_queue")
int BPF_PROG(stranger_counts, const struct sk_buff *skb)
{
	const struct sock *sk = skb->sk;

	if (sk && sk->__sk_common.skc_net.net->ns.inum == stranger_netns &&
	    skb_shared(skb)->tx_flags & SKBTX_BPF)
		__sync_fetch_and_add(&stranger_asking_packets, 1);
	return 0;
}

/* A line for each connection: its ports, and whether each bit is set. */
SEC("iter/tcp")
int stranger_looks(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct tcp_sock *tp;
	struct sock *sk;
	__u32 callbacks;

	if (!common || common->skc_state == TCP_LISTEN)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	sk = (struct sock *)tp;
	callbacks = tp->bpf_sock_ops_cb_flags;
	BPF_SEQ_PRINTF(ctx->meta->seq, "%u %u %u %u %u %u\n", common->skc_num,
		       bpf_ntohs(common->skc_dport),
		       sk->sk_bpf_cb_flags & SK_BPF_CB_TX_TIMESTAMPING,
		       callbacks & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG,
		       callbacks & BPF_SOCK_OPS_STATE_CB_FLAG,
		       callbacks & BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
