/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stamps that NICs give received packets. The stamp stays with the packet until it is read, so
 * that following it takes nothing from others; but each followed read goes to user space in a
 * record, which is why there is a rate.
 */
#ifndef SOCKSTAMP_NIC_RECEIVED_BPF_H
#define SOCKSTAMP_NIC_RECEIVED_BPF_H

#include "abi/abi.h"
#include "histogram/histogram.bpf.h"
#include "kernel/kernel.bpf.h"
#include "nic/nic.bpf.h"

/* include/linux/skbuff.h, v6.0: in place of the stamp there is the address of it */
#define SKBTX_HW_TSTAMP_NETDEV (1 << 5)

/* At most one read in so long is followed, over the whole host. 0: none. */
const volatile __u64 setting_nic_reads_interval;

__u64 nic_reads_next; /* when a read may be followed again */

/* The last arrival of a flow whose packet a NIC has stamped. */
struct nic_arrival {
	__u64 ready; /* the arrival's: tells which one it is */
	__u64 hardware; /* clock of the NIC (PHC), not MONOTONIC */
	__u64 software; /* RX software stamp, by REALTIME */
	__u32 interface; /* index, in the socket's network namespace */
	__u32 padding;
};

/* By the key of the flow. User space sets the size before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct nic_arrival);
} nic_arrivals SEC(".maps");

/*
 * Note the stamp of the packet that brought the bytes from `start` on, the last one of the receive
 * queue. A packet that was merged of several, by GRO, by the backlog or in the queue, has the stamp
 * of one of them: of which bytes is not known. Merging sets gso_size (gro_complete(),
 * net/core/gro.c; tcp_add_backlog(), net/ipv4/tcp_ipv4.c; v6.18), or moves the packet's begin
 * before `start`.
 */
static __always_inline void nic_note_arrival(const struct sk_buff *skb, __u64 key, __u32 start,
					     __u64 ready)
{
	const void *shared = skb->head + skb->end;
	struct nic_arrival arrival = {.ready = ready};

	arrival.hardware = kernel_read(shared, struct skb_shared_info, hwtstamps.hwtstamp);
	if (!arrival.hardware || skb_tcp(skb)->seq != start ||
	    kernel_read(shared, struct skb_shared_info, gso_size) ||
	    kernel_read(shared, struct skb_shared_info, tx_flags) & SKBTX_HW_TSTAMP_NETDEV)
		return;
	arrival.software = skb->tstamp;
	arrival.interface = skb->skb_iif;
	bpf_map_update_elem(&nic_arrivals, &key, &arrival, BPF_ANY);
}

/* Return the stamps of an arrival whose read is to be followed; NULL if it is not. */
static __always_inline const struct nic_arrival *nic_admits_read(struct bank *bank, __u64 key,
								 __u64 ready)
{
	const struct nic_arrival *arrival = bpf_map_lookup_elem(&nic_arrivals, &key);

	if (!arrival || arrival->ready != ready) {
		count(&bank->nic_reads_unstamped, 1);
		return NULL;
	}
	if (!nic_is_due(&nic_reads_next, setting_nic_reads_interval)) {
		count(&bank->nic_reads_spared, 1);
		return NULL;
	}
	return arrival;
}

#endif
