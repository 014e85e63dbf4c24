/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stamp TCP by BPF timestamping (v6.15): without an entry in the error queue, a clone of the
 * packet, or a wake-up.
 *
 * Only a program can set the socket's bit for them (SK_BPF_CB_FLAGS), and it must run in the
 * socket's context. While completions_select is attached, the application sets an option of its
 * registered socket to a value that the kernel refuses. The program runs first
 * (__cgroup_bpf_run_filter_setsockopt(), kernel/bpf/cgroup.c, v6.18), under the socket's lock. The
 * service makes no such call, because the application may hold the lock for as long as it likes.
 * All users share one bit: a measurement that ends leaves it set on a socket with our mark.
 */
#ifndef SOCKSTAMP_COMPLETIONS_TCP_BPF_H
#define SOCKSTAMP_COMPLETIONS_TCP_BPF_H

#include "completions/area.bpf.h"
#include "select/asked.bpf.h"

#define IPPROTO_IP 0 /* include/uapi/linux/in.h */
#define IP_TTL	   2

#define SCM_TSTAMP_SND	 0 /* include/uapi/linux/errqueue.h */
#define SCM_TSTAMP_SCHED 1
#define SCM_TSTAMP_ACK	 2

extern int bpf_sock_ops_enable_tx_tstamp(struct bpf_sock_ops_kern *skops,
					 __u64 flags) __ksym __weak;

static __always_inline void tcp_select(struct bpf_sockopt *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct completions_mark *mark;
	struct bpf_sockopt_kern *kern;
	const struct tcp_sock *tp;
	struct area *area;

	if (ctx->level != IPPROTO_IP || ctx->optname != IP_TTL || !sk)
		return;
	mark = bpf_sk_storage_get(&sockstamp_marks, sk, NULL, 0);
	if (!mark || !mark->select)
		return;
	area = area_of(mark);
	if (!area)
		return;
	kern = bpf_cast_to_kern_ctx(ctx);
	tp = cast_kernel(kern->sk, struct tcp_sock);
	mark->origin = tp->write_seq;
	if (!tcp_callbacks_request(sk, tp, ASKED_STAMPS, &mark->asked))
		return;
	mark->kind = MARK_SELECTED;
	mark->select = false;
	area->selected = mark->registration;
}

/* Count like OPT_ID_TCP: __skb_complete_tx_timestamp(), net/core/skbuff.c, v6.18. */
static __always_inline __u32 tcp_id(const struct completions_mark *mark,
				    const struct bpf_sock_ops_kern *kern)
{
	return skb_shared(kern->skb)->tskey - mark->origin;
}

static __always_inline bool tcp_stamp(struct bpf_sock_ops *ctx, struct area_stamp *stamp)
{
	stamp->clock = AREA_CLOCK_TAI;
	stamp->kind = SCM_TSTAMP_SND;
	switch (ctx->op) {
	case BPF_SOCK_OPS_TSTAMP_SCHED_CB:
		stamp->kind = SCM_TSTAMP_SCHED;
		break;
	case BPF_SOCK_OPS_TSTAMP_ACK_CB:
		stamp->kind = SCM_TSTAMP_ACK;
		break;
	case BPF_SOCK_OPS_TSTAMP_SND_HW_CB:
		stamp->clock = AREA_CLOCK_PHC;
		stamp->time_ns = ctx->skb_hwtstamp;
		return true;
	case BPF_SOCK_OPS_TSTAMP_SND_SW_CB:
		break;
	default:
		return false;
	}
	/* TAI is stepped together with CLOCK_REALTIME, which no program can read. */
	stamp->time_ns = bpf_ktime_get_tai_ns();
	return true;
}

static __always_inline void tcp_callback(struct bpf_sock_ops *ctx)
{
	struct bpf_sock_ops_kern *kern = bpf_cast_to_kern_ctx(ctx);
	struct bpf_sock *sk = ctx->sk;
	struct completions_mark *mark;
	struct area_stamp stamp = {};
	struct area *area;

	if (!sk)
		return;
	mark = bpf_sk_storage_get(&sockstamp_marks, sk, NULL, 0);
	if (!mark || mark->kind != MARK_SELECTED)
		return;
	area = area_of(mark);
	if (!area)
		return;
	if (ctx->op == BPF_SOCK_OPS_TSTAMP_SENDMSG_CB) {
		bpf_sock_ops_enable_tx_tstamp(kern, 0);
		return;
	}
	if (!tcp_stamp(ctx, &stamp))
		return;
	stamp.id = tcp_id(mark, kern);
	bpf_spin_lock(&mark->lock);
	area_put_stamp(mark, area, &stamp);
	bpf_spin_unlock(&mark->lock);
}

#endif
