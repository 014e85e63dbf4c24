/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Find the datagram that a read took, where no hook shows its skb (udp/receive.bpf.h).
 *
 * The memory of each skb in the ring tells where it is: on its way to the kernel's queue, in it, or
 * taken from it. The read took one of those that are taken and that no earlier read has. If there
 * is one alone, it is the read's. Threads side by side may have taken one each before the first of
 * their reads ends. Then a thread's own previous read tells: what was gone by its end is another's.
 * Where two remain, the read is refused. The datagrams are forgotten once as many reads have ended.
 */
#ifndef SOCKSTAMP_UDP_MATCHING_BPF_H
#define SOCKSTAMP_UDP_MATCHING_BPF_H

#include "answer/answer.bpf.h"
#include "arrival/arrival.bpf.h"
#include "udp/arrivals.bpf.h"
#include "udp/state.bpf.h"

/* Datagrams that CPUs deliver at once, at most: turns of loops over the latest. */
#define UDP_LATEST 64

/*
 * Longest time from taking a datagram to the end of the read call, including a page fault and a
 * preemption. Later, a datagram that another thread seemed to have taken counts as gone.
 */
#define UDP_READING_NS 1000000000

/*
 * Unread datagrams one after the other that end a search. A CPU is between our hook and the queue
 * with one datagram at a time: only as many CPUs at once could leave a taken one behind them.
 */
#define UDP_RUN 8

/*
 * Longest time from our hook until other CPUs can see where the kernel has a datagram. These few
 * instructions are interrupted too seldom to matter.
 */
#define UDP_HANDLING_NS 2000

/* Looks into the queue of producers. */
#define UDP_PRODUCED 16

struct udp_read {
	__u64 now;
	__u64 socket; /* its address, which makes names addresses again */
	__u64 next; /* what the kernel has at the head of its queue */
	__u64 skb; /* what was read, where that is seen */
	__u64 head;
	__u64 counter; /* of the arrival, as rx_head */
	__u64 wakeup; /* STAGE_ABSENT: no task waited */
	struct spent spent; /* rx.app, with its parts */
	__u32 pid;
	__u32 tid;
	__u32 length;
	__u32 weight;
	__u32 group;
	__u32 stamp; /* of what was read, where that is seen, as the arrival's */
	struct udp_arrival arrival;
	struct answer answer;
};

static __always_inline bool udp_is_kept(struct udp_flow *flow, __u64 counter)
{
	struct udp_arrival *arrival = udp_arrival_at(flow, counter);

	return !arrival || arrival->skb;
}

static long udp_first_kept_step(__u32 index, struct udp_range *range)
{
	if (udp_is_kept(range->flow, range->counter))
		return 1;
	range->counter++;
	return 0;
}

/*
 * The first that was neither dropped nor read, from `counter` on: in most cases this one. A global
 * function, as those below, so that the verifier walks it once.
 */
__noinline __u64 udp_first_kept(struct udp_flow *flow, __u64 counter, __u64 head)
{
	struct udp_range range = {.flow = flow, .counter = counter};
	__u64 left = head - counter;

	if (!flow)
		return head;
	if (!left || udp_is_kept(flow, counter))
		return counter;
	bpf_loop(left < UDP_LATEST ? left : UDP_LATEST, udp_first_kept_step, &range, 0);
	return range.counter;
}

enum udp_place {
	UDP_QUEUED, /* in the queue, or on its way to it */
	UDP_TAKEN,
	UDP_HIDDEN, /* maybe in the hands of a CPU that is about to queue it */
};

/* The first fields of an skb, next to each other: include/linux/skbuff.h, v6.18. */
struct udp_links {
	const struct sk_buff *next;
	const struct sk_buff *previous;
	__s64 device;
};

/* Return true if the skb is in a list. A neighbour that is being unlinked may disagree. */
static __always_inline bool udp_is_linked(const struct sk_buff *skb, struct udp_links *links)
{
	const struct sk_buff *next, *previous, *back = NULL;

	if (bpf_core_read(links, sizeof(*links), &skb->next) || !links->next || !links->previous)
		return false;
	/* Own variables: a path from a structure of ours would be looked for in the kernel's. */
	next = links->next;
	previous = links->previous;
	if (!bpf_core_read(&back, sizeof(back), &next->prev) && back == skb)
		return true;
	return !bpf_core_read(&back, sizeof(back), &previous->next) && back == skb;
}

/*
 * Return true if the skb waits in its node's queue of producers, whose entries begin where skbs do:
 * __udp_enqueue_schedule_skb() adds it there, and one CPU moves all to the socket's queue (v6.18).
 */
static __always_inline bool udp_is_produced(const struct udp_read *read, const struct sk_buff *skb,
					    __u32 node)
{
	const struct udp_sock *udp = (void *)read->socket;
	const struct udp_prod_queue *queue = NULL;
	const struct llist_node *entry = NULL;

	if (!bpf_core_field_exists(udp->udp_prod_queue) ||
	    bpf_core_read(&queue, sizeof(queue), &udp->udp_prod_queue))
		return false;
	queue = (void *)queue + node * bpf_core_type_size(struct udp_prod_queue);
	if (bpf_core_read(&entry, sizeof(entry), &queue->ll_root.first))
		return false;
	for (int i = 0; entry && i < UDP_PRODUCED; i++) {
		if ((void *)entry == (void *)skb)
			return true;
		if (bpf_core_read(&entry, sizeof(entry), &entry->next))
			return false;
	}
	return false;
}

/*
 * Return true if a CPU may have the datagram in its hands: it moves datagrams to the queue with the
 * queue's lock. From our hook until it has the lock, or another CPU can see the datagram in the
 * queue of producers, it takes a few instructions. The reader's own CPU has none in its hands: its
 * softirqs end before a task goes on, and a quick task reads a microsecond after another has sent.
 */
static __always_inline bool udp_is_handled(const struct udp_read *read,
					   const struct udp_arrival *arrival)
{
	const struct sock *sk = (void *)read->socket;
	__u32 locked = 0;

	bpf_core_read(&locked, sizeof(locked), &sk->sk_receive_queue.lock);
	if (locked)
		return true;
	return arrival->cpu != (__u8)bpf_get_smp_processor_id() &&
	       bpf_ktime_get_ns() - arrival->time < UDP_HANDLING_NS;
}

/*
 * Find out where a datagram is. Until __udp_enqueue_schedule_skb() overwrites skb->dev, that is a
 * pointer of the kernel, and negative (udp_set_dev_scratch(), v6.18; the upper half is then a
 * length and two flags). A later packet in the same memory has another stamp. What is taken from
 * the queue is in no list (__skb_unlink()). The list is looked at again after the places that a
 * datagram passes before it.
 */
__noinline int udp_place(const struct udp_read *read, const struct udp_arrival *arrival)
{
	struct udp_links links = {};
	const struct sk_buff *skb;
	__u64 stamp = 0;
	bool handled;

	if (!read || !arrival)
		return UDP_HIDDEN;
	skb = (void *)(read->socket + arrival->skb);
	if (bpf_core_read(&stamp, sizeof(stamp), &skb->tstamp) || (__u32)stamp != arrival->stamp)
		return UDP_TAKEN;
	if (udp_is_linked(skb, &links) || (links.device < 0 && stamp) ||
	    udp_is_produced(read, skb, arrival->node))
		return UDP_QUEUED;
	handled = udp_is_handled(read, arrival);
	if (udp_is_linked(skb, &links))
		return UDP_QUEUED;
	return handled ? UDP_HIDDEN : UDP_TAKEN;
}

static __always_inline struct udp_reader *udp_reader(struct udp_flow *flow, __u32 tid)
{
	return &flow->rx_readers[tid % UDP_READERS];
}

/* Return when the thread's previous read ended; 0 if that is not known. */
static __always_inline __u64 udp_previous_end(struct udp_flow *flow, __u32 tid)
{
	struct udp_reader *reader = udp_reader(flow, tid);
	/* Another thread that takes the place clears `tid` first. */
	__u64 end = load_in_order(&reader->end);

	return reader->tid == tid ? end : 0;
}

static __always_inline void udp_note_end(struct udp_flow *flow, __u32 tid, __u64 end)
{
	struct udp_reader *reader = udp_reader(flow, tid);

	reader->tid = 0;
	store_in_order(&reader->end, end);
	reader->tid = tid;
}

/* What a search has found. */
struct udp_seeking {
	struct udp_range range;
	const struct udp_read *read;
	__u64 previous; /* end of the thread's previous read */
	__u64 taken; /* a bit for each datagram that is taken, and no read's */
	__u64 mine; /* one that the read may have taken */
	__u64 latest; /* when the last of them was seen to be taken */
	__u32 possible; /* that the read may have taken */
	__u16 looked;
	__u16 count; /* of the bits */
	__u16 unread; /* one after the other */
	__u16 missing; /* arrivals without room, or being written */
	__u8 hidden;
	__u8 next_seen; /* the next in the kernel's queue */
	__u8 stale; /* one has been taken for too long */
};

/* Return when a datagram was seen to be taken, which it is; not before that. */
static __always_inline __u64 udp_when_taken(const struct udp_seeking *seek,
					    struct udp_arrival *arrival)
{
	__u64 now = seek->read->now;

	if (!arrival->taken)
		arrival->taken = (__u32)bpf_ktime_get_ns() ?: 1;
	return now - (__s32)((__u32)now - arrival->taken);
}

/* Note a datagram that was taken from the queue. */
static __always_inline void udp_seek_taken(struct udp_seeking *seek, __u32 index,
					   struct udp_arrival *arrival)
{
	__u64 when = udp_when_taken(seek, arrival);

	seek->unread = 0;
	/* One that left otherwise, as with a bad checksum, is no read's. */
	seek->stale |= (__s64)(seek->read->now - when) > UDP_READING_NS;
	seek->taken |= 1ULL << (index % UDP_LATEST);
	seek->count++;
	if (when > seek->latest)
		seek->latest = when;
	if (when <= seek->previous || arrival->length < seek->read->length)
		return;
	seek->possible++;
	seek->mine = seek->range.counter + index;
}

static long udp_seek_step(__u32 index, struct udp_seeking *seek)
{
	struct udp_arrival *arrival = udp_arrival_at(seek->range.flow, seek->range.counter + index);
	int place;

	seek->looked = index;
	if (!arrival)
		return ++seek->missing >= UDP_RUN;
	if (!arrival->skb)
		return 0;
	place = udp_place(seek->read, arrival);
	if (place == UDP_TAKEN) {
		udp_seek_taken(seek, index, arrival);
		return 0;
	}
	seek->hidden |= place == UDP_HIDDEN;
	seek->next_seen |= arrival->skb == seek->read->next;
	return ++seek->unread >= UDP_RUN;
}

static long udp_forget_step(__u32 index, struct udp_seeking *seek)
{
	struct udp_arrival *arrival;

	if (!(seek->taken >> (index % UDP_LATEST) & 1))
		return 0;
	arrival = udp_arrival_at(seek->range.flow, seek->range.counter + index);
	if (arrival)
		arrival->skb = 0;
	return 0;
}

/*
 * Forget what was taken by reads that have all ended. Where one was no read's, the others cannot be
 * told from it: forget all, and refuse the next read of each thread that may have one of these.
 */
static __always_inline void udp_forget_taken(struct udp_flow *flow, struct udp_seeking *seek)
{
	if (flow->rx_refused < seek->count) {
		if (!seek->stale && seek->looked < UDP_LATEST * 3 / 4)
			return;
		if (flow->rx_proven && flow->rx_proven < seek->latest)
			flow->rx_proven = seek->latest;
	}
	if (seek->taken)
		bpf_loop(log2_floor(seek->taken) + 1, udp_forget_step, seek, 0);
	flow->rx_refused = 0;
}

/*
 * Return true if the read cannot have taken what is not in the ring: a datagram from before the
 * start, or one that was forgotten.
 */
static __always_inline bool udp_readers_known(const struct udp_flow *flow, __u64 now,
					      __u64 previous)
{
	if (!flow->rx_shared)
		return true;
	return flow->rx_proven &&
	       (previous >= flow->rx_proven || now - flow->rx_proven > UDP_READING_NS);
}

/* Take the arrival. Another one may take its slot at the same time. */
static __always_inline enum verdict udp_take(struct udp_flow *flow, struct udp_read *read,
					     __u64 counter)
{
	struct udp_arrival *arrival = udp_arrival_at(flow, counter);

	if (!arrival)
		return VERDICT_EVICTED;
	read->counter = counter;
	read->arrival = *arrival;
	if (load_in_order(&arrival->next) != counter + 1)
		return VERDICT_EVICTED;
	arrival->skb = 0;
	return arrival_verdict(read->arrival.lag);
}

/* The verdict on a read of what is not in the ring, from `counter` on. */
static __always_inline enum verdict udp_unknown(struct udp_flow *flow, const struct udp_read *read,
						__u64 counter)
{
	if (counter != read->head && !udp_arrival_at(flow, counter)) {
		udp_tail_set(flow, counter + 1);
		return VERDICT_EVICTED;
	}
	return flow->rx_shared || !flow->rx_proven ? VERDICT_UNMATCHED_READ : VERDICT_LOST_EVENT;
}

/* Find the datagram among those from `counter` on by where they are. */
__noinline int udp_seek(struct udp_flow *flow, struct udp_read *read, __u64 counter)
{
	struct udp_seeking seek = {.range = {.flow = flow, .counter = counter}, .read = read};
	enum verdict verdict = VERDICT_UNMATCHED_READ;
	bool known;
	__u64 left;

	if (!flow || !read)
		return VERDICT_LOST_EVENT;
	left = read->head - counter;
	seek.previous = udp_previous_end(flow, read->tid);
	bpf_loop(left < UDP_LATEST ? left : UDP_LATEST, udp_seek_step, &seek, 0);
	known = udp_readers_known(flow, read->now, seek.previous);
	if (seek.possible == 1 && !seek.hidden && known) {
		verdict = udp_take(flow, read, seek.mine);
		seek.taken &= ~(1ULL << ((seek.mine - counter) % UDP_LATEST));
		seek.count--;
	} else if (seek.possible) {
		__sync_fetch_and_add(&flow->rx_refused, 1);
	} else if (!seek.hidden) {
		verdict = udp_unknown(flow, read, counter);
	}
	udp_forget_taken(flow, &seek);
	if (!flow->rx_proven && (!read->next || seek.next_seen))
		flow->rx_proven = read->now;
	udp_note_end(flow, read->tid, bpf_ktime_get_ns());
	counter = udp_first_kept(flow, flow->rx_tail, read->head);
	if (counter != read->head)
		udp_tail_set(flow, counter);
	return verdict;
}

/* Return the low half of the stamp of an skb in the queue, as an arrival has it. */
static __always_inline __u32 udp_stamp(const struct udp_read *read, __u64 name)
{
	const struct sk_buff *skb = (void *)(read->socket + name);
	__u64 stamp = 0;

	bpf_core_read(&stamp, sizeof(stamp), &skb->tstamp);
	return stamp;
}

/*
 * Return true if `following` is also the kernel's next datagram. If more have come, that may be one
 * of these, in the memory of one that was read: their stamps differ.
 */
static __always_inline bool udp_following_matches(struct udp_flow *flow,
						  const struct udp_read *read, __u64 following)
{
	struct udp_arrival *arrival = NULL;

	if (!read->next || following == read->head)
		return !read->next && following == read->head;
	arrival = udp_arrival_at(flow, following);
	if (!arrival || arrival->skb != read->next)
		return false;
	return read->head - following == 1 || arrival->stamp == udp_stamp(read, read->next);
}

/*
 * Return true if the ring and the kernel's queue agree that the read took the oldest. With threads
 * side by side, what came after the next one may be taken.
 */
static __always_inline bool udp_took_oldest(struct udp_flow *flow, const struct udp_read *read,
					    __u64 counter, __u64 following)
{
	struct udp_arrival *arrival = udp_arrival_at(flow, counter);

	if (!flow->rx_proven || !arrival || arrival->taken || arrival->length < read->length ||
	    !udp_following_matches(flow, read, following))
		return false;
	if (!flow->rx_shared)
		return true;
	return !flow->rx_refused && read->head - following <= !!read->next &&
	       udp_readers_known(flow, read->now, udp_previous_end(flow, read->tid));
}

/* Find the arrival of the datagram that was read. */
__noinline int udp_match(struct udp_flow *flow, struct udp_read *read)
{
	__u64 tail, counter, following;
	enum verdict verdict;

	if (!flow || !read)
		return VERDICT_LOST_EVENT;
	tail = flow->rx_tail;
	/* More were read than had arrived: drops gave a slot back. */
	if ((__s64)(read->head - tail) < 0)
		tail = read->head;
	counter = udp_first_kept(flow, tail, read->head);
	following = read->head;
	if (counter != read->head)
		following = udp_first_kept(flow, counter + 1, read->head);
	if (counter == read->head || !udp_took_oldest(flow, read, counter, following))
		return udp_seek(flow, read, counter);
	udp_note_end(flow, read->tid, read->now);
	verdict = udp_take(flow, read, counter);
	/* A drop may give the last place back, to the next arrival. */
	udp_tail_set(flow, following == read->head ? counter + 1 : following);
	return verdict;
}

#endif
