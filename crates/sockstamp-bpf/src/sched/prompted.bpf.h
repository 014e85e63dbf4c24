/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Find what prompted a task to send. In a chat, or where one client brings news for others, a task
 * wakes for one client's message, reads it, and sends to another client at once: what it sends is
 * no answer to what that other one had sent before. So is what a task sends that has slept, read
 * from another socket, once or in parts, and neither slept nor read from a third since.
 */
#ifndef SOCKSTAMP_SCHED_PROMPTED_BPF_H
#define SOCKSTAMP_SCHED_PROMPTED_BPF_H

#include "sched/service.bpf.h"

/* The last read of a task from a socket of TCP. */
struct last_read {
	__u64 task; /* address */
	__u64 socket; /* address */
	__u64 read; /* when it ended */
	__u32 sleeps; /* how often the task had slept by then */
	__u16 serves; /* the peer has opened the connection */
	__u16 first; /* no other was read from since the task slept */
};

/* Slots are shared by hash and written without a lock, as those of services: 64 kB. */
struct last_read last_reads[SERVICES];

static __always_inline __u32 task_sleeps(void)
{
	return bpf_get_current_task_btf()->nvcsw;
}

/* The current task has ended a read. A global function, as service_note_read(). */
__noinline int prompted_note_read(__u64 socket, __u64 now, bool serves)
{
	__u64 task = task_address(bpf_get_current_task_btf());
	struct last_read *last = &last_reads[service_slot(task)];
	__u32 sleeps = task_sleeps();

	if (last->task != task || last->sleeps != sleeps)
		last->first = true;
	else if (last->socket != socket)
		last->first = false;
	last->task = task;
	last->socket = socket;
	last->read = now;
	last->sleeps = sleeps;
	last->serves = serves;
	return 0;
}

/*
 * The current task sends by a socket from which somebody read until `read`: return true if another
 * client's message prompted it.
 */
static __always_inline bool task_prompted(__u64 socket, __u64 read)
{
	__u64 task = task_address(bpf_get_current_task_btf());
	const struct last_read *last = &last_reads[service_slot(task)];

	return last->task == task && last->socket != socket && last->serves && last->first &&
	       last->read > read && last->sleeps == task_sleeps();
}

#endif
