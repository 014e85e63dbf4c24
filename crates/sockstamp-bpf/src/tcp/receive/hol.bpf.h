/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Find head-of-line blocking. At tracepoint tcp_probe, at the start of tcp_rcv_established()
 * (net/ipv4/tcp_input.c, v6.18), the socket is locked and TCP has not processed the segment yet. A
 * segment that starts after rcv_nxt and within the window is about to be queued out of order
 * (tcp_data_queue()). A segment that starts at or before rcv_nxt may fill the hole if others wait.
 * When it has, the waiting segments become arrivals, each with the time that it waited. In states
 * other than ESTABLISHED the tracepoint does not fire: the socket itself calls back there, or
 * tcp_rcv_state_process() is traced. Otherwise reads of bytes that wait then are refused (`hol`).
 */
#ifndef SOCKSTAMP_TCP_RECEIVE_HOL_BPF_H
#define SOCKSTAMP_TCP_RECEIVE_HOL_BPF_H

#include "clock/clock.bpf.h"
#include "tcp/packet.bpf.h"
#include "tcp/receive/arrivals.bpf.h"

enum hol_view {
	HOL_SPLIT, /* rx.hol is a stage of its own */
	HOL_INCLUDE, /* the wait is part of rx.stack */
	HOL_EXCLUDE, /* reads that waited are refused */
	HOL_UNSEEN, /* no hook looks for it: the wait counts in other stages */
};

const volatile __u32 setting_hol;
const volatile bool setting_half_closed; /* tcp_rcv_state_process() is traced */

/* Return the skb's RX software stamp on CLOCK_MONOTONIC; 0 if there is none to trust. */
static __always_inline __u64 hol_stamp_of(const struct sk_buff *skb)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 since = clock_lag(skb, now);

	return lag_known(since) ? now - since : 0;
}

static __always_inline struct reordered *hol_lookup(struct receiving *rx)
{
	__u64 key = rx->key;

	return rx->reordered ? bpf_map_lookup_elem(&reordered, &key) : NULL;
}

static __always_inline struct reordered *hol_lookup_or_create(struct receiving *rx)
{
	__u64 key = rx->key;

	if (!rx->reordered &&
	    !bpf_map_update_elem(&reordered, &key, (void *)&nothing_reordered, BPF_ANY))
		rx->reordered = true;
	return hol_lookup(rx);
}

static __always_inline void hol_delete(struct receiving *rx)
{
	__u64 key = rx->key;

	bpf_map_delete_elem(&reordered, &key);
	rx->reordered = false;
}

/* Return NULL if there is no such index. */
static __always_inline struct out_of_order *hol_segment_at(struct reordered *known, __u32 index)
{
	__u64 bounded = index;

	/* Compare the same value that is used, right before its use. */
	barrier_var(bounded);
	if (bounded >= REORDERED)
		return NULL;
	barrier_var(bounded);
	return &known->segments[bounded];
}

/*
 * Return the index of the first segment that ends after `seq`. A global function for the same
 * reason as arrivals_before().
 */
__noinline __u32 hol_first_ending_after(struct reordered *known, __u32 seq)
{
	__u32 low, high;

	if (!known)
		return 0;
	low = known->first;
	high = known->end;
	for (int i = 0; i < 8 /* log2(256) */ && low < high; i++) {
		struct out_of_order *segment = hol_segment_at(known, (low + high) / 2);

		if (!segment)
			break;
		seq_halve(&low, &high, segment->seq_end, seq);
	}
	return low;
}

struct hol_pass {
	struct reordered *known;
	__u64 now;
	__u64 floor;
	__u32 kept;
};

/* Return true if the older of two adjacent segments may get the time of the other. */
static __always_inline bool hol_merge(const struct out_of_order *before, struct out_of_order *next,
				      __u64 now, __u64 floor)
{
	__u64 newer = larger(before->stamped, next->stamped);
	__u64 span = difference(before->stamped, next->stamped) + before->span_ns;

	if (before->seq_end != next->seq || !before->stamped || !next->stamped)
		return false;
	if (span > larger(floor, (now - newer) / MERGE_AGE_PART) || span > (__u32)-1)
		return false;
	next->span_ns = larger(next->span_ns, span);
	return true;
}

/* Return the new number of kept segments. A global function for the same reason as
 * arrivals_before(). */
__noinline __u32 hol_keep_or_merge(struct reordered *known, __u32 index, __u32 kept, __u64 now,
				   __u64 floor)
{
	struct out_of_order *segment, *last, *next;
	__u32 seq;

	if (!known)
		return kept;
	segment = hol_segment_at(known, index);
	last = hol_segment_at(known, kept - 1);
	next = hol_segment_at(known, kept);
	if (!segment || !next)
		return kept;
	seq = segment->seq;
	if (last && hol_merge(last, segment, now, floor)) {
		seq = last->seq;
		next = last;
	} else {
		kept++;
	}
	if (next != segment)
		*next = *segment;
	next->seq = seq;
	return kept;
}

static long hol_compact_step(__u32 index, struct hol_pass *pass)
{
	struct reordered *known = pass->known;

	pass->kept =
		hol_keep_or_merge(known, known->first + index, pass->kept, pass->now, pass->floor);
	return 0;
}

static __always_inline void hol_pass(struct hol_pass *pass)
{
	struct reordered *known = pass->known;

	pass->kept = 0;
	bpf_loop(known->end - known->first, hol_compact_step, pass, 0);
	known->first = 0;
	known->end = pass->kept;
}

/* Return less than 1 ms if no segment waited for long: 20 steps distinguish waits. */
static __always_inline __u64 hol_merge_floor(__u64 longest)
{
	__u64 floor = longest / MERGE_AGE_PART;

	return floor < MERGE_FLOOR_NS ? floor : MERGE_FLOOR_NS;
}

/*
 * Keep short waits apart as long as there is room; without room they are accurate to 1 ms, as all
 * times are.
 */
static __always_inline void hol_make_room(struct reordered *known, __u64 now)
{
	const struct out_of_order *oldest = hol_segment_at(known, known->first);
	struct hol_pass pass = {.known = known, .now = now};

	if (oldest)
		pass.floor = hol_merge_floor(now - oldest->stamped);
	for (int i = 0; i < 2; i++) {
		hol_pass(&pass);
		if (pass.kept <= REORDERED - REORDERED / ROOM_PART)
			break;
		pass.floor = MERGE_FLOOR_NS;
	}
}

struct shift {
	struct reordered *known;
};

static long hol_shift_step(__u32 index, struct shift *shift)
{
	__u32 from = shift->known->end - 1 - index;
	struct out_of_order *segment = hol_segment_at(shift->known, from);
	struct out_of_order *to = hol_segment_at(shift->known, from + 1);

	if (!segment || !to)
		return 1;
	*to = *segment;
	return 0;
}

/* Insert a segment in its place, without the bytes that had come before it. */
static __always_inline bool hol_insert(struct reordered *known, struct out_of_order *segment)
{
	__u32 index = hol_first_ending_after(known, segment->seq);
	struct out_of_order *next = hol_segment_at(known, index);
	struct shift shift = {.known = known};

	if (next && index < known->end) {
		if (!seq_after(next->seq, segment->seq)) {
			segment->seq = next->seq_end;
			next = hol_segment_at(known, ++index);
		}
		if (next && index < known->end && seq_before(next->seq, segment->seq_end))
			segment->seq_end = next->seq;
	}
	if (!seq_before(segment->seq, segment->seq_end))
		return true;
	if (known->end >= REORDERED)
		return false;
	if (index < known->end)
		bpf_loop(known->end - index, hol_shift_step, &shift, 0);
	next = hol_segment_at(known, index);
	if (!next)
		return false;
	*next = *segment;
	known->end++;
	return true;
}

/*
 * Forget dropped segments. If memory is short, TCP may drop waiting segments, the last ones first
 * (tcp_prune_ofo_queue(), v6.18). They will be retransmitted.
 */
static __always_inline void hol_forget_pruned(const struct tcp_sock *tp, struct reordered *known)
{
	struct out_of_order *last = hol_segment_at(known, known->end - 1);
	__u32 end = tp->rcv_nxt;

	if (tp->out_of_order_queue.rb_node)
		end = skb_tcp(tp->ooo_last_skb)->end_seq;
	if (known->first == known->end || !last || !seq_after(last->seq_end, end))
		return;
	known->end = hol_first_ending_after(known, end);
}

/* Treat waiting segments that start before `end` as unknown. */
static __always_inline void hol_mark_unknown(struct receiving *rx, __u32 end)
{
	if (!rx->unknown || seq_after(end, rx->unknown_end))
		rx->unknown_end = end;
	rx->unknown = true;
}

/* A global function, so the verifier walks it once. */
__noinline int hol_store_latest(struct receiving *rx, __u64 now)
{
	struct reordered *known;

	if (!rx)
		return 0;
	known = hol_lookup_or_create(rx);
	if (known && known->end >= REORDERED)
		hol_make_room(known, now);
	if (!known || !hol_insert(known, &rx->latest)) {
		count_loss(LOSS_EVICTED);
		hol_mark_unknown(rx, rx->latest.seq_end);
	}
	return 0;
}

/* Decide whether TCP queued the latest segment out of order: TCP has processed it by now. */
static __always_inline void hol_settle_latest(const struct tcp_sock *tp, struct receiving *rx)
{
	struct reordered *known = hol_lookup(rx);
	bool queued = rx->latest.seq != rx->latest.seq_end && rx->latest_ooopack != tp->rcv_ooopack;

	if (known)
		hol_forget_pruned(tp, known);
	if (queued && !(rx->unknown && seq_before(rx->latest.seq, rx->unknown_end)))
		hol_store_latest(rx, bpf_ktime_get_ns());
	rx->latest.seq_end = rx->latest.seq;
}

/*
 * Forget segments that came after a missing one before the flow was adopted: their time is unknown.
 * While some wait, ooo_last_skb is the last of them (tcp_data_queue_ofo(), net/ipv4/tcp_input.c,
 * v6.18).
 */
static __always_inline void hol_adopt(struct receiving *rx, const struct tcp_sock *tp)
{
	hol_mark_unknown(rx, skb_tcp(tp->ooo_last_skb)->end_seq);
}

static __always_inline void hol_note_out_of_order(const struct tcp_sock *tp, struct receiving *rx,
						  const struct sk_buff *skb,
						  const struct tcp_skb_cb *cb)
{
	struct bank *bank = this_bank();

	if (bank && (!window_bounded() || window_contains(bpf_ktime_get_ns())))
		count(&bank->out_of_order, window_weight());
	rx->latest.stamped = hol_stamp_of(skb);
	rx->latest.seq = cb->seq;
	rx->latest.seq_end = cb->end_seq;
	rx->latest_ooopack = tp->rcv_ooopack;
}

/* See a segment with data before TCP processes it. */
static __always_inline void hol_segment_arrives(const struct tcp_sock *tp, struct flow *flow,
						const struct sk_buff *skb,
						const struct tcp_skb_cb *cb)
{
	struct receiving *rx = &flow->rx;

	if (setting_hol == HOL_UNSEEN)
		return;
	if (rx->latest.seq != rx->latest.seq_end)
		hol_settle_latest(tp, rx);
	rx->filler_lag = LAG_HOL;
	if (seq_after(cb->seq, tp->rcv_nxt)) {
		if (seq_before(cb->seq, tp->rcv_nxt + receive_window(tp)))
			hol_note_out_of_order(tp, rx, skb, cb);
	} else if (tp->out_of_order_queue.rb_node) {
		rx->filler = bpf_ktime_get_ns();
		rx->filler_lag = clock_lag(skb, rx->filler);
		rx->filler_end = cb->end_seq;
	}
}

/*
 * Return true if some of the readable bytes may have waited for an earlier segment:
 * tcp_data_queue_ofo() counts each segment that comes out of order (net/ipv4/tcp_input.c, v6.18).
 */
static __always_inline bool hol_may_have_waited(const struct tcp_sock *tp, struct receiving *rx)
{
	bool waited = rx->gap || rx->ooopack != tp->rcv_ooopack;

	rx->gap = !!tp->out_of_order_queue.rb_node;
	rx->ooopack = tp->rcv_ooopack;
	return waited;
}

/* The segments that a filler released, until they are arrivals. */
struct release {
	struct receiving *rx;
	struct unread *grown;
	struct reordered *known;
	struct arrival arrival; /* the latest */
	__u64 filled; /* when the missing segment was stamped */
	__u64 floor;
	__u32 end; /* of the readable bytes */
	__u32 added;
	__u32 lag;
};

/*
 * Add an arrival after the existing ones and `added` new ones, or add its bytes to the last new
 * one; no reader can see the new ones yet. The last index gets all bytes that find no index of
 * their own. Return the number of new arrivals. A global function for the same reason as
 * arrivals_before().
 */
__noinline __u32 hol_append(struct receiving *rx, struct unread *grown, struct arrival *next,
			    __u64 floor, __u32 added)
{
	struct arrival *to, *last;
	__u32 index;

	if (!rx || !next)
		return added;
	index = arrivals_count(rx) + added;
	to = arrival_at(rx, grown, index);
	last = arrival_at(rx, grown, index - 1);
	if (last && added && arrivals_merge(last, next, next->ready, floor)) {
		to = last;
	} else if (to) {
		added++;
	} else if (last && added) {
		to = last;
		next->lag = LAG_CROWDED;
	}
	if (to)
		*to = *next;
	return added;
}

/* Add an arrival of the bytes up to `seq_end`. */
static __always_inline void hol_add_arrival(struct release *release, __u32 seq_end, __u64 hol,
					    __u32 lag, __u32 span_ns)
{
	struct arrival *next = &release->arrival;

	next->hol = hol;
	next->seq_end = seq_end;
	next->lag = lag;
	next->span_ns = span_ns;
	release->added =
		hol_append(release->rx, release->grown, next, release->floor, release->added);
}

static __always_inline __u32 seq_least(__u32 a, __u32 b)
{
	return seq_before(a, b) ? a : b;
}

/*
 * Add bytes up to `end` that had not come before: the segment brought them, or their origin is
 * unknown.
 */
static __always_inline void hol_add_filled(struct release *release, __u32 end)
{
	__u32 filled = seq_least(release->rx->filler_end, end);

	if (seq_after(filled, release->arrival.seq_end))
		hol_add_arrival(release, filled, 0, release->lag, 0);
	if (seq_after(end, release->arrival.seq_end))
		hol_add_arrival(release, end, 0, LAG_HOL, 0);
}

static long hol_release_step(__u32 index, struct release *release)
{
	struct out_of_order *segment = hol_segment_at(release->known, release->known->first);
	__u64 hol = 0;
	bool known;
	__u32 end;

	if (!segment || !seq_before(segment->seq, release->end))
		return 1;
	hol_add_filled(release, segment->seq);
	end = seq_least(segment->seq_end, release->end);
	/* Two CPUs may have stamped them: the later one may have been processed first. */
	if (segment->stamped < release->filled)
		hol = release->filled - segment->stamped;
	known = segment->stamped && hol <= HOL_LONGEST;
	if (seq_after(end, release->arrival.seq_end))
		hol_add_arrival(release, end, hol, known ? release->lag : LAG_HOL,
				segment->span_ns);
	if (seq_after(segment->seq_end, release->end)) {
		segment->seq = release->end;
		return 1;
	}
	release->known->first++;
	return 0;
}

/* Return the rx.stack time of a segment that came while others waited for it. */
static __always_inline __u32 hol_filler_lag(const struct receiving *rx, __u64 ready)
{
	__u64 since = rx->filler_lag + ready - rx->filler;

	if (!lag_known(rx->filler_lag))
		return rx->filler_lag;
	return !lag_known(since) ? LAG_HOL : since;
}

/*
 * Add the arrivals of bytes from `start` on, which are readable since `ready` because a segment
 * came while others waited. Return the number of new arrivals. A global function, so the verifier
 * walks it once.
 */
__noinline int hol_add_released(struct receiving *rx, __u32 start, __u32 end, __u64 ready)
{
	struct release release = {.rx = rx, .end = end};
	__u32 waiting = 0;

	if (!rx)
		return 0;
	release.grown = arrivals_grown(rx);
	release.known = hol_lookup(rx);
	release.lag = hol_filler_lag(rx, ready);
	release.arrival.ready = ready;
	release.arrival.serial = rx->serial;
	release.arrival.seq_end = start;
	if (release.known)
		waiting = release.known->end - release.known->first;
	release.filled = ready - release.lag;
	if (waiting) {
		const struct out_of_order *oldest =
			hol_segment_at(release.known, release.known->first);

		if (oldest && oldest->stamped && oldest->stamped < release.filled)
			release.floor = hol_merge_floor(release.filled - oldest->stamped);
	}
	if (!lag_known(release.lag))
		hol_add_arrival(&release, end, 0, release.lag, 0);
	if (waiting)
		bpf_loop(waiting, hol_release_step, &release, 0);
	hol_add_filled(&release, end);
	return release.added;
}

#endif
