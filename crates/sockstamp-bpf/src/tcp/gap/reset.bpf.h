/* SPDX-License-Identifier: GPL-2.0-only */
/* Reset the state of a flow after a gap between windows. */
#ifndef SOCKSTAMP_TCP_GAP_RESET_BPF_H
#define SOCKSTAMP_TCP_GAP_RESET_BPF_H

#include "tcp/flow.bpf.h"
#include "tcp/receive/hol.bpf.h"
#include "tcp/send/end.bpf.h"

/*
 * Reset the state of sends, and note whether a send call may be under way. No hook shows that a
 * call waits for memory. But only a segment can wake its task, and the segment passes tcp_probe
 * first, where the wait is seen (sk_write_pending). A call that copies looks like a new one, unless
 * the socket's owner processes the backlog meanwhile (`calls`). This needs a call that takes no
 * turn in all of WINDOW_LEAD_NS, in which no message counts.
 */
static __always_inline void reset_sending(const struct sock *sk, const struct tcp_sock *tp,
					  struct flow *flow, bool calls)
{
	struct bank *bank = this_bank();

	if (bank)
		tx_refuse_in_flight(bank, sk, flow);
	flow->tx.sched = flow->tx.head;
	flow->tx.snd = flow->tx.head;
	flow->tx.seq = tp->write_seq;
	flow->tx.crowded = calls || sk->sk_write_pending ? TX_WINDOW : 0;
	for (int i = 0; i < SENDERS; i++)
		flow->tx.senders[i].tid = 0;
	flow->rx.service_from = 0;
	flow->tx.ack_flags = 0;
	flow->exchange.asked = 0;
	flow->exchange.open = false;
	flow->exchange.in_flight = 0;
	flow->exchange.state = 0;
	flow->tx.more = false;
	if (flow->exchange.serves)
		flow->exchange.answered = 0;
	flow->exchange.paired = false;
}

/* Reset the state of reads. The arrival times of unread bytes are unknown. */
static __always_inline void reset_receiving(const struct tcp_sock *tp, struct flow *flow)
{
	struct receiving *rx = &flow->rx;
	__u32 added;

	rx->done = tp->copied_seq;
	arrivals_restart(rx, bpf_ktime_get_ns());
	rx->serial++;
	added = arrivals_add(rx, arrivals_grown(rx), tp->rcv_nxt, bpf_ktime_get_ns(), LAG_WINDOW);
	arrivals_commit(rx, added, tp->rcv_nxt);
	rx->latest.seq_end = rx->latest.seq;
	rx->filler_lag = LAG_HOL;
	rx->unknown = false;
	if (rx->reordered)
		hol_delete(rx);
	hol_may_have_waited(tp, rx);
	if (rx->gap)
		hol_adopt(rx, tp);
}

/*
 * Reset a flow's state after a gap, with its socket locked. `calls`: a send call may be under
 * way. A global function, so that the verifier walks it once.
 */
__noinline int flow_reset_after_gap(struct flow *flow, __u32 calls)
{
	const struct tcp_sock *tp;
	const struct sock *sk;

	/* Check again, because the verifier walks this function even if it is never called. */
	if (!flow || !setting_casts || !setting_windows)
		return 0;
	sk = cast_kernel((void *)flow->rx.key, struct sock);
	tp = cast_kernel((void *)flow->rx.key, struct tcp_sock);
	reset_sending(sk, tp, flow, calls);
	reset_receiving(tp, flow);
	order_stores();
	flow->window = window.number;
	return 0;
}

#endif
