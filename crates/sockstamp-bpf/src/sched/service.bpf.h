/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Find what a task did between a read and the send that answers it: app.service. It makes both
 * calls itself, so its own counters at both tell, and no hook runs in between. If another task
 * answers, nothing is known of what either did for this request.
 */
#ifndef SOCKSTAMP_SCHED_SERVICE_BPF_H
#define SOCKSTAMP_SCHED_SERVICE_BPF_H

#include "sched/sched.bpf.h"

/* The counters of a task at the end of a read. */
struct service_begin {
	__u64 read; /* when it ended; 0: it is being written */
	__u64 task; /* address */
	__u64 ran; /* how long it had run; RAN_UNKNOWN */
	__u64 run_delay; /* how long it had waited for a CPU */
	__u64 runs; /* how often it had got one */
	struct quota quota;
};

/* The parts of app.service of a message, until it ends. */
struct service_parts {
	__u64 entry; /* when its send call began; 0: they are being written */
	__u64 running;
	__u64 runnable;
	__u64 throttled;
	__u64 blocked;
};

/*
 * Requests that are being answered, and answers that are under way: 200 kB. Slots are shared by
 * hash and written without a lock; a lost one leaves the parts of a service unknown.
 */
#define SERVICES 2048
struct service_begin service_begins[SERVICES];
struct service_parts service_parts[SERVICES];

/* hash_64(), include/linux/hash.h */
static __always_inline __u32 service_slot(__u64 of)
{
	return (of * 0x61C8864680B583EBULL >> 53) % SERVICES;
}

/* The current task has ended a read. A global function: the stack of reads has no room. */
__noinline int service_note_read(__u64 now)
{
	const struct task_struct *task = bpf_get_current_task_btf();
	__u64 address = task_address(task);
	struct service_begin *begin = &service_begins[service_slot(address + now)];

	/* Without casts this would take a call per field. */
	if (!setting_sched || !setting_casts)
		return 0;
	begin->read = 0;
	order_stores();
	begin->task = address;
	begin->ran = task_ran(task, now);
	begin->run_delay = task->sched_info.run_delay;
	begin->runs = task_runs(task);
	if (quota_recorded())
		quota_read(&begin->quota, task, now);
	order_stores();
	begin->read = now;
	return 0;
}

static __always_inline void service_write(const struct spent *spent, __u64 entry)
{
	struct service_parts *parts = &service_parts[service_slot(entry)];

	parts->entry = 0;
	order_stores();
	parts->running = spent_running(spent);
	parts->runnable = spent_runnable(spent, STAGE_ABSENT);
	parts->throttled = spent_throttled(spent, STAGE_ABSENT);
	parts->blocked = spent_blocked(spent);
	order_stores();
	parts->entry = entry;
}

/*
 * The current task begins to answer what it read until `read`: note the parts of the service.
 * Return false if they are not known. A global function, so that the verifier walks it once.
 */
__noinline int service_note_answer(__u64 read, __u64 entry)
{
	const struct task_struct *task = bpf_get_current_task_btf();
	__u64 address = task_address(task);
	const struct service_begin *begin = &service_begins[service_slot(address + read)];
	struct spent spent = {.app = entry - read, .running = SPENT_UNKNOWN};
	__u64 ran = begin->ran, delay = begin->run_delay, runs = begin->runs;
	struct quota quota = begin->quota;

	if (!setting_sched || !setting_casts)
		return false;
	/* The task has written `read` itself: where it is there still, so were the others. */
	order_loads();
	if (*(volatile __u64 *)&begin->read != read || begin->task != address)
		return false;
	/* The task has had its CPU all the time. */
	if (task_runs(task) == runs)
		spent.running = spent.app;
	else if (ran != RAN_UNKNOWN && run_clock_known(entry))
		spent_compute(&spent, task_ran(task, entry) - ran,
			      task->sched_info.run_delay - delay);
	if (!spent_known(&spent))
		return false;
	if (spent.runnable && quota_recorded())
		spent.quota = quota_held(&quota, task, entry);
	service_write(&spent, entry);
	return true;
}

/*
 * Copy the parts that were noted for a send call; return false if they were lost. Another call's
 * may be written meanwhile: then neither figure of the copy is used.
 */
static __always_inline bool service_read_parts(struct service_parts *copy, __u64 entry)
{
	const volatile struct service_parts *parts = &service_parts[service_slot(entry)];

	if (parts->entry != entry)
		return false;
	order_loads();
	copy->running = parts->running;
	copy->runnable = parts->runnable;
	copy->throttled = parts->throttled;
	copy->blocked = parts->blocked;
	order_loads();
	return parts->entry == entry;
}

#endif
