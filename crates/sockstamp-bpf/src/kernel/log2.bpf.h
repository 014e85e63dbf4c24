/* SPDX-License-Identifier: GPL-2.0-only */
/* Find bits of a word. */
#ifndef SOCKSTAMP_KERNEL_LOG2_BPF_H
#define SOCKSTAMP_KERNEL_LOG2_BPF_H

#include "kernel/vmlinux.h"
#include <bpf/bpf_helpers.h>

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

#endif
