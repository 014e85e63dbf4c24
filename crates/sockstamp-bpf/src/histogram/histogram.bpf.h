/* SPDX-License-Identifier: GPL-2.0-only */
/* The banks of counters and histograms that user space maps and reads without a system call. */
#ifndef SOCKSTAMP_HISTOGRAM_HISTOGRAM_BPF_H
#define SOCKSTAMP_HISTOGRAM_HISTOGRAM_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"
#include "kernel/log2.bpf.h"
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
 * Add atomically, although the bank belongs to this CPU: a softirq may interrupt a program in task
 * context, and a task may be preempted in the middle of a program.
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

/*
 * Return the slot of a duration, exactly as sockstamp_model::histogram::slot() does. Every octave
 * has bounds at the same eight places, and a sixteenth of an octave has at most one of them. So the
 * sixteenth gives a slot, and one comparison with its bound decides.
 */
static __always_inline __u32 histogram_slot(__u64 ns)
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
	/* Use the sign of the difference: the CPU would mispredict half of the branches. */
	return slot + ((histogram_bounds[slot] - ns) >> 63);
}

/*
 * Raise a maximum to a duration, in at most this many turns: one fails only if another program
 * writes the maximum in between.
 */
static __always_inline void maximum_raise(__u64 *maximum, __u64 ns, int turns)
{
	for (int i = 0; i < turns; i++) {
		__u64 max = *maximum;

		if (ns <= max || __sync_val_compare_and_swap(maximum, max, ns) == max)
			break;
	}
}

/* Turns where only programs of this CPU write: a softirq, or a task that preempts another. */
#define TURNS_OF_CPU 4

/*
 * Extend a bucket: rare once it has seen a few durations. A global function, so the verifier walks
 * it once.
 */
__noinline int bucket_extend(struct bucket *bucket, __u64 ns)
{
	if (!bucket)
		return 0;
	maximum_raise(&bucket->max_ns, ns, TURNS_OF_CPU);
	for (int i = 0; i < TURNS_OF_CPU; i++) {
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
	 * Keep the test: the compiler knows that the bound holds and drops it, but the verifier
	 * needs it.
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

/* Rare, and a global function, like bucket_extend(). */
__noinline int part_extend(struct part_sum *sum, __u64 ns)
{
	if (sum)
		maximum_raise(&sum->max_ns, ns, TURNS_OF_CPU);
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
