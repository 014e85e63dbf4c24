/* SPDX-License-Identifier: GPL-2.0-only */
/* Room for the sends of a UDP socket: find, take, and give back a slot. */
#ifndef SOCKSTAMP_UDP_SLOTS_BPF_H
#define SOCKSTAMP_UDP_SLOTS_BPF_H

#include "udp/end.bpf.h"
#include "udp/hops.bpf.h"
#include "udp/state.bpf.h"

#define UDP_NO_SLOT UDP_SENDS

static __always_inline struct udp_send *udp_send_at(struct udp_flow *flow, __u32 slot)
{
	return &flow->tx[slot % UDP_SENDS];
}

/* Slots are taken from the lowest, so that a search is short. */
#define udp_for_each_send(flow, slot)                                             \
	for (__u32 slot = 0; slot < UDP_SENDS && (flow)->tx_used >> slot; slot++) \
		if ((flow)->tx_used >> slot & 1)

/*
 * The task's send call on this socket that is under way. A global function, as others below with a
 * loop, so that the verifier walks it once.
 */
__noinline __u32 udp_find_open_call(struct udp_flow *flow, __u32 tid)
{
	if (!flow)
		return UDP_NO_SLOT;
	udp_for_each_send(flow, slot)
	{
		struct udp_send *send = udp_send_at(flow, slot);

		if (send->state == UDP_OPEN && send->tid == tid)
			return slot;
	}
	return UDP_NO_SLOT;
}

__noinline __u32 udp_claim_slot(struct udp_flow *flow, __u32 tid)
{
	if (!flow)
		return UDP_NO_SLOT;
	for (__u32 slot = 0; slot < UDP_SENDS; slot++) {
		struct udp_send *send = udp_send_at(flow, slot);

		if (flow->tx_used >> slot & 1 ||
		    __sync_fetch_and_or(&flow->tx_used, 1ULL << slot) >> slot & 1)
			continue;
		__builtin_memset(send, 0, sizeof(*send));
		send->tid = tid;
		return slot;
	}
	return UDP_NO_SLOT;
}

static __always_inline void udp_release_slot(struct udp_flow *flow, __u32 slot)
{
	struct udp_send *send = udp_send_at(flow, slot);

	if (setting_hops && send->hop)
		hop_stop_following(send);
	send->state = UDP_ENDED;
	__sync_fetch_and_and(&flow->tx_used, ~(1ULL << (slot % UDP_SENDS)));
}

__noinline int udp_complete_send(struct bank *bank, struct udp_flow *flow, __u32 slot)
{
	struct udp_send *send;

	if (!bank || !flow)
		return 0;
	send = udp_send_at(flow, slot);
	if (!setting_hops || !hop_hand_over(send, &flow->identity))
		udp_send_ends(bank, send, &flow->identity);
	udp_release_slot(flow, slot);
	return 0;
}

/* The end of the call and the driver, on another CPU, may come at once: one of them completes. */
static __always_inline void udp_complete_send_if_over(struct bank *bank, struct udp_flow *flow,
						      __u32 slot)
{
	struct udp_send *send = udp_send_at(flow, slot);

	if (send->flags & UDP_LEFT &&
	    __sync_val_compare_and_swap(&send->state, UDP_WAITING, UDP_ENDED) == UDP_WAITING)
		udp_complete_send(bank, flow, slot);
}

/* End one that waits for a packet whose leaving was missed. */
static __always_inline void udp_end_missed_send(struct bank *bank, struct udp_flow *flow,
						__u32 slot)
{
	struct udp_send *send = udp_send_at(flow, slot);

	send->flags |= UDP_DOUBTED;
	if (__sync_val_compare_and_swap(&send->state, UDP_WAITING, UDP_ENDED) == UDP_WAITING)
		udp_complete_send(bank, flow, slot);
}

#endif
