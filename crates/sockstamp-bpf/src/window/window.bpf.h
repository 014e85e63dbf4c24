/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measure in windows: programs that run for all sockets are attached for a part of the time, and
 * detached in between. A message belongs to the window in which its call ends. If windows are one
 * Nth of the time, its weight is N times that of the sampler: whether a call ends in a window does
 * not depend on the message.
 *
 * Programs are attached WINDOW_LEAD_NS before a window and stay up to WINDOW_TAIL_NS after it, to
 * follow messages to their end. A message that began before they were attached, or takes longer
 * than they stay, is refused (`window`). Between windows nothing updates a flow's state: its first
 * event after a gap resets it (reset.bpf.h of each protocol). Selected sockets may give the bit
 * back meanwhile, by which each of their sends calls (tcp/gap/release.bpf.h).
 *
 * The weight 1 belongs to a window without an end: then all messages are measured again.
 */
#ifndef SOCKSTAMP_WINDOW_WINDOW_BPF_H
#define SOCKSTAMP_WINDOW_WINDOW_BPF_H

#include "kernel/kernel.bpf.h"

struct window {
	__u64 opens; /* calls that end after this count; written last while programs run */
	__u64 length; /* ... for this long; ~0: to the end */
	__u32 number; /* of the window; 0: the first, which begins with the measurement */
	__u32 weight; /* of each message in it */
	__u32 off; /* programs are detached: written last before that, and before attaching */
	__u32 released; /* a walk takes the bits of selected sockets; or else gives them back */
};

/* Written by user space. */
volatile struct window window;

/* There may be gaps between windows. */
const volatile bool setting_windows;

static __always_inline bool window_detached(void)
{
	bool off = setting_windows && window.off;

	/* Read the window, which was written before, after it. */
	if (!MEMORY_IN_ORDER && setting_windows)
		order_loads();
	return off;
}

/*
 * The network namespaces that the last walk came to, as the next one can: few hosts have so many
 * containers. Sockets of others keep their bit.
 */
#define RELEASED_NAMESPACES 1024

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RELEASED_NAMESPACES);
	__type(key, __u32); /* inode */
	__type(value, __u32); /* the number of the window before the gap */
} released_namespaces SEC(".maps");

static __always_inline __u32 netns_of(const struct sock_common *common)
{
	return untrusted(common, struct sock_common)->skc_net.net->ns.inum;
}

/* Return true if a socket that is selected now gets its bit by a walk, before the next window. */
static __always_inline bool window_asks_by_walk(const struct sock_common *common)
{
	__u32 netns, *number;

	if (!setting_windows || !window.released)
		return false;
	netns = netns_of(common);
	number = bpf_map_lookup_elem(&released_namespaces, &netns);
	return number && *number == window.number;
}

/* Return true if only a part of the time is measured: then the time of each message matters. */
static __always_inline bool window_bounded(void)
{
	return setting_windows && window.length != ~0ULL;
}

static __always_inline bool window_contains(__u64 now)
{
	__u64 since = now - window.opens;

	/* User space wrote length and weight before. */
	if (!MEMORY_IN_ORDER && setting_windows)
		order_loads();
	return since < window.length;
}

static __always_inline __u32 window_weight(void)
{
	return setting_windows ? window.weight : 1;
}

/*
 * Return true if a message took longer than programs stay attached for it. It is refused in the
 * first window, too, before which they may have been attached for longer: all messages that take as
 * long are treated alike.
 */
static __always_inline bool window_exceeded(__u64 ns, __u64 bound)
{
	return setting_windows && window.weight > 1 && ns > bound;
}

#endif
