/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keep unread arrivals, in the order of their bytes. A few have room in the flow. When a reader
 * falls behind, they move to an element of `unread`; when that is full too, neighbours are merged
 * within a bound, and the rest is evicted.
 *
 * There is one writer, under the socket lock; readers take no lock. Appending changes nothing that
 * a reader may examine. Every move of arrivals changes the upper half of `state`; a reader that
 * finds it changed looks again.
 */
#ifndef SOCKSTAMP_TCP_RECEIVE_ARRIVALS_BPF_H
#define SOCKSTAMP_TCP_RECEIVE_ARRIVALS_BPF_H

#include "tcp/flow.bpf.h"

/* Free added memory once it has not been needed for this long. */
#define GROWN_FOR_NS 1000000000ULL

#define MERGE_AGE_PART 20 /* merging may make a time wrong by this part of its age */
#define MERGE_FLOOR_NS 1000000 /* ... or, if that is not enough, by this */
/* Leave this part of the memory free in a pass: otherwise each arrival would cause another one. */
#define ROOM_PART 8

static __always_inline __u32 arrivals_count(const struct receiving *rx)
{
	return rx->state & ARRIVALS_COUNT;
}

static __always_inline __u32 arrivals_capacity(const struct unread *grown)
{
	return grown ? UNREAD : ARRIVALS;
}

/* Return NULL if there is no such index. */
static __always_inline struct arrival *arrival_at(struct receiving *rx, struct unread *grown,
						  __u32 index)
{
	__u64 bounded = index;

	/*
	 * Compare the same value that is used, right before its use. The two barriers differ,
	 * because the compiler would otherwise form both addresses with the larger bound, which the
	 * verifier of v6.1 refuses.
	 */
	barrier_var(bounded);
	if (grown) {
		if (bounded >= UNREAD)
			return NULL;
		barrier_var(bounded);
		return &grown->arrivals[bounded];
	}
	if (bounded >= ARRIVALS)
		return NULL;
	asm volatile("" : "+r"(bounded), "+r"(rx));
	return &rx->arrivals[bounded];
}

static __always_inline struct unread *arrivals_grown(const struct receiving *rx)
{
	__u64 key = rx->key;

	return rx->state & ARRIVALS_GROWN ? bpf_map_lookup_elem(&unread, &key) : NULL;
}

/* Use an atomic operation for its order: earlier writes are seen before it, later ones after. */
static __always_inline void arrivals_set_state(struct receiving *rx, __u64 state)
{
	__sync_lock_test_and_set(&rx->state, state);
}

static __always_inline __u64 arrivals_load_state(struct receiving *rx)
{
	return __sync_fetch_and_add(&rx->state, 0);
}

static __always_inline __u64 difference(__u64 a, __u64 b)
{
	return a > b ? a - b : b - a;
}

static __always_inline __u64 larger(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

/*
 * Return true if `before` may be merged into `next`, which came later. Each stage of a read of
 * these bytes, and their sum, is then wrong by a bounded time: by half of the range in which they
 * became readable, and by the span of the other times. `now` is not later than any such read.
 */
static __always_inline bool arrivals_merge(const struct arrival *before, struct arrival *next,
					   __u64 now, __u64 floor)
{
	__u64 hol = before->hol < next->hol ? before->hol : next->hol;
	__u64 bound = larger(floor, (now - next->ready + hol) / MERGE_AGE_PART);
	__u64 range = difference(before->ready, next->ready) + RANGE_NS - 1;
	__u64 span = difference(before->hol, next->hol);

	if (before->lag != next->lag) {
		if (!lag_known(before->lag) || !lag_known(next->lag))
			return false;
		span += difference(before->lag, next->lag);
	}
	range = larger(next->range, before->range + range / RANGE_NS);
	span = larger(next->span_ns, before->span_ns + span);
	if (range * RANGE_NS / 2 + span > bound || range > RANGE_LONGEST || span > (__u32)-1)
		return false;
	next->range = range;
	next->span_ns = span;
	return true;
}

/* Return when the byte before `end` became readable: the middle of the possible range. */
static __always_inline __u64 arrival_ready(const struct arrival *arrival, __u32 end)
{
	return arrival->ready -
	       (arrival->seq_end == end ? 0 : (__u64)arrival->range * RANGE_NS / 2);
}

/* A pass over all arrivals, to reduce their number. */
struct pass {
	__u64 now;
	__u64 floor;
	__u32 copied; /* the application has copied up to here */
	__u32 kept;
	__u32 evict; /* the number of oldest arrivals to evict */
	__u32 merges;
};

struct passed {
	struct receiving *rx;
	struct unread *grown;
	struct pass pass;
};

/* A global function for the same reason as arrivals_before(). */
__noinline int arrivals_keep_or_merge(struct receiving *rx, struct unread *grown, __u32 index,
				      struct pass *pass)
{
	struct arrival *arrival, *last, *next;

	if (!rx || !pass)
		return 0;
	arrival = arrival_at(rx, grown, index);
	last = arrival_at(rx, grown, pass->kept - 1);
	next = arrival_at(rx, grown, pass->kept);
	if (!arrival || !next)
		return 0;
	if (!seq_after(arrival->seq_end, rx->done))
		return 0;
	/* The read that took these bytes ends with later ones; keep the first arrival for its age.
	 */
	if (last && seq_before(arrival->seq_end, pass->copied))
		return 0;
	if (pass->evict) {
		pass->evict--;
		rx->lost = arrival->seq_end;
		count_loss(LOSS_EVICTED);
		return 0;
	}
	if (last && pass->merges && arrivals_merge(last, arrival, pass->now, pass->floor))
		next = last;
	else
		pass->kept++;
	if (next != arrival)
		*next = *arrival;
	return 0;
}

static long arrivals_compact_step(__u32 index, struct passed *passed)
{
	arrivals_keep_or_merge(passed->rx, passed->grown, index, &passed->pass);
	return 0;
}

static __always_inline void arrivals_compact(struct passed *passed)
{
	struct receiving *rx = passed->rx;
	__u64 state = rx->state & ~(__u64)ARRIVALS_COUNT;
	__u32 count = arrivals_count(rx);

	if (passed->pass.evict)
		state |= ARRIVALS_EVICTED;
	passed->pass.kept = 0;
	arrivals_set_state(rx, (state | ARRIVALS_MOVING) + ARRIVALS_TURN);
	bpf_loop(count, arrivals_compact_step, passed, 0);
	arrivals_set_state(rx, state + 2 * ARRIVALS_TURN + passed->pass.kept);
}

static __always_inline struct unread *arrivals_grow(struct receiving *rx)
{
	__u64 key = rx->key;
	struct unread *grown;

	/* The element of a socket that was at this address may still be there. */
	if (bpf_map_update_elem(&unread, &key, (void *)&nothing_unread, BPF_ANY))
		return NULL;
	grown = bpf_map_lookup_elem(&unread, &key);
	if (!grown)
		return NULL;
	for (int i = 0; i < ARRIVALS; i++)
		grown->arrivals[i] = rx->arrivals[i];
	arrivals_set_state(rx, (rx->state | ARRIVALS_GROWN) + ARRIVALS_TURN);
	return grown;
}

/*
 * Make room for `wanted` arrivals, if possible. A global function, so the verifier walks it once.
 */
__noinline int arrivals_make_room(struct receiving *rx, __u32 wanted, __u32 copied, __u64 now)
{
	struct passed passed = {.rx = rx, .pass = {.now = now, .copied = copied}};
	struct pass *pass = &passed.pass;
	__u32 room;

	if (!rx)
		return 0;
	passed.grown = arrivals_grown(rx);
	/* Give up if the element is gone: the arrivals in it are lost. */
	if (rx->state & ARRIVALS_GROWN && !passed.grown)
		return 0;
	room = larger(wanted, arrivals_capacity(passed.grown) / ROOM_PART);
	arrivals_compact(&passed);
	if (!passed.grown && pass->kept + room > ARRIVALS) {
		passed.grown = arrivals_grow(rx);
		room = larger(wanted, arrivals_capacity(passed.grown) / ROOM_PART);
	}
	pass->merges = true;
	for (int i = 0; i < 3; i++) {
		if (pass->kept + room <= arrivals_capacity(passed.grown))
			break;
		pass->floor = i ? MERGE_FLOOR_NS : 0;
		if (i == 2)
			pass->evict = pass->kept + room - arrivals_capacity(passed.grown);
		arrivals_compact(&passed);
	}
	return 0;
}

/* Start again after everything that arrived was read. */
static __always_inline void arrivals_restart(struct receiving *rx, __u64 now)
{
	__u64 state = rx->state & ~(__u64)(ARRIVALS_COUNT | ARRIVALS_EVICTED);
	bool shrinks = state & ARRIVALS_GROWN && now - rx->needed > GROWN_FOR_NS;
	__u64 key = rx->key;

	if (shrinks)
		state &= ~(__u64)ARRIVALS_GROWN;
	arrivals_set_state(rx, state + ARRIVALS_TURN);
	if (shrinks)
		bpf_map_delete_elem(&unread, &key);
}

/* Prepare for the addition of arrivals. */
static __always_inline struct unread *arrivals_prepare(struct receiving *rx, __u32 wanted,
						       __u32 copied, __u64 now)
{
	__u32 count = arrivals_count(rx);

	if (count && !seq_after(rx->end, rx->done)) {
		arrivals_restart(rx, now);
		count = 0;
	}
	if (count + wanted > (rx->state & ARRIVALS_GROWN ? UNREAD : ARRIVALS))
		arrivals_make_room(rx, wanted, copied, now);
	else if (count > ARRIVALS)
		rx->needed = now;
	return arrivals_grown(rx);
}

/* Write the arrival of the bytes up to `end`. Return how many were added: one, or none. */
static __always_inline __u32 arrivals_add(struct receiving *rx, struct unread *grown, __u32 end,
					  __u64 ready, __u32 lag)
{
	struct arrival *arrival = arrival_at(rx, grown, arrivals_count(rx));

	if (!arrival)
		return 0;
	arrival->ready = ready;
	arrival->hol = 0;
	arrival->range = 0;
	arrival->seq_end = end;
	arrival->lag = lag;
	arrival->serial = rx->serial;
	arrival->span_ns = 0;
	return 1;
}

/* Count the elements that were written after the existing arrivals as arrivals. */
static __always_inline void arrivals_commit(struct receiving *rx, __u32 added, __u32 end)
{
	rx->end = end;
	arrivals_set_state(rx, rx->state + added);
}

/*
 * Return the number of arrivals with bytes only up to `seq`. A global function: if the verifier
 * knew the bounds of the search, it would walk every path.
 */
__noinline __u32 arrivals_before(struct receiving *rx, struct unread *grown, __u32 count, __u32 seq)
{
	__u32 low = 0;

	if (!rx)
		return 0;
	for (int i = 0; i < 8 /* log2(256) */ && low < count; i++) {
		struct arrival *arrival = arrival_at(rx, grown, (low + count) / 2);

		if (!arrival)
			break;
		seq_halve(&low, &count, arrival->seq_end, seq);
	}
	return low;
}

/* Do the same as arrivals_before(). A reader that keeps up finds one arrival, without a call. */
static __always_inline __u32 arrivals_search(struct receiving *rx, struct unread *grown,
					     __u32 count, __u32 seq)
{
	if (count == 1 && !grown)
		return !seq_after(rx->arrivals[0].seq_end, seq);
	return arrivals_before(rx, grown, count, seq);
}

#endif
