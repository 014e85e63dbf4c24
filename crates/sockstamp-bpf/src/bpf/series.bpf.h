/* SPDX-License-Identifier: GPL-2.0-only */
/* Callbacks that kernel/series adds, of both protocols. */
#ifndef SOCKSTAMP_BPF_SERIES_BPF_H
#define SOCKSTAMP_BPF_SERIES_BPF_H

#include "bpf/callbacks.bpf.h"
#include "demand/demand.bpf.h"
#include "kernel/kernel.bpf.h"
#include "select/asked.bpf.h"
#include "tcp/receive/read.bpf.h"
#include "tcp/send/entry.bpf.h"
#include "udp/departure.bpf.h"
#include "udp/receive.bpf.h"
#include "udp/select.bpf.h"
#include "udp/send.bpf.h"
#include "udp/state.bpf.h"

/*
 * Numbers of callbacks that kernel/series adds, as in the running kernel; 0: not used. Those of
 * receiving replace tracepoints that run for every segment and every read.
 */
const volatile __u32 setting_begin_callback; /* a send call of TCP begins */
const volatile __u32 setting_segment_callback;
const volatile __u32 setting_ready_callback;
const volatile __u32 setting_read_callback;
const volatile __u32 setting_datagram_callback; /* a send call of UDP begins */
const volatile __u32 setting_end_callback; /* ... and ends */
const volatile __u32 setting_bound_callback; /* a UDP socket has got its port */

/* A selected UDP socket calls back. */
static __noinline int on_datagram_callback(struct bpf_sock_ops *ctx)
{
	struct bpf_sock_ops_kern *kern = bpf_cast_to_kern_ctx(ctx);
	const struct sk_buff *skb = kern->skb;
	struct sock *sk = kern->sk;

	if (!udp_selectable(sk))
		return 0;
	if (ctx->op == setting_datagram_callback) {
		udp_sendmsg_begins(sk, NULL);
	} else if (ctx->op == setting_ready_callback) {
		udp_datagram_arrives(sk, NULL, skb, sk);
	} else if (demand_met(DEMAND_DATAGRAMS)) {
		if (ctx->op == BPF_SOCK_OPS_TSTAMP_SCHED_CB)
			udp_packet_to_qdisc(sk, skb);
		else if (ctx->op == BPF_SOCK_OPS_TSTAMP_SND_SW_CB)
			udp_packet_to_driver(sk, skb, skb->dev);
	}
	return 0;
}

/* Callbacks for which on_datagram_callback() has no room on its stack. */
static __noinline int on_datagram_end(struct bpf_sock_ops *ctx)
{
	struct bpf_sock_ops_kern *kern = bpf_cast_to_kern_ctx(ctx);

	if (udp_selectable(kern->sk))
		udp_send_call_ends(kern->sk, ctx->args[0]);
	return 0;
}

static __noinline int on_datagram_consumed(struct bpf_sock_ops *ctx)
{
	struct bpf_sock_ops_kern *kern = bpf_cast_to_kern_ctx(ctx);

	if (udp_selectable(kern->sk) && !ctx->args[1])
		udp_datagram_consumed(kern->sk, kern->skb, ctx->args[0]);
	return 0;
}

static __noinline int on_datagram_bound(struct bpf_sock_ops *ctx)
{
	struct bpf_sock_ops_kern *kern = bpf_cast_to_kern_ctx(ctx);

	if (udp_selectable(kern->sk))
		udp_gets_port(ctx, kern->sk);
	return 0;
}

/* The callback before sk_data_ready(). */
static __noinline int on_ready_callback(const struct sock *sk)
{
	rx_data_ready(sk);
	return 0;
}

/* The callback at the end of a read. */
static __noinline int on_read_callback(struct bpf_sock_ops *ctx, const struct sock *sk)
{
	if (!ctx->args[1])
		rx_recvmsg_ends(sk, ctx->args[0]);
	return 0;
}

/* Return true if the event was a callback of receiving, with the socket locked. */
static __always_inline bool on_receive(struct bpf_sock_ops *ctx, struct bpf_sock_ops_kern *kern,
				       const struct sock *sk)
{
	if (setting_segment_callback && ctx->op == setting_segment_callback)
		on_segment_callback(sk, kern->skb);
	else if (ctx->op == setting_ready_callback)
		on_ready_callback(sk);
	else if (ctx->op == setting_read_callback)
		on_read_callback(ctx, sk);
	else
		return false;
	return true;
}

/* A send call begins. */
static __noinline int on_begin_callback(struct bpf_sock_ops *ctx, const struct sock *sk)
{
	tx_sendmsg_begin_callback(sk, ctx->args[1]);
	return 0;
}

/*
 * As on_sockops(), with the callbacks of kernel/series. They have twice the code, which a kernel
 * without them would have to load.
 */
SEC("sockops")
int on_series(struct bpf_sock_ops *ctx)
{
	struct bpf_sock_ops_kern *kern = bpf_cast_to_kern_ctx(ctx);
	const struct sock *sk = kern->sk;

	if (setting_packet_bit && sk->sk_protocol == IPPROTO_UDP) {
		if (ctx->op == setting_end_callback)
			on_datagram_end(ctx);
		else if (ctx->op == setting_bound_callback)
			on_datagram_bound(ctx);
		else if (ctx->op == setting_read_callback)
			on_datagram_consumed(ctx);
		else
			on_datagram_callback(ctx);
	} else if (is_stamp(ctx)) {
		on_stamp(ctx, kern, sk);
	} else if (setting_begin_callback && ctx->op == setting_begin_callback) {
		on_begin_callback(ctx, sk);
	} else if ((!setting_receive_bit || !on_receive(ctx, kern, sk)) &&
		   !on_connection_callback(ctx, sk)) {
		on_other_callback(ctx, kern, sk);
	}
	return 1;
}

SEC("iter/udp")
int ask_datagram_sockets(struct bpf_iter__udp *ctx)
{
	struct udp_sock *udp = ctx->udp_sk;

	if (udp)
		udp_request_callbacks_of_existing(udp);
	return 0;
}

SEC("iter/udp")
int deselect_datagram_sockets(struct bpf_iter__udp *ctx)
{
	struct udp_sock *udp = ctx->udp_sk;

	if (udp)
		udp_deselect(udp);
	return 0;
}

#endif
