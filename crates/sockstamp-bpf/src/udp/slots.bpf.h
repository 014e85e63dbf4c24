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

static __always_inline bool udp_taken(const struct udp_flow *flow, __u32 slot)
{
	return flow->tx_used >> slot & 1;
}

/*
 * Call `static long step(__u32 slot, struct ... *context)` for each slot up to the last that is
 * taken: the lowest are taken first. The verifier walks a step of bpf_loop() once, and each turn of
 * a loop. Most sockets have one send: it needs no loop, which calls a function a turn.
 */
#define udp_each_slot(flow, step, context)                                \
	do {                                                              \
		__u64 used = (flow)->tx_used;                             \
                                                                          \
		if (used && !(used & (used - 1)))                         \
			step(lowest_bit(used), context);                  \
		else if (used)                                            \
			bpf_loop(log2_floor(used) + 1, step, context, 0); \
	} while (0)

struct udp_opened {
	struct udp_flow *flow;
	__u32 tid;
	__u32 slot;
	/* A part was dropped. No count: the verifier would walk each value of it. */
	bool dropped;
};

static long udp_opened_step(__u32 slot, struct udp_opened *opened)
{
	struct udp_send *send = udp_send_at(opened->flow, slot);

	if (!udp_taken(opened->flow, slot) || send->state != UDP_OPEN || send->tid != opened->tid)
		return 0;
	opened->slot = slot;
	return 1;
}

/*
 * The task's send call on this socket that is under way. A global function, as others below, so
 * that the verifier walks it once.
 */
__noinline __u32 udp_find_open_call(struct udp_flow *flow, __u32 tid)
{
	struct udp_opened opened = {.flow = flow, .tid = tid, .slot = UDP_NO_SLOT};

	if (flow)
		udp_each_slot(flow, udp_opened_step, &opened);
	return opened.slot;
}

/* Return the lowest free slot; UDP_NO_SLOT if there is none. */
static __always_inline __u32 udp_lowest_free(const struct udp_flow *flow)
{
	__u64 free = ~flow->tx_used & ((1ULL << UDP_SENDS) - 1);

	return free ? lowest_bit(free) : UDP_NO_SLOT;
}

/* A turn fails only if another CPU takes the slot at the same time. */
#define UDP_CLAIMS 4

static __always_inline __u32 udp_take_free(struct udp_flow *flow)
{
	for (int i = 0; i < UDP_CLAIMS; i++) {
		__u32 slot = udp_lowest_free(flow);

		if (slot == UDP_NO_SLOT ||
		    !(__sync_fetch_and_or(&flow->tx_used, 1ULL << slot) >> slot & 1))
			return slot;
	}
	return UDP_NO_SLOT;
}

__noinline __u32 udp_claim_slot(struct udp_flow *flow, __u32 tid)
{
	struct udp_send *send;
	__u32 slot;

	if (!flow)
		return UDP_NO_SLOT;
	slot = udp_take_free(flow);
	if (slot == UDP_NO_SLOT)
		return slot;
	send = udp_send_at(flow, slot);
	__builtin_memset(send, 0, sizeof(*send));
	send->tid = tid;
	return slot;
}

static __always_inline void udp_release_slot(struct udp_flow *flow, __u32 slot)
{
	struct udp_send *send = udp_send_at(flow, slot);

	if (setting_hops && send->hop)
		hop_stop_following(send);
	send->state = UDP_ENDED;
	/* Whoever takes the slot clears it: not before it was read here. */
	fully_ordered(__sync_fetch_and_and(&flow->tx_used, ~(1ULL << (slot % UDP_SENDS))));
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
