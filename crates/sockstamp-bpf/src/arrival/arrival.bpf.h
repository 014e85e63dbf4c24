/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How far an arrival lags behind its RX software stamp, which is rx.stack of the read that takes
 * it. Each arrival has one word for that: the largest numbers are no times, and name why none is
 * known.
 */
#ifndef SOCKSTAMP_ARRIVAL_ARRIVAL_BPF_H
#define SOCKSTAMP_ARRIVAL_ARRIVAL_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"

#define LAG_LONGEST 0xfffffff8 /* 4.29 s, in nanoseconds: a longer one counts as a mismatch */

enum lag_unknown {
	LAG_WINDOW = LAG_LONGEST + 1, /* it was there before a window (window/window.bpf.h) */
	LAG_CROWDED, /* a missing segment released more than there was room for */
	LAG_ADOPTED, /* it was there before the connection was adopted */
	LAG_HOL, /* it waited for a missing segment, for a time that is not known */
	LAG_CLOCK_STEP,
	LAG_CLOCK_MISMATCH, /* the stamp is of another clock */
	LAG_NO_STAMP,
};

/* Of any width: the sum of a lag and another time may be larger. */
#define lag_known(lag) ((lag) <= LAG_LONGEST)

/* Return the verdict on a read of an arrival, as far as its lag tells. */
static __always_inline enum verdict arrival_verdict(__u32 lag)
{
	switch (lag) {
	case LAG_NO_STAMP:
		return VERDICT_NO_RX_STAMP;
	case LAG_CLOCK_MISMATCH:
		return VERDICT_CLOCK_MISMATCH;
	case LAG_CLOCK_STEP:
		return VERDICT_CLOCK_STEP;
	case LAG_HOL:
		return VERDICT_HOL;
	case LAG_ADOPTED:
		return VERDICT_ADOPTED;
	case LAG_CROWDED:
		return VERDICT_EVICTED;
	case LAG_WINDOW:
		return VERDICT_WINDOW;
	}
	return VERDICT_VALID;
}

#endif
