/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measure RX of UDP. As of v6.18 no tracepoint shows the skb of a datagram that is read. Its data
 * is therefore kept when it reaches the socket (cgroup_skb/ingress, just before it is queued), in a
 * ring, in order, and a read (sock_recv_length) takes the oldest.
 *
 * Each read checks that this is the datagram that was read. The skb at the head of the kernel's
 * queue after the read, the next to be read, must be the ring's next one too, and the ring must be
 * empty where the queue is. Otherwise matching.bpf.h looks where the datagrams are. A datagram that
 * left otherwise (a bad checksum, found when it is read or polled for), threads that read at the
 * same moment, or datagrams queued before the start cost refusals, never a wrong time.
 *
 * Where functions are traced, or the socket calls back (kernel/series), the skb is shown, and the
 * order does not matter.
 */
#ifndef SOCKSTAMP_UDP_RECEIVE_BPF_H
#define SOCKSTAMP_UDP_RECEIVE_BPF_H

#include "clock/clock.bpf.h"
#include "ledger/ledger.bpf.h"
#include "record/record.bpf.h"
#include "udp/answer.bpf.h"
#include "udp/arrivals.bpf.h"
#include "udp/drop_reason.bpf.h"
#include "udp/in_step.bpf.h"
#include "udp/matching.bpf.h"
#include "udp/peer.bpf.h"
#include "udp/reset.bpf.h"
#include "udp/select.bpf.h"
#include "udp/state.bpf.h"
#include "udp/unanswered.bpf.h"
#include "wait/attempts.bpf.h"
#include "wait/wait.bpf.h"

#define EFAULT 14 /* include/uapi/asm-generic/errno-base.h */

/*
 * The payload's length; __cgroup_bpf_run_filter_skb() moves `data`, and it is behind the header
 * when the datagram is queued, so it is reckoned anew.
 */
static __always_inline __u32 udp_length(const struct sk_buff *skb)
{
	return skb->len - (skb->head + skb->transport_header - skb->data) - UDP_HEADER_LENGTH;
}

/*
 * A datagram has reached the socket, in softirq; it will be queued or dropped. `receiver`: the
 * socket as this kind of program has it, and `ctx` the packet, if it has that.
 */
static __always_inline void udp_datagram_arrives(const void *receiver, struct __sk_buff *ctx,
						 const struct sk_buff *skb, const struct sock *sk)
{
	/* The memory of skb->dev holds other things once it is queued: udp_set_dev_scratch(). */
	struct udp_flow *flow = udp_flow_of_packet(receiver, skb->skb_iif);
	struct udp_arrival arrival = {};
	__u64 counter;

	if (!flow)
		return;
	udp_reset_receiving_if_after_gap(flow);
	counter = __sync_fetch_and_add(&flow->rx_head, 1);
	arrival.time = bpf_ktime_get_ns();
	if (!setting_packet_bit)
		demand_used(DEMAND_DATAGRAMS, arrival.time);
	arrival.lag = clock_lag(skb, arrival.time);
	arrival.length = udp_length(skb);
	arrival.skb = udp_name(sk, skb);
	arrival.stamp = skb->tstamp;
	if (bpf_core_field_exists(struct udp_sock, udp_prod_queue))
		arrival.node = bpf_get_numa_node_id();
	arrival.cpu = bpf_get_smp_processor_id();
	if (setting_in_step)
		arrival.number = ctx ? datagram_number_arrived(ctx, skb) : datagram_number(skb);
	if (udp_peer_wanted())
		udp_peer(sk, skb, true, &arrival.remote);
	udp_arrival_store(flow, counter, &arrival);
	if (udp_asks(sk, flow, skb, false) && flow->exchange.peer) {
		udp_answer_arrives(sk, skb, flow, counter, arrival.time);
		if (flow->exchange.state ==
		    ((__u64)NO_PAIR(ASKED_AGAIN) << UDP_UNPAIRED_SHIFT | (counter + 1)))
			udp_repetition_answered(flow);
	}
	sched_note_waiter(sk, &flow->waiter, counter, arrival.time);
}

struct udp_dropping {
	struct udp_range range;
	__u64 skb; /* the name of what was dropped */
};

static long udp_datagram_dropped_step(__u32 index, struct udp_dropping *dropping)
{
	struct udp_flow *flow = dropping->range.flow;
	struct udp_arrival *arrival;
	__u64 counter;

	if (dropping->range.counter == flow->rx_tail)
		return 1;
	counter = --dropping->range.counter;
	arrival = udp_arrival_at(flow, counter);
	if (!arrival || arrival->skb != dropping->skb)
		return 0;
	arrival->skb = 0;
	udp_answer_dropped(flow, counter);
	/* The last is forgotten, so that drops take no room. */
	__sync_val_compare_and_swap(&flow->rx_head, counter + 1, counter);
	return 1;
}

/*
 * A datagram was dropped after it had reached the socket: no room in its receive buffer, a filter
 * of its own, no memory (kfree_skb, whose rx_sk is the socket: sk_skb_reason_drop(), v6.11). Where
 * kfree_skb does not tell, __udp_enqueue_schedule_skb() fails.
 */
static __always_inline void udp_datagram_dropped(const struct sock *sk, const struct sk_buff *skb,
						 int reason)
{
	struct udp_dropping dropping = {.range = {.flow = udp_flow_lookup_or_create(sk)}};
	struct bank *bank = this_bank();

	if (!dropping.range.flow || !bank)
		return;
	count(&bank->drops, 1);
	udp_count_reason(DIRECTION_RX, reason);
	if (window_detached())
		return;
	dropping.range.counter = dropping.range.flow->rx_head;
	dropping.skb = udp_name(sk, skb);
	/*
	 * Datagrams that reach the socket on other CPUs come in between: as many as there may be.
	 * The verifier walks a step of bpf_loop() once, and each turn of a loop.
	 */
	bpf_loop(UDP_LATEST, udp_datagram_dropped_step, &dropping, 0);
}

/* The skb that the next read will take; 0 if there is none. */
static __always_inline __u64 udp_next_skb(const struct sock *sk)
{
	const struct udp_sock *udp = cast_kernel(sk, struct udp_sock);
	const struct sk_buff *skb = udp->reader_queue.next;

	/* __skb_recv_udp() moves the whole receive queue there once it is empty. */
	if ((void *)skb != (void *)&udp->reader_queue)
		return udp_name(sk, skb);
	skb = untrusted(sk, struct sock)->sk_receive_queue.next;
	if ((void *)skb != (void *)&sk->sk_receive_queue)
		return udp_name(sk, skb);
	return 0;
}

/*
 * The arrival of the datagram that was read, whose skb is known. It has its slot in the ring
 * unless it was queued before the start, or so many have come since that it was overwritten.
 */
__noinline int udp_match_skb(struct udp_flow *flow, struct udp_read *read)
{
	struct udp_arrival *arrival;
	enum verdict verdict;
	__u64 counter, tail;

	if (!flow || !read)
		return VERDICT_LOST_EVENT;
	tail = flow->rx_tail;
	arrival = udp_arrival_at(flow, tail);
	/* The oldest, in most cases: its stamp tells it from another one of its address. */
	if (arrival && arrival->skb == read->skb && read->stamp && arrival->stamp == read->stamp)
		counter = tail;
	else
		counter = udp_find_arrival(flow, read->skb, read->stamp, read->head, read->head);
	if (counter == read->head) {
		if (tail == read->head || arrival)
			return VERDICT_LOST_EVENT;
		udp_tail_set(flow, tail + 1);
		return VERDICT_EVICTED;
	}
	verdict = udp_take(flow, read, counter);
	/* Threads side by side may end their reads in another order. */
	if (verdict != VERDICT_EVICTED && (__s64)(counter - tail) >= 0)
		udp_tail_set(flow, counter + 1);
	return verdict;
}

static __always_inline void udp_read_record(struct udp_flow *flow, const struct sock *sk,
					    const struct udp_read *read, enum verdict verdict)
{
	const struct udp_arrival *arrival = &read->arrival;
	__u64 total = arrival->lag + read->now - arrival->time;
	struct message_record *record;

	if (!record_wanted(verdict, record_longest(total, read->answer.ns)))
		return;
	/* Not by way of the socket's state: several tasks may read at once. */
	record = record_new(DIRECTION_RX, verdict);
	if (!record)
		return;
	udp_identify(&record->flow, sk, &arrival->remote);
	record->flow.pid = read->pid;
	comm_read(record->flow.comm);
	record->time = read->now;
	record->weight = read->weight;
	record->group = read->group;
	record->stamps.rx.read = read->now;
	record->cpu = record_cpu();
	record->bytes = read->length;
	record->seq_end = arrival->number;
	if (verdict == VERDICT_VALID) {
		record->stamps.rx.software = arrival->time - arrival->lag;
		record->stamps.rx.ready = arrival->time;
		record->stamps.rx.oldest = record->stamps.rx.software;
		record->stages[STAGE_RX_STACK] = arrival->lag;
		spent_record(record, &read->spent, read->wakeup);
		answer_record(record, &read->answer);
	}
	record_submit(record);
}

/* Nothing was read: shutdown(2) ends reads with 0, as an empty datagram does. */
static __always_inline bool udp_nothing_read(const struct sock *sk, struct udp_flow *flow)
{
	return sk->sk_shutdown & RCV_SHUTDOWN &&
	       udp_first_kept(flow, flow->rx_tail, flow->rx_head) == flow->rx_head;
}

static __always_inline void udp_account_read(struct bank *bank, struct udp_flow *flow,
					     struct udp_read *read)
{
	const struct udp_arrival *arrival = &read->arrival;
	__u64 total = arrival->lag + (read->now - arrival->time);

	read->spent.copied = read->now;
	read->wakeup = sched_split_read(&flow->waiter, read->counter, arrival->time, read->now,
					&read->spent);
	sched_split_quota(&read->spent, read->counter, read->wakeup, read->now);
	account_datagram(bank, read->group, DISTRIBUTION_UDP_STACK, STAGE_RX_STACK, arrival->lag,
			 read->weight);
	account_spent(bank, read->group, &read->spent, read->wakeup, read->weight);
	account_datagram(bank, read->group, DISTRIBUTION_UDP_TOTAL,
			 DISTRIBUTION_TOTAL(DIRECTION_RX), total, read->weight);
	read->answer = udp_answer_take(flow, read->counter);
	answer_add(bank, read->group, &read->answer, read->weight);
}

/* Count the answer that a read is, if it is one. A function of its own, for its stack. */
static __noinline int udp_count_answer(const struct sock *sk, const struct udp_read *read)
{
	const struct udp_remote *remote = &read->arrival.remote;
	struct attempts_key key = {};

	if (!setting_waits || read->answer.ns == STAGE_ABSENT)
		return 0;
	attempts_of(&key, sk, WAIT_ANSWER, read->pid);
	if (!key.port) {
		key.port = remote->port;
		__builtin_memcpy(key.address, remote->address, sizeof(key.address));
	}
	return attempts_answered(&key, read->answer.ns, read->weight, false);
}

/*
 * Refuse a read of what may have been queued before the programs of a window came, and of what has
 * waited as long.
 */
static __always_inline enum verdict
udp_verdict_in_window(struct udp_flow *flow, const struct udp_read *read, enum verdict verdict)
{
	if (!setting_windows)
		return verdict;
	if (verdict != VERDICT_VALID)
		return flow->rx_resumed ? VERDICT_WINDOW : verdict;
	flow->rx_resumed = false;
	return window_exceeded(read->now - read->arrival.time, WINDOW_LEAD_NS) ? VERDICT_WINDOW :
										 VERDICT_VALID;
}

/*
 * Count the message if it is the target's; return true if it is its turn to be measured. A frame of
 * its own, as below: the verifier of v6.12 allows 512 bytes for a program and what it calls.
 */
static __noinline int udp_count_read(struct udp_flow *flow, const struct sock *sk,
				     struct udp_read *read)
{
	struct bank *bank = this_bank();
	__u32 length;

	if (!bank || !pid_selected(read->pid) ||
	    !udp_wants(sk, &read->arrival.remote, DIRECTION_RX))
		return false;
	if (window_bounded() && !window_contains(read->now))
		return false;
	read->group = udp_group(flow, sk, &read->arrival.remote);
	account_messages(bank, read->group, DIRECTION_RX, read->length, window_weight());
	account_datagrams(bank, DIRECTION_RX, read->length, window_weight());
	udp_sample_refresh(&flow->rx_sampler, read->now, read->group);
	/* Less of it may have been asked for. */
	length = read->arrival.length ?: read->length;
	if (datagram_skip(&flow->rx_sampler, read->arrival.number, length))
		return false;
	read->weight = stream_take(&flow->rx_sampler, length) * window_weight();
	return true;
}

static __noinline int udp_measure_read(struct udp_flow *flow, const struct sock *sk,
				       struct udp_read *read, enum verdict verdict)
{
	struct bank *bank = this_bank();

	if (!bank)
		return 0;
	account_measured(bank, read->group, DIRECTION_RX, read->weight);
	if (verdict == VERDICT_VALID) {
		read->spent.queue = word_at(&sk->sk_wq);
		udp_account_read(bank, flow, read);
		udp_count_answer(sk, read);
	} else {
		account_refused(bank, read->group, DIRECTION_RX, verdict, read->weight);
	}
	if (setting_record)
		udp_read_record(flow, sk, read, verdict);
	return 0;
}

static __always_inline void udp_read_message(struct udp_flow *flow, const struct sock *sk,
					     struct udp_read *read, enum verdict verdict)
{
	verdict = udp_verdict_in_window(flow, read, verdict);
	if (udp_count_read(flow, sk, read))
		udp_measure_read(flow, sk, read, verdict);
}

static __always_inline void udp_read_now(struct udp_read *read, __u32 length)
{
	__u64 task = bpf_get_current_pid_tgid();

	read->pid = task >> 32;
	read->tid = task;
	read->now = bpf_ktime_get_ns();
	read->length = length;
}

/* Reads of several threads may end in another order than they began. */
static __always_inline void udp_note_reader(struct udp_flow *flow, __u32 tid)
{
	if (flow->rx_reader == tid)
		return;
	flow->rx_shared |= !!flow->rx_reader;
	flow->rx_reader = tid;
}

/*
 * sock_recv_length(): the read call is over, nothing is locked, `current` is the reader. A datagram
 * that could not be copied (EFAULT) is gone all the same (udp_recvmsg(), v6.18).
 */
static __always_inline void udp_read(const struct sock *sk, int result)
{
	struct udp_read read = {};
	struct udp_flow *flow;
	enum verdict verdict;

	if (result < 0 && result != -EFAULT) {
		if (setting_waits)
			udp_read_fails(sk, result);
		return;
	}
	flow = udp_flow_lookup_or_create(sk);
	if (!flow || (!result && udp_nothing_read(sk, flow)))
		return;
	udp_reset_receiving_if_after_gap(flow);
	udp_read_now(&read, result < 0 ? 0 : result);
	read.socket = (__u64)sk;
	udp_note_reader(flow, read.tid);
	/* Keep this order: every queued datagram has been noted before. */
	read.next = udp_next_skb(sk);
	order_loads();
	read.head = *(volatile __u64 *)&flow->rx_head;
	verdict = udp_match(flow, &read);
	if (result >= 0)
		udp_read_message(flow, sk, &read, verdict);
}

/* A read while arrivals are not noted. */
static __always_inline void udp_recvmsg_ends_unfollowed(struct sock *sk, int result)
{
	if (result >= 0 && udp_mark_lookup(sk))
		udp_note_unfollowed(sk);
}

/*
 * The callback at the end of a read (kernel/series), or skb_consume_udp(), with which udp_recvmsg()
 * and udpv6_recvmsg() end: the datagram is copied, and `current` is the reader. Of one that was
 * only looked at (MSG_PEEK) the length is negated, and it is in the queue still. One that could not
 * be copied does not come here (net/ipv4/udp.c, v6.1).
 */
static __always_inline void udp_datagram_consumed(const struct sock *sk, const struct sk_buff *skb,
						  int length)
{
	struct udp_read read = {};
	struct udp_flow *flow;

	if (length < 0 || (!length && skb->next))
		return;
	flow = udp_flow_lookup_or_create(sk);
	if (!flow)
		return;
	udp_reset_receiving_if_after_gap(flow);
	udp_read_now(&read, length);
	read.skb = udp_name(sk, skb);
	read.stamp = skb->tstamp;
	read.head = *(volatile __u64 *)&flow->rx_head;
	udp_read_message(flow, sk, &read, udp_match_skb(flow, &read));
}

#endif
