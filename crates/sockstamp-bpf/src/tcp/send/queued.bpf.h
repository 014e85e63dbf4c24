/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measure TX of TCP: entry of the send call, its last byte queued, into the packet scheduler, out
 * to the driver, acknowledged. A message is a range of bytes, and its times are those of its last
 * one: when the packet with that byte left, and when an ACK covered it. BPF timestamping (v6.15)
 * calls when a send call ends, and at each point that the packet with the call's last byte passes;
 * departures without a call are found in the retransmit queue. Without BPF timestamping,
 * by_packets.bpf.h looks at packets.
 */
#ifndef SOCKSTAMP_TCP_SEND_QUEUED_BPF_H
#define SOCKSTAMP_TCP_SEND_QUEUED_BPF_H

#include "group/resolve.bpf.h"
#include "ledger/ledger.bpf.h"
#include "nic/nic.bpf.h"
#include "tcp/answer.bpf.h"
#include "tcp/packet.bpf.h"
#include "tcp/send/cause.bpf.h"
#include "tcp/send/departure.bpf.h"
#include "tcp/send/end.bpf.h"
#include "tcp/send/entry.bpf.h"
#include "tcp/send/hardware.bpf.h"
#include "tcp/send/slots.bpf.h"
#include "tcp/send/stamps.bpf.h"
#include "wait/attempts.bpf.h"

/*
 * The flags in shinfo->tx_flags that a program requests by SO_TIMESTAMPING (include/linux/skbuff.h,
 * v6.18).
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

static __always_inline enum verdict tx_admission(const struct sock *sk, const struct sk_buff *skb,
						 __u32 key)
{
	if (seq_before(key, tcp_of(sk)->snd_nxt))
		return VERDICT_ALREADY_SENT;
	/* Functions that are traced show no skb. */
	if (skb && !setting_by_packets && tx_disturbs_application(skb, skb_tcp(skb), key))
		return VERDICT_APP_STAMP;
	return VERDICT_VALID;
}

/* Return why the entry of a send was not noted. */
static __always_inline enum verdict tx_missed_entry(__u32 crowded)
{
	switch (crowded) {
	case TX_ADOPTED:
		return VERDICT_ADOPTED;
	case TX_WINDOW:
		return VERDICT_WINDOW;
	}
	return VERDICT_NO_ENTRY;
}

/*
 * Return how many bytes a call has queued, up to `end`; 0 if that is unknown. Calls of several
 * tasks may be inside send at once: while one waits for room, others queue theirs between its
 * bytes. Each turn of its loop shows how many are left, and all that is queued since the last one
 * is its own, unless it waited and gave up.
 */
static __always_inline __u32 tx_bytes_of_call(const struct sock *sk, const struct sender *sender,
					      __u32 start, __u32 end)
{
	/* Nobody else has queued anything: all since the last message is the call's. */
	if (!sender->tid || (sender->start == start && !sk->sk_write_pending))
		return end - start;
	if (setting_by_packets || !sender->asked)
		return 0;
	return sender->asked - (__u32)sender->left + (sender->full ? 0 : end - sender->turn);
}

/*
 * A send call ends, the first event of its flow after a gap: where its bytes begin is not known.
 */
static __always_inline void tx_refuse_first_after_gap(const struct sock *sk, struct flow *flow)
{
	struct bank *bank = this_bank();

	flow_reset_if_after_gap(flow, sk->sk_write_pending);
	if (bank && flow_measures(flow, DIRECTION_TX) && window_contains(bpf_ktime_get_ns()))
		account_missed(bank, group_of_task(&flow->group, sk), DIRECTION_TX, VERDICT_WINDOW,
			       window_weight());
}

/*
 * The message answers what was read, or asks. Note this once it is queued: the entry of a send may
 * be noted twice.
 */
static __always_inline void tx_answers(const struct sock *sk, struct flow *flow,
				       struct sender *sender, __u32 length, __u64 now)
{
	__u8 unpaired = sender->unpaired;

	turn_begins(flow, sender->service);
	if (unpaired || sender->service != STAGE_ABSENT)
		unpaired = service_answered(&flow->exchange, unpaired, sender->service);
	else
		service_goes_on(sk, &flow->exchange, now);
	if (unpaired) {
		sender->flags |= MESSAGE_UNPAIRED;
		sender->service = unpaired;
	}
	flow->rx.service_from = 0;
	answer_asked(sk, flow, length, now);
}

/* Return true if the message of a send answers a request: its times are those of a service. */
static __always_inline bool tx_is_answer(const struct flow *flow, const struct sender *sender)
{
	return sender->service != STAGE_ABSENT && !(sender->flags & MESSAGE_UNPAIRED) &&
	       identity_serves(flow_identity(flow));
}

/* Fill in a message; `sender` has how many bytes its call queued. */
static __always_inline void tx_fill(struct tx_message *message, const struct sender *sender,
				    __u32 key, __u32 group, __u32 weight, __u64 now)
{
	__builtin_memset(message, 0, sizeof(*message));
	message->stamps.queued = now;
	message->stamps.entry = sender->entry;
	message->sndbuf = sender->sndbuf;
	message->service = sender->service;
	message->flags = sender->flags & (MESSAGE_UNPAIRED | MESSAGE_SPENT);
	message->bytes = sender->bytes;
	message->seq_last = key;
	message->retransmits = sender->retransmits;
	message->pid = sender->pid ?: bpf_get_current_pid_tgid() >> 32;
	if (setting_record)
		comm_read(message->comm);
	message->weight = weight;
	message->group = group;
	message->cpu = record_cpu();
}

/*
 * Fill in a message in its slot. A global function, so that the verifier walks it once, and not
 * once per way to a message.
 */
__noinline int tx_describe(struct tx_message *message, const struct sender *sender, __u32 key,
			   __u64 group_and_weight, __u64 now)
{
	if (message && sender)
		tx_fill(message, sender, key, group_and_weight, group_and_weight >> 32, now);
	return 0;
}

/*
 * Refuse a message without a slot. The caller's stack has no room for it. A global function for the
 * same reason as tx_describe().
 */
__noinline int tx_refuse_queued(struct flow *flow, const struct sender *sender, __u32 key,
				__u64 group_and_verdict, __u32 weight)
{
	struct bank *bank = this_bank();
	struct tx_message refused;

	if (!flow || !sender || !bank)
		return 0;
	tx_fill(&refused, sender, key, group_and_verdict, weight, bpf_ktime_get_ns());
	tx_refuse(bank, flow, &refused, group_and_verdict >> 32);
	return 0;
}

/* A measured message: into its slot, or refused. Whether it has one. */
static __always_inline bool tx_measure_message(struct bank *bank, const struct sock *sk,
					       const struct sk_buff *skb, struct flow *flow,
					       struct sender *sender, __u32 crowded, __u32 group,
					       __u32 start, __u32 key, __u64 now)
{
	struct tx_message *message = NULL;
	enum verdict verdict;
	__u64 client;
	__u32 weight;

	if (!setting_entry)
		tx_begin_when_queued(sk, flow, sender, start, now);
	sender->bytes = tx_bytes_of_call(sk, sender, start, key + 1);
	if (!sender->tid)
		verdict = tx_missed_entry(crowded);
	else
		verdict = sender->bytes ? tx_admission(sk, skb, key) : VERDICT_NO_ENTRY;
	if (verdict == VERDICT_VALID && window_exceeded(now - sender->entry, WINDOW_LEAD_NS))
		verdict = VERDICT_WINDOW;
	if (verdict == VERDICT_VALID) {
		message = tx_vacant_slot(flow);
		if (!message)
			verdict = VERDICT_INFLIGHT_FULL;
	}
	weight = stream_take(&flow->tx.sampler, key + 1 - start) * window_weight();
	client = client_times(flow, sender->entry);
	tx_answers(sk, flow, sender, key + 1 - start, now);
	if (setting_waits && tx_is_answer(flow, sender))
		attempts_count_service(sk, sender->service, weight,
				       sender->flags & SENDER_PROMPTED);
	if (flow->exchange.serves)
		flow->exchange.answered = now;
	account_measured(bank, group, DIRECTION_TX, weight);
	if (!message) {
		tx_refuse_queued(flow, sender, key, (__u64)verdict << 32 | group, weight);
		return false;
	}
	tx_describe(message, sender, key, (__u64)weight << 32 | group, now);
	if (!(sender->flags & MESSAGE_UNPAIRED) && sender->service != STAGE_ABSENT)
		message->stamps.ack = client;
	message->counter = flow->tx.head;
	tx_update_departures(sk, flow);
	if (setting_causes) {
		cause_message_queued(sk, flow, sender->flags & SENDER_MORE, now);
		for (int i = 0; i < CAUSE_COUNT; i++)
			message->waited[i] = cause_ticks(flow->tx.waiting.waited[i]);
	}
	flow->tx.head++;
	return true;
}

/* A message that is not measured: its answer may be. */
static __always_inline void tx_skip_message(const struct sock *sk, struct flow *flow, __u32 length)
{
	flow->rx.service_from = 0;
	service_goes_on(sk, &flow->exchange, 0);
	answered_unmeasured(sk, flow);
	answer_asked(sk, flow, length,
		     stream_will_skip(&flow->rx.sampler) ? 0 : bpf_ktime_get_ns());
}

/*
 * A message is queued, up to `key`: all of a send call's bytes that TCP took. The socket is locked,
 * `current` is the sender. Whether its stamps are wanted.
 */
static __always_inline bool tx_message_queued(const struct sock *sk, const struct sk_buff *skb,
					      struct flow *flow, __u32 key)
{
	__u32 start = flow->tx.seq;
	struct bank *bank = this_bank();
	struct sender sender = {};
	__u32 crowded, group;
	__u64 now = 0;

	if (flow_in_gap(flow)) {
		tx_refuse_first_after_gap(sk, flow);
		return false;
	}
	flow->tx.seq = key + 1;
	if (!flow_measures(flow, DIRECTION_TX))
		return false;
	if (setting_entry && (flow->tx.senders[0].tid || flow->tx.senders[1].tid))
		sender = tx_take_entry(flow);
	crowded = flow->tx.crowded;
	if (!sk->sk_write_pending)
		flow->tx.crowded = 0;
	/* Another task's message on a flow that a selected task opened or listens for. */
	if (!bank ||
	    (setting_by_pid && !sender.tid && !pid_selected(bpf_get_current_pid_tgid() >> 32)))
		return false;
	if (window_bounded()) {
		now = bpf_ktime_get_ns();
		if (!window_contains(now)) {
			tx_skip_message(sk, flow, key + 1 - start);
			return false;
		}
	}
	group = group_of_task(&flow->group, sk);
	account_messages(bank, group, DIRECTION_TX, key + 1 - start, window_weight());
	if (!setting_entry)
		group_sample_refresh(&flow->tx.sampler, tcp_of(sk)->tcp_clock_cache, group);
	if (stream_skip(&flow->tx.sampler, start, key + 1)) {
		tx_skip_message(sk, flow, key + 1 - start);
		return false;
	}
	return tx_measure_message(bank, sk, skb, flow, &sender, crowded, group, start, key,
				  now ?: bpf_ktime_get_ns());
}

/*
 * SENDMSG: the end of tcp_sendmsg_locked(). skb is the tail of the write queue, or of the
 * retransmit queue if everything has left already.
 */
static __always_inline void tx_sendmsg_callback(struct bpf_sock_ops_kern *kern,
						const struct sock *sk, const struct sk_buff *skb,
						struct flow *flow)
{
	__u32 key = skb_tcp(skb)->seq + skb->len - 1;
	struct bank *bank = this_bank();

	if (!tx_message_queued(sk, skb, flow, key))
		return;
	if (!setting_by_packets ||
	    (setting_nic_interval && bank && !tx_disturbs_application(skb, skb_tcp(skb), key) &&
	     nic_admits(bank) && tx_asks_nic(flow)))
		bpf_sock_ops_enable_tx_tstamp(kern, 0);
}

/* A callback after SENDMSG, which it was asked for. */
static __always_inline void tx_timestamp_callback(const struct sock *sk, const struct sk_buff *skb,
						  __u32 op, struct flow *flow)
{
	struct packet packet;

	switch (op) {
	case BPF_SOCK_OPS_TSTAMP_SCHED_CB:
		packet = tx_packet_bytes(sk, skb);
		tx_sched(sk, skb, flow, &packet);
		break;
	case BPF_SOCK_OPS_TSTAMP_SND_SW_CB:
		packet = tx_packet_bytes(sk, skb);
		tx_snd(skb, skb->dev, flow, &packet);
		break;
	case BPF_SOCK_OPS_TSTAMP_SND_HW_CB:
		tx_nic_stamped(sk, skb, flow);
		break;
	case BPF_SOCK_OPS_TSTAMP_ACK_CB:
		tx_ack_callback(sk, flow, skb);
		break;
	}
}

#endif
