/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Count why datagrams were dropped, by the kernel's reason (kfree_skb): on TX, packets of messages
 * that are refused for it; on RX, datagrams that selected sockets did not take.
 */
#ifndef SOCKSTAMP_UDP_DROP_REASON_BPF_H
#define SOCKSTAMP_UDP_DROP_REASON_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"

#define UDP_NO_REASON 0 /* SKB_NOT_DROPPED_YET: the hook tells none */

/* 0 has those of the kernel's subsystems, whose numbers are larger than the core's. */
__u64 udp_drop_reasons[DIRECTION_COUNT][DROP_REASONS];

static __always_inline void udp_count_reason(enum direction direction, int reason)
{
	__u32 number = reason;

	if (number == UDP_NO_REASON)
		return;
	if (number >= DROP_REASONS)
		number = 0;
	__sync_fetch_and_add(&udp_drop_reasons[direction][number], 1);
}

#endif
