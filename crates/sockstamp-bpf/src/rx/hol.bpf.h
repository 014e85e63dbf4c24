/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Head-of-line blocking. At tracepoint tcp_probe, the first thing in tcp_rcv_established()
 * (net/ipv4/tcp_input.c, v6.18), the socket is locked and TCP has not looked at the segment yet:
 * one that starts behind rcv_nxt and within the window is about to be queued out of order
 * (tcp_data_queue()), and one that starts at or before it while others wait may fill the hole.
 * In other states than ESTABLISHED the tracepoint is silent: what waits then is refused (`hol`).
 */
#ifndef SOCKSTAMP_HOL_BPF_H
#define SOCKSTAMP_HOL_BPF_H

#include "../clock/clock.bpf.h"
#include "../flow/flow.bpf.h"

enum hol_view {
	HOL_SPLIT, /* rx.hol is a stage of its own */
	HOL_INCLUDE, /* its time is part of rx.stack */
	HOL_EXCLUDE, /* reads that waited are refused */
	HOL_UNSEEN, /* not looked for: its time falls where it may */
};

const volatile __u32 setting_hol;

static __always_inline struct out_of_order *hol_slot(struct flow *flow, __u32 counter)
{
	return &flow->ooo[counter % OOO_SLOTS];
}

/* The skb's RX software stamp on CLOCK_MONOTONIC; 0 without one to trust. */
static __always_inline __u64 hol_stamp(const struct sk_buff *skb)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 since = clock_since_stamp(skb, now);

	return since <= ARRIVAL_LONGEST ? now - since : 0;
}

/* RFC 7323, 2.3: what is farther away than a window can be is of another time. */
#define WINDOW_MAX (1U << 30)

/* Whether the byte before `end` may have been in a slot that was overwritten. */
static __always_inline bool hol_lost(const struct flow *flow, __u32 end)
{
	return flow->ooo_head > OOO_SLOTS && flow->ooo_lost - end < WINDOW_MAX;
}

static __always_inline void hol_queue(struct flow *flow, const struct sk_buff *skb,
				      const struct tcp_skb_cb *cb)
{
	struct out_of_order *slot = hol_slot(flow, flow->ooo_head);
	struct bank *bank = this_bank();

	if (bank)
		count(&bank->out_of_order, 1);
	if (flow->ooo_head >= OOO_SLOTS && !hol_lost(flow, slot->seq_end))
		flow->ooo_lost = slot->seq_end;
	slot->stamped = hol_stamp(skb);
	slot->seq = cb->seq;
	slot->seq_end = cb->end_seq;
	flow->ooo_head++;
}

/*
 * Segments that came behind a missing one before the flow was adopted: nobody knows when. While
 * some wait, ooo_last_skb is the last of them (tcp_data_queue_ofo(), net/ipv4/tcp_input.c, v6.18).
 */
static __always_inline void hol_adopt(struct flow *flow, const struct tcp_sock *tp)
{
	__u32 end = skb_tcp(tp->ooo_last_skb)->end_seq;

	for (int i = 0; i < OOO_SLOTS; i++) {
		flow->ooo[i].seq = end;
		flow->ooo[i].seq_end = end;
	}
	flow->ooo_lost = end;
	flow->ooo_head = OOO_SLOTS + 1;
}

/* tcp_receive_window() */
static __always_inline __u32 hol_window(const struct tcp_sock *tp)
{
	__s32 window = tp->rcv_wup + tp->rcv_wnd - tp->rcv_nxt;

	return window < 0 ? 0 : window;
}

/* A segment with data, before TCP works on it. */
static __always_inline void hol_segment(const struct tcp_sock *tp, struct flow *flow,
					const struct sk_buff *skb, const struct tcp_skb_cb *cb)
{
	if (setting_hol == HOL_UNSEEN)
		return;
	flow->rx_filler_ns = ARRIVAL_HOL;
	if (seq_after(cb->seq, tp->rcv_nxt)) {
		if (seq_before(cb->seq, tp->rcv_nxt + hol_window(tp)))
			hol_queue(flow, skb, cb);
	} else if (tp->out_of_order_queue.rb_node) {
		flow->rx_filler = bpf_ktime_get_ns();
		flow->rx_filler_ns = clock_since_stamp(skb, flow->rx_filler);
	}
}

#define HOL_UNKNOWN (~0ULL)

/*
 * When the byte before `end` arrived, if it was behind a missing segment; 0 if it was not, and
 * HOL_UNKNOWN if it may have been. What came twice came when it first came. A global function, so
 * that the verifier walks it once.
 */
__noinline __u64 hol_arrived(struct flow *flow, __u32 end)
{
	__u64 first = 0;
	__u32 count;

	if (!flow || hol_lost(flow, end))
		return HOL_UNKNOWN;
	count = flow->ooo_head < OOO_SLOTS ? flow->ooo_head : OOO_SLOTS;
	for (__u32 i = 1; i <= OOO_SLOTS && i <= count; i++) {
		const struct out_of_order *slot = hol_slot(flow, flow->ooo_head - i);

		if (seq_before(slot->seq_end, end) || !seq_before(slot->seq, end))
			continue;
		if (!slot->stamped)
			return HOL_UNKNOWN;
		first = slot->stamped;
	}
	return first;
}

#endif
