/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sockets that asked, and the memory that their application sees. A socket's mark dies with it;
 * that its application is still there, and still means this socket, is asked of `registrations`
 * each time.
 */
#ifndef SOCKSTAMP_COMPLETIONS_AREA_BPF_H
#define SOCKSTAMP_COMPLETIONS_AREA_BPF_H

#include "bpf/common.bpf.h"
#include "completions/completions.h"
#include "flow/mark.bpf.h"

/* Places for sockets of an application: the element count of each of the inner maps. */
const volatile __u32 setting_sockets = 1;

/* Torn entries of all applications, since the start. */
__u64 entries_torn;

/* User space writes the first five fields when a socket is registered; the others are ours. */
struct completions_mark {
	__u8 kind; /* MARK_SELECTED: it is stamped without error-queue entries; or nothing */
	__u8 asked; /* enum asked: of earlier registrations, too */
	__u8 select; /* that is asked for, and not done yet */
	__u32 place; /* which of the application's, behind those of the applications before it */
	__u64 registration; /* a number that is never given twice */
	__u32 origin; /* of stamps: sequence number of the byte with id 0 */
	struct bpf_spin_lock lock; /* reports come on several CPUs at once */
	bool range_known; /* what follows was published: */
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

/* The registration that a place belongs to; 0: to none. Sized by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} registrations SEC(".maps");

/* An application maps its own and nothing else. Sized by user space, inside and outside. */
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
	__u32 place = mark->place;
	__u64 *registration = bpf_map_lookup_elem(&registrations, &place);
	__u32 application, slot;
	void *areas;

	if (!registration || *registration != mark->registration)
		return NULL;
	application = place / setting_sockets;
	areas = bpf_map_lookup_elem(&applications, &application);
	if (!areas)
		return NULL;
	slot = place % setting_sockets;
	return bpf_map_lookup_elem(areas, &slot);
}

/*
 * Make the element visible. Fully ordered, as every atomic operation that returns a value
 * (Documentation/bpf/standardization/instruction-set.rst, Documentation/atomic_t.txt): a reader
 * that sees the count sees the element, and one that sees its successor in the ring sees the count.
 */
static __always_inline __u64 area_publish(unsigned long long *written)
{
	return __sync_fetch_and_add(written, 1);
}

/* Under the lock. The last entry of the error queue grows while it is there: so does its range. */
static __always_inline void area_put_range(struct completions_mark *mark, struct area *area,
					   __u32 first, __u32 last, __u32 copied)
{
	__u64 ids = (__u64)last << 32 | first;
	struct area_range *range;

	if (mark->range_known && mark->range_first == first) {
		/* Another CPU's report came later and was quicker. */
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

/* Under the lock. */
static __always_inline void area_put_stamp(struct completions_mark *mark, struct area *area,
					   const struct area_stamp *stamp)
{
	struct area_stamp *place = &area->stamps[area->stamps_written % AREA_STAMPS];

	place->id = stamp->id;
	place->kind = stamp->kind;
	place->clock = stamp->clock;
	place->time_ns = stamp->time_ns;
	area_publish(&area->stamps_written);
	mark->stamp_id = stamp->id;
	mark->stamp_kind = stamp->kind;
	mark->stamp_ns = stamp->time_ns;
}

#endif
