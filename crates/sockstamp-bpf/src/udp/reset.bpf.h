/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reset the state of a UDP socket after a gap between windows (window/window.bpf.h).
 *
 * A datagram that was queued before the programs came is unknown. It has waited for as long as they
 * were attached when its read counts, so longer than any read that is measured: its refusal, like
 * that of each that waited as long, depends on nothing else.
 */
#ifndef SOCKSTAMP_UDP_RESET_BPF_H
#define SOCKSTAMP_UDP_RESET_BPF_H

#include "udp/arrivals.bpf.h"
#include "udp/slots.bpf.h"
#include "udp/state.bpf.h"
#include "window/window.bpf.h"

/* More questions than any number of answers ends. */
#define UDP_MANY (1 << 30)

/* End a send of an earlier window: how its packet fared was not seen. */
__noinline int udp_end_outlasted(struct bank *bank, struct udp_flow *flow, __u32 slot)
{
	struct udp_send *send;

	if (!bank || !flow)
		return 0;
	send = udp_send_at(flow, slot);
	__sync_fetch_and_or(&send->flags, UDP_OUTLASTED);
	switch (__sync_lock_test_and_set(&send->state, UDP_ENDED)) {
	case UDP_CORKED:
	case UDP_WAITING:
		udp_complete_send(bank, flow, slot);
		break;
	case UDP_OPEN:
		udp_release_slot(flow, slot);
		break;
	}
	return 0;
}

/* How many questions are in flight is not known until a while without one has passed. */
static __always_inline void udp_reset_exchange(struct udp_exchange *exchange)
{
	udp_ask_no_more(exchange, UDP_MANY);
	exchange->state = 0;
	exchange->last = bpf_ktime_get_ns();
}

struct udp_resetting {
	struct bank *bank;
	struct udp_flow *flow;
};

static long udp_reset_step(__u32 slot, struct udp_resetting *resetting)
{
	if (udp_taken(resetting->flow, slot))
		udp_end_outlasted(resetting->bank, resetting->flow, slot);
	return 0;
}

/* A global function, so that the verifier walks it once. */
__noinline int udp_reset_sending(struct udp_flow *flow)
{
	struct udp_resetting resetting = {.bank = this_bank(), .flow = flow};

	if (!flow || !resetting.bank || !setting_windows)
		return 0;
	udp_each_slot(flow, udp_reset_step, &resetting);
	udp_reset_exchange(&flow->exchange);
	return 0;
}

__noinline int udp_reset_receiving(struct udp_flow *flow)
{
	if (!flow || !setting_windows)
		return 0;
	udp_tail_set(flow, flow->rx_head);
	/* Those before the gap may be in the queue still, and those that came in it behind them. */
	for (int i = 0; i < UDP_ARRIVALS; i++)
		flow->rx[i].next = 0;
	flow->rx_proven = 0;
	flow->rx_resumed = true;
	flow->rx_refused = 0;
	udp_reset_exchange(&flow->exchange);
	return 0;
}

/* Return true if a window has begun since, for the first of the events that come at once. */
static __always_inline bool udp_first_in_window(__u64 *window_of)
{
	__u64 before, number;

	if (!setting_windows)
		return false;
	before = *window_of;
	number = window.number;
	return before != number && __sync_val_compare_and_swap(window_of, before, number) == before;
}

/*
 * Before an event of a socket. No lock is held: one of those that come at once resets the state.
 * What the others do meanwhile may be lost, but no message counts so early. Sends and reads have a
 * reset each: programs on reads have no room on the stack for the ends of sends (v6.1).
 */
static __always_inline void udp_reset_sending_if_after_gap(struct udp_flow *flow)
{
	if (udp_first_in_window(&flow->tx_window))
		udp_reset_sending(flow);
}

static __always_inline void udp_reset_receiving_if_after_gap(struct udp_flow *flow)
{
	if (udp_first_in_window(&flow->rx_window))
		udp_reset_receiving(flow);
}

#endif
