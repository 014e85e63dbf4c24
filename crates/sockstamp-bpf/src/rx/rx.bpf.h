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
#include "../sched/sched.bpf.h"
#include "hol.bpf.h"

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

/* What can be read now came with a segment while others waited, or is those that waited for it. */
static __always_inline void rx_ready_behind(struct flow *flow, struct arrival *arrival)
{
	__u64 since = flow->rx_filler_ns + arrival->ready - flow->rx_filler;

	arrival->stack_ns = flow->rx_filler_ns;
	if (flow->rx_filler_ns > ARRIVAL_LONGEST)
		return;
	arrival->stack_ns = since > ARRIVAL_LONGEST ? ARRIVAL_HOL : since;
	arrival->flags = ARRIVAL_WAITED;
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
	arrival = rx_slot(flow, head);
	if (head - flow->rx_tail >= RX_SLOTS && seq_after(arrival->seq_end, tcp_of(sk)->copied_seq))
		count_loss(LOSS_EVICTED);
	/* First of all, so that rx_overwritten() sees it. */
	arrival->seq_end = end;
	barrier();
	arrival->ready = bpf_ktime_get_ns();
	arrival->flags = 0;
	if (setting_hol != HOL_UNSEEN && rx_waited(tcp_of(sk), flow))
		rx_ready_behind(flow, arrival);
	else
		arrival->stack_ns = clock_since_stamp(skb, arrival->ready);
	sched_note(sk, &flow->waiter, head);
	flow->rx_head = head + 1;
}

/* Bytes that came before the flow was adopted: nobody knows when. */
static __always_inline void rx_adopt(struct flow *flow, __u32 end)
{
	struct arrival *arrival = rx_slot(flow, flow->rx_head++);

	arrival->ready = bpf_ktime_get_ns();
	arrival->seq_end = end;
	arrival->stack_ns = ARRIVAL_ADOPTED;
	arrival->flags = 0;
}

struct read {
	__u32 start;
	__u32 end;
	__u32 pid;
	__u32 weight;
	__u32 stack_ns;
	__u32 flags; /* of the arrival of its last byte */
	__u32 arrival; /* that of the last byte, counted as rx_head */
	__u64 ready;
	__u64 wakeup; /* STAGE_ABSENT: nobody waited */
	__u64 app;
	__u64 oldest;
	__u64 now;
	__u64 hol;
};

/* When an arrival was stamped, or, without a stamp to trust, could be read. */
static __always_inline __u64 rx_stamped(const struct arrival *arrival)
{
	return arrival->ready - (arrival->stack_ns <= ARRIVAL_LONGEST ? arrival->stack_ns : 0);
}

/*
 * Whether an arrival was overwritten, or is being, while it was looked at: the CPU that fills is
 * another one. In a full ring the oldest is the next to go, and then ends behind the newest.
 */
static __always_inline bool rx_overwritten(struct flow *flow, __u32 counter)
{
	__u32 head;

	barrier();
	head = flow->rx_head;
	if (head - counter != RX_SLOTS)
		return head - counter > RX_SLOTS;
	barrier();
	return seq_after(rx_slot(flow, counter)->seq_end, rx_slot(flow, head - 1)->seq_end);
}

/*
 * Finds when the read's first and last byte became readable. Arrivals of older bytes are passed for
 * good: the next read starts where this one ended. A global function, so that the verifier walks it
 * once.
 */
__noinline enum verdict rx_match(struct flow *flow, struct read *read)
{
	struct arrival *arrival;
	bool evicted, oldest_known;
	__u32 head, counter;

	if (!flow || !read)
		return VERDICT_LOST_EVENT;
	head = flow->rx_head;
	counter = flow->rx_tail;
	evicted = head - counter > RX_SLOTS;
	oldest_known = !evicted;
	if (evicted)
		counter = head - RX_SLOTS;
	for (int i = 0; i < RX_SLOTS && counter != head; i++, counter++) {
		arrival = rx_slot(flow, counter);
		if (!seq_after(arrival->seq_end, read->start)) {
			/* What was overwritten came before this one: it was read. */
			evicted = false;
			oldest_known = true;
			continue;
		}
		if (arrival->stack_ns == ARRIVAL_ADOPTED)
			oldest_known = false;
		if (oldest_known && !read->oldest)
			read->oldest = rx_stamped(arrival);
		if (seq_before(arrival->seq_end, read->end)) {
			evicted = false;
			continue;
		}
		read->arrival = counter;
		read->ready = arrival->ready;
		read->stack_ns = arrival->stack_ns;
		read->flags = arrival->flags;
		/*
		 * Bytes up to the oldest one left came with it or before: stay until all are read.
		 */
		if (evicted && arrival->seq_end != read->end)
			return VERDICT_EVICTED;
		flow->rx_tail = counter + (arrival->seq_end == read->end);
		if (evicted || rx_overwritten(flow, counter))
			return VERDICT_EVICTED;
		return VERDICT_VALID;
	}
	return VERDICT_LOST_EVENT;
}

/* The read's last byte became readable with others: was it one of those that had waited? */
static __always_inline enum verdict rx_unblock(struct flow *flow, struct read *read)
{
	__u64 filled = read->ready - read->stack_ns;
	__u64 arrived = hol_arrived(flow, read->end);

	if (arrived == HOL_UNKNOWN || (arrived && setting_hol == HOL_EXCLUDE))
		return VERDICT_HOL;
	/* Two CPUs may have stamped them: what came last may have been worked on first. */
	if (!arrived || arrived >= filled)
		return VERDICT_VALID;
	/* A sequence number comes again after 4 GB: so may what came out of order then. */
	if (filled - arrived > ARRIVAL_LONGEST)
		return VERDICT_HOL;
	if (setting_hol == HOL_INCLUDE && read->ready - arrived > ARRIVAL_LONGEST)
		return VERDICT_HOL;
	if (setting_hol == HOL_INCLUDE)
		read->stack_ns = read->ready - arrived;
	else
		read->hol = filled - arrived;
	return VERDICT_VALID;
}

static __always_inline enum verdict rx_verdict(const struct sock *sk, struct flow *flow,
					       struct read *read)
{
	enum verdict verdict = rx_match(flow, read);

	/* Data that came with the SYN was queued before the socket could be selected: RFC 7413. */
	if (verdict == VERDICT_LOST_EVENT && !flow->rx_head &&
	    BPF_CORE_READ_BITFIELD(tcp_of(sk), syn_data_acked))
		return VERDICT_FAST_OPEN;
	if (verdict == VERDICT_VALID)
		verdict = clock_verdict(read->stack_ns);
	if (verdict == VERDICT_VALID && read->flags & ARRIVAL_WAITED)
		return rx_unblock(flow, read);
	return verdict;
}

static __always_inline void rx_record(const struct flow *flow, const struct read *read,
				      enum verdict verdict)
{
	__u64 total = read->now - read->ready + read->stack_ns + read->hol;
	struct message_record *record;

	if (!record_wanted(verdict, total))
		return;
	record = record_reserve(flow, DIRECTION_RX, verdict);
	if (!record)
		return;
	record->weight = read->weight;
	record->time = read->now;
	record->stamps.rx.ready = read->ready;
	record->stamps.rx.read = read->now;
	record->stamps.rx.oldest = read->oldest;
	record->seq_end = read->end;
	record->bytes = read->end - read->start;
	record->flow.pid = read->pid;
	if (verdict == VERDICT_VALID) {
		record->stamps.rx.software = read->ready - read->stack_ns - read->hol;
		record->stages[STAGE_RX_STACK] = read->stack_ns;
		if (read->hol) {
			record->stamps.rx.filled = read->ready - read->stack_ns;
			record->stages[STAGE_RX_HOL] = read->hol;
		}
		record->stages[STAGE_RX_WAKEUP] = read->wakeup;
		record->stages[STAGE_RX_APP] = read->app;
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

static __always_inline void rx_measure(struct bank *bank, __u32 group, const struct flow *flow,
				       struct read *read)
{
	__u64 waited = read->now - read->ready;

	read->wakeup = sched_wakeup(&flow->waiter, read->arrival, read->ready, read->now);
	read->app = waited;
	if (read->wakeup != STAGE_ABSENT) {
		read->app -= read->wakeup;
		stage_add(bank, group, STAGE_RX_WAKEUP, read->wakeup, read->weight);
	}
	stage_add(bank, group, STAGE_RX_STACK, read->stack_ns, read->weight);
	if (read->hol)
		stage_add(bank, group, STAGE_RX_HOL, read->hol, read->weight);
	stage_add(bank, group, STAGE_RX_APP, read->app, read->weight);
	stage_add(bank, group, DISTRIBUTION_TOTAL(DIRECTION_RX),
		  read->stack_ns + read->hol + waited, read->weight);
}

/* What a passed-over read leaves behind: arrivals that are read are not lost when overwritten. */
static __always_inline void rx_pass(const struct sock *sk, struct flow *flow, __u32 copied)
{
	__u32 head = flow->rx_head;

	/* In this order: what arrives in between is not taken for read. */
	barrier();
	if (tcp_of(sk)->rcv_nxt == copied)
		flow->rx_tail = head;
	flow->rx_time = sample_passes(&flow->tx_sampler) ? 0 : bpf_ktime_get_ns();
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
	}
	count(&bank->messages[DIRECTION_RX], 1);
	count(&bank->bytes[DIRECTION_RX], length);
	group = group_of_task(&flow->group, sk);
	group_message(group, DIRECTION_RX, length);
	sample_refresh(&flow->rx_sampler, tcp_of(sk)->tcp_clock_cache);
	if (sample_skip(&flow->rx_sampler)) {
		rx_pass(sk, flow, copied);
		return;
	}
	remember_task(flow, read.pid);
	read.now = bpf_ktime_get_ns();
	flow->rx_time = read.now;
	read.weight = sample_take(&flow->rx_sampler);
	verdict = rx_in_step(sk, copied, read.end) ? rx_verdict(sk, flow, &read) :
						     VERDICT_UNMATCHED_READ;
	if (adopted && (verdict == VERDICT_UNMATCHED_READ || verdict == VERDICT_LOST_EVENT))
		verdict = VERDICT_ADOPTED;
	count_measured(bank, DIRECTION_RX, read.weight);
	group_measured(group, DIRECTION_RX);
	if (verdict == VERDICT_VALID) {
		rx_measure(bank, group, flow, &read);
	} else {
		refuse_read(bank, verdict, read.weight);
		group_ended(group, DIRECTION_RX, read.weight);
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
	count(&bank->messages[DIRECTION_RX], 1);
	count_measured(bank, DIRECTION_RX, 1);
	count(&bank->refusals[DIRECTION_RX][VERDICT_UNSEEN_READ], 1);
	group = group_of_socket(flow, sk);
	group_message(group, DIRECTION_RX, 0);
	group_measured(group, DIRECTION_RX);
	group_ended(group, DIRECTION_RX, 1);
}

#endif
