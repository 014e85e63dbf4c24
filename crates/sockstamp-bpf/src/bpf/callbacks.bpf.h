/* SPDX-License-Identifier: GPL-2.0-only */
/* Callbacks of selected sockets of TCP. */
#ifndef SOCKSTAMP_BPF_CALLBACKS_BPF_H
#define SOCKSTAMP_BPF_CALLBACKS_BPF_H

#include "kernel/kernel.bpf.h"
#include "nic/nic.bpf.h"
#include "tcp/flow.bpf.h"
#include "tcp/flows/select.bpf.h"
#include "tcp/packet.bpf.h"
#include "tcp/events/segment.bpf.h"
#include "tcp/send/entry.bpf.h"
#include "tcp/send/hardware.bpf.h"
#include "tcp/send/queued.bpf.h"
#include "tcp/tag/tag.bpf.h"
#include "window/window.bpf.h"

/*
 * Callbacks that need much of the stack are functions of their own, so that what each needs does
 * not add up: the verifier allows 512 bytes for a program and what it calls.
 */
static __noinline int on_stamp(struct bpf_sock_ops *ctx, struct bpf_sock_ops_kern *kern,
			       const struct sock *sock)
{
	struct bpf_sock *sk = ctx->sk;
	const struct sk_buff *skb;
	struct flow *flow;

	if (!sk)
		return 0;
	/* Messages that are still under way end, all the same. */
	if (window_detached() && ctx->op != BPF_SOCK_OPS_TSTAMP_ACK_CB)
		return 0;
	flow = bpf_sk_storage_get(&flows, sk, 0, 0);
	/* Where no hook shows the entry of a send, this may be the flow's first event. */
	if (!flow && !setting_entry && ctx->op == BPF_SOCK_OPS_TSTAMP_SENDMSG_CB)
		flow = flow_create(sock, tcp_of(sock)->copied_seq);
	/* Another user of BPF timestamping selected this socket. */
	if (!flow)
		return 0;
	skb = kern->skb;
	if (ctx->op == BPF_SOCK_OPS_TSTAMP_SENDMSG_CB)
		tx_sendmsg_callback(kern, sock, skb, flow);
	else if (!setting_by_packets)
		tx_timestamp_callback(sock, skb, ctx->op, flow);
	else if (setting_nic_interval && ctx->op == BPF_SOCK_OPS_TSTAMP_SND_HW_CB)
		tx_nic_stamped(sock, skb, flow);
	return 0;
}

/* Return true if the event was the beginning of a connection. */
static __always_inline bool on_connection(struct bpf_sock_ops *ctx, const struct sock *sk)
{
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		flow_active_open(ctx, sk);
		return true;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		flow_active_established(sk);
		tag_established(ctx, sk);
		return true;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		flow_passive_established(ctx, sk);
		tag_established(ctx, sk);
		return true;
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		flow_listen(ctx);
		return true;
	}
	return false;
}

/* The callback for the options of a segment. */
static __noinline int on_segment_callback(const struct sock *sk, const struct sk_buff *skb)
{
	on_segment(sk, skb);
	return 0;
}

/* A connection begins, as in on_connections(). */
static __noinline int on_connection_callback(struct bpf_sock_ops *ctx, const struct sock *sk)
{
	return on_connection(ctx, sk);
}

/* Callbacks that are not for messages, and those for options. */
static __noinline int on_other_callback(struct bpf_sock_ops *ctx, struct bpf_sock_ops_kern *kern,
					const struct sock *sk)
{
	switch (ctx->op) {
	case BPF_SOCK_OPS_STATE_CB:
		flow_half_closes(ctx, sk);
		break;
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB:
		/* Segments of an established connection are tcp_probe's. */
		if (sock_transfers_unprobed(sk))
			on_segment_callback(sk, kern->skb);
		if (setting_tag)
			tag_read(ctx, kern);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		if (setting_entry_callback && ctx->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS)
			tx_mss_callback(sk);
		if (setting_tag && ctx->args[0] != BPF_WRITE_HDR_TCP_CURRENT_MSS)
			tag_reserve(ctx, kern);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		if (setting_tag)
			tag_write(ctx, kern);
		break;
	}
	return 0;
}

static __always_inline bool is_stamp(const struct bpf_sock_ops *ctx)
{
	switch (ctx->op) {
	case BPF_SOCK_OPS_TSTAMP_SENDMSG_CB:
	case BPF_SOCK_OPS_TSTAMP_SCHED_CB:
	case BPF_SOCK_OPS_TSTAMP_SND_SW_CB:
	case BPF_SOCK_OPS_TSTAMP_SND_HW_CB:
	case BPF_SOCK_OPS_TSTAMP_ACK_CB:
		return true;
	}
	return false;
}

/*
 * The socket is looked up once: for each load of a pointer from the context the verifier searches
 * all types of the kernel, as untrusted() says.
 */
SEC("sockops")
int on_sockops(struct bpf_sock_ops *ctx)
{
	struct bpf_sock_ops_kern *kern = bpf_cast_to_kern_ctx(ctx);
	const struct sock *sk = kern->sk;

	/* Callbacks of each message come first. */
	if (is_stamp(ctx))
		on_stamp(ctx, kern, sk);
	else if (!on_connection_callback(ctx, sk))
		on_other_callback(ctx, kern, sk);
	return 1;
}

/* Without BPF timestamping, and on kernels where a program's context leads to no socket (v6.2). */
SEC("sockops")
int on_connections(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	const struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;

	if (tp)
		on_connection(ctx, (const struct sock *)tp);
	return 1;
}

#endif
