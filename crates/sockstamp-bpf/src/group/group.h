/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/* Define what the programs and user space share of groups. As abi.h: plain types, parses alone. */
#ifndef SOCKSTAMP_GROUP_GROUP_H
#define SOCKSTAMP_GROUP_GROUP_H

#include "abi/abi.h"

/* The dimensions in which groups differ; user space puts containers together from cgroups. */
enum group_by {
	GROUP_BY_PID = 1 << 0,
	GROUP_BY_COMM = 1 << 1,
	GROUP_BY_CGROUP = 1 << 2,
	GROUP_BY_PORT = 1 << 3,
	GROUP_BY_PEER = 1 << 4,
	GROUP_BY_INTERFACE = 1 << 5,
	GROUP_BY_FLOW = 1 << 6,
	GROUP_BY_PROTO = 1 << 7,
	GROUP_BY_NETNS = 1 << 8,
};

/* The common values of a group's messages; zero except for the group's dimensions. */
struct group_key {
	struct flow_identity identity;
	__u32 ifindex;
	__u16 port; /* host order */
	/* Of the namespace's cookie: its number is another one's as soon as it is gone. */
	__u16 netns_cookie;
};

/*
 * A token names a group: the slot it has, and which of the groups that had this slot one after
 * the other. User space gives a slot another token to make every flow look its group up anew.
 */
#define GROUP_INDEX_BITS 12
#define GROUP_INDEX_MASK ((1 << GROUP_INDEX_BITS) - 1)

/* The slot of messages without a slot. It is never given to a group. */
#define GROUP_OTHER 0

struct group_slot {
	__u32 token;
	__u32 used; /* 1: a group is in this slot */
};

/* The rate cap of a group that is not measured. */
#define GROUP_OFF 0xffffffff

/*
 * The layout of sockstamp-model's GroupHistogram: zero bucket, 120 exponential ones, overflow. It
 * has half as many as a bank's distribution, because there is one per group.
 */
#define GROUP_HISTOGRAM_SLOTS 122

struct group_distribution {
	__u64 sum_ns;
	__u64 max_ns;
	__u64 counts[GROUP_HISTOGRAM_SLOTS];
};

struct group_counts {
	__u64 messages;
	__u64 measured;
	__u64 refused; /* by weight */
	__u64 bytes;
};

/* Some 13 kB. All CPUs add to it, so that memory does not grow with their number. */
struct group {
	struct group_key key;
	struct group_counts counts[DIRECTION_COUNT];
	__u64 retransmits;
	__u64 lossless; /* of these: SYNs, to closed windows, and needless */
	__u64 tx_ended; /* measured messages that are in flight no longer */
	struct part_sum parts[PART_COUNT];
	struct group_distribution distributions[DISTRIBUTION_COUNT];
};

#endif
