/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Groups: messages summed by whose they are. A group has a slot in an array; a flow looks its
 * group up by key once and keeps the slot. How a slot becomes free again without a message
 * counted for the wrong group: see mod.rs.
 */
#ifndef SOCKSTAMP_GROUP_GROUP_BPF_H
#define SOCKSTAMP_GROUP_GROUP_BPF_H

#include "group/group.h"
#include "histogram/histogram.bpf.h"
#include "kernel/kernel.bpf.h"
#include "sample/sample.bpf.h"

const volatile __u32 setting_groups; /* enum group_by; 0: messages are not grouped */

/* User space sets the size of the five maps: one more than there may be groups, or 1 if none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct group);
} groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct group_slot);
} group_slots SEC(".maps");

/* Measured messages per second, flow and direction; 0: setting_rate_cap. Written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} group_caps SEC(".maps");

/* The slots that no group has. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1);
	__type(value, __u32);
} group_free SEC(".maps");

/*
 * No program uses these. The update of a map of maps by user space returns when every program that
 * ran has ended (maybe_wait_bpf_programs(), kernel/bpf/syscall.c, v5.0 to v7.3).
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} group_nothing SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_ARRAY);
			__uint(max_entries, 1);
			__type(key, __u32);
			__type(value, __u32);
		});
} group_grace SEC(".maps");

/* The token of each key's group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct group_key);
	__type(value, __u32);
} group_tokens SEC(".maps");

static __always_inline struct group *group_at(__u32 index)
{
	return bpf_map_lookup_elem(&groups, &index);
}

/*
 * Before each message of a group: a window that begins has the group's own cap. A group that user
 * space has not looked at yet begins with everybody's.
 */
static __always_inline void group_sample_refresh(struct sampler *sampler, __u64 now, __u32 index)
{
	__u32 *own;

	if (!sample_due(sampler, now))
		return;
	own = setting_groups ? bpf_map_lookup_elem(&group_caps, &index) : NULL;
	if (own && *own == GROUP_OFF)
		sample_pause(sampler, now);
	else
		sample_open(sampler, now, own ? *own : 0);
}

static __always_inline void group_messages(__u32 index, enum direction direction, __u32 bytes,
					   __u32 messages)
{
	struct group *group = setting_groups ? group_at(index) : NULL;

	if (!group)
		return;
	count(&group->counts[direction].messages, messages);
	count(&group->counts[direction].bytes, (__u64)bytes * messages);
}

static __always_inline void group_measured(__u32 index, enum direction direction)
{
	struct group *group = setting_groups ? group_at(index) : NULL;

	if (group)
		count(&group->counts[direction].measured, 1);
}

/* A measured message has ended, refused or not. */
static __always_inline void group_ended(__u32 index, enum direction direction, __u64 refused)
{
	struct group *group = setting_groups ? group_at(index) : NULL;

	if (!group)
		return;
	if (direction == DIRECTION_TX)
		count(&group->tx_ended, 1);
	if (refused)
		count(&group->counts[direction].refused, refused);
}

static __always_inline void group_retransmitted(__u32 index, __u32 segments)
{
	struct group *group = setting_groups ? group_at(index) : NULL;

	if (group)
		count(&group->retransmits, segments);
}

/* Segments that were sent again for no loss of data. */
static __always_inline void group_retransmitted_lossless(__u32 index, __u32 segments)
{
	struct group *group = setting_groups ? group_at(index) : NULL;

	if (group)
		count(&group->lossless, segments);
}

/* Turns where all CPUs write at once. */
#define TURNS_OF_CPUS 16

/* A global function, so that the verifier walks it once. */
__noinline int group_add(__u32 index, __u64 distribution, __u64 ns, __u32 weight)
{
	/* Neighbours of the bank's slots are one here; the zero bucket and the overflow stay alone.
	 */
	__u64 slot = (histogram_slot(ns) + 1) / 2;
	struct group *group = group_at(index);
	struct group_distribution *sums;

	/* Show the verifier the bound that the compiler knows, as in histogram_add(). */
	barrier_var(slot);
	if (!group || distribution >= DISTRIBUTION_COUNT || slot >= GROUP_HISTOGRAM_SLOTS)
		return 0;
	sums = &group->distributions[distribution];
	count(&sums->counts[slot], weight);
	count(&sums->sum_ns, ns * weight);
	maximum_raise(&sums->max_ns, ns, TURNS_OF_CPUS);
	return 0;
}

/* A global function, as group_add(). */
__noinline int group_part_add(__u32 index, __u64 part, __u64 ns, __u32 weight)
{
	struct group *group = group_at(index);

	if (group && part < PART_COUNT)
		part_add(&group->parts[part], ns, weight);
	return 0;
}

#endif
