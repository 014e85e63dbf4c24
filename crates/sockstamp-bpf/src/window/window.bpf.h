/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measure in windows: the programs that events of all sockets run are attached for a part of the
 * time, and gone in between. A message belongs to the window in which its call ends. It stands for
 * as many messages as the windows are a part of the time, on top of the sampler's weight: whether a
 * call ends in a window does not depend on the message.
 *
 * The programs come WINDOW_LEAD_NS before a window and stay up to WINDOW_TAIL_NS after it, so that
 * messages are followed to their end. A message that began before the programs came, or takes
 * longer than they stay, is refused (`window`). Between windows nothing keeps a flow's state up to
 * date: its first event after a gap starts it anew (resume.bpf.h).
 *
 * A weight of 1 is for a window without an end: all messages are measured again.
 */
#ifndef SOCKSTAMP_WINDOW_WINDOW_BPF_H
#define SOCKSTAMP_WINDOW_WINDOW_BPF_H

#include "bpf/common.bpf.h"

struct window {
	__u64 opens; /* calls that end from here on count; written last while programs run */
	__u64 length; /* ... for so long; ~0: to the end */
	__u32 number; /* of the window; 0: the first, which begins with the measurement */
	__u32 weight; /* messages that one in it stands for */
	__u32 off; /* the programs are gone: written last before they go, and before they come */
	__u32 padding;
};

/* Written by user space. */
volatile struct window window;

/* There may be gaps. */
const volatile bool setting_windows;

static __always_inline bool window_off(void)
{
	return setting_windows && window.off;
}

/* Return true if only a part of the time is measured: then a message's time is to be known. */
static __always_inline bool window_bounded(void)
{
	return setting_windows && window.length != ~0ULL;
}

static __always_inline bool window_holds(__u64 now)
{
	return now - window.opens < window.length;
}

static __always_inline __u32 window_weight(void)
{
	return setting_windows ? window.weight : 1;
}

/* Return true if a message took longer than the programs are attached for its sake. */
static __always_inline bool window_exceeded(__u64 ns, __u64 bound)
{
	return setting_windows && window.number && window.weight > 1 && ns > bound;
}

#endif
