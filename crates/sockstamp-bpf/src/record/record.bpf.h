/* SPDX-License-Identifier: GPL-2.0-only */
/* One record a message on its way to user space. */
#ifndef SOCKSTAMP_RECORD_BPF_H
#define SOCKSTAMP_RECORD_BPF_H

#include "../flow/flow.bpf.h"

/* Room for some 30 000 records; user space may set another size before load. */
#define RING_SIZE (8 << 20)

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_SIZE);
} records SEC(".maps");

/*
 * The reader polls; it is only woken when the ring is a quarter full. A wake-up a record would cost
 * the measured flow an interrupt and a task switch.
 */
static __always_inline void record_submit(struct message_record *record)
{
	__u64 waiting = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA);

	bpf_ringbuf_submit(record, waiting > setting_ring_wakeup ? BPF_RB_FORCE_WAKEUP :
								   BPF_RB_NO_WAKEUP);
}

static __always_inline void record_flow(struct message_record *record, const struct sock *sk,
					const struct flow *flow)
{
	const struct sock_common *common = &sk->__sk_common;

	record->cookie = common->skc_cookie.counter;
	record->netns = common->skc_net.net->ns.inum;
	record->family = common->skc_family;
	record->local_port = common->skc_num;
	record->remote_port = bpf_ntohs(common->skc_dport);
	if (record->family == AF_INET6) {
		BPF_CORE_READ_INTO(&record->local_address, common, skc_v6_rcv_saddr.in6_u.u6_addr8);
		BPF_CORE_READ_INTO(&record->remote_address, common, skc_v6_daddr.in6_u.u6_addr8);
	} else {
		*(__be32 *)record->local_address = common->skc_rcv_saddr;
		*(__be32 *)record->remote_address = common->skc_daddr;
	}
	__builtin_memcpy(record->comm, flow->comm, sizeof(record->comm));
}

static __always_inline struct message_record *record_reserve(const struct sock *sk,
							     const struct flow *flow,
							     enum direction direction,
							     enum verdict verdict)
{
	struct message_record *record;

	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		count_loss(LOSS_RING);
		return NULL;
	}
	__builtin_memset(record, 0, sizeof(*record));
	for (int i = 0; i < STAGE_COUNT; i++)
		record->stages[i] = STAGE_ABSENT;
	record->weight = 1;
	record->direction = direction;
	record->verdict = verdict;
	record_flow(record, sk, flow);
	return record;
}

#endif
