/* SPDX-License-Identifier: GPL-2.0-only */
/* The tags of a connection: those that it writes, and those that it read. */
#ifndef SOCKSTAMP_TCP_TAG_STATE_BPF_H
#define SOCKSTAMP_TCP_TAG_STATE_BPF_H

#include "kernel/kernel.bpf.h"

const volatile bool setting_tag; /* --tag: write and read them */

enum tag_state {
	TAG_NONE,
	TAG_WANTED, /* the kernel asks for options, and the next segment with room gets a tag */
	TAG_RESERVED, /* the segment that is being sent has the room */
	TAG_SENT, /* with data, which may have to be sent again */
};

struct tagging {
	__u64 written; /* when the last one was; 0: never */
	__u32 shift; /* numbers of received bytes less the sender's own */
	__u32 seq; /* of the segment with the last one */
	__u8 state; /* enum tag_state */
	__u8 tries; /* segments without room, since it was wanted */
	__u8 seen; /* `shift` is known */
	__u8 misses; /* callbacks for options since the last tag that was read */
};

#endif
