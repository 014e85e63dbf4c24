/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keep the unread datagrams of a socket. A few have room in its state. Where a reader falls behind,
 * each further one is an element of `udp_behind` until it is read. An arrival without room is
 * counted, and its read is refused.
 *
 * CPUs that deliver write at once, and readers take no lock: each arrival says which one it is.
 */
#ifndef SOCKSTAMP_UDP_ARRIVALS_BPF_H
#define SOCKSTAMP_UDP_ARRIVALS_BPF_H

#include "udp/state.bpf.h"

/*
 * Unread datagrams of one socket: almost four times as many small ones as the default receive
 * buffer takes (212992 bytes, net.core.rmem_default; 768 for each).
 */
#define UDP_UNREAD 1024

struct udp_arrival_key {
	__u64 socket;
	__u64 counter;
};

/* Its size is set before it is loaded: limits.rs. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct udp_arrival_key);
	__type(value, struct udp_arrival);
} udp_behind SEC(".maps");

/* Find an unread datagram; NULL if there was no room for it. */
static __always_inline struct udp_arrival *udp_arrival_at(struct udp_flow *flow, __u64 counter)
{
	struct udp_arrival *arrival = &flow->rx[counter % UDP_ARRIVALS];
	struct udp_arrival_key key = {.socket = flow->key, .counter = counter};

	/* All else of it was written before `next`. */
	if (load_in_order(&arrival->next) == counter + 1)
		return arrival;
	return flow->rx_behind > 0 ? bpf_map_lookup_elem(&udp_behind, &key) : NULL;
}

static __always_inline void udp_arrival_delete(struct udp_flow *flow, __u64 counter)
{
	struct udp_arrival_key key = {.socket = flow->key, .counter = counter};

	if (!bpf_map_delete_elem(&udp_behind, &key))
		__sync_fetch_and_add(&flow->rx_behind, -1);
}

static __always_inline bool udp_arrival_insert(struct udp_flow *flow, __u64 counter,
					       const struct udp_arrival *arrival)
{
	struct udp_arrival_key key = {.socket = flow->key, .counter = counter};
	/* The verifier of v6.1 wants it on the stack. */
	struct udp_arrival value = *arrival;

	value.next = counter + 1;
	if (!bpf_map_update_elem(&udp_behind, &key, &value, BPF_NOEXIST))
		__sync_fetch_and_add(&flow->rx_behind, 1);
	/* One that was dropped had the counter before. */
	else if (bpf_map_update_elem(&udp_behind, &key, &value, BPF_EXIST))
		return false;
	/*
	 * The reader, or the end of the socket, has passed it meanwhile: nothing else deletes it.
	 */
	if ((__s64)(counter - __sync_fetch_and_add(&flow->rx_tail, 0)) < 0 ||
	    flow->account == UDP_RELEASED)
		udp_arrival_delete(flow, counter);
	return true;
}

/*
 * Store an arrival that is complete but for `next`. A global function, so that the verifier
 * walks it once.
 */
__noinline int udp_arrival_store(struct udp_flow *flow, __u64 counter,
				 const struct udp_arrival *arrival)
{
	struct udp_arrival *slot;
	__u64 behind;

	if (!flow || !arrival)
		return 0;
	slot = &flow->rx[counter % UDP_ARRIVALS];
	behind = counter - flow->rx_tail;
	if ((__s64)behind >= UDP_ARRIVALS) {
		if (behind >= UDP_UNREAD || !udp_arrival_insert(flow, counter, arrival))
			count_loss(LOSS_EVICTED);
		return 0;
	}
	/* Atomic for its order: a reader that finds `next` finds all else. */
	__sync_lock_test_and_set(&slot->next, 0);
	*slot = *arrival;
	__sync_lock_test_and_set(&slot->next, counter + 1);
	return 0;
}

struct udp_range {
	struct udp_flow *flow;
	__u64 counter;
};

static long udp_tail_set_step(__u32 index, struct udp_range *range)
{
	udp_arrival_delete(range->flow, range->counter + index);
	return 0;
}

/* Continue there: what came before is forgotten. */
__noinline int udp_tail_set(struct udp_flow *flow, __u64 tail)
{
	struct udp_range range = {.flow = flow};
	__u64 passed;

	if (!flow)
		return 0;
	range.counter = __sync_lock_test_and_set(&flow->rx_tail, tail);
	passed = tail - range.counter;
	if ((__s64)passed <= 0 || flow->rx_behind <= 0)
		return 0;
	bpf_loop(passed < UDP_UNREAD ? passed : UDP_UNREAD, udp_tail_set_step, &range, 0);
	return 0;
}

/* Looks of one search: more would let a user spend the reader's CPU with reads that are refused. */
#define UDP_LOOKS (2 * UDP_ARRIVALS)

/* It takes 32 bytes: with more, the stacks of calls are too large for v6.1. */
struct udp_search {
	struct udp_range range; /* where it begins, then what it found */
	__u64 skb; /* 0: it was found */
	__u32 stamp;
};

static long udp_find_arrival_step(__u32 index, struct udp_search *search)
{
	__u64 counter = search->range.counter + index;
	struct udp_arrival *arrival = udp_arrival_at(search->range.flow, counter);

	if (!arrival || arrival->skb != search->skb || arrival->stamp != search->stamp)
		return 0;
	search->range.counter = counter;
	search->skb = 0;
	return 1;
}

/*
 * Return the position of a datagram; `otherwise` if it is not found. Its stamp tells it from others
 * that had its memory before. A search begins shortly before the oldest unread one, since threads
 * side by side end their reads in another order, and goes on where the last one has ended: reads
 * take a datagram each, so that searches overtake them.
 */
__noinline __u64 udp_find_arrival(struct udp_flow *flow, __u64 skb, __u32 stamp, __u64 head,
				  __u64 otherwise)
{
	struct udp_search search = {.range = {.flow = flow}, .skb = skb, .stamp = stamp};
	__u64 from;
	__s64 looks;

	if (!flow)
		return otherwise;
	from = flow->rx_tail - UDP_ARRIVALS;
	if ((__s64)(flow->rx_sought - from) > 0 && (__s64)(head - flow->rx_sought) > 0)
		from = flow->rx_sought;
	search.range.counter = from;
	looks = head - from;
	if (looks > 0)
		bpf_loop(looks < UDP_LOOKS ? looks : UDP_LOOKS, udp_find_arrival_step, &search, 0);
	flow->rx_sought = search.skb ? from + UDP_LOOKS : 0;
	return search.skb ? otherwise : search.range.counter;
}

#endif
