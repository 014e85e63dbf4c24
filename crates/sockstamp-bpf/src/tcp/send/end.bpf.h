/* SPDX-License-Identifier: GPL-2.0-only */
/* End a measured message: acknowledged, or refused; and compute its final values. */
#ifndef SOCKSTAMP_TCP_SEND_END_BPF_H
#define SOCKSTAMP_TCP_SEND_END_BPF_H

#include "clock/clock.bpf.h"
#include "group/resolve.bpf.h"
#include "ledger/ledger.bpf.h"
#include "nic/nic.bpf.h"
#include "record/record.bpf.h"
#include "sched/service.bpf.h"
#include "tcp/packet.bpf.h"
#include "tcp/send/cause.bpf.h"
#include "tcp/send/host_path.bpf.h"
#include "tcp/send/network.bpf.h"
#include "tcp/send/resent.bpf.h"
#include "tcp/send/slots.bpf.h"
#include "tcp/tag/tag.bpf.h"

#define TCPHDR_ACK 0x10 /* RFC 9293, section 3.1 */

/* Return how long the client paused, of client_times(), in ns; 0: there is no such time. */
static __always_inline __u64 client_pause(__u64 times)
{
	return (times >> 32) * HEARD_NS;
}

/* Return how long its request took to come, in ns; 0: it came at once, or that is unknown. */
static __always_inline __u64 client_request(__u64 times)
{
	return (__u64)(__u32)times * HEARD_NS;
}

static __always_inline void tx_record_service(struct message_record *record,
					      const struct tx_message *message, __u64 client)
{
	__u64 pause = client_pause(client), request = client_request(client);
	struct service_parts parts;

	if (message->flags & MESSAGE_UNPAIRED) {
		record->unpaired = message->service;
		return;
	}
	record->stages[STAGE_APP_SERVICE] = message->service;
	if (pause)
		record->stages[STAGE_CLIENT_PAUSE] = pause;
	if (request)
		record->stages[STAGE_CLIENT_REQUEST] = request;
	if (!(message->flags & MESSAGE_SPENT) || !service_read_parts(&parts, message->stamps.entry))
		return;
	record->parts[PART_SERVICE_RUNNING] = parts.running;
	record->parts[PART_SERVICE_RUNNABLE] = parts.runnable;
	record->parts[PART_SERVICE_THROTTLED] = parts.throttled;
	record->parts[PART_SERVICE_BLOCKED] = parts.blocked;
}

static __always_inline void tx_record_stages(struct message_record *record,
					     const struct tx_message *message, __u64 client,
					     __u32 neighbour)
{
	const struct tx_stamps *stamps = &message->stamps;
	struct network network = network_split(message, stamps->ack - stamps->snd);

	if (setting_entry)
		record->stages[STAGE_TX_COPY] = stamps->queued - stamps->entry;
	record->stages[STAGE_TX_QUEUE] = stamps->sched - stamps->queued;
	record->stages[STAGE_TX_QDISC] = stamps->snd - stamps->sched;
	record->stages[STAGE_TX_NETWORK] = stamps->ack - stamps->snd;
	tx_record_service(record, message, client);
	record->parts[PART_SNDBUF] = message->sndbuf;
	for (int i = 0; i < CAUSE_COUNT; i++)
		record->parts[CAUSE_FIRST + i] = cause_ns(message->waited[i]);
	record->parts[PART_NEIGHBOUR] = cause_ns(neighbour);
	record->parts[PART_DELAYED_ACK] = network.delayed_ack;
	record->parts[PART_EXCESS] = network.excess;
}

/*
 * No acknowledgement counts: tasks that wait for one wait in tx.copy, other bytes in tx.queue. For
 * a diagnosis, what was sent again was not delivered before; and by when a program asks again, it
 * shows whether it waited for all that the peer sent with pauses.
 */
static __always_inline __u64 tx_slow_time(const struct flow *flow, const struct tx_message *message,
					  __u64 client)
{
	__u64 sent = message->stamps.snd - message->stamps.entry;

	if (setting_notable && message->retransmits)
		sent = message->stamps.ack - message->stamps.entry;
	if (identity_serves(flow_identity(flow)))
		return record_longest(record_longest(sent, message->service),
				      client_request(client));
	return setting_notable && flow->exchange.pace ? record_longest(sent, message->service) :
							sent;
}

/*
 * Send a record. Return true if it is of a message that a NIC was asked to stamp: user space adds
 * what lies behind the driver to the counts, once it knows where the NIC's stamp divides it.
 */
static __always_inline bool tx_record(const struct flow *flow, const struct tx_message *message,
				      enum verdict verdict, __u64 client, __u32 neighbour)
{
	bool wanted = recording && record_wanted(verdict, tx_slow_time(flow, message, client));
	bool divides =
		setting_nic_interval && verdict == VERDICT_VALID && message->flags & MESSAGE_NIC;
	const struct tx_stamps *stamps = &message->stamps;
	struct message_record *record;

	if (!wanted && !divides)
		return false;
	record = record_reserve(DIRECTION_TX, verdict);
	if (!record)
		return false;
	__builtin_memcpy(&record->flow, flow_identity(flow), SOCKET_IDENTITY_BYTES);
	record->time = stamps->ack ? stamps->ack : stamps->queued;
	record->stamps.tx = *stamps;
	record->seq_end = message->seq_last + 1;
	record->bytes = message->bytes;
	record->weight = message->weight;
	record->min_rtt_us = message->min_rtt_us;
	/* The flow may have changed hands since, and the task its name. */
	record->flow.pid = message->pid;
	__builtin_memcpy(record->flow.comm, message->comm, sizeof(message->comm));
	record->group = message->group;
	record->retransmits = message->retransmits;
	record->repeats = message->repeats;
	record->cpu = message->cpu;
	record_interface(&record->interface_first, message->interface_first);
	record_interface(&record->interface_last, message->interface_last);
	record->flags = message->flags & ~(MESSAGE_SPENT | MESSAGE_HELD | MESSAGE_UNPAIRED);
	if (!wanted)
		record->flags |= MESSAGE_NIC_ALONE;
	if (verdict == VERDICT_VALID)
		tx_record_stages(record, message, client, neighbour);
	record_submit(record);
	return divides;
}

static __always_inline void tx_refuse(struct bank *bank, const struct flow *flow,
				      const struct tx_message *message, enum verdict verdict)
{
	account_refused(bank, message->group, DIRECTION_TX, verdict, message->weight);
	if (setting_record)
		tx_record(flow, message, verdict, 0, 0);
}

/* An ACK, and which messages it tells the time of. */
struct ack {
	__u64 now;
	__u32 end; /* it acknowledges what is before this */
	__u32 known_from; /* of what is before this it is not known when it was acknowledged */
	__u32 min_rtt_us;
	__u32 verdict; /* of `now` */
};

struct tx_acking {
	struct bank *bank;
	struct flow *flow;
	struct ack ack;
};

/*
 * Make the causes fit into the stage that they are parts of: each is rounded, and ticks of a wait
 * of minutes say nothing. They ended before the wait for the neighbour began.
 */
static __always_inline void tx_fit_causes(struct tx_message *message, __u32 neighbour)
{
	__u64 rest = (message->stamps.sched - message->stamps.queued) >> CAUSE_TICK_SHIFT;
	bool known = rest < ~0U;

	rest -= neighbour;
	for (int i = 0; i < CAUSE_COUNT; i++) {
		if (!known)
			message->waited[i] = 0;
		else if (message->waited[i] > rest)
			message->waited[i] = rest;
		rest -= message->waited[i];
	}
}

/* Return true if later messages have passed a point: then this one did too, in an unseen packet.
 */
static __always_inline bool tx_later_passed(const struct tx_message *message, __u32 cursor)
{
	return !setting_by_packets && seq_before(message->counter, cursor);
}

static __always_inline enum verdict tx_verdict(const struct flow *flow, struct tx_message *message,
					       const struct ack *ack, __u32 neighbour)
{
	const struct tx_stamps *stamps = &message->stamps;

	if (flow_in_gap(flow) || window_exceeded(stamps->ack - stamps->queued, WINDOW_TAIL_NS))
		return VERDICT_WINDOW;
	if (seq_before(message->seq_last, ack->known_from))
		return VERDICT_LOST_EVENT;
	if (ack->verdict != VERDICT_VALID)
		return ack->verdict;
	if (!stamps->sched)
		return seq_before(message->counter, flow->tx.sched) ? VERDICT_SPLIT :
								      VERDICT_NO_SCHED;
	if (!stamps->snd)
		return tx_later_passed(message, flow->tx.snd) ? VERDICT_SPLIT : VERDICT_NO_SND;
	/* Its last packet was not seen at the device behind this one. */
	if (flow->tx.leading && flow->tx.leading == message->interface_last)
		return VERDICT_NO_SND;
	if (stamps->entry > stamps->queued || stamps->queued > stamps->sched ||
	    stamps->sched > stamps->snd || stamps->snd > stamps->ack)
		return VERDICT_STAMP_ORDER;
	if (message->flags & MESSAGE_HELD)
		tx_fit_causes(message, neighbour);
	return VERDICT_VALID;
}

/* Global functions, so that the verifier walks them once: many messages have none of this. */
__noinline int tx_add_client(struct bank *bank, const struct tx_message *message, __u64 client)
{
	__u64 pause = client_pause(client), request = client_request(client);

	if (!bank || !message)
		return 0;
	if (pause)
		account_stage(bank, message->group, STAGE_CLIENT_PAUSE, pause, message->weight);
	if (request)
		account_stage(bank, message->group, STAGE_CLIENT_REQUEST, request, message->weight);
	return 0;
}

__noinline int tx_add_service_parts(struct bank *bank, const struct tx_message *message)
{
	struct service_parts parts;
	__u32 group, weight;

	if (!bank || !message)
		return 0;
	if (!service_read_parts(&parts, message->stamps.entry))
		return 0;
	group = message->group;
	weight = message->weight;
	account_part(bank, group, PART_SERVICE_RUNNING, parts.running, weight);
	account_part(bank, group, PART_SERVICE_RUNNABLE, parts.runnable, weight);
	account_part(bank, group, PART_SERVICE_THROTTLED, parts.throttled, weight);
	account_part(bank, group, PART_SERVICE_BLOCKED, parts.blocked, weight);
	return 0;
}

static __always_inline void tx_add_service(struct bank *bank, const struct tx_message *message,
					   __u64 client)
{
	account_stage(bank, message->group, STAGE_APP_SERVICE, message->service, message->weight);
	if (client)
		tx_add_client(bank, message, client);
	if (message->flags & MESSAGE_SPENT)
		tx_add_service_parts(bank, message);
}

static __always_inline void tx_add_stages(struct bank *bank, const struct tx_message *message,
					  __u64 client)
{
	const struct tx_stamps *stamps = &message->stamps;
	__u32 weight = message->weight;
	__u32 group = message->group;

	if (setting_entry)
		account_stage(bank, group, STAGE_TX_COPY, stamps->queued - stamps->entry, weight);
	account_stage(bank, group, STAGE_TX_QUEUE, stamps->sched - stamps->queued, weight);
	account_stage(bank, group, STAGE_TX_QDISC, stamps->snd - stamps->sched, weight);
	account_stage(bank, group, DISTRIBUTION_TOTAL(DIRECTION_TX), stamps->ack - stamps->entry,
		      weight);
	if (message->flags & MESSAGE_UNPAIRED)
		account_unpaired(bank, DIRECTION_TX, message->service, weight);
	else if (message->service != STAGE_ABSENT)
		tx_add_service(bank, message, client);
}

/* Rare, and a global function, so that the verifier walks its loop once. */
__noinline int tx_add_causes(struct bank *bank, const struct tx_message *message)
{
	if (!bank || !message)
		return 0;
	for (int i = 0; i < CAUSE_COUNT; i++)
		account_part(bank, message->group, CAUSE_FIRST + i, cause_ns(message->waited[i]),
			     message->weight);
	return 0;
}

static __always_inline void tx_add_parts(struct bank *bank, const struct tx_message *message,
					 __u32 neighbour)
{
	account_part(bank, message->group, PART_NEIGHBOUR, cause_ns(neighbour), message->weight);
	account_part(bank, message->group, PART_SNDBUF, message->sndbuf, message->weight);
	if (message->flags & MESSAGE_HELD)
		tx_add_causes(bank, message);
}

/* Add what lies behind the driver, and the time until it: a NIC's stamp divides them elsewhere. */
static __always_inline void tx_add_network(struct bank *bank, const struct tx_message *message)
{
	const struct tx_stamps *stamps = &message->stamps;
	struct network network = network_split(message, stamps->ack - stamps->snd);
	__u32 weight = message->weight;
	__u32 group = message->group;

	account_stage(bank, group, STAGE_TX_NETWORK, stamps->ack - stamps->snd, weight);
	account_stage(bank, group, DISTRIBUTION_SENT, stamps->snd - stamps->entry, weight);
	account_part(bank, group, PART_DELAYED_ACK, network.delayed_ack, weight);
	account_part(bank, group, PART_EXCESS, network.excess, weight);
}

/* The first device of a packet that came to another one leads on, and does so for later packets. */
static __always_inline void tx_note_leading(struct flow *flow, const struct tx_message *message)
{
	if (message->interface_first && message->interface_first != message->interface_last &&
	    !message->retransmits)
		flow->tx.leading = message->interface_first;
}

/* A global function, so that the verifier walks it once, and not once per turn of a loop. */
__noinline int tx_complete(struct bank *bank, struct flow *flow, struct tx_message *message,
			   const struct ack *ack)
{
	enum verdict verdict;
	__u32 neighbour;
	__u64 client;

	if (!bank || !flow || !message || !ack)
		return 0;
	client = message->stamps.ack;
	message->stamps.ack = ack->now;
	neighbour = message->neighbour;
	message->min_rtt_us = ack->min_rtt_us;
	message->flags |= flow->tx.ack_flags & MESSAGE_ACK_WITH_DATA;
	if (setting_host_path || paths_detached)
		path_finish(message);
	verdict = tx_verdict(flow, message, ack, neighbour);
	network_judge_delayed_ack(flow, message);
	if (verdict == VERDICT_NO_SND && !message->stamps.snd)
		path_detach(message->interface_first);
	if (verdict != VERDICT_VALID) {
		tx_refuse(bank, flow, message, verdict);
		return 0;
	}
	tx_note_leading(flow, message);
	tx_add_stages(bank, message, client);
	tx_add_parts(bank, message, neighbour);
	interface_count(bank, message->interface_last, message->weight);
	if (!setting_record || !tx_record(flow, message, verdict, client, neighbour))
		tx_add_network(bank, message);
	account_ended(message->group, DIRECTION_TX);
	return 0;
}

static __always_inline long tx_complete_one(struct tx_acking *acking)
{
	struct flow *flow = acking->flow;
	struct tx_message *message;

	if (flow->tx.tail == flow->tx.head)
		return 1;
	message = tx_find_slot(flow, flow->tx.tail);
	if (message) {
		if (!seq_before(message->seq_last, acking->ack.end))
			return 1;
		tx_complete(acking->bank, flow, message, &acking->ack);
	}
	tx_release_oldest(flow);
	return 0;
}

static long tx_complete_step(__u32 index, struct tx_acking *acking)
{
	return tx_complete_one(acking);
}

/*
 * End messages before `end` as acknowledged; those before `known_from` were acknowledged earlier.
 */
static __always_inline void tx_complete_acked(const struct sock *sk, struct flow *flow,
					      const struct ack *ack)
{
	struct tx_acking acking = {
		.bank = this_bank(),
		.flow = flow,
		.ack = *ack,
	};

	if (!acking.bank)
		return;
	acking.ack.min_rtt_us = tcp_of(sk)->rtt_min.s[0].v;
	network_forget_stale(sk, flow);
	/* Most ACKs are for one message: it needs no loop, which calls a function a turn. */
	if (!tx_complete_one(&acking) && flow->tx.tail != flow->tx.head)
		bpf_loop(TX_INFLIGHT_MAX, tx_complete_step, &acking, 0);
}

/*
 * Return true if TCP will look at the segment's ACK, and it is new: tcp_sequence(), tcp_ack()
 * (v6.12).
 */
static __always_inline bool tx_is_new_ack(const struct tcp_sock *tp, const struct tcp_skb_cb *cb)
{
	if (!(cb->tcp_flags & TCPHDR_ACK))
		return false;
	if (!seq_after(cb->ack_seq, tp->snd_una) || seq_after(cb->ack_seq, tp->snd_nxt))
		return false;
	return !seq_before(cb->end_seq, tp->rcv_wup) &&
	       !seq_after(cb->seq, tp->rcv_nxt + receive_window(tp));
}

/*
 * Note when an ACK came. While a task holds the socket's lock, segments wait in its backlog
 * (tcp_add_backlog(), net/ipv4/tcp_ipv4.c, v6.18), which is no time of the network: the packet's
 * own stamp tells when it came.
 */
static __always_inline void ack_set_time(struct ack *ack, const struct sock *sk,
					 const struct sk_buff *skb)
{
	__u32 waited;

	ack->now = bpf_ktime_get_ns();
	waited = clock_lag(skb, ack->now);
	if (!lag_known(waited))
		ack->verdict = sk->sk_lock.owned ? arrival_verdict(waited) : VERDICT_VALID;
	else if (waited > CLOCK_PLAUSIBLE_NS)
		ack->now -= waited;
}

/*
 * A segment, before TCP works on it; the socket is locked. Its ACK is the time of every byte that
 * it covers. (An old one that PAWS refuses, RFC 7323, section 5, acknowledges nothing new.)
 */
static __always_inline void tx_segment_acks(const struct sock *sk, struct flow *flow,
					    const struct sk_buff *skb, const struct tcp_skb_cb *cb)
{
	const struct tcp_sock *tp = tcp_of(sk);
	struct ack ack = {.end = cb->ack_seq, .known_from = tp->snd_una};

	if (flow->tx.head == flow->tx.tail || !tx_is_new_ack(tp, cb))
		return;
	ack_set_time(&ack, sk, skb);
	tx_complete_acked(sk, flow, &ack);
}

/*
 * Handle the ACK callback of a packet that is about to be freed, or whose acknowledged part is cut
 * off (tcp_clean_rtx_queue(), net/ipv4/tcp_input.c, v6.18). It ends messages that no segment has
 * ended: tcp_probe is silent outside ESTABLISHED. Bytes before that packet were acknowledged with
 * it or earlier. The time is when the ACK reached TCP, taken by tcp_mstamp_refresh() at the top of
 * tcp_rcv_established() and tcp_rcv_state_process().
 */
static __always_inline void tx_ack_callback(const struct sock *sk, struct flow *flow,
					    const struct sk_buff *skb)
{
	const struct tcp_sock *tp = tcp_of(sk);
	struct ack ack = {
		.now = tp->tcp_clock_cache,
		.end = tp->snd_una,
		.known_from = skb_tcp(skb)->seq,
	};

	if (flow->tx.head == flow->tx.tail)
		return;
	if (!seq_before(ack.known_from, ack.end))
		ack.known_from = skb_shared(skb)->tskey;
	tx_complete_acked(sk, flow, &ack);
}

struct tx_resent {
	struct flow *flow;
	__u32 counter;
	__u32 seq;
	__u32 end_seq;
	__u32 segments;
};

static long tx_mark_retransmitted_step(__u32 index, struct tx_resent *resent)
{
	struct tx_message *message;

	if (resent->counter == resent->flow->tx.head)
		return 1;
	message = tx_find_slot(resent->flow, resent->counter++);
	if (!message)
		return 0;
	/* A later message may have begun earlier: that of another task. */
	if (seq_after(resent->end_seq, message->seq_last + 1 - message->bytes) &&
	    !seq_after(resent->seq, message->seq_last))
		message->retransmits += resent->segments;
	return 0;
}

static __always_inline void tx_mark_retransmitted(struct flow *flow, const struct tcp_skb_cb *cb,
						  __u32 segments)
{
	struct tx_resent resent = {
		.flow = flow,
		.counter = flow->tx.tail,
		.seq = cb->seq,
		.end_seq = cb->end_seq,
		.segments = segments,
	};

	/* Those of a call that still queues bytes become its message's. */
	for (int i = 0; i < SENDERS; i++) {
		struct sender *sender = &flow->tx.senders[i];

		if (sender->tid && seq_after(resent.end_seq, sender->start))
			sender->retransmits += segments;
	}
	bpf_loop(TX_INFLIGHT_MAX, tx_mark_retransmitted_step, &resent, 0);
}

/*
 * What a closed window made the peer drop is sent again until TCP has recovered from that. No
 * segment may have come since the window closed.
 */
static __always_inline enum resent tx_recovers_from_closed_window(struct waiting *waiting,
								  enum resent why)
{
	if (why == RESENT_WINDOW && !waiting->recovers)
		waiting->closed = true;
	if (waiting->closed && (why == RESENT_FAST || why == RESENT_TIMEOUT))
		return RESENT_WINDOW;
	return why;
}

/*
 * Follow the kernel's tcpi_total_retrans: segments, including SYNs from before the flow's first
 * message. The tracepoint alone is not enough: it also fires for failed tries, most of them because
 * the skb is still on its way out (tcp_retransmit_skb's `err`, v6.18).
 */
static __always_inline void tx_retransmit(const struct sock *sk, const struct sk_buff *skb)
{
	struct bank *bank = this_bank();
	struct mark *mark = flow_mark_lookup(sk);
	enum resent why;
	struct flow *flow;
	__u32 segments;

	if (!bank || !mark || !mark_measures(mark, DIRECTION_TX))
		return;
	segments = tcp_of(sk)->total_retrans - mark->retransmits;
	if (!segments)
		return;
	mark->retransmits += segments;
	if (mark->opening.began)
		mark->opening.again = bpf_ktime_get_ns();
	if (setting_tag)
		tag_resent(bank, sk, &mark->tag, skb_tcp(skb));
	flow = flow_lookup(sk);
	why = resent_why(tcp_of(sk), skb);
	if (flow)
		why = tx_recovers_from_closed_window(&flow->tx.waiting, why);
	account_retransmits(bank, group_of_socket(flow ? &flow->group : NULL, sk), segments, why);
	flow_count_needless(bank, mark, sk, tcp_of(sk));
	if (flow)
		tx_mark_retransmitted(flow, skb_tcp(skb), segments);
}

struct tx_closing {
	struct bank *bank;
	struct flow *flow;
	__u32 acknowledged;
	bool reset;
};

static long tx_refuse_in_flight_step(__u32 index, struct tx_closing *closing)
{
	struct flow *flow = closing->flow;
	struct tx_message *message;
	enum verdict verdict = closing->reset ? VERDICT_RESET : VERDICT_CLOSED;

	if (flow->tx.tail == flow->tx.head)
		return 1;
	message = tx_find_slot(flow, flow->tx.tail);
	if (message) {
		message->stamps.ack = 0;
		message->min_rtt_us = 0;
		if (setting_host_path || paths_detached)
			path_finish(message);
		if (flow_in_gap(flow))
			verdict = VERDICT_WINDOW;
		else if (seq_before(message->seq_last, closing->acknowledged))
			verdict = VERDICT_LOST_EVENT;
		tx_refuse(closing->bank, flow, message, verdict);
	}
	tx_release_oldest(flow);
	return 0;
}

/* Nothing will be acknowledged any more: tcp_done() and tcp_disconnect(). */
static __always_inline void tx_refuse_in_flight(struct bank *bank, const struct sock *sk,
						struct flow *flow)
{
	struct tx_closing closing = {
		.bank = bank,
		.flow = flow,
		.acknowledged = tcp_of(sk)->snd_una,
		.reset = sk->sk_err,
	};

	bpf_loop(TX_INFLIGHT_MAX, tx_refuse_in_flight_step, &closing, 0);
}

#endif
