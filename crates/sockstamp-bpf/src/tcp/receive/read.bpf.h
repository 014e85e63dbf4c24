/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measure reads of TCP. sk_data_ready() fires, with the socket locked, each time more bytes can be
 * read, or the socket calls back before it (kernel/series). The program notes "readable up to here,
 * since now", with the stamp of the skb that brought the bytes. A read call takes bytes in order,
 * so the arrival of its last byte is found by sequence number. The reading side needs no skb, and
 * coalescing and partial reads lose nothing.
 */
#ifndef SOCKSTAMP_TCP_RECEIVE_READ_BPF_H
#define SOCKSTAMP_TCP_RECEIVE_READ_BPF_H

#include "clock/clock.bpf.h"
#include "group/resolve.bpf.h"
#include "ledger/ledger.bpf.h"
#include "nic/received.bpf.h"
#include "record/record.bpf.h"
#include "sched/sched.bpf.h"
#include "sched/prompted.bpf.h"
#include "sched/service.bpf.h"
#include "select/asked.bpf.h"
#include "tcp/answer.bpf.h"
#include "tcp/receive/arrivals.bpf.h"
#include "tcp/receive/hol.bpf.h"
#include "tcp/silence.bpf.h"
#include "wait/attempts.bpf.h"
#include "wait/wait.bpf.h"

/*
 * Return true if no hook sees segments of the connection: its own side is closed, no function is
 * traced, and it does not call back for segments.
 */
static __always_inline bool rx_segments_unseen(const struct sock *sk)
{
	__u8 state = sk->__sk_common.skc_state;

	if (setting_half_closed || (state != TCP_FIN_WAIT1 && state != TCP_FIN_WAIT2))
		return false;
	return !setting_bit || !(tcp_callbacks_on(tcp_of(sk)) & ASKED_SEGMENTS);
}

/* Add bytes that are readable because a segment came while others waited. */
static __always_inline __u32 rx_add_released(const struct sock *sk, struct receiving *rx,
					     __u32 start, __u64 ready)
{
	__u32 added;

	if (rx_segments_unseen(sk))
		rx->filler_lag = LAG_HOL;
	added = hol_add_released(rx, start, tcp_of(sk)->rcv_nxt, ready);
	rx->filler_lag = LAG_HOL;
	if (!rx->gap) {
		rx->unknown = false;
		if (rx->reordered && ready - rx->needed > GROWN_FOR_NS)
			hol_delete(rx);
	}
	rx->needed = ready;
	return added;
}

/*
 * Return the room needed for segments that a filler may have released. Waits are distinguished in
 * 20 steps, and by a twentieth of their length; if that needs more room, the rest is refused.
 */
static __always_inline __u32 rx_room_wanted(struct receiving *rx)
{
	struct reordered *known = hol_lookup(rx);
	__u32 wanted = known ? known->end - known->first + 3 : 3;

	return wanted < UNREAD / 4 ? wanted : UNREAD / 4;
}

/*
 * Note an arrival. The tail of the receive queue is the skb that arrived, or the skb that it was
 * merged into, which then carries its stamp (tcp_try_coalesce(), net/ipv4/tcp_input.c, v6.18).
 */
static __always_inline void rx_data_ready(const struct sock *sk)
{
	const struct sk_buff *skb = untrusted(sk, struct sock)->sk_receive_queue.prev;
	const struct tcp_sock *tp = tcp_of(sk);
	struct flow *flow = flow_lookup_or_create(sk);
	__u32 start, end, added;
	struct receiving *rx;
	struct unread *grown;
	bool waited;
	__u64 ready;

	if (!flow || !flow_measures(flow, DIRECTION_RX) ||
	    (void *)skb == (void *)&sk->sk_receive_queue)
		return;
	flow_reset_if_after_gap(flow, sk->sk_lock.owned);
	rx = &flow->rx;
	end = tp->rcv_nxt;
	/* A change of SO_RCVLOWAT reports the same bytes again. */
	if (rx->serial && rx->end == end)
		return;
	ready = bpf_ktime_get_ns();
	start = rx->serial ? rx->end : rx->seq;
	if (!rx->serial)
		silence_meets_data(sk, end - start, ready);
	answer_arrived(tp, flow, start, end, ready);
	waited = setting_hol != HOL_UNSEEN && hol_may_have_waited(tp, rx);
	grown = arrivals_prepare(rx, waited ? rx_room_wanted(rx) : 1, tp->copied_seq, ready);
	rx->serial++;
	if (waited) {
		added = rx_add_released(sk, rx, start, ready);
	} else {
		added = arrivals_add(rx, grown, end, ready, clock_lag(skb, ready));
		if (setting_nic_reads_interval)
			nic_note_arrival(skb, rx->key, start, ready);
	}
	arrivals_commit(rx, added, end);
	sched_note_waiter(sk, &flow->rx.waiter, rx->serial, ready);
}

/* Forget bytes that came before the flow was adopted: their time is unknown. */
static __always_inline void rx_adopt_unread(struct receiving *rx, __u32 end)
{
	rx->serial++;
	arrivals_commit(rx, arrivals_add(rx, NULL, end, bpf_ktime_get_ns(), LAG_ADOPTED), end);
}

struct read {
	__u32 start;
	__u32 end;
	__u32 copied; /* the socket's position after it */
	/* The first read may have taken some or all of its bytes before the flow was adopted. */
	__u32 adopted;
	__u32 pid;
	__u32 weight;
	__u32 lag;
	__u32 serial; /* of the arrival of its last byte */
	__u64 ready;
	__u64 wakeup; /* STAGE_ABSENT: no task waited */
	struct spent spent; /* rx.app, with its parts */
	__u64 oldest;
	__u64 now;
	__u64 hol;
	struct answer answer;
};

/* Return when the byte at `start` was stamped, or, without a usable stamp, became readable. */
static __always_inline __u64 rx_byte_stamped(const struct arrival *arrival, __u32 start)
{
	return arrival_ready(arrival, start + 1) - arrival->hol -
	       (lag_known(arrival->lag) ? arrival->lag : 0);
}

/* A CPU moves arrivals in some microseconds: this many looks take longer. */
#define LOOKS 512

enum look {
	LOOK_FOUND,
	LOOK_NONE,
	LOOK_EVICTED,
	LOOK_AGAIN, /* they were moved meanwhile */
};

static __always_inline enum look rx_find_arrival_in(struct receiving *rx, __u64 state,
						    struct read *read)
{
	bool evicted = state & ARRIVALS_EVICTED;
	__u32 count = state & ARRIVALS_COUNT;
	struct unread *grown = NULL;
	struct arrival *arrival;
	__u64 key = rx->key;
	__u32 index;

	if (state & ARRIVALS_GROWN) {
		grown = bpf_map_lookup_elem(&unread, &key);
		if (!grown)
			return LOOK_AGAIN;
	}
	if (evicted && !seq_after(read->end, rx->lost))
		return LOOK_EVICTED;
	index = arrivals_search(rx, grown, count, read->end - 1);
	arrival = arrival_at(rx, grown, index);
	/* Bytes beyond the last arrival are from before. */
	if (index >= count || !arrival || seq_before(arrival->seq_end, read->end))
		return LOOK_NONE;
	read->serial = arrival->serial;
	read->ready = arrival_ready(arrival, read->end);
	read->lag = arrival->lag;
	read->hol = arrival->hol;
	read->oldest = 0;
	if (evicted && seq_before(read->start, rx->lost))
		return LOOK_FOUND;
	arrival = arrival_at(rx, grown, arrivals_search(rx, grown, count, read->start));
	if (arrival && arrival->lag != LAG_ADOPTED && arrival->lag != LAG_WINDOW)
		read->oldest = rx_byte_stamped(arrival, read->start);
	return LOOK_FOUND;
}

/*
 * Find when the read's first and last byte became readable. A global function, so the verifier
 * walks it once.
 */
__noinline __u32 rx_find_arrival(struct flow *flow, struct read *read)
{
	struct receiving *rx;
	enum look look;
	__u64 state;

	if (!flow || !read)
		return LOOK_NONE;
	rx = &flow->rx;
	state = arrivals_load_state(rx);
	if (state & ARRIVALS_MOVING)
		return LOOK_AGAIN;
	look = rx_find_arrival_in(rx, state, read);
	/* Other arrivals may have been added; only moves matter. */
	return arrivals_load_state(rx) - (state & ~(__u64)ARRIVALS_COUNT) > ARRIVALS_COUNT ?
		       LOOK_AGAIN :
		       look;
}

struct looking {
	struct flow *flow;
	struct read *read;
	enum look look;
};

static long rx_find_arrival_step(__u32 index, struct looking *looking)
{
	looking->look = rx_find_arrival(looking->flow, looking->read);
	return looking->look != LOOK_AGAIN;
}

static __noinline enum look rx_find_arrival_again(struct flow *flow, struct read *read)
{
	struct looking looking = {.flow = flow, .read = read, .look = LOOK_AGAIN};

	bpf_loop(LOOKS - 1, rx_find_arrival_step, &looking, 0);
	return looking.look;
}

static __always_inline enum verdict rx_match_arrival(struct flow *flow, struct read *read)
{
	enum look look = rx_find_arrival(flow, read);

	if (look == LOOK_AGAIN)
		look = rx_find_arrival_again(flow, read);
	switch (look) {
	case LOOK_FOUND:
		return VERDICT_VALID;
	case LOOK_EVICTED:
		return VERDICT_EVICTED;
	default:
		return VERDICT_LOST_EVENT;
	}
}

/* Apply --hol to a read whose last byte waited for a missing segment. */
static __always_inline enum verdict rx_apply_hol_view(struct read *read)
{
	if (setting_hol == HOL_EXCLUDE)
		return VERDICT_HOL;
	if (setting_hol != HOL_INCLUDE)
		return VERDICT_VALID;
	if (!lag_known(read->hol + read->lag))
		return VERDICT_HOL;
	read->lag += read->hol;
	read->hol = 0;
	return VERDICT_VALID;
}

static __always_inline enum verdict rx_verdict(const struct sock *sk, struct flow *flow,
					       struct read *read)
{
	enum verdict verdict = rx_match_arrival(flow, read);

	/* The arrival may have been merged with a later one. */
	if (read->ready > read->now)
		read->ready = read->now;
	/* Data in a SYN (RFC 7413) was queued before the socket could be selected. */
	if (verdict == VERDICT_LOST_EVENT && !flow->rx.serial &&
	    BPF_CORE_READ_BITFIELD(tcp_of(sk), syn_data_acked))
		return VERDICT_FAST_OPEN;
	if (verdict == VERDICT_VALID)
		verdict = arrival_verdict(read->lag);
	if (verdict == VERDICT_VALID && window_exceeded(read->now - read->ready, WINDOW_LEAD_NS))
		return VERDICT_WINDOW;
	if (verdict == VERDICT_VALID && read->hol)
		return rx_apply_hol_view(read);
	return verdict;
}

/* Return a sequence number as the sender has it, if a tag has shown that it differs. */
static __always_inline __u32 rx_sender_seq(const struct flow *flow, __u32 seq)
{
	return setting_tag ? seq - flow->rx.shift : seq;
}

/* Return the time from the RX software stamp of its last byte to the read. */
static __always_inline __u64 rx_total(const struct read *read)
{
	return read->now - read->ready + read->lag + read->hol;
}

static __always_inline void rx_record_nic(struct message_record *record,
					  const struct nic_arrival *nic)
{
	record->flags |= MESSAGE_NIC;
	record->stamps.rx.nic = nic->hardware;
	record->stamps.rx.nic_software = nic->software;
	record->interface_last.index = nic->interface;
	record->interface_last.netns = record->flow.netns;
}

/*
 * Send a record. Return true if it is of a read whose packet a NIC has stamped (`nic`): user space
 * adds the total to the counts, once it knows how long the packet was in the NIC.
 */
static __always_inline bool rx_record(const struct flow *flow, const struct read *read, __u32 group,
				      enum verdict verdict, const struct nic_arrival *nic)
{
	__u64 longest = record_longest(rx_total(read), read->answer.ns);
	struct message_record *record;
	bool wanted;

	/* Of a refused read, the end of this wait is not known. */
	if (verdict == VERDICT_VALID)
		longest = record_longest(longest, read->answer.rest);
	wanted = recording && record_wanted(verdict, longest);
	if (!wanted && !nic)
		return false;
	record = record_reserve(DIRECTION_RX, verdict);
	if (!record)
		return false;
	__builtin_memcpy(&record->flow, flow_identity(flow), SOCKET_IDENTITY_BYTES);
	record->flags = wanted ? 0 : MESSAGE_NIC_ALONE;
	record->group = group;
	record->weight = read->weight;
	record->time = read->now;
	record->stamps.rx.ready = read->ready;
	record->stamps.rx.read = read->now;
	record->stamps.rx.oldest = read->oldest;
	record->seq_end = rx_sender_seq(flow, read->end);
	record->bytes = read->end - read->start;
	record->cpu = record_cpu();
	record->flow.pid = read->pid;
	if (read->pid)
		comm_read(record->flow.comm);
	if (verdict == VERDICT_VALID) {
		answer_record(record, &read->answer);
		record->stamps.rx.software = read->ready - read->lag - read->hol;
		record->stages[STAGE_RX_STACK] = read->lag;
		if (read->hol) {
			record->stamps.rx.filled = read->ready - read->lag;
			record->stages[STAGE_RX_HOL] = read->hol;
		}
		spent_record(record, &read->spent, read->wakeup);
	}
	if (nic)
		rx_record_nic(record, nic);
	record_submit(record);
	return nic;
}

/*
 * Return false if bytes left the socket without a read call (splice, TCP_ZEROCOPY_RECEIVE,
 * sockmap): the socket's position is ahead of ours. The FIN has a sequence number of its own.
 */
static __always_inline bool rx_saw_all_reads(const struct sock *sk, __u32 copied, __u32 end)
{
	return copied == end || (copied == end + 1 && sk->sk_shutdown & RCV_SHUTDOWN);
}

/* The reader waited for more of an answer until the last byte of its read could be read. */
static __always_inline void rx_end_rest(struct read *read)
{
	struct answer *answer = &read->answer;

	if (answer->rest != STAGE_ABSENT)
		answer->rest =
			answer->rest < read->ready ? read->ready - answer->rest : STAGE_ABSENT;
}

static __always_inline void rx_account_stages(struct bank *bank, __u32 group, struct flow *flow,
					      struct read *read)
{
	rx_end_rest(read);
	read->wakeup = sched_split_read(&flow->rx.waiter, read->serial, read->ready, read->now,
					&read->spent);
	sched_split_quota(&read->spent, read->serial, read->wakeup, read->now);
	account_stage(bank, group, STAGE_RX_STACK, read->lag, read->weight);
	if (read->hol)
		account_stage(bank, group, STAGE_RX_HOL, read->hol, read->weight);
	account_spent(bank, group, &read->spent, read->wakeup, read->weight);
	answer_add(bank, group, &read->answer, read->weight);
}

/*
 * Count a measured read by its stages, or as refused. A global function, so that the verifier walks
 * it once, and not once per path through the read.
 */
__noinline int rx_end(struct bank *bank, struct flow *flow, struct read *read, __u32 group,
		      __u32 verdict)
{
	const struct nic_arrival *nic = NULL;
	bool divides = false;

	if (!bank || !flow || !read)
		return 0;
	account_measured(bank, group, DIRECTION_RX, read->weight);
	if (verdict == VERDICT_VALID)
		rx_account_stages(bank, group, flow, read);
	else
		account_refused(bank, group, DIRECTION_RX, verdict, read->weight);
	if (setting_nic_reads_interval && verdict == VERDICT_VALID)
		nic = nic_admits_read(bank, flow->rx.key, read->ready);
	if (setting_record)
		divides = rx_record(flow, read, group, verdict, nic);
	if (verdict == VERDICT_VALID && !divides)
		account_stage(bank, group, DISTRIBUTION_TOTAL(DIRECTION_RX), rx_total(read),
			      read->weight);
	return 0;
}

/* Begin app.service at the end of a read. */
static __always_inline void rx_service_begins(struct flow *flow, __u64 now)
{
	flow->rx.service_from = now;
	if (setting_sched)
		service_note_read(now);
	if (setting_waits)
		prompted_note_read(flow->rx.key, now, flow->exchange.serves);
}

static __always_inline void rx_measure_read(const struct sock *sk, struct bank *bank,
					    struct flow *flow, struct read *read, __u32 group)
{
	enum verdict verdict;

	if (!read->now)
		read->now = bpf_ktime_get_ns();
	rx_service_begins(flow, read->now);
	/* tcp_rcv_space_adjust() has read the clock after the copy (net/ipv4/tcp_input.c, v6.18).
	 */
	read->spent.copied = tcp_of(sk)->tcp_clock_cache;
	read->spent.queue = word_at(&sk->sk_wq);
	read->weight = stream_take(&flow->rx.sampler, read->end - read->start) * window_weight();
	if (flow_in_gap(flow))
		verdict = VERDICT_WINDOW;
	else
		verdict = rx_saw_all_reads(sk, read->copied, read->end) ?
				  rx_verdict(sk, flow, read) :
				  VERDICT_UNMATCHED_READ;
	if (read->adopted && (verdict == VERDICT_UNMATCHED_READ || verdict == VERDICT_LOST_EVENT))
		verdict = VERDICT_ADOPTED;
	rx_end(bank, flow, read, group, verdict);
	if (setting_waits && verdict == VERDICT_VALID && read->answer.ns != STAGE_ABSENT)
		attempts_count_answer(sk, read->pid, read->answer.ns, read->weight,
				      turn_ends(flow));
}

/* Note an unmeasured read: the send that answers it may be measured. */
static __always_inline void rx_skip_read(struct flow *flow)
{
	if (stream_will_skip(&flow->tx.sampler))
		flow->rx.service_from = 0;
	else
		rx_service_begins(flow, bpf_ktime_get_ns());
}

static __always_inline void rx_count_read(const struct sock *sk, struct bank *bank,
					  struct flow *flow, struct read *read)
{
	__u32 length = read->end - read->start;
	__u32 group;

	if (!flow_measures(flow, DIRECTION_RX))
		return;
	if (setting_by_pid || setting_record) {
		read->pid = bpf_get_current_pid_tgid() >> 32;
		if (!pid_selected(read->pid)) {
			/* What is answered next is another task's request. */
			flow->rx.service_from = 0;
			return;
		}
	}
	if (window_bounded()) {
		read->now = bpf_ktime_get_ns();
		if (!window_contains(read->now)) {
			rx_skip_read(flow);
			return;
		}
	}
	group = group_of_task(&flow->group, sk);
	account_messages(bank, group, DIRECTION_RX, length, window_weight());
	group_sample_refresh(&flow->rx.sampler, tcp_of(sk)->tcp_clock_cache, group);
	if (stream_skip(&flow->rx.sampler, rx_sender_seq(flow, read->start),
			rx_sender_seq(flow, read->end)))
		rx_skip_read(flow);
	else
		rx_measure_read(sk, bank, flow, read, group);
}

/*
 * Measure a read at sock_recv_length(): the call is over, the socket is no longer locked, and
 * `current` is the reader. Two readers of one socket may have moved its position together; then
 * both are refused. The callback (kernel/series) comes with the lock held, so both are valid there.
 */
static __always_inline void rx_recvmsg_ends(const struct sock *sk, __u32 length)
{
	struct read read = {.copied = tcp_of(sk)->copied_seq};
	struct flow *flow = flow_lookup(sk);
	struct bank *bank = this_bank();
	struct receiving *rx;

	if (!flow)
		flow = flow_create(sk, read.copied - length);
	if (!flow || !bank || window_detached())
		return;
	rx = &flow->rx;
	if (setting_windows && flow->rx.window != window.number) {
		flow->rx.window = window.number;
		rx->seq = read.copied - length;
	}
	read.adopted = rx->adopted;
	rx->adopted = false;
	read.start = rx->seq;
	read.end = read.start + length;
	rx->seq = read.copied;
	read.answer = answer_take(sk, flow, read.start, read.end);
	rx_count_read(sk, bank, flow, &read);
	/*
	 * Do this only after the read has found its arrivals: what is read may be overwritten. The
	 * writer looks at `done`, and changes `state` by a full barrier before it overwrites.
	 */
	order_loads_and_stores();
	rx->done = read.copied;
}

static __always_inline void rx_account_unseen_read(struct bank *bank, const struct sock *sk,
						   struct flow *flow)
{
	__u32 copied = tcp_of(sk)->copied_seq;

	if (!flow_measures(flow, DIRECTION_RX) || rx_saw_all_reads(sk, copied, flow->rx.seq))
		return;
	/* Reads between windows are not seen either. */
	if (flow_in_gap(flow) || (setting_windows && flow->rx.window != window.number))
		return;
	account_missed(bank, group_of_socket(&flow->group, sk), DIRECTION_RX, VERDICT_UNSEEN_READ,
		       1);
}

#endif
