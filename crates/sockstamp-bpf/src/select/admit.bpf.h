/* SPDX-License-Identifier: GPL-2.0-only */
/* Admit the state of TCP flows and UDP sockets, as long as there is room for it. */
#ifndef SOCKSTAMP_SELECT_ADMIT_BPF_H
#define SOCKSTAMP_SELECT_ADMIT_BPF_H

#include "histogram/histogram.bpf.h"
#include "kernel/kernel.bpf.h"

/*
 * Overhead of a slab object beside a value: struct bpf_local_storage_elem
 * (include/linux/bpf_local_storage.h, v6.18), rounded up.
 */
#define STORAGE_HEAD 128
/* Limit the state of TCP flows and UDP sockets at one time, and the slab memory that they take. */
const volatile __u64 setting_max_flows = ~0ULL;
const volatile __u64 setting_max_state = ~0ULL;

/* Those that have it, and are not closed. */
__u64 live_flows;
__u64 live_state;

static __always_inline void state_give_back(__u64 bytes)
{
	__sync_fetch_and_add(&live_flows, -1);
	__sync_fetch_and_add(&live_state, -bytes);
}

/* Return true if there is room for the state of one more. */
static __always_inline bool state_admit(__u64 bytes)
{
	__u64 flows = __sync_fetch_and_add(&live_flows, 1);
	__u64 state = __sync_fetch_and_add(&live_state, bytes);

	if (flows < setting_max_flows && state + bytes <= setting_max_state)
		return true;
	state_give_back(bytes);
	count_loss(LOSS_TURNED_AWAY);
	return false;
}

#endif
