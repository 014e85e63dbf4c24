/* SPDX-License-Identifier: GPL-2.0-only */
/* The banks of counters and histograms that user space maps and reads without a system call. */
#ifndef SOCKSTAMP_HISTOGRAM_HISTOGRAM_BPF_H
#define SOCKSTAMP_HISTOGRAM_HISTOGRAM_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"
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
 * The position of the highest bit, by the product of all bits up to it and a de Bruijn sequence
 * (Leiserson, Prokop, Randall: Using de Bruijn Sequences to Index a 1 in a Computer Word, 1998).
 */
#define DE_BRUIJN 0x03f79d71b4cb0a89ULL
static const __u8 log2_of[64] = {
	0,  47, 1,  56, 48, 27, 2,  60, 57, 49, 41, 37, 28, 16, 3,  61, 54, 58, 35, 52, 50, 42,
	21, 44, 38, 32, 29, 23, 17, 11, 4,  62, 46, 55, 26, 59, 40, 36, 15, 53, 34, 51, 20, 43,
	31, 22, 10, 45, 25, 39, 14, 33, 19, 30, 9,  24, 13, 18, 8,  12, 7,  6,	5,  63,
};

/*
 * Return the position of the highest set bit; value is not 0. BPF has no instruction for it. A
 * binary search would have a branch per step: a path for the verifier, and a guess for the CPU.
 */
static __always_inline __u32 log2_floor(__u64 value)
{
	value |= value >> 1;
	value |= value >> 2;
	value |= value >> 4;
	value |= value >> 8;
	value |= value >> 16;
	value |= value >> 32;
	return log2_of[value * DE_BRUIJN >> 58];
}

/* Return the position of the lowest set bit; value is not 0. */
static __always_inline __u32 lowest_bit(__u64 value)
{
	return log2_of[(value ^ (value - 1)) * DE_BRUIJN >> 58];
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
