/* SPDX-License-Identifier: GPL-2.0-only */
/* A segment of a selected flow arrives. */
#ifndef SOCKSTAMP_TCP_EVENTS_SEGMENT_BPF_H
#define SOCKSTAMP_TCP_EVENTS_SEGMENT_BPF_H

#include "kernel/kernel.bpf.h"
#include "tcp/flow.bpf.h"
#include "tcp/gap/reset.bpf.h"
#include "tcp/receive/hol.bpf.h"
#include "tcp/send/cause.bpf.h"
#include "tcp/send/departure.bpf.h"
#include "tcp/send/end.bpf.h"
#include "tcp/send/network.bpf.h"
#include "window/window.bpf.h"

/* Return true if a flow without state has a message under way, or begins one, after a gap. */
static __always_inline bool window_meets(const struct sock *sk, const struct tcp_skb_cb *cb)
{
	return setting_windows && window.number && (cb->seq != cb->end_seq || sk->sk_write_pending);
}

static __always_inline void on_segment(const struct sock *sk, const struct sk_buff *skb)
{
	const struct tcp_skb_cb *cb = skb_tcp(skb);
	struct flow *flow = flow_lookup(sk);

	if (window_detached())
		return;
	/*
	 * The first data of the flow may come behind a missing segment, or after a gap between
	 * windows: what is to be refused must be known.
	 */
	if (!flow && (seq_after(cb->seq, tcp_of(sk)->rcv_nxt) || window_meets(sk, cb)))
		flow = flow_lookup_or_create(sk);
	if (!flow)
		return;
	flow_reset_if_after_gap(flow, sk->sk_lock.owned);
	if (cb->seq != cb->end_seq && flow_measures(flow, DIRECTION_RX))
		hol_segment_arrives(tcp_of(sk), flow, skb, cb);
	network_note_segment(tcp_of(sk), flow, cb);
	tx_update_departures(sk, flow);
	cause_segment_arrives(sk, flow);
	tx_segment_acks(sk, flow, skb, cb);
}

#endif
