// SPDX-License-Identifier: GPL-2.0-only
/*
 * The floor of each of our measurements: empty programs on the hooks of sockstamp.bpf.c. They only
 * select, so the same callbacks come, and request the same stamps.
 */
#include "kernel/kernel.bpf.h"

extern int bpf_sock_ops_enable_tx_tstamp(struct bpf_sock_ops_kern *skops,
					 __u64 flags) __ksym __weak;

SEC("sockops")
int floor_sockops(struct bpf_sock_ops *ctx)
{
	int flags = SK_BPF_CB_TX_TIMESTAMPING;

	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		bpf_setsockopt(ctx, SOL_SOCKET, SK_BPF_CB_FLAGS, &flags, sizeof(flags));
		break;
	case BPF_SOCK_OPS_TSTAMP_SENDMSG_CB:
		bpf_sock_ops_enable_tx_tstamp(bpf_cast_to_kern_ctx(ctx), 0);
		break;
	}
	return 1;
}

SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(floor_tcp_sendmsg_locked)
{
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(floor_sock_send_length)
{
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(floor_tcp_retransmit_skb)
{
	return 0;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(floor_tcp_probe)
{
	return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(floor_sk_data_ready)
{
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(floor_sock_recv_length)
{
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(floor_inet_sock_set_state)
{
	return 0;
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(floor_net_dev_queue)
{
	return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(floor_net_dev_start_xmit)
{
	return 0;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(floor_kfree_skb)
{
	return 0;
}

SEC("cgroup_skb/ingress")
int floor_cgroup_ingress(void *ctx)
{
	return 1;
}

SEC("cgroup/sock_create")
int floor_sock_create(void *ctx)
{
	return 1;
}

SEC("cgroup/sock_release")
int floor_sock_release(void *ctx)
{
	return 1;
}

SEC("cgroup/sendmsg4")
int floor_sendmsg4(void *ctx)
{
	return 1;
}

SEC("cgroup/sendmsg6")
int floor_sendmsg6(void *ctx)
{
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
