/* SPDX-License-Identifier: GPL-2.0-only */
/* The banks of counters and histograms that user space maps and reads without a system call. */
#ifndef SOCKSTAMP_HISTOGRAM_HISTOGRAM_BPF_H
#define SOCKSTAMP_HISTOGRAM_HISTOGRAM_BPF_H

#include "bpf/common.bpf.h"
#include "histogram_bounds.h"

/* One bank per possible CPU (set before load), about 100 kB each. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bank);
} banks SEC(".maps");

static __always_inline struct bank *this_bank(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&banks, &cpu);
}

/*
 * Atomic although the bank is this CPU's: a softirq may interrupt a program that runs in task
 * context, and a task with a program under way may be preempted.
 */
static __always_inline void count(__u64 *counter, __u64 value)
{
	__sync_fetch_and_add(counter, value);
}

static __always_inline void count_loss(enum loss loss)
{
	struct bank *bank = this_bank();

	if (bank)
		count(&bank->losses[loss], 1);
}

/* Position of the highest bit set. BPF has no instruction for it; value is not 0. */
static __always_inline __u32 log2_floor(__u64 value)
{
	__u32 result = 0;

	if (value >> 32) {
		value >>= 32;
		result += 32;
	}
	if (value >> 16) {
		value >>= 16;
		result += 16;
	}
	if (value >> 8) {
		value >>= 8;
		result += 8;
	}
	if (value >> 4) {
		value >>= 4;
		result += 4;
	}
	if (value >> 2) {
		value >>= 2;
		result += 2;
	}
	return result + (value >> 1);
}

/*
 * Slot of a duration, exactly as sockstamp_model::histogram::slot(). The bounds stand at the same
 * eight places of every octave, and a sixteenth of an octave holds at most one of them, so the
 * sixteenth names a slot and one comparison with its bound decides. A global function, so that the
 * verifier walks its many paths once.
 */
__noinline __u32 histogram_slot(__u64 ns)
{
	__u32 octave, slot;

	if (ns <= histogram_bounds[0])
		return 0;
	if (ns > histogram_bounds[HISTOGRAM_SLOTS - 2])
		return HISTOGRAM_SLOTS - 1;
	octave = log2_floor(ns);
	slot = HISTOGRAM_OCTAVE_BASE + 8 * octave + histogram_octave[(ns >> (octave - 4)) & 15];
	if (slot >= HISTOGRAM_SLOTS - 1)
		return HISTOGRAM_SLOTS - 1;
	return slot + (ns > histogram_bounds[slot]);
}

/*
 * Rare once a bucket has seen a few durations. A global function, so that the verifier walks it
 * once. Each turn lost means that another program of this CPU came in between.
 */
__noinline int bucket_extend(struct bucket *bucket, __u64 ns)
{
	if (!bucket)
		return 0;
	for (int i = 0; i < 4; i++) {
		__u64 max = bucket->max_ns;

		if (ns <= max || __sync_val_compare_and_swap(&bucket->max_ns, max, ns) == max)
			break;
	}
	for (int i = 0; i < 4; i++) {
		__u64 min = bucket->min_ns;

		if ((min && ns >= min) ||
		    __sync_val_compare_and_swap(&bucket->min_ns, min, ns) == min)
			break;
	}
	return 0;
}

/* `index`: a stage, or DISTRIBUTION_TOTAL() of a direction. */
static __always_inline void histogram_add(struct bank *bank, __u32 index, __u64 ns, __u32 weight)
{
	__u32 slot = histogram_slot(ns);
	struct bucket *bucket;

	/*
	 * The compiler knows that the bound holds and drops the test; the verifier wants to see it.
	 */
	barrier_var(slot);
	if (slot >= HISTOGRAM_SLOTS)
		return;
	bucket = &bank->distributions[index].slots[slot];
	count(&bucket->count, weight);
	count(&bucket->sum_ns, ns * weight);
	if (ns > bucket->max_ns || ns < bucket->min_ns || !bucket->min_ns)
		bucket_extend(bucket, ns);
}

/* Rare, and a global function, as bucket_extend(). */
__noinline int part_extend(struct part_sum *sum, __u64 ns)
{
	if (!sum)
		return 0;
	for (int i = 0; i < 4; i++) {
		__u64 max = sum->max_ns;

		if (ns <= max || __sync_val_compare_and_swap(&sum->max_ns, max, ns) == max)
			break;
	}
	return 0;
}

static __always_inline void part_add(struct part_sum *sum, __u64 ns, __u32 weight)
{
	if (!ns)
		return;
	count(&sum->count, weight);
	count(&sum->sum_ns, ns * weight);
	if (ns > sum->max_ns)
		part_extend(sum, ns);
}

#endif
