/* SPDX-License-Identifier: GPL-2.0-only */
/* The state of a connection that is being opened, in the mark of its socket. */
#ifndef SOCKSTAMP_CONNECTION_STATE_BPF_H
#define SOCKSTAMP_CONNECTION_STATE_BPF_H

#include "kernel/kernel.bpf.h"

/* Written under the socket lock. */
struct opening {
	__u64 began; /* connect(), or a peer's handshake ended; 0: ended, or never seen */
	__u64 again; /* when a SYN was last retransmitted; 0: never */
	__u32 group; /* token of the connecting task's group */
	__u32 pid; /* of the connecting task */
	char comm[COMM_LENGTH]; /* only where records are sent */
};

#endif
