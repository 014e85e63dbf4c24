/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reset the state of a UDP socket after a gap between windows (window/window.bpf.h).
 *
 * A datagram that was queued before the programs came is unknown. It has waited for as long as they
 * were attached when its read counts, so longer than any read that is measured: its refusal, like
 * that of each that waited as long, depends on nothing else.
 */
#ifndef SOCKSTAMP_UDP_RESUME_BPF_H
#define SOCKSTAMP_UDP_RESUME_BPF_H

#include "udp/arrivals.bpf.h"
#include "udp/slots.bpf.h"
#include "udp/state.bpf.h"
#include "window/window.bpf.h"

/* More questions than any number of answers ends. */
#define UDP_MANY (1 << 30)

/* End a send of an earlier window: how its packet fared was not seen. */
__noinline int udp_outlast(struct bank *bank, struct udp_flow *flow, __u32 slot)
{
	struct udp_send *send;

	if (!bank || !flow)
		return 0;
	send = udp_send_at(flow, slot);
	__sync_fetch_and_or(&send->flags, UDP_OUTLASTED);
	switch (__sync_lock_test_and_set(&send->state, UDP_ENDED)) {
	case UDP_CORKED:
	case UDP_WAITING:
		udp_complete(bank, flow, slot);
		break;
	case UDP_OPEN:
		udp_release(flow, slot);
		break;
	}
	return 0;
}

/* A global function, so that the verifier walks it once. */
__noinline int udp_resume(struct udp_flow *flow)
{
	struct bank *bank = this_bank();

	if (!flow || !bank || !setting_windows)
		return 0;
	udp_for_each_send(flow, slot) udp_outlast(bank, flow, slot);
	udp_tail_set(flow, flow->rx_head);
	/* Those before the gap may be in the queue still, and those that came in it behind them. */
	for (int i = 0; i < UDP_ARRIVALS; i++)
		flow->rx[i].next = 0;
	flow->rx_proven = false;
	flow->rx_resumed = true;
	flow->rx_ahead = 0;
	flow->exchange.asked = 0;
	flow->exchange.state = 0;
	/* As many may be in flight, until a while without questions has passed. */
	flow->exchange.in_flight = UDP_MANY;
	flow->exchange.last = bpf_ktime_get_ns();
	return 0;
}

/*
 * Before an event of a socket. No lock is held: one of those that come at once resets the state.
 * What the others do meanwhile may be lost, but no message counts so early.
 */
static __always_inline void udp_enter(struct udp_flow *flow)
{
	__u64 before, number;

	if (!setting_windows)
		return;
	before = flow->window;
	number = window.number;
	if (before != number &&
	    __sync_val_compare_and_swap(&flow->window, before, number) == before)
		udp_resume(flow);
}

#endif
