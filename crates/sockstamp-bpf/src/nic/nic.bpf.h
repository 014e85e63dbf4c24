/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ask NICs for stamps of sent messages, rarely. A driver may hand a stamp over after the
 * acknowledgement, when its message has ended: such a stamp goes to user space alone.
 */
#ifndef SOCKSTAMP_NIC_NIC_BPF_H
#define SOCKSTAMP_NIC_NIC_BPF_H

#include "abi/abi.h"
#include "histogram/histogram.bpf.h"

/* User space makes it as large as the stamps that may come until it looks. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} nic_stamps SEC(".maps");

/*
 * Where NICs stamp sends, stamps are taken where packets pass, and a NIC is asked for one of its
 * own only as often as was allowed: at most once in so long, over the whole host, so that a NIC
 * with one place for stamps is free for PTP in between. 0: never.
 */
const volatile __u64 setting_nic_interval;

__u64 nic_next; /* when a NIC may be asked again */

/* Return true once per interval, on one CPU alone. */
static __always_inline bool nic_is_due(__u64 *next, __u64 interval)
{
	__u64 due = *(volatile __u64 *)next;
	__u64 now = bpf_ktime_get_ns();

	return now >= due && __sync_val_compare_and_swap(next, due, now + interval) == due;
}

static __always_inline bool nic_admits(struct bank *bank)
{
	bool admits = nic_is_due(&nic_next, setting_nic_interval);

	count(admits ? &bank->nic_asked : &bank->nic_spared, 1);
	return admits;
}

/* The stamp of a message that has ended. */
static __always_inline void nic_stamp_alone(const struct sock *sk, __u32 key, __u64 stamp)
{
	struct nic_stamp *alone = bpf_ringbuf_reserve(&nic_stamps, sizeof(*alone), 0);

	if (!alone) {
		count_loss(LOSS_UNMATCHED);
		return;
	}
	alone->cookie = sk->__sk_common.skc_cookie.counter;
	alone->stamp = stamp;
	alone->seq_last = key;
	alone->padding = 0;
	bpf_ringbuf_submit(alone, BPF_RB_NO_WAKEUP);
}

#endif
