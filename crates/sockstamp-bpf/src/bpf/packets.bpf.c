// SPDX-License-Identifier: GPL-2.0-only
/* `sockstamp pcap`: every packet of selected flows. Loaded for that alone. */
#include "kernel/kernel.bpf.h"
#include "packets/flows.bpf.h"
#include "packets/record.bpf.h"

SEC("tp_btf/net_dev_queue")
int BPF_PROG(packets_queued, struct sk_buff *skb)
{
	packet_leaves(skb, PACKET_SCHED);
	return 0;
}

/* Where tcpdump sees it, too: dev_hard_start_xmit(), net/core/dev.c, v6.18. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(packets_started, struct sk_buff *skb)
{
	packet_leaves(skb, PACKET_DRIVER);
	return 0;
}

/* Where tcpdump sees it, too: __netif_receive_skb_core(). Its network header is not set yet. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(packets_received, struct sk_buff *skb)
{
	packet_passes(skb, NULL, (__u64)skb->data, PACKET_SOFTIRQ);
	return 0;
}

SEC("cgroup_skb/ingress")
int packets_arrived(struct __sk_buff *ctx)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);

	packet_passes(skb, NULL, (__u64)skb->head + skb->network_header, PACKET_SOCKET);
	return 1;
}

/*
 * Behind the socket's backlog, where a packet waits while a task has locked the socket:
 * tcp_rcv_established(), v6.18. It has no device any more.
 */
SEC("tp_btf/tcp_probe")
int BPF_PROG(packets_taken, struct sock *sk, struct sk_buff *skb)
{
	packet_passes(skb, sk, (__u64)skb->head + skb->network_header, PACKET_TCP);
	return 0;
}

SEC("cgroup/sock_create")
int packets_socket_made(struct bpf_sock *ctx)
{
	if (ctx->protocol == IPPROTO_UDP)
		packet_made(ctx, bpf_get_current_task_btf());
	return 1;
}

SEC("cgroup/post_bind4")
int packets_bound4(struct bpf_sock *ctx)
{
	packet_bound(ctx);
	return 1;
}

SEC("cgroup/post_bind6")
int packets_bound6(struct bpf_sock *ctx)
{
	packet_bound(ctx);
	return 1;
}

SEC("iter/task_file")
int packets_held(struct bpf_iter__task_file *ctx)
{
	const struct task_struct *task = ctx->task;
	struct file *file = ctx->file;

	if (task && file)
		packet_held(task, file);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
