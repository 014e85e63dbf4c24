/* SPDX-License-Identifier: GPL-2.0-only */
/* The question that a socket has asked last, and the answer that came. */
#ifndef SOCKSTAMP_ANSWER_STATE_BPF_H
#define SOCKSTAMP_ANSWER_STATE_BPF_H

#include "bpf/common.bpf.h"

/* In the upper half of `state`. */
#define EXCHANGE_ANSWERED  (1ULL << 32)
#define EXCHANGE_PIPELINED (1ULL << 33)

/* Written where the socket is locked, but `state`, which a reader clears. */
struct exchange {
	__u64 asked; /* when the last send was queued; 0: it has been answered, or was not seen */
	__u64 ns; /* how long its answer took */
	__u64 state; /* sequence number of the answer's first byte; 0: it was read */
	bool asks; /* this end is the one that asks */
	bool pipelined; /* bytes were left unread when it asked */
};

#endif
