/* SPDX-License-Identifier: GPL-2.0-only */
/* Keep the state of received bytes until they are read. */
#ifndef SOCKSTAMP_TCP_RECEIVING_BPF_H
#define SOCKSTAMP_TCP_RECEIVING_BPF_H

#include "arrival/arrival.bpf.h"
#include "kernel/kernel.bpf.h"
#include "sample/sample.bpf.h"
#include "sched/sched.bpf.h"
#include "tcp/sending.bpf.h"

/* The bytes up to seq_end, from the seq_end of the arrival before. */
struct arrival {
	__u64 ready; /* they could be read */
	__u64 hol : 40; /* how long they waited for a missing segment: up to 18 min */
	__u64 range : 24; /* after merging, bytes may have come this much earlier */
	__u32 seq_end;
	__u32 lag; /* from the RX software stamp, or that of the missing segment, to ready */
	__u32 serial; /* counts the calls of sk_data_ready() */
	__u32 span_ns; /* after merging, waits and stack times may differ by this */
};

/* A step of `range`, which is rounded up and ends at 4.29 s. */
#define RANGE_NS      256
#define RANGE_LONGEST 0xffffff
#define HOL_LONGEST   ((1ULL << 40) - 1)

/* A segment that came while an earlier one was missing. */
struct out_of_order {
	__u64 stamped; /* its RX software stamp; 0: none to trust */
	__u32 seq;
	__u32 seq_end;
	__u32 span_ns; /* after merging, times may differ by this */
	__u32 padding;
};

/* Room for the arrivals of a reader that keeps up: an active flow must stay below 1 kB. */
#define ARRIVALS 4

/* Fields of the word `state`, whose upper half counts moves of arrivals. */
#define ARRIVALS_COUNT	 0xffff
#define ARRIVALS_GROWN	 (1 << 16) /* they are in `unread`, not in the flow */
#define ARRIVALS_MOVING	 (1 << 17)
#define ARRIVALS_EVICTED (1 << 18) /* arrivals of bytes before `lost` */
#define ARRIVALS_TURN	 (1ULL << 32)

/* Written under the socket lock, except as noted. */
struct receiving {
	__u64 state; /* of `arrivals` */
	__u64 key; /* in `unread` and `reordered`: the socket's address */
	__u64 needed; /* when the added memory was last needed */
	__u32 seq; /* where the next read starts; written by readers, without the lock */
	__u32 done; /* reads up to here no longer need an arrival; written like `seq` */
	__u32 end; /* seq_end of the newest arrival */
	__u32 serial; /* of the newest arrival; 0: none yet */
	__u32 lost;
	__u32 ooopack; /* segments that had come out of order at the last arrival */
	__u32 filler_end;
	__u32 filler_lag; /* from its stamp to `filler`; LAG_HOL: none was seen */
	__u64 filler; /* when the segment being processed came, if others wait for it */
	/* TCP queued this segment out of order if its count has changed. */
	struct out_of_order latest;
	__u32 latest_ooopack;
	__u32 unknown_end; /* out-of-order segments that start before this are unknown */
	__u8 gap; /* some segments were waiting at the last arrival */
	__u8 adopted; /* a read may have been under way when the flow was adopted */
	__u8 unknown; /* unknown_end is valid */
	__u8 reordered; /* there is an element in `reordered` */
	__u32 heard; /* when bytes last became readable, in HEARD_NS */
	struct arrival arrivals[ARRIVALS];
	__u64 service_from; /* when the last read ended that no send has followed; 0: none */
	__u32 shift; /* received numbers less the sender's own (tcp/tag) */
	__u32 window; /* number of the one that `seq` is of; written like that */
	struct sampler sampler; /* of readers, without the lock */
	struct waiter waiter;
};

/*
 * A time may be wrong by a twentieth of its age, or by 1 ms, so the first and the last arrival that
 * are merged into one may be twice as far apart. If arrivals never cease to come, 10 + ln(10 s / 20
 * ms) / ln(1.1) = 75 remain after 10 s, and 24 more after 100 s; each missing segment adds some.
 * With its head an element fills a slab object of 8 kB.
 */
#define UNREAD 250

struct unread {
	struct arrival arrivals[UNREAD];
};

/* User space sets the size before loading. Elements are allocated on demand. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct unread);
} unread SEC(".maps");

/* Initial value of a new element, too large for the stack. */
const volatile struct unread nothing_unread;

/*
 * The number of out-of-order segments in a window: neighbours are merged as arrivals are. With its
 * head an element fills a slab object of 4 kB.
 */
#define REORDERED 166

struct reordered {
	__u32 first;
	__u32 end; /* one after the last */
	struct out_of_order segments[REORDERED]; /* by sequence number, without overlaps */
};

/* Sized like `unread`. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct reordered);
} reordered SEC(".maps");

_Static_assert(sizeof(struct reordered) + 64 <= 4096, "a flow's segments take more slab");

const volatile struct reordered nothing_reordered;

/* Clear the remains of an earlier socket at this address. */
static __always_inline void receiving_clear(__u64 key)
{
	bpf_map_delete_elem(&unread, &key);
	bpf_map_delete_elem(&reordered, &key);
}

#endif
