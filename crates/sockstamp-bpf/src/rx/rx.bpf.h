/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * RX of TCP. sk_data_ready() fires, with the socket locked, each time more bytes can be read: it
 * notes "readable up to here, since now", with the stamp of the skb that brought them. A read call
 * takes bytes in order, so the arrival of its last byte is found by sequence number: no skb is
 * needed on the reading side, and coalescing and partial reads lose nothing.
 */
#ifndef SOCKSTAMP_RX_BPF_H
#define SOCKSTAMP_RX_BPF_H

#include "../clock/clock.bpf.h"
#include "../flow/flow.bpf.h"
#include "../group/resolve.bpf.h"
#include "../record/record.bpf.h"

static __always_inline struct arrival *rx_slot(struct flow *flow, __u32 counter)
{
	return &flow->rx[counter % RX_SLOTS];
}

/*
 * Whether some of the bytes that arrived may have waited for a segment in front of them:
 * tcp_data_queue_ofo() counts each segment that comes out of order (net/ipv4/tcp_input.c, v6.18).
 */
static __always_inline bool rx_waited(const struct tcp_sock *tp, struct flow *flow)
{
	bool waited = flow->rx_gap || flow->rx_ooopack != tp->rcv_ooopack;

	flow->rx_gap = !!tp->out_of_order_queue.rb_node;
	flow->rx_ooopack = tp->rcv_ooopack;
	return waited;
}

/*
 * The tail of the receive queue is the skb that arrived, or the one it was merged into, which then
 * carries its stamp (tcp_try_coalesce(), net/ipv4/tcp_input.c, v6.18).
 */
static __always_inline void rx_ready(const struct sock *sk)
{
	struct flow *flow = flow_of(sk);
	const struct sk_buff *skb = sk->sk_receive_queue.prev;
	struct arrival *arrival;
	__u32 end, head;

	if (!flow || !flow_wants(flow, DIRECTION_RX) ||
	    (void *)skb == (void *)&sk->sk_receive_queue)
		return;
	end = tcp_of(sk)->rcv_nxt;
	head = flow->rx_head;
	/* A changed SO_RCVLOWAT reports the same bytes once more. */
	if (head && rx_slot(flow, head - 1)->seq_end == end)
		return;
	if (head - flow->rx_tail >= RX_SLOTS)
		count_loss(LOSS_EVICTED);
	arrival = rx_slot(flow, head);
	arrival->ready = bpf_ktime_get_ns();
	arrival->seq_end = end;
	arrival->stack_ns =
		rx_waited(tcp_of(sk), flow) ? ARRIVAL_HOL : clock_since_stamp(skb, arrival->ready);
	flow->rx_head = head + 1;
}

/* Bytes that came before the flow was adopted: nobody knows when. */
static __always_inline void rx_adopt(struct flow *flow, __u32 end)
{
	struct arrival *arrival = rx_slot(flow, flow->rx_head++);

	arrival->ready = bpf_ktime_get_ns();
	arrival->seq_end = end;
	arrival->stack_ns = ARRIVAL_ADOPTED;
}

struct read {
	__u32 start;
	__u32 end;
	__u32 pid;
	__u32 stack_ns;
	__u64 ready;
	__u64 oldest;
	__u64 now;
};

/* When an arrival was stamped, or, without a stamp to trust, could be read. */
static __always_inline __u64 rx_stamped(const struct arrival *arrival)
{
	return arrival->ready - (arrival->stack_ns <= ARRIVAL_LONGEST ? arrival->stack_ns : 0);
}

/*
 * Finds when the read's first and last byte became readable. Arrivals of older bytes are passed for
 * good: the next read starts where this one ended.
 */
static __always_inline enum verdict rx_match(struct flow *flow, struct read *read)
{
	__u32 head = flow->rx_head;
	__u32 counter = flow->rx_tail;
	bool evicted = head - counter > RX_SLOTS;
	bool oldest_known = !evicted;
	struct arrival *arrival;

	if (evicted)
		counter = head - RX_SLOTS;
	for (int i = 0; i < RX_SLOTS && counter != head; i++, counter++) {
		arrival = rx_slot(flow, counter);
		if (!seq_after(arrival->seq_end, read->start))
			continue;
		if (arrival->stack_ns == ARRIVAL_ADOPTED)
			oldest_known = false;
		if (oldest_known && !read->oldest)
			read->oldest = rx_stamped(arrival);
		if (seq_before(arrival->seq_end, read->end)) {
			evicted = false;
			continue;
		}
		read->ready = arrival->ready;
		read->stack_ns = arrival->stack_ns;
		/*
		 * Bytes up to the oldest one left came with it or before: stay until all are read.
		 */
		if (evicted && arrival->seq_end != read->end)
			return VERDICT_EVICTED;
		flow->rx_tail = counter + (arrival->seq_end == read->end);
		/* Overwritten before or while it was read: the CPU that fills is another one. */
		if (evicted || flow->rx_head - counter > RX_SLOTS)
			return VERDICT_EVICTED;
		return VERDICT_VALID;
	}
	return VERDICT_LOST_EVENT;
}

static __always_inline enum verdict rx_verdict(const struct sock *sk, struct flow *flow,
					       struct read *read)
{
	enum verdict verdict = rx_match(flow, read);

	/* Data that came with the SYN was queued before the socket could be selected: RFC 7413. */
	if (verdict == VERDICT_LOST_EVENT && !flow->rx_head &&
	    BPF_CORE_READ_BITFIELD(tcp_of(sk), syn_data_acked))
		return VERDICT_FAST_OPEN;
	if (verdict != VERDICT_VALID)
		return verdict;
	switch (read->stack_ns) {
	case ARRIVAL_NO_STAMP:
		return VERDICT_NO_RX_STAMP;
	case ARRIVAL_MISMATCH:
		return VERDICT_CLOCK_MISMATCH;
	case ARRIVAL_STEP:
		return VERDICT_CLOCK_STEP;
	case ARRIVAL_HOL:
		return VERDICT_HOL;
	case ARRIVAL_ADOPTED:
		return VERDICT_ADOPTED;
	}
	return VERDICT_VALID;
}

static __always_inline void rx_record(const struct flow *flow, const struct read *read,
				      enum verdict verdict)
{
	struct message_record *record = record_reserve(flow, DIRECTION_RX, verdict);

	if (!record)
		return;
	record->time = read->now;
	record->stamps.rx.ready = read->ready;
	record->stamps.rx.read = read->now;
	record->stamps.rx.oldest = read->oldest;
	record->seq_end = read->end;
	record->bytes = read->end - read->start;
	record->flow.pid = read->pid;
	if (verdict == VERDICT_VALID) {
		record->stamps.rx.software = read->ready - read->stack_ns;
		record->stages[STAGE_RX_STACK] = read->stack_ns;
		record->stages[STAGE_RX_APP] = read->now - read->ready;
	}
	record_submit(record);
}

/*
 * Bytes that left the socket with no read call to show for it (splice, TCP_ZEROCOPY_RECEIVE,
 * sockmap): the socket's position is ahead of ours. The FIN takes a sequence number of its own.
 */
static __always_inline bool rx_in_step(const struct sock *sk, __u32 copied, __u32 end)
{
	return copied == end || (copied == end + 1 && sk->sk_shutdown & RCV_SHUTDOWN);
}

/*
 * sock_recv_length(): the read call is over, the socket no longer locked, `current` is the reader.
 * Two readers of one socket may have moved its position together; then neither is believed.
 */
static __always_inline void rx_read(const struct sock *sk, __u32 length)
{
	__u32 copied = tcp_of(sk)->copied_seq;
	struct flow *flow = flow_lookup(sk);
	struct bank *bank = this_bank();
	struct read read = {};
	enum verdict verdict;
	bool adopted;
	__u32 group;

	if (!flow)
		flow = flow_create(sk, copied - length);
	if (!flow || !bank)
		return;
	/* The first one may have taken bytes before the flow was adopted: with it, or all of them.
	 */
	adopted = flow->rx_adopted;
	flow->rx_adopted = false;
	read.start = flow->rx_seq;
	read.end = read.start + length;
	flow->rx_seq = copied;
	if (!flow_wants(flow, DIRECTION_RX))
		return;
	if (setting_by_pid || setting_record) {
		read.pid = bpf_get_current_pid_tgid() >> 32;
		if (!pid_selected(read.pid))
			return;
		remember_task(flow, read.pid);
	}
	read.now = bpf_ktime_get_ns();
	verdict = rx_in_step(sk, copied, read.end) ? rx_verdict(sk, flow, &read) :
						     VERDICT_UNMATCHED_READ;
	if (adopted && (verdict == VERDICT_UNMATCHED_READ || verdict == VERDICT_LOST_EVENT))
		verdict = VERDICT_ADOPTED;
	count(&bank->bytes[DIRECTION_RX], length);
	group = group_of_task(flow, sk);
	group_message(group, DIRECTION_RX, length);
	group_measured(group, DIRECTION_RX);
	if (verdict == VERDICT_VALID) {
		__u64 app = read.now - read.ready;

		stage_add(bank, group, STAGE_RX_STACK, read.stack_ns);
		stage_add(bank, group, STAGE_RX_APP, app);
		stage_add(bank, group, DISTRIBUTION_TOTAL(DIRECTION_RX), read.stack_ns + app);
	} else {
		count(&bank->refusals[DIRECTION_RX][verdict], 1);
		group_ended(group, DIRECTION_RX, 1);
	}
	if (setting_record)
		rx_record(flow, &read, verdict);
}

static __always_inline void rx_close(struct bank *bank, const struct sock *sk, struct flow *flow)
{
	__u32 copied = tcp_of(sk)->copied_seq;
	__u32 group;

	if (!flow_wants(flow, DIRECTION_RX) || rx_in_step(sk, copied, flow->rx_seq))
		return;
	count(&bank->refusals[DIRECTION_RX][VERDICT_UNSEEN_READ], 1);
	group = group_of_socket(flow, sk);
	group_message(group, DIRECTION_RX, 0);
	group_measured(group, DIRECTION_RX);
	group_ended(group, DIRECTION_RX, 1);
}

#endif
