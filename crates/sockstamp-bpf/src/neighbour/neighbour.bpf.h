/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Find packets that wait for the link address of their next hop (ARP, neighbour discovery).
 * neigh_event_send() puts them into a queue of the neighbour, between IP and the packet scheduler,
 * and neigh_update() lets them go once the answer has come (net/core/neighbour.c, v6.18). One's
 * tracepoint comes right after that, the other's right before. No other packet passes either.
 */
#ifndef SOCKSTAMP_NEIGHBOUR_NEIGHBOUR_BPF_H
#define SOCKSTAMP_NEIGHBOUR_NEIGHBOUR_BPF_H

#include "histogram/histogram.bpf.h"
#include "kernel/kernel.bpf.h"

/* NUD_VALID, include/net/neighbour.h: all states with a link address. */
#define NEIGHBOUR_VALID 0xde

/* Sockets whose packets are let go, until these reach the packet scheduler or are answered. */
#define NEIGHBOUR_SOCKETS 1024

struct neighbour_wait {
	__u64 released; /* when packets were last let go; 0: not yet */
	__u64 queued; /* when the last one was queued */
	__u64 skb; /* its address */
	__u32 tid; /* of the task that queued it, until that was told; 0: another context */
	__u32 padding;
};

/* Waits of packets, by the address of their socket. The least recently used make room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, NEIGHBOUR_SOCKETS);
	__type(key, __u64);
	__type(value, struct neighbour_wait);
} neighbour_waits SEC(".maps");

/* When packets were last let go: who left TCP later has waited for none. */
__u64 neighbour_found;

/*
 * Waits noted since the start. A map of this kind lets none go before half of its entries are used
 * (kernel/bpf/bpf_lru_list.c, v6.18), so until then a packet without a wait was queued before the
 * programs came.
 */
__u64 neighbour_noted;

struct neighbour_queue {
	__u64 head; /* where it begins and ends */
	__u64 next;
	__u64 now;
};

/* Return true if the socket may be selected: without any storage it has no mark. */
static __always_inline bool neighbour_may_concern(__u64 address)
{
	const struct sock *sk = (const struct sock *)address;
	__u8 state = TCP_TIME_WAIT;

	if (sk)
		bpf_core_read(&state, sizeof(state), &sk->__sk_common.skc_state);
	return state != TCP_TIME_WAIT && state != TCP_NEW_SYN_RECV &&
	       kernel_read(sk, struct sock, sk_bpf_storage);
}

/*
 * neigh_event_send(): a packet is about to leave, and has been queued if the address of its next
 * hop is not known. Nothing is locked: if another packet was queued since, this one's is not told.
 */
static __always_inline void neighbour_asked(const struct neighbour *neighbour, bool queued)
{
	const void *head = &neighbour->arp_queue;
	const void *skb = neighbour->arp_queue.prev;
	struct neighbour_wait wait = {};
	__u64 sk;

	if (!queued || skb == head)
		return;
	sk = (__u64)kernel_read(skb, struct sk_buff, sk);
	if (!neighbour_may_concern(sk))
		return;
	wait.queued = bpf_ktime_get_ns();
	wait.skb = (__u64)skb;
	wait.tid = bpf_get_current_pid_tgid();
	bpf_map_update_elem(&neighbour_waits, &sk, &wait, BPF_ANY);
	__sync_fetch_and_add(&neighbour_noted, 1);
}

static long neighbour_release_step(__u32 index, struct neighbour_queue *queue)
{
	const struct sk_buff *skb = (const struct sk_buff *)queue->next;
	struct neighbour_wait *wait;
	__u64 sk;

	if (!skb || queue->next == queue->head)
		return 1;
	sk = (__u64)kernel_read(skb, struct sk_buff, sk);
	queue->next = (__u64)kernel_read(skb, struct sk_buff, next);
	wait = bpf_map_lookup_elem(&neighbour_waits, &sk);
	if (wait)
		wait->released = queue->now;
	else if (neighbour_noted > NEIGHBOUR_SOCKETS / 2 && neighbour_may_concern(sk))
		count_loss(LOSS_NEIGHBOUR);
	return 0;
}

/*
 * neigh_update(): the state of a neighbour changes. Nothing is locked, so that the queue may change
 * meanwhile: a packet that comes now has not waited. The queue is as long as unres_qlen_bytes lets
 * it be, and the kernel goes through all of it next.
 */
static __always_inline void neighbour_changes(const struct neighbour *neighbour, __u8 state)
{
	struct neighbour_queue queue;

	if (!(state & NEIGHBOUR_VALID) || !neighbour->arp_queue.qlen)
		return;
	queue.head = (__u64)&neighbour->arp_queue;
	queue.next = (__u64)neighbour->arp_queue.next;
	queue.now = bpf_ktime_get_ns();
	bpf_loop(neighbour->arp_queue.qlen, neighbour_release_step, &queue, 0);
	neighbour_found = queue.now;
}

/* Return when a packet of the socket was last let go, if that was after `since`; otherwise 0. */
static __always_inline __u64 neighbour_released(const struct sock *sk, __u64 since)
{
	__u64 key = (__u64)sk;
	const struct neighbour_wait *wait;

	if ((__s64)(neighbour_found - since) <= 0)
		return 0;
	wait = bpf_map_lookup_elem(&neighbour_waits, &key);
	return wait && (__s64)(wait->released - since) > 0 ? wait->released : 0;
}

/*
 * Return when a packet of TCP that enters the packet scheduler `now` left TCP, if it has waited for
 * its neighbour since; otherwise `now`. The packet has the time from __tcp_transmit_skb()
 * (net/ipv4/tcp_output.c, v6.18).
 */
static __always_inline __u64 neighbour_waited_since(const struct sock *sk,
						    const struct sk_buff *skb, __u64 now)
{
	__u64 left = skb->skb_mstamp_ns;

	return neighbour_released(sk, left) ? left : now;
}

/*
 * Return the wait of the packet that a task has just sent on a socket, once; NULL: it has none, or
 * is over already.
 */
static __always_inline const struct neighbour_wait *neighbour_of_call(const struct sock *sk,
								      __u32 tid)
{
	__u64 key = (__u64)sk;
	struct neighbour_wait *wait = bpf_map_lookup_elem(&neighbour_waits, &key);

	if (!wait || wait->tid != tid || wait->released)
		return NULL;
	wait->tid = 0;
	return wait;
}

/* Packets of a queue are let go within this time. */
#define NEIGHBOUR_RECENT_NS 1000000

/* Return true if a packet of the socket may just have been let go. */
static __always_inline bool neighbour_lets_go(const struct sock *sk, __u64 now)
{
	return neighbour_released(sk, now - NEIGHBOUR_RECENT_NS);
}

#endif
