/* SPDX-License-Identifier: GPL-2.0-only */
/* End a measured send of UDP: its verdict, its stages, and its record. */
#ifndef SOCKSTAMP_UDP_END_BPF_H
#define SOCKSTAMP_UDP_END_BPF_H

#include "host_path/interfaces.bpf.h"
#include "ledger/ledger.bpf.h"
#include "record/record.bpf.h"
#include "udp/state.bpf.h"
#include "window/window.bpf.h"

/*
 * Measured messages whose end is to come: without any, user space starts no walk to give them up.
 * One whose socket is destroyed before its end stays counted.
 */
__u64 udp_sends_in_flight;

/* Return when its last packet left the socket: it may wait for its neighbour after that. */
static __always_inline __u64 udp_left(const struct udp_send *send)
{
	return send->flags & UDP_RESOLVED ? send->sched : send->sched_last;
}

/* Note that its last packet waited for its neighbour. */
static __always_inline void udp_record_neighbour(struct message_record *record,
						 const struct udp_send *send)
{
	record->stamps.tx.queued = send->sched;
	record->stamps.tx.sched = send->sched_last;
	record->stages[STAGE_TX_QUEUE] = send->sched_last - send->sched;
	record->parts[PART_NEIGHBOUR] = send->sched_last - send->sched;
}

static __always_inline void udp_send_record(const struct flow_identity *identity,
					    const struct udp_send *send, enum verdict verdict)
{
	__u64 begin = send->entry ?: udp_left(send);
	struct message_record *record;

	if (!record_wanted(verdict, send->snd_last - begin))
		return;
	record = record_begin(identity, DIRECTION_TX, verdict);
	if (!record)
		return;
	record->time = send->snd_last ?: bpf_ktime_get_ns();
	record->weight = send->weight;
	record->group = send->group;
	record->stamps.tx.entry = send->entry;
	record->stamps.tx.sched = send->sched;
	record->stamps.tx.sched_last = send->sched_last;
	record->stamps.tx.snd = send->snd;
	record->stamps.tx.snd_last = send->snd_last;
	record->bytes = send->bytes;
	record->seq_end = send->number;
	record->flow.pid = send->pid;
	__builtin_memcpy(record->flow.comm, send->comm, sizeof(send->comm));
	if (send->remote.port) {
		__builtin_memcpy(record->flow.remote_address, send->remote.address,
				 sizeof(send->remote.address));
		record->flow.remote_port = send->remote.port;
	}
	record->repeats = send->repeats;
	record->cpu = send->cpu;
	record_interface(&record->interface_first, send->interface_first);
	record_interface(&record->interface_last, send->interface_last);
	record->flags = send->flags & UDP_SHARED ? MESSAGE_COALESCED : 0;
	if (verdict == VERDICT_VALID) {
		if (send->entry)
			record->stages[STAGE_TX_COPY] = udp_left(send) - send->entry;
		if (send->flags & UDP_RESOLVED)
			udp_record_neighbour(record, send);
		record->stages[STAGE_TX_QDISC] = send->snd_last - send->sched_last;
	}
	record_submit(record);
}

/* Return true if it took longer than the programs of its window stay. */
static __always_inline bool udp_send_outlasted(const struct udp_send *send)
{
	__u64 begin = send->entry ?: send->sched;

	return send->flags & UDP_OUTLASTED ||
	       window_exceeded((send->snd_last ?: bpf_ktime_get_ns()) - begin, WINDOW_TAIL_NS);
}

static __always_inline enum verdict udp_send_verdict(const struct udp_send *send)
{
	if (send->flags & UDP_DROPPED)
		return VERDICT_DROPPED;
	if (setting_windows && udp_send_outlasted(send))
		return VERDICT_WINDOW;
	if (!send->sched)
		return VERDICT_NO_SCHED;
	if (!send->snd || send->flags & UDP_DOUBTED)
		return VERDICT_NO_SND;
	if (send->entry > send->sched || send->sched_last > send->snd_last)
		return VERDICT_STAMP_ORDER;
	return VERDICT_VALID;
}

/* Account for the wait of its last packet for its neighbour. */
static __always_inline void udp_account_neighbour(struct bank *bank, const struct udp_send *send)
{
	__u64 ns = send->sched_last - send->sched;

	account_stage(bank, send->group, STAGE_TX_QUEUE, ns, send->weight);
	account_part(bank, send->group, PART_NEIGHBOUR, ns, send->weight);
}

static __always_inline void udp_send_ends(struct bank *bank, const struct udp_send *send,
					  const struct flow_identity *identity)
{
	enum verdict verdict = udp_send_verdict(send);

	__sync_fetch_and_sub(&udp_sends_in_flight, 1);
	if (verdict == VERDICT_VALID) {
		__u64 begin = send->entry ?: udp_left(send);

		if (send->entry)
			account_stage(bank, send->group, STAGE_TX_COPY,
				      udp_left(send) - send->entry, send->weight);
		if (send->flags & UDP_RESOLVED)
			udp_account_neighbour(bank, send);
		account_stage(bank, send->group, STAGE_TX_QDISC, send->snd_last - send->sched_last,
			      send->weight);
		account_stage(bank, send->group, DISTRIBUTION_SENT, send->snd_last - begin,
			      send->weight);
		account_stage(bank, send->group, DISTRIBUTION_TOTAL(DIRECTION_TX),
			      send->snd_last - begin, send->weight);
		interface_count(bank, send->interface_last, send->weight);
		account_ended(send->group, DIRECTION_TX);
	} else {
		account_refused(bank, send->group, DIRECTION_TX, verdict, send->weight);
	}
	if (setting_record)
		udp_send_record(identity, send, verdict);
}

#endif
