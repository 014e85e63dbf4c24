/* SPDX-License-Identifier: GPL-2.0-only */
/* A connection that is being opened, in the mark of its socket. */
#ifndef SOCKSTAMP_CONNECTION_STATE_BPF_H
#define SOCKSTAMP_CONNECTION_STATE_BPF_H

#include "bpf/common.bpf.h"

/* Written under the socket lock. */
struct opening {
	__u64 began; /* connect(), or established by a peer; 0: it was seen to end, or not at all */
	__u64 again; /* when a SYN was sent again last; 0: never */
	__u32 group; /* token of the connecting task's group */
	__u32 pid; /* of the connecting task */
	char comm[COMM_LENGTH]; /* only where records are sent */
};

#endif
