/* SPDX-License-Identifier: GPL-2.0-only */
/* Keep the offset of the scheduler's clock, by which it records what tasks do. */
#ifndef SOCKSTAMP_SCHED_RUN_CLOCK_BPF_H
#define SOCKSTAMP_SCHED_RUN_CLOCK_BPF_H

#include "kernel/kernel.bpf.h"

/*
 * The scheduler's clock is sched_clock(); a program cannot read it. The sample of a perf event
 * carries it (perf_event_clock(), kernel/events/core.c), so a sample that a timer takes on one CPU
 * gives its offset from CLOCK_MONOTONIC. There is one writer; each field is one aligned word.
 */
struct run_clock {
	__s64 offset; /* CLOCK_MONOTONIC - sched_clock() */
	__u64 at; /* when the offset was measured; 0: never */
	__u64 doubts; /* samples in a row that looked interrupted */
};
volatile struct run_clock run_clock;

/* A sample takes some 0.1 µs between its two clock reads, and the clocks drift apart by less. */
#define RUN_CLOCK_DOUBTFUL_NS 2000
#define RUN_CLOCK_DOUBTS      3
/*
 * Without a sample for this long the timer is dead: its CPU went offline. A CPU that idles may take
 * no sample either (seen on v6.18); the clocks were seen to drift apart by 0.4 µs per second.
 */
#define RUN_CLOCK_STALE_NS 10000000000ULL

/*
 * Take a sample. An interruption between the two reads makes it too large; the next one shows it.
 */
static __always_inline void run_clock_sample(__u64 now, __u64 scheduler)
{
	__s64 offset = now - scheduler;

	if (run_clock.at && offset - run_clock.offset > RUN_CLOCK_DOUBTFUL_NS &&
	    run_clock.doubts < RUN_CLOCK_DOUBTS) {
		run_clock.doubts++;
		return;
	}
	run_clock.doubts = 0;
	run_clock.offset = offset;
	order_stores();
	run_clock.at = now;
}

/* Convert a time of the scheduler, after run_clock_known(). */
static __always_inline __u64 run_clock_time(__u64 scheduler)
{
	return scheduler + run_clock.offset;
}

static __always_inline bool run_clock_known(__u64 now)
{
	__u64 since = now - run_clock.at;

	/* The offset that is read next is of this time, or newer. */
	order_loads();
	return since < RUN_CLOCK_STALE_NS;
}

#endif
