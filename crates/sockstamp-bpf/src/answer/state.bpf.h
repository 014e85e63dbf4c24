/* SPDX-License-Identifier: GPL-2.0-only */
/* The last question of a socket, and its answer. */
#ifndef SOCKSTAMP_ANSWER_STATE_BPF_H
#define SOCKSTAMP_ANSWER_STATE_BPF_H

#include "kernel/kernel.bpf.h"

/* In the upper half of `state`. */
#define EXCHANGE_ANSWERED  (1ULL << 32)
#define EXCHANGE_PIPELINED (1ULL << 33)

/* Written with the socket locked, except `state`, which a reader clears. */
struct exchange {
	__u64 asked; /* when the last send was queued; 0: it has been answered, or was not seen */
	__u64 ns; /* how long its answer took */
	__u64 state; /* sequence number of the answer's first byte; 0: it was read */
	bool asks; /* this end is the one that asks */
	bool pipelined; /* bytes were left unread when it asked */
};

#endif
