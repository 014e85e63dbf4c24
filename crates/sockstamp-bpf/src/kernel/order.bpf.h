/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keep the order of accesses to memory that programs on other CPUs, or user space, look at without
 * a lock. x86-64 exchanges a store with a later load alone, so that most of these cost it nothing:
 * they hold the compiler back. arm64 exchanges whatever no barrier, no address and no lock keeps in
 * order.
 *
 * BPF has no barriers, and load-acquire and store-release only since v6.15. What each kernel has
 * are atomic operations that return a value. These are fully ordered (Documentation/atomic_t.txt;
 * Documentation/bpf/standardization/instruction-set.rst, v6.18, by the kernel's memory model, where
 * such an operation stands between two smp_mb()), on any word: here on one of the stack. arm64
 * compiles them to one instruction with acquire and release, or to a loop and dmb ish
 * (emit_lse_atomic() and emit_ll_sc_atomic(), arch/arm64/net/bpf_jit_comp.c, v6.1).
 *
 * The others order nothing: neither those that return no value, which clang makes of a builtin
 * whose result nobody uses, nor a compare-and-exchange that fails. xchg always returns one.
 */
#ifndef SOCKSTAMP_KERNEL_ORDER_BPF_H
#define SOCKSTAMP_KERNEL_ORDER_BPF_H

#include "kernel/vmlinux.h"
#include <bpf/bpf_helpers.h>

#ifdef __TARGET_ARCH_x86
#define MEMORY_IN_ORDER true
#else
#define MEMORY_IN_ORDER false
#endif

/* smp_mb() where the CPU exchanges accesses. */
static __always_inline void order_memory(void)
{
	__u64 word = 0;

	if (MEMORY_IN_ORDER) {
		barrier();
		return;
	}
	barrier_var(word);
	__sync_lock_test_and_set(&word, 1);
	barrier();
}

/* Stores before it are seen before stores after it: smp_wmb(). */
static __always_inline void order_stores(void)
{
	order_memory();
}

/* Loads before it are done before loads after it: smp_rmb(). */
static __always_inline void order_loads(void)
{
	order_memory();
}

/* Loads before it are done before stores after it are seen, as those of smp_store_release(). */
static __always_inline void order_loads_and_stores(void)
{
	order_memory();
}

/*
 * Return a word, which is read after all that is before it and before all that is after it, but on
 * x86-64 maybe before earlier stores are seen. Without a word of the stack: some chains of calls
 * leave no room for one.
 */
static __always_inline __u64 load_in_order(__u64 *word)
{
	__u64 found;

	if (!MEMORY_IN_ORDER)
		return __sync_fetch_and_add(word, 0);
	barrier();
	found = *(volatile __u64 *)word;
	barrier();
	return found;
}

/*
 * Write a word, which is seen after all that is before it and before what is stored after it. On
 * x86-64 later loads may be done before that.
 */
static __always_inline void store_in_order(__u64 *word, __u64 value)
{
	if (!MEMORY_IN_ORDER) {
		__sync_lock_test_and_set(word, value);
		return;
	}
	barrier();
	*(volatile __u64 *)word = value;
	barrier();
}

/* Stands for the owner of a slot that is being written: no address is as low. */
#define SLOT_BUSY 1ULL

/*
 * Take a slot that programs on several CPUs share, to write it: until its owner is written, last
 * and behind order_stores(), nobody else writes it, and a reader sees that it has no owner. Return
 * whose it was; SLOT_BUSY if another program has taken it just now.
 */
static __always_inline __u64 slot_take_from(__u64 *owner)
{
	__u64 before = *(volatile __u64 *)owner;

	if (before != SLOT_BUSY && __sync_val_compare_and_swap(owner, before, SLOT_BUSY) == before)
		return before;
	return SLOT_BUSY;
}

/* Take a slot, whatever address it has. Return false if another program has taken it just now. */
static __always_inline bool slot_take(__u64 *owner)
{
	return slot_take_from(owner) != SLOT_BUSY;
}

/*
 * Make an atomic operation, whose result nobody needs, a full barrier. It is one on x86-64 in any
 * case, where with a result it would take a loop.
 */
#define fully_ordered(operation)                                       \
	do {                                                           \
		if (MEMORY_IN_ORDER) {                                 \
			(void)(operation);                             \
		} else {                                               \
			__u64 ordered_ = (operation);                  \
                                                                       \
			asm volatile("" : : "r"(ordered_) : "memory"); \
		}                                                      \
	} while (0)

#endif
