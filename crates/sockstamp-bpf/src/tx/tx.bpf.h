/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * TX of TCP: entry of the send call, its last byte queued, into the packet scheduler, out to the
 * driver, acknowledged. BPF timestamping (v6.15) calls for each of these; without it traced.bpf.h
 * finds them where packets pass.
 *
 * A TCP stamp belongs to a byte: the last one of the send call, whose sequence number is the key
 * (shinfo->tskey). TCP sends and acknowledges in order, so a stamp for a key also holds for every
 * earlier message of the flow that still lacks it: its bytes left before, or in the same skb, where
 * the later send overwrote its key.
 */
#ifndef SOCKSTAMP_TX_BPF_H
#define SOCKSTAMP_TX_BPF_H

#include "../flow/flow.bpf.h"
#include "../path/path.bpf.h"
#include "../group/resolve.bpf.h"
#include "../record/record.bpf.h"
#include "cause.bpf.h"
#include "entry.bpf.h"
#include "network.bpf.h"
#include "packet.bpf.h"

/*
 * include/linux/skbuff.h, v6.18: what a program asks for by SO_TIMESTAMPING, in shinfo->tx_flags.
 */
#define SKBTX_HW_TSTAMP_NOBPF	(1 << 0)
#define SKBTX_SW_TSTAMP		(1 << 1)
#define SKBTX_COMPLETION_TSTAMP (1 << 3)
#define SKBTX_SCHED_TSTAMP	(1 << 6)
#define SKBTX_APPLICATION \
	(SKBTX_HW_TSTAMP_NOBPF | SKBTX_SW_TSTAMP | SKBTX_COMPLETION_TSTAMP | SKBTX_SCHED_TSTAMP)
/* include/net/tcp.h, v6.18: the same in tcp_skb_cb::txstamp_ack. */
#define TSTAMP_ACK_SK 0x1

extern int bpf_sock_ops_enable_tx_tstamp(struct bpf_sock_ops_kern *skops,
					 __u64 flags) __ksym __weak;

static __always_inline struct tx_message *tx_slot(struct flow *flow, __u32 counter)
{
	return &flow->tx[counter % TX_SLOTS];
}

/*
 * The message whose last byte is in a packet. The newest first: most stamps that come again are for
 * it.
 */
static __always_inline struct tx_message *tx_find(struct flow *flow, const struct packet *packet)
{
	__u32 counter = flow->tx_head;

	for (int i = 0; i < TX_SLOTS && counter != flow->tx_tail; i++) {
		struct tx_message *message = tx_slot(flow, --counter);

		if (packet_carries(packet, message->seq_last))
			return message;
	}
	return NULL;
}

/* A callback comes only where one was asked for; a packet need not be the last of its message. */
static __always_inline void tx_unmatched(void)
{
	if (!setting_traced)
		count_loss(LOSS_UNMATCHED);
}

static __always_inline void tx_record_stages(struct message_record *record,
					     const struct tx_message *message)
{
	const struct tx_stamps *stamps = &message->stamps;
	struct network network = network_split(message, stamps->ack - stamps->snd);

	if (setting_entry)
		record->stages[STAGE_TX_COPY] = stamps->queued - stamps->entry;
	record->stages[STAGE_TX_QUEUE] = stamps->sched - stamps->queued;
	record->stages[STAGE_TX_QDISC] = stamps->snd - stamps->sched;
	record->stages[STAGE_TX_NETWORK] = stamps->ack - stamps->snd;
	record->stages[STAGE_APP_SERVICE] = message->service;
	record->parts[PART_SNDBUF] = message->sndbuf;
	for (int i = 0; i < CAUSE_COUNT; i++)
		record->parts[CAUSE_FIRST + i] = message->waited[i];
	record->parts[PART_DELAYED_ACK] = network.delayed_ack;
	record->parts[PART_EXCESS] = network.excess;
}

static __always_inline void tx_record(const struct flow *flow, const struct tx_message *message,
				      enum verdict verdict)
{
	const struct tx_stamps *stamps = &message->stamps;
	struct message_record *record;

	if (!record_wanted(verdict, stamps->ack - stamps->entry))
		return;
	record = record_reserve(flow, DIRECTION_TX, verdict);
	if (!record)
		return;
	record->time = stamps->ack ? stamps->ack : stamps->queued;
	record->stamps.tx = *stamps;
	record->seq_end = message->seq_last + 1;
	record->bytes = message->seq_last + 1 - message->seq_start;
	record->weight = message->weight;
	record->min_rtt_us = message->min_rtt_us;
	/* The flow may have changed hands since. */
	record->flow.pid = message->pid;
	record->group = message->group;
	record->retransmits = message->retransmits;
	record->repeats = message->repeats;
	record_interface(&record->interface_first, message->interface_first);
	record_interface(&record->interface_last, message->interface_last);
	record->flags = message->flags;
	if (verdict == VERDICT_VALID)
		tx_record_stages(record, message);
	record_submit(record);
}

static __always_inline void tx_refuse(struct bank *bank, const struct flow *flow,
				      const struct tx_message *message, enum verdict verdict)
{
	count(&bank->refusals[DIRECTION_TX][verdict], message->weight);
	group_ended(message->group, DIRECTION_TX, message->weight);
	if (setting_record)
		tx_record(flow, message, verdict);
}

/* The program's own id of an earlier send is on this skb, and ours would take its place. */
static __always_inline bool tx_disturbs_application(const struct sk_buff *skb,
						    const struct tcp_skb_cb *cb, __u32 key)
{
	const struct skb_shared_info *shared = skb_shared(skb);

	if (!(shared->tx_flags & SKBTX_APPLICATION) &&
	    !(BPF_CORE_READ_BITFIELD(cb, txstamp_ack) & TSTAMP_ACK_SK))
		return false;
	return shared->tskey != key;
}

static __always_inline enum verdict tx_admit(const struct flow *flow, const struct sock *sk,
					     const struct sk_buff *skb, __u32 key)
{
	if (flow->tx_head - flow->tx_tail >= TX_SLOTS)
		return VERDICT_INFLIGHT_FULL;
	if (seq_before(key, tcp_of(sk)->snd_nxt))
		return VERDICT_ALREADY_SENT;
	if (!setting_traced && tx_disturbs_application(skb, skb_tcp(skb), key))
		return VERDICT_APP_STAMP;
	return VERDICT_VALID;
}

/* A measured message: into its slot, or refused. Whether it has one. */
static __always_inline bool tx_measure(struct bank *bank, const struct sock *sk,
				       const struct sk_buff *skb, struct flow *flow,
				       struct sender *sender, __u32 start, __u32 key)
{
	struct tx_message refused, *message;
	__u64 now = bpf_ktime_get_ns();
	enum verdict verdict;

	if (!setting_entry)
		tx_sender(tcp_of(sk), flow, sender, now);
	if (sender->tid)
		verdict = tx_admit(flow, sk, skb, key);
	else
		verdict = sender->crowded == TX_ADOPTED ? VERDICT_ADOPTED : VERDICT_NO_ENTRY;
	message = verdict == VERDICT_VALID ? tx_slot(flow, flow->tx_head) : &refused;
	__builtin_memset(message, 0, sizeof(*message));
	message->stamps.queued = now;
	message->stamps.entry = sender->entry;
	message->sndbuf = sender->sndbuf;
	message->service = sender->service;
	message->flags = sender->flags & MESSAGE_PIPELINED;
	message->seq_start = start;
	message->seq_last = key;
	message->pid = sender->pid ?: bpf_get_current_pid_tgid() >> 32;
	message->weight = sample_take(&flow->tx_sampler);
	message->group = sender->group;
	/* What was read is answered; the entry of a send may be noted twice. */
	flow->rx_time = 0;
	count_measured(bank, DIRECTION_TX, message->weight);
	group_measured(message->group, DIRECTION_TX);
	if (verdict != VERDICT_VALID) {
		tx_refuse(bank, flow, message, verdict);
		return false;
	}
	cause_queued(sk, flow, sender->flags & SENDER_MORE, now);
	for (int i = 0; i < CAUSE_COUNT; i++)
		message->waited[i] = flow->waiting.waited[i];
	flow->tx_head++;
	return true;
}

/*
 * A message is queued, up to `key`: all of a send call's bytes that TCP took. The socket is locked,
 * `current` is the sender. Whether its stamps are wanted.
 */
static __always_inline bool tx_queued(const struct sock *sk, const struct sk_buff *skb,
				      struct flow *flow, __u32 key)
{
	__u32 start = flow->tx_seq;
	struct bank *bank = this_bank();
	struct sender sender = {};
	__u32 crowded, group;

	flow->tx_seq = key + 1;
	if (!flow_wants(flow, DIRECTION_TX))
		return false;
	if (setting_entry && (flow->senders[0].tid || flow->senders[1].tid))
		sender = tx_take_entry(flow);
	crowded = flow->tx_crowded;
	if (!sk->sk_write_pending)
		flow->tx_crowded = 0;
	/* Another task's message on a flow that a selected task opened or listens for. */
	if (!bank ||
	    (setting_by_pid && !sender.tid && !pid_selected(bpf_get_current_pid_tgid() >> 32)))
		return false;
	count(&bank->messages[DIRECTION_TX], 1);
	count(&bank->bytes[DIRECTION_TX], key + 1 - start);
	group = group_of_task(&flow->group, sk);
	group_message(group, DIRECTION_TX, key + 1 - start);
	if (!setting_entry)
		sample_refresh(&flow->tx_sampler, tcp_of(sk)->tcp_clock_cache);
	if (sample_skip(&flow->tx_sampler)) {
		flow->rx_time = 0;
		return false;
	}
	sender.group = group;
	sender.crowded = crowded;
	return tx_measure(bank, sk, skb, flow, &sender, start, key);
}

/*
 * SENDMSG: the end of tcp_sendmsg_locked(). skb is the tail of the write queue, or of the
 * retransmit queue if everything has left already.
 */
static __always_inline void tx_sendmsg(struct bpf_sock_ops_kern *kern, struct flow *flow)
{
	const struct sk_buff *skb = kern->skb;

	if (tx_queued(kern->sk, skb, flow, skb_tcp(skb)->seq + skb->len - 1) && !setting_traced)
		bpf_sock_ops_enable_tx_tstamp(kern, 0);
}

static __always_inline __u32 tx_from(const struct flow *flow, __u32 cursor)
{
	return (__s32)(cursor - flow->tx_tail) < 0 ? flow->tx_tail : cursor;
}

/* Another device on the way (a veth, then a bridge's port), or the same one again: sent again. */
static __always_inline void tx_sched_again(struct flow *flow, const struct packet *packet,
					   __u64 now, __u32 interface)
{
	struct tx_message *message = tx_find(flow, packet);

	if (!message) {
		tx_unmatched();
		return;
	}
	message->stamps.sched_last = now;
	message->repeats++;
	if (message->interface_first == interface)
		message->flags |= MESSAGE_RESENT;
}

/* SCHED: __dev_queue_xmit() of each device on the way while the skb belongs to the socket. */
static __always_inline void tx_sched(const struct sock *sk, const struct net_device *device,
				     struct flow *flow, const struct packet *packet)
{
	__u32 interface = interface_slot(device);
	__u64 now = bpf_ktime_get_ns();
	__u32 first = tx_from(flow, flow->tx_sched);
	__u32 counter = first;

	if (counter != flow->tx_head)
		cause_left(sk, flow, now);
	for (int i = 0; i < TX_SLOTS && counter != flow->tx_head; i++) {
		struct tx_message *message = tx_slot(flow, counter);

		if (seq_after(message->seq_last, packet->last))
			break;
		for (int j = 0; j < CAUSE_COUNT; j++)
			message->waited[j] = flow->waiting.waited[j] - message->waited[j];
		message->stamps.sched = now;
		message->stamps.sched_last = now;
		message->interface_first = interface;
		if (message->seq_last != packet->last)
			message->flags |= MESSAGE_COALESCED;
		counter++;
	}
	if (counter == first)
		tx_sched_again(flow, packet, now, interface);
	else
		flow->tx_sched = counter;
}

/* A packet leaves by another device on its way; messages that share it share its stamp. */
static __always_inline void tx_snd_onward(struct flow *flow, __u32 key, __u64 now, __u32 interface)
{
	__u32 counter = flow->tx_head;

	for (int i = 0; i < TX_SLOTS && counter != flow->tx_tail; i++) {
		struct tx_message *message = tx_slot(flow, --counter);

		if (!message->stamps.snd || message->packet != key)
			continue;
		message->stamps.snd = now;
		message->stamps.snd_last = now;
		message->interface_last = interface;
	}
}

/* What follows the first transmission is the network's time, also where it is sent again. */
static __always_inline void tx_snd_again(const struct net_device *device, struct flow *flow,
					 const struct packet *packet, __u64 now)
{
	struct tx_message *message = tx_find(flow, packet);

	if (!message) {
		tx_unmatched();
		return;
	}
	message->stamps.snd_last = now;
	message->repeats++;
	if (!(message->flags & MESSAGE_RESENT))
		tx_snd_onward(flow, packet->last, now, interface_slot(device));
}

/* SND software: the driver of each device on the way takes the skb; the socket is not locked. */
static __always_inline void tx_snd(const struct sk_buff *skb, const struct net_device *device,
				   struct flow *flow, const struct packet *packet)
{
	__u32 key = packet->last;
	__u64 now = bpf_ktime_get_ns();
	__u32 first = tx_from(flow, flow->tx_snd);
	__u32 counter = first;
	__u32 interface;

	if (counter == flow->tx_head || seq_after(tx_slot(flow, counter)->seq_last, key)) {
		tx_snd_again(device, flow, packet, now);
		return;
	}
	interface = interface_slot(device);
	if (setting_host_path)
		path_open(skb, key, interface);
	for (int i = 0; i < TX_SLOTS && counter != flow->tx_head; i++) {
		struct tx_message *message = tx_slot(flow, counter);

		if (seq_after(message->seq_last, key))
			break;
		message->stamps.snd = now;
		message->stamps.snd_last = now;
		message->packet = key;
		message->hash = skb->hash;
		message->interface_last = interface;
		counter++;
	}
	flow->tx_snd = counter;
}

/* The stamp is on the NIC's clock (PHC): kept in the record, no difference to ours is formed. */
static __always_inline void tx_snd_hardware(const struct sk_buff *skb, struct flow *flow)
{
	const struct skb_shared_info *shared = skb_shared(skb);
	struct packet packet = packet_of_key(shared->tskey);
	struct tx_message *message = tx_find(flow, &packet);

	if (message)
		message->stamps.snd_hw = shared->hwtstamps.hwtstamp;
	else
		count_loss(LOSS_UNMATCHED);
}

/*
 * A message that shares no packet with a later one has a callback of its own. Where a later one's
 * came instead, nobody knows when it was acknowledged: the kernel drops such callbacks when it
 * merges packets that were acknowledged selectively (seen at 2 % loss, v6.18).
 */
static __always_inline bool tx_ack_lost(const struct tx_message *message, __u32 key)
{
	return !setting_traced && message->seq_last != key && !(message->flags & MESSAGE_COALESCED);
}

static __always_inline enum verdict tx_verdict(const struct tx_message *message, __u32 key)
{
	const struct tx_stamps *stamps = &message->stamps;

	if (tx_ack_lost(message, key))
		return VERDICT_LOST_EVENT;
	if (!stamps->sched)
		return VERDICT_NO_SCHED;
	if (!stamps->snd)
		return VERDICT_NO_SND;
	if (stamps->entry > stamps->queued || stamps->queued > stamps->sched ||
	    stamps->sched > stamps->snd || stamps->snd > stamps->ack)
		return VERDICT_STAMP_ORDER;
	return VERDICT_VALID;
}

static __always_inline void tx_add_stages(struct bank *bank, const struct tx_message *message)
{
	const struct tx_stamps *stamps = &message->stamps;
	__u32 weight = message->weight;
	__u32 group = message->group;

	if (setting_entry)
		stage_add(bank, group, STAGE_TX_COPY, stamps->queued - stamps->entry, weight);
	stage_add(bank, group, STAGE_TX_QUEUE, stamps->sched - stamps->queued, weight);
	stage_add(bank, group, STAGE_TX_QDISC, stamps->snd - stamps->sched, weight);
	stage_add(bank, group, STAGE_TX_NETWORK, stamps->ack - stamps->snd, weight);
	stage_add(bank, group, DISTRIBUTION_TOTAL(DIRECTION_TX), stamps->ack - stamps->entry,
		  weight);
	if (message->service != STAGE_ABSENT)
		stage_add(bank, group, STAGE_APP_SERVICE, message->service, weight);
	if (message->flags & MESSAGE_PIPELINED)
		count(&bank->pipelined, weight);
}

static __always_inline void tx_add_parts(struct bank *bank, const struct tx_message *message)
{
	const struct tx_stamps *stamps = &message->stamps;
	struct network network = network_split(message, stamps->ack - stamps->snd);
	__u32 weight = message->weight;
	__u32 group = message->group;

	stage_part_add(bank, group, PART_SNDBUF, message->sndbuf, weight);
	for (int i = 0; i < CAUSE_COUNT; i++)
		stage_part_add(bank, group, CAUSE_FIRST + i, message->waited[i], weight);
	stage_part_add(bank, group, PART_DELAYED_ACK, network.delayed_ack, weight);
	stage_part_add(bank, group, PART_EXCESS, network.excess, weight);
}

/*
 * A global function, so that the verifier walks it once and not for each message that one ACK may
 * complete.
 */
__noinline int tx_complete(struct bank *bank, struct flow *flow, __u32 key, __u64 now,
			   __u32 min_rtt)
{
	struct tx_message *message;
	enum verdict verdict;

	if (!bank || !flow)
		return 0;
	message = tx_slot(flow, flow->tx_tail);
	message->stamps.ack = now;
	message->min_rtt_us = min_rtt;
	message->flags |= flow->ack_flags & MESSAGE_ACK_WITH_DATA;
	if (setting_host_path)
		path_close(message);
	network_judge(flow, message);
	verdict = tx_verdict(message, key);
	if (verdict != VERDICT_VALID) {
		tx_refuse(bank, flow, message, verdict);
		return 0;
	}
	tx_add_stages(bank, message);
	tx_add_parts(bank, message);
	group_ended(message->group, DIRECTION_TX, 0);
	interface_count(bank, message->interface_last, message->weight);
	if (setting_record)
		tx_record(flow, message, verdict);
	return 0;
}

/* Everything up to `key` is acknowledged; the socket is locked. */
static __always_inline void tx_ack(const struct sock *sk, struct flow *flow, __u32 key, __u64 now)
{
	__u32 min_rtt = tcp_of(sk)->rtt_min.s[0].v;
	struct bank *bank = this_bank();

	if (!bank)
		return;
	network_ack(sk, flow);
	for (int i = 0; i < TX_SLOTS && flow->tx_tail != flow->tx_head; i++) {
		if (seq_after(tx_slot(flow, flow->tx_tail)->seq_last, key))
			break;
		tx_complete(bank, flow, key, now, min_rtt);
		flow->tx_tail++;
	}
}

/* A callback after SENDMSG, which it was asked for. */
static __always_inline void tx_callback(struct bpf_sock_ops_kern *kern, __u32 op, struct flow *flow)
{
	struct packet packet = packet_of_key(skb_shared(kern->skb)->tskey);
	const struct sock *sk = kern->sk;

	switch (op) {
	case BPF_SOCK_OPS_TSTAMP_SCHED_CB:
		tx_sched(sk, kern->skb->dev, flow, &packet);
		break;
	case BPF_SOCK_OPS_TSTAMP_SND_SW_CB:
		tx_snd(kern->skb, kern->skb->dev, flow, &packet);
		break;
	case BPF_SOCK_OPS_TSTAMP_SND_HW_CB:
		tx_snd_hardware(kern->skb, flow);
		break;
	case BPF_SOCK_OPS_TSTAMP_ACK_CB:
		/*
		 * When the ACK reached TCP: CLOCK_MONOTONIC, taken by tcp_mstamp_refresh() at the
		 * top of tcp_rcv_established() and tcp_rcv_state_process() (v6.18). That is what
		 * the stage ends with, and it is free; reading the clock is the dearest thing a
		 * program does.
		 */
		tx_ack(sk, flow, packet.last, tcp_of(sk)->tcp_clock_cache);
		break;
	}
}

static __always_inline void tx_mark_retransmitted(struct flow *flow, const struct tcp_skb_cb *cb,
						  __u32 segments)
{
	__u32 counter = flow->tx_tail;

	for (int i = 0; i < TX_SLOTS && counter != flow->tx_head; i++) {
		struct tx_message *message = tx_slot(flow, counter++);

		if (seq_after(cb->end_seq, message->seq_start) &&
		    !seq_after(cb->seq, message->seq_last))
			message->retransmits += segments;
	}
}

/*
 * Follows the kernel's own tcpi_total_retrans: segments, SYNs among them, which come before the
 * flow has a message. The tracepoint alone would not do: it is there for tries that failed as well,
 * most of them since the skb is still on its way out (tcp_retransmit_skb's `err`, v6.18).
 */
static __always_inline void tx_retransmit(const struct sock *sk, const struct sk_buff *skb)
{
	struct bank *bank = this_bank();
	struct mark *mark = flow_mark(sk);
	struct flow *flow;
	__u32 segments;

	if (!bank || !mark || !mark_wants(mark, DIRECTION_TX))
		return;
	segments = tcp_of(sk)->total_retrans - mark->retransmits;
	if (!segments)
		return;
	mark->retransmits += segments;
	count(&bank->retransmits, segments);
	flow = flow_lookup(sk);
	group_retransmitted(group_of_socket(flow, sk), segments);
	if (flow)
		tx_mark_retransmitted(flow, skb_tcp(skb), segments);
}

/* Nothing will be acknowledged any more: tcp_done() and tcp_disconnect(). */
static __always_inline void tx_close(struct bank *bank, const struct sock *sk, struct flow *flow)
{
	enum verdict verdict = sk->sk_err ? VERDICT_RESET : VERDICT_CLOSED;
	__u32 acknowledged = tcp_of(sk)->snd_una;

	for (int i = 0; i < TX_SLOTS && flow->tx_tail != flow->tx_head; i++) {
		struct tx_message *message = tx_slot(flow, flow->tx_tail++);

		if (setting_host_path)
			path_close(message);
		tx_refuse(bank, flow, message,
			  seq_before(message->seq_last, acknowledged) ? VERDICT_LOST_EVENT :
									verdict);
	}
}

#endif
