/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Request programs on demand. They run for events of all sockets, but few sockets need them, so
 * user space attaches them only while a selected socket does. A program that is always attached
 * sees the need and requests them here.
 */
#ifndef SOCKSTAMP_DEMAND_DEMAND_BPF_H
#define SOCKSTAMP_DEMAND_DEMAND_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"

/* Write the time of use at most this often: CPUs that only read it share its cache line. */
#define DEMAND_NOTED_NS 100000000ULL

struct demand {
	__u64 used; /* when an event needed the programs last */
	__s64 holders; /* sockets whose next event no other program would see */
	__u32 wanted; /* an event needs them */
	__u32 met; /* they are attached: written by user space */
};

volatile struct demand demands[DEMAND_COUNT];

/* Programs are attached on demand, not at the start. */
const volatile bool setting_on_demand;

/* Wake user space. Records are empty: `wanted` above says what is needed. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} knocks SEC(".maps");

static __always_inline bool demand_met(enum demand_for what)
{
	return !setting_on_demand || demands[what].met;
}

static __always_inline void demand_used(enum demand_for what, __u64 now)
{
	if (setting_on_demand && now - demands[what].used > DEMAND_NOTED_NS)
		demands[what].used = now;
}

/* Request the programs that an event needs. Two CPUs may do it at once, without harm. */
static __always_inline void demand_request(enum demand_for what)
{
	void *nothing;

	if (!setting_on_demand || demands[what].wanted)
		return;
	demands[what].wanted = true;
	nothing = bpf_ringbuf_reserve(&knocks, sizeof(__u64), 0);
	if (nothing)
		bpf_ringbuf_discard(nothing, BPF_RB_FORCE_WAKEUP);
}

static __always_inline void demand_hold(enum demand_for what, __s64 holders)
{
	__sync_fetch_and_add(&demands[what].holders, holders);
}

#endif
