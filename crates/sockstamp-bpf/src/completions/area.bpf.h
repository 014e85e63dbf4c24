/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Registered sockets, and the memory that their application reads. A socket's mark dies with the
 * socket. Each time, `registrations` tells whether the application still exists and still means
 * this socket.
 */
#ifndef SOCKSTAMP_COMPLETIONS_AREA_BPF_H
#define SOCKSTAMP_COMPLETIONS_AREA_BPF_H

#include "completions/completions.h"
#include "kernel/kernel.bpf.h"
#include "select/mark.bpf.h"

/* The number of slots for sockets per application: the element count of each inner map. */
const volatile __u32 setting_sockets = 1;

/* Torn entries of all applications since the start. */
__u64 entries_torn;

/* User space writes the first five fields when a socket is registered; the others are ours. */
struct completions_mark {
	__u8 kind; /* MARK_SELECTED: stamps come without error-queue entries; or 0 */
	__u8 asked; /* enum asked: also for earlier registrations */
	__u8 select; /* MARK_SELECTED was requested, and not done yet */
	__u32 slot; /* in `registrations`, where those of an application follow each other */
	__u64 registration; /* a number that is never reused */
	__u32 origin; /* of stamps: sequence number of the byte with id 0 */
	struct bpf_spin_lock lock; /* reports come on several CPUs at once */
	bool range_known; /* the following range was published: */
	__u32 range_first;
	__u32 range_last;
	__u32 stamp_id;
	__u32 stamp_kind;
	__u64 stamp_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct completions_mark);
} sockstamp_marks SEC(".maps");

/* The registration in each slot; 0: none. Sized by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} registrations SEC(".maps");

/* An application maps only its own inner map. User space sets the sizes of both maps. */
struct areas {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct area));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct areas);
} applications SEC(".maps");

static __always_inline struct area *area_of(const struct completions_mark *mark)
{
	__u32 slot = mark->slot;
	__u64 *registration = bpf_map_lookup_elem(&registrations, &slot);
	__u32 application, socket;
	void *areas;

	if (!registration || *registration != mark->registration)
		return NULL;
	application = slot / setting_sockets;
	areas = bpf_map_lookup_elem(&applications, &application);
	if (!areas)
		return NULL;
	socket = slot % setting_sockets;
	return bpf_map_lookup_elem(areas, &socket);
}

/*
 * Make the element visible. Fully ordered: a reader that sees the count sees the element, and a
 * reader that sees its successor in the ring sees the count.
 */
static __always_inline void area_publish(unsigned long long *written)
{
	fully_ordered(__sync_fetch_and_add(written, 1));
}

/* Called under the lock. The last entry of the error queue may grow, and its range with it. */
static __always_inline void area_put_range(struct completions_mark *mark, struct area *area,
					   __u32 first, __u32 last, __u32 copied)
{
	__u64 ids = (__u64)last << 32 | first;
	struct area_range *range;

	if (mark->range_known && mark->range_first == first) {
		/* Another CPU published a later report first. */
		if (!seq_after(last, mark->range_last))
			return;
		range = &area->ranges[(area->ranges_written - 1) % AREA_RANGES];
		range->ids = ids;
	} else {
		range = &area->ranges[area->ranges_written % AREA_RANGES];
		range->ids = ids;
		range->copied = copied;
		area_publish(&area->ranges_written);
	}
	mark->range_known = true;
	mark->range_first = first;
	mark->range_last = last;
}

/* Called under the lock. */
static __always_inline void area_put_stamp(struct completions_mark *mark, struct area *area,
					   const struct area_stamp *stamp)
{
	struct area_stamp *slot = &area->stamps[area->stamps_written % AREA_STAMPS];

	slot->id = stamp->id;
	slot->kind = stamp->kind;
	slot->clock = stamp->clock;
	slot->time_ns = stamp->time_ns;
	area_publish(&area->stamps_written);
	mark->stamp_id = stamp->id;
	mark->stamp_kind = stamp->kind;
	mark->stamp_ns = stamp->time_ns;
}

#endif
