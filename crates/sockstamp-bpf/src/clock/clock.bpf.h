/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Convert RX software stamps to CLOCK_MONOTONIC. They are in CLOCK_REALTIME, which BPF cannot read;
 * user space updates the distance of the two clocks. CLOCK_TAI, which BPF can read (v6.1), is
 * stepped together with REALTIME (tk_set_wall_to_mono(), kernel/time/timekeeping.c), so it shows
 * when that distance is out of date.
 */
#ifndef SOCKSTAMP_CLOCK_CLOCK_BPF_H
#define SOCKSTAMP_CLOCK_CLOCK_BPF_H

#include "abi/abi.h"
#include "arrival/arrival.bpf.h"
#include "kernel/kernel.bpf.h"

/* Written by user space while the programs run: each field is one aligned word. */
volatile struct clock_offsets clock_offsets;

/* Trust a time below this without reading TAI, which costs helper calls. */
#define CLOCK_PLAUSIBLE_NS 100000
/*
 * Allow for an interruption at each of the reads below. The clocks run at one rate, slewed
 * together, so their distance changes only by steps.
 */
#define CLOCK_STEP_NS 1000000
/* Read up to this often: one read without an interruption is enough. */
#define CLOCK_READS 4

static __always_inline __u64 distance(__s64 a, __s64 b)
{
	return a > b ? a - b : b - a;
}

/*
 * Return true for a stamp of another clock: the field may have a sender's departure time.
 * SKB_CLOCK_REALTIME is 0, and so is the earlier flag (include/linux/skbuff.h, v6.11 and v5.18).
 */
static __always_inline bool stamp_of_departure(const struct sk_buff *skb)
{
	if (bpf_core_field_exists(skb->tstamp_type))
		return BPF_CORE_READ_BITFIELD(skb, tstamp_type);
	return BPF_CORE_READ_BITFIELD((const struct sk_buff___before_6_11 *)skb,
				      mono_delivery_time);
}

/*
 * Return CLOCK_REALTIME - CLOCK_MONOTONIC now. Even if nothing can interrupt the program, a
 * hypervisor can take the CPU away; between two clock reads that looks like a step. A global
 * function, so the verifier walks it once.
 */
__noinline __u64 clock_distance(void)
{
	__u64 before = 0, realtime = 0;

	for (int i = 0; i < CLOCK_READS; i++) {
		before = bpf_ktime_get_ns();
		realtime = bpf_ktime_get_tai_ns() - clock_offsets.tai_minus_realtime;
		if (bpf_ktime_get_ns() - before < CLOCK_PLAUSIBLE_NS)
			break;
	}
	return realtime - before;
}

/* Return how far `now` is behind the skb's RX software stamp, or why that is unknown. */
static __always_inline __u32 clock_lag(const struct sk_buff *skb, __u64 now)
{
	__s64 offset = clock_offsets.realtime_minus_monotonic;
	__s64 stamp = skb->tstamp;
	__s64 since = now + offset - stamp;

	if (!stamp)
		return LAG_NO_STAMP;
	if (stamp_of_departure(skb))
		return LAG_CLOCK_MISMATCH;
	if ((__u64)since > CLOCK_PLAUSIBLE_NS) {
		__s64 fresh = clock_distance();

		if (distance(fresh, offset) > CLOCK_STEP_NS)
			return LAG_CLOCK_STEP;
		since = now + fresh - stamp;
	}
	if (since < 0 || !lag_known(since))
		return LAG_CLOCK_MISMATCH;
	return since;
}

#endif
