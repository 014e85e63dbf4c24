/* SPDX-License-Identifier: GPL-2.0-only */
/* Sockets of both protocols: calls, addresses, their begin and end, and the clock of tasks. */
#ifndef SOCKSTAMP_BPF_SOCKETS_BPF_H
#define SOCKSTAMP_BPF_SOCKETS_BPF_H

#include "connection/untried.bpf.h"
#include "demand/demand.bpf.h"
#include "kernel/kernel.bpf.h"
#include "sched/run_clock.bpf.h"
#include "select/asked.bpf.h"
#include "select/select.bpf.h"
#include "tcp/flows/select.bpf.h"
#include "tcp/receive/read.bpf.h"
#include "tcp/send/interrupted.bpf.h"
#include "udp/receive.bpf.h"
#include "udp/select.bpf.h"
#include "udp/send.bpf.h"
#include "udp/state.bpf.h"

SEC("tp_btf/sock_send_length")
int BPF_PROG(on_sock_send_length, struct sock *sk, int result)
{
	if (udp_by_socket_calls(sk))
		udp_send_call_ends(sk, result);
	return 0;
}

/* For few tasks a signal is frequent, and for none of them a message is. */
SEC("tp_btf/signal_deliver")
int BPF_PROG(on_signal_deliver)
{
	task_interrupted();
	return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_sk_data_ready, const struct sock *sk)
{
	if (!sock_selected(sk))
		udp_data_ready(sk);
	else if ((sk = tcp_known(sk)))
		rx_data_ready(sk);
	return 0;
}

/* Functions of their own, for the same reason as on_stamp(). */
static __noinline int on_datagram_taken(struct sock *sk, int result)
{
	udp_read(sk, result);
	return 0;
}

static __noinline int on_bytes_read(const struct sock *sk, int length)
{
	rx_recvmsg_ends(sk, length);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_sock_recv_length, struct sock *sk, int result, int flags)
{
	if (flags & (MSG_PEEK | MSG_ERRQUEUE))
		return 0;
	if (udp_by_socket_calls(sk)) {
		if (demand_met(DEMAND_DATAGRAMS))
			on_datagram_taken(sk, result);
		else
			udp_recvmsg_ends_unfollowed(sk, result);
	} else if (!setting_receive_bit && result > 0 && sock_selected(sk) && tcp_known(sk)) {
		on_bytes_read(tcp_known(sk), result);
	}
	return 0;
}

SEC("perf_event")
int on_run_clock(struct bpf_perf_event_data *ctx)
{
	struct bpf_perf_event_data_kern *kern = bpf_cast_to_kern_ctx(ctx);

	run_clock_sample(bpf_ktime_get_ns(), kern->data->time);
	return 0;
}

SEC("cgroup/sock_create")
int on_sock_create(struct bpf_sock *ctx)
{
	udp_socket_created(ctx);
	return 1;
}

SEC("cgroup/sock_release")
int on_sock_release(struct bpf_sock *ctx)
{
	udp_socket_released(ctx);
	flow_socket_released(ctx);
	untried_ends(ctx);
	return 1;
}

SEC("cgroup/connect4")
int on_connect4(struct bpf_sock_addr *ctx)
{
	if (ctx->sk)
		udp_connects(ctx->sk);
	untried_begins4(ctx);
	return 1;
}

SEC("cgroup/connect6")
int on_connect6(struct bpf_sock_addr *ctx)
{
	if (ctx->sk)
		udp_connects(ctx->sk);
	untried_begins6(ctx);
	return 1;
}

SEC("cgroup/sendmsg4")
int on_sendmsg4(struct bpf_sock_addr *ctx)
{
	udp_sendmsg_to_begins(ctx, false);
	return 1;
}

SEC("cgroup/sendmsg6")
int on_sendmsg6(struct bpf_sock_addr *ctx)
{
	udp_sendmsg_to_begins(ctx, true);
	return 1;
}

SEC("cgroup/getpeername4")
int on_getpeername4(struct bpf_sock_addr *ctx)
{
	const struct tcp_sock *tp = ctx->sk ? bpf_skc_to_tcp_sock(ctx->sk) : NULL;

	if (tp)
		flow_getpeername((const struct sock *)tp);
	return 1;
}

SEC("cgroup/getpeername6")
int on_getpeername6(struct bpf_sock_addr *ctx)
{
	const struct tcp_sock *tp = ctx->sk ? bpf_skc_to_tcp_sock(ctx->sk) : NULL;

	if (tp)
		flow_getpeername((const struct sock *)tp);
	return 1;
}

#endif
