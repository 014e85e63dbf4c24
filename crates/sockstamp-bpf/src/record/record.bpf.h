/* SPDX-License-Identifier: GPL-2.0-only */
/* Send one record per message to user space. */
#ifndef SOCKSTAMP_RECORD_RECORD_BPF_H
#define SOCKSTAMP_RECORD_RECORD_BPF_H

#include "abi/abi.h"
#include "histogram/histogram.bpf.h"
#include "host_path/interfaces.bpf.h"
#include "record/identity.bpf.h"

/* Room for some 30 000 records; user space may set another size before load. */
#define RING_SIZE (8 << 20)

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_SIZE);
} records SEC(".maps");

const volatile __u64 setting_ring_wakeup; /* wake the reader when this many bytes wait */

/* Written by user space while the programs run: true while it wants records. */
volatile bool recording;

/* Set by user space before it sleeps until the next record, taken back by the first that comes. */
volatile bool reader_sleeps;

/*
 * While records come the reader polls. It is woken by the first after a time without any, and when
 * the ring comes to be a quarter full, but not by every record from there on: a wake-up costs the
 * measured flow some microseconds.
 */
static __always_inline void record_submit(struct message_record *record)
{
	__u64 above = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) - setting_ring_wakeup;

	/* Other CPUs write too, so the crossing is given the room of a few records. */
	if (reader_sleeps || above < 8 * sizeof(*record)) {
		reader_sleeps = false;
		bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
	} else {
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	}
}

const volatile __u64 setting_slow_ns; /* record those alone that took longer */
const volatile bool setting_notable; /* ... and few of them: see record_paced() */

/*
 * Slow messages for a diagnosis: 1000 per second and CPU are enough. Many may end at one moment, as
 * answers to all that wait for one event.
 */
#define RECORD_PACE_NS	1000000
#define RECORD_BURST_NS (256 * RECORD_PACE_NS)

static __always_inline bool record_paced(void)
{
	struct bank *bank = this_bank();
	__u64 now = bpf_ktime_get_ns();
	__u64 due;

	if (!bank || bank->record_due > now)
		return false;
	due = bank->record_due;
	if (due + RECORD_BURST_NS < now)
		due = now - RECORD_BURST_NS;
	bank->record_due = due + RECORD_PACE_NS;
	return true;
}

/* The time of a refused message is unknown. Message::slow_time() says what `time` is. */
static __always_inline bool record_wanted(enum verdict verdict, __u64 time)
{
	if (!setting_slow_ns)
		return true;
	if (verdict != VERDICT_VALID || time <= setting_slow_ns)
		return false;
	return !setting_notable || record_paced();
}

/* Return the time of a message, or of a stage beside it that somebody waited for longer. */
static __always_inline __u64 record_longest(__u64 time, __u64 beside)
{
	return beside != STAGE_ABSENT && beside > time ? beside : time;
}

/* Return the CPU of the current task as records have it. */
static __always_inline __u16 record_cpu(void)
{
	return setting_record ? bpf_get_smp_processor_id() + 1 : 0;
}

/* Return a record without an identity; NULL if there is no room. */
static __always_inline struct message_record *record_reserve(enum direction direction,
							     enum verdict verdict)
{
	struct message_record *record;

	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		if (!setting_notable)
			count_loss(LOSS_RING);
		return NULL;
	}
	__builtin_memset(record, 0, sizeof(*record));
	for (int i = 0; i < STAGE_COUNT; i++)
		record->stages[i] = STAGE_ABSENT;
	record->min_rtt_us = RTT_UNKNOWN;
	record->direction = direction;
	record->verdict = verdict;
	return record;
}

/* Return the same while user space wants records. */
static __always_inline struct message_record *record_new(enum direction direction,
							 enum verdict verdict)
{
	return recording ? record_reserve(direction, verdict) : NULL;
}

/* Return a record of a socket's message, still without the task. */
static __always_inline struct message_record *
record_begin(const struct flow_identity *identity, enum direction direction, enum verdict verdict)
{
	struct message_record *record = record_new(direction, verdict);

	if (record)
		__builtin_memcpy(&record->flow, identity, SOCKET_IDENTITY_BYTES);
	return record;
}

static __always_inline void record_interface(struct interface_name *name, __u32 slot)
{
	const struct interface *interface = slot ? interface_at(slot) : NULL;

	if (!interface)
		return;
	name->index = interface->id;
	name->netns = interface->id >> 32;
	__builtin_memcpy(name->name, interface->name, sizeof(name->name));
}

#endif
