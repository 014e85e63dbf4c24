/* SPDX-License-Identifier: GPL-2.0-only */
/* Send a record of each packet of selected flows to user space, in a ring buffer of its own. */
#ifndef SOCKSTAMP_PACKETS_RECORD_BPF_H
#define SOCKSTAMP_PACKETS_RECORD_BPF_H

#include "packets/flows.bpf.h"
#include "packets/sent.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20); /* user space sets it */
} packet_ring SEC(".maps");

const volatile __u32 setting_snaplen; /* bytes of each packet; 0: its headers alone */
const volatile bool setting_paged; /* bytes can be read that are not in linear memory (v6.12) */

const volatile __u64 setting_ring_wakeup; /* wake the reader when this many bytes wait */

/* Set by user space before it sleeps until the next record, taken back by the first that comes. */
volatile bool packet_reader_sleeps;

extern int bpf_dynptr_from_skb(struct sk_buff *skb, __u64 flags,
			       struct bpf_dynptr *dynptr) __ksym __weak;

/*
 * Return the number of bytes that were copied. `room` and `paged` are known when the program is
 * compiled.
 */
static __always_inline __u32 packet_copy(__u64 *to, __u32 room, struct sk_buff *skb,
					 const struct packet_head *head,
					 const union packet_begin *begin, __u32 wanted, bool paged)
{
	/* A whole register: the verifier of v6.1 loses the bound of half of one. */
	__u64 bytes = wanted < room ? wanted : room;
	struct bpf_dynptr whole;

	if (wanted <= sizeof(*begin) && wanted <= head->linear) {
		__builtin_memcpy(to, begin->words, sizeof(begin->words));
		return wanted;
	}
	if (paged && setting_paged && bytes > head->linear) {
		/* Show the bound to the verifier. */
		barrier_var(bytes);
		if (bytes > room || bpf_dynptr_from_skb(skb, 0, &whole) ||
		    bpf_dynptr_read(to, bytes, &whole, head->offset, 0))
			return 0;
		return bytes;
	}
	if (bytes > head->linear)
		bytes = head->linear;
	barrier_var(bytes);
	if (bytes > room || bpf_probe_read_kernel(to, bytes, (void *)head->network))
		return 0;
	return bytes;
}

static __always_inline __u32 packet_interface(const struct sk_buff *skb, enum packet_stage stage)
{
	return stage == PACKET_TCP ? skb->skb_iif : skb->dev->ifindex;
}

static __always_inline void packet_fill(struct packet_record *record, struct sk_buff *skb,
					const struct packet_head *head,
					const union packet_begin *begin,
					const struct packet_flow *flow, enum packet_stage stage,
					__u32 room, __u32 wanted)
{
	record->stage = stage;
	record->direction = stage < PACKET_SOFTIRQ ? DIRECTION_TX : DIRECTION_RX;
	record->address = (__u64)skb;
	record->cookie = flow->cookie;
	record->cgroup = flow->cgroup;
	record->key = head->key;
	record->pid = flow->pid;
	__builtin_memcpy(record->comm, flow->comm, sizeof(record->comm));
	record->ifindex = packet_interface(skb, stage);
	/* Whole: a call of a helper for its length costs more. */
	if (stage == PACKET_TCP)
		__builtin_memset(record->interface, 0, sizeof(record->interface));
	else
		__builtin_memcpy(record->interface, skb->dev->name, sizeof(record->interface));
	record->length = head->length;
	record->gso_size = 0;
	record->gso_segs = 0;
	if (head->length > head->headers) {
		const void *shared = skb->head + skb->end;

		record->gso_size = kernel_read(shared, struct skb_shared_info, gso_size);
		record->gso_segs = kernel_read(shared, struct skb_shared_info, gso_segs);
	}
	/*
	 * At the socket, where programs have another kind of pointer, and behind it, where headers
	 * are no longer a part of the packet, linear memory is enough.
	 */
	record->captured = packet_copy((__u64 *)(record + 1), room, skb, head, begin, wanted,
				       stage < PACKET_SOCKET);
}

static __always_inline void packet_submit(struct packet_record *record, __u32 room)
{
	const __u64 step = BPF_RINGBUF_HDR_SZ + sizeof(*record) + room;
	__u64 above = ~0ULL;

	/*
	 * As record_submit() in record/record.bpf.h. One packet in eight looks, which takes a
	 * helper; one of the next 64 of this size does, for other CPUs write too. It is chosen by a
	 * hash of its time: clocks may step by a multiple of eight.
	 */
	if (!(record->time * 0x9e3779b97f4a7c15 >> 61))
		above = bpf_ringbuf_query(&packet_ring, BPF_RB_AVAIL_DATA) - setting_ring_wakeup;
	if (packet_reader_sleeps || above < 64 * step) {
		packet_reader_sleeps = false;
		bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
	} else {
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	}
}

#define packet_send_sized(room)                                                         \
	do {                                                                            \
		struct packet_record *record =                                          \
			bpf_ringbuf_reserve(&packet_ring, sizeof(*record) + (room), 0); \
                                                                                        \
		if (!record) {                                                          \
			packet_lost(PACKET_LOSS_RING);                                  \
			return false;                                                   \
		}                                                                       \
		record->time = now;                                                     \
		packet_fill(record, skb, head, begin, flow, stage, (room), wanted);     \
		packet_submit(record, (room));                                          \
	} while (0)

/* Return true if there was room. */
static __always_inline bool packet_send(struct sk_buff *skb, const struct packet_head *head,
					const union packet_begin *begin,
					const struct packet_flow *flow, enum packet_stage stage)
{
	__u32 wanted = setting_snaplen > head->headers ? setting_snaplen : head->headers;
	__u64 now = bpf_ktime_get_ns();

	if (wanted > head->length)
		wanted = head->length;
	if (setting_snaplen <= PACKET_SMALL || wanted <= PACKET_SMALL)
		packet_send_sized(PACKET_SMALL);
	else if (setting_snaplen <= PACKET_MEDIUM || wanted <= PACKET_MEDIUM)
		packet_send_sized(PACKET_MEDIUM);
	else
		packet_send_sized(PACKET_LARGE);
	return true;
}

/* A packet passes a stage: at `network` is its IP header, `sk` is its socket, if it has one. */
static __always_inline void packet_passes(struct sk_buff *skb, const struct sock *sk, __u64 network,
					  enum packet_stage stage)
{
	enum direction direction = stage < PACKET_SOFTIRQ ? DIRECTION_TX : DIRECTION_RX;
	struct packet_head head = {};
	union packet_begin begin;
	struct packet_flow *flow;

	if (setting_interface && packet_interface(skb, stage) != setting_interface)
		return;
	if (!packet_is_ip(skb))
		return;
	if (!packet_read_begin(&begin, network)) {
		packet_lost(PACKET_LOSS_HEADERS);
		return;
	}
	if (stage == PACKET_SOFTIRQ && setting_once && packet_was_sent(skb, &begin))
		return;
	if (stage == PACKET_TCP)
		head.key.netns = sk->__sk_common.skc_net.net->ns.inum;
	else
		head.key.netns = skb->dev->nd_net.net->ns.inum;
	if (!namespace_selected(head.key.netns))
		return;
	switch (packet_head_read(skb, network, &begin, direction == DIRECTION_TX, &head)) {
	case PACKET_OTHER:
		return;
	case PACKET_UNREADABLE:
		packet_lost(PACKET_LOSS_HEADERS);
		return;
	case PACKET_READ:
		break;
	}
	if (head.fragmented && !packet_fragment_key(&head, direction == DIRECTION_TX)) {
		packet_lost(PACKET_LOSS_FRAGMENT);
		return;
	}
	flow = packet_flow_find(&head.key, sk);
	if (!flow || !packet_flow_wanted(flow, direction) ||
	    !packet_send(skb, &head, &begin, flow, stage))
		return;
	if (stage == PACKET_DRIVER && setting_once)
		packet_note_sent(skb, &head, &begin);
}

/*
 * A packet on its way out. Only devices in its socket's own namespace count: behind those it is on
 * its way through another host, or through this one.
 */
static __always_inline void packet_leaves(struct sk_buff *skb, enum packet_stage stage)
{
	const struct sock *sk = skb->sk;

	if (!sk || sk->__sk_common.skc_net.net != skb->dev->nd_net.net)
		return;
	/* Those of handshakes and of closed connections have no full socket. */
	packet_passes(skb, sock_is_full(sk) && sk->__sk_common.skc_num ? sk : NULL,
		      (__u64)skb->head + skb->network_header, stage);
}

#endif
