/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Send waits to user space: those that were slow, those that what was waited for did not end, and
 * those that are open.
 */
#ifndef SOCKSTAMP_WAIT_WAIT_BPF_H
#define SOCKSTAMP_WAIT_WAIT_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"
#include "wait/connection.bpf.h"

const volatile bool setting_waits; /* user space wants waits */
const volatile __u64 setting_wait_ns; /* those that ended by data are sent from this length on */

/*
 * Some 1000 waits: user space comes at least once a second, and a connection has one slow wait at
 * a time. It sets one page before load where it wants none.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 512 << 10);
} waits SEC(".maps");

__u64 waits_lost; /* found no room */

/*
 * Return true if a wait that ended, or was looked at, is to be sent. A program that gives up at
 * once, or asks again, did not wait: it needed no answer.
 */
static __always_inline bool wait_wanted(enum end end, __u64 ns)
{
	if (!setting_waits)
		return false;
	return (end != END_DATA && end != END_ASKED_AGAIN && end != END_GIVEN_UP) ||
	       ns >= setting_wait_ns;
}

/* Return a record of which nothing else is known yet; NULL if there is no room. */
static __always_inline struct wait_record *wait_new(enum wait kind, enum end end, __u64 since,
						    __u64 now)
{
	struct wait_record *record = bpf_ringbuf_reserve(&waits, sizeof(*record), 0);

	if (!record) {
		__sync_fetch_and_add(&waits_lost, 1);
		return NULL;
	}
	__builtin_memset(record, 0, sizeof(*record));
	record->kind = kind;
	record->end = end;
	record->since = since;
	record->time = now;
	record->members = 1;
	record->asked = WAIT_UNKNOWN;
	record->left = WAIT_UNKNOWN;
	record->acknowledged = WAIT_UNKNOWN;
	record->arrived = WAIT_UNKNOWN;
	record->out_of_order = WAIT_UNKNOWN;
	record->window_closed = WAIT_UNKNOWN;
	record->buffer_full = WAIT_UNKNOWN;
	record->resent = COUNT_UNKNOWN;
	record->resent_in_vain = COUNT_UNKNOWN;
	record->syns = COUNT_UNKNOWN;
	return record;
}

/* Send the record. User space fetches waits by itself: a wake-up would delay the task. */
static __always_inline void wait_emit(struct wait_record *record)
{
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* Note what TCP knows of the connection of a wait. Call it in a function of its own: it is long. */
static __always_inline void wait_describe_connection(struct wait_record *record,
						     const struct sock *sk)
{
	connection_describe(&record->connection, sk);
}

#endif
