/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Find the time that tasks wait for the CPU quota of their cgroup. The scheduler records per cgroup
 * and CPU how long tasks have been held, as cpu.stat.local shows (throttled_clock_self_time,
 * kernel/sched/fair.c, v6.6), but not per task. A task that waits for its quota counts as waiting
 * for a CPU. Its share is the time that its cgroup was held meanwhile, up to the time that it
 * waited.
 */
#ifndef SOCKSTAMP_SCHED_QUOTA_BPF_H
#define SOCKSTAMP_SCHED_QUOTA_BPF_H

#include "kernel/kernel.bpf.h"
#include "sched/run_clock.bpf.h"

#define QUOTA_UNKNOWN (~0ULL)
#define MAX_RT_PRIO   100 /* include/linux/sched/prio.h: no quota holds those below */

/* The time that the tasks of one cgroup have waited for its quota on one CPU. */
struct quota {
	__u64 queue; /* address of their struct cfs_rq; 0: the time is unknown */
	__u64 throttled;
};

/* A note about an arrival for a task, kept until its next one. */
struct quota_note {
	__u64 event; /* the arrival's serial number; 0: it is being written */
	__u64 task;
	struct quota quota;
};

/*
 * The number of messages that tasks with quotas may have under way: 64 kB. Slots are shared by hash
 * and written without a lock; a lost note leaves a part unknown.
 */
#define QUOTA_NOTES 2048
struct quota_note quota_notes[QUOTA_NOTES];

static __always_inline struct quota_note *quota_slot(__u64 task, __u64 event)
{
	/* hash_64(), include/linux/hash.h */
	return &quota_notes[((task + event) * 0x61C8864680B583EBULL >> 53) % QUOTA_NOTES];
}

/* Return true if the kernel records the time. Otherwise it is part of the wait for a CPU. */
static __always_inline bool quota_recorded(void)
{
	return bpf_core_field_exists(((struct cfs_rq *)0)->throttled_clock_self_time) &&
	       bpf_core_field_exists(((struct sched_entity *)0)->cfs_rq);
}

/* Return the address of a task as a number. */
static __always_inline __u64 task_address(const struct task_struct *task)
{
	return word_at(&task);
}

static __always_inline void quota_read(struct quota *quota, const struct task_struct *task,
				       __u64 now)
{
	__u64 queue = word_at(&task->se.cfs_rq);
	const struct cfs_rq *tasks = (const struct cfs_rq *)queue;
	__u64 since = kernel_read(tasks, struct cfs_rq, throttled_clock_self);

	quota->queue = queue;
	quota->throttled = kernel_read(tasks, struct cfs_rq, throttled_clock_self_time);
	if (!since)
		return;
	if (!run_clock_known(now)) {
		quota->queue = 0;
		return;
	}
	since = run_clock_time(since);
	if (now > since)
		quota->throttled += now - since;
}

/*
 * Return true if tasks of the cgroup may be held, or have been. If only a cgroup above it holds
 * them, the first time is missed.
 */
static __always_inline bool quota_may_hold(const struct quota *quota)
{
	const struct cfs_rq *tasks = (const struct cfs_rq *)quota->queue;

	return quota->throttled || kernel_read(tasks, struct cfs_rq, runtime_enabled);
}

/* Note an event of a task that may be held. */
static __always_inline void quota_note(const struct task_struct *task, __u64 event, __u64 now)
{
	struct quota_note *note;
	struct quota quota;
	__u64 address;

	if (!quota_recorded())
		return;
	quota_read(&quota, task, now);
	if (!quota_may_hold(&quota))
		return;
	address = task_address(task);
	note = quota_slot(address, event);
	note->event = 0;
	order_stores();
	note->task = address;
	note->quota = quota;
	order_stores();
	note->event = event;
}

/* Return true if this is the note about an event. Call it after reading the fields. */
static __always_inline bool quota_noted(const struct quota_note *note, __u64 task, __u64 event)
{
	order_loads();
	return *(volatile __u64 *)&note->event == event && note->task == task;
}

/*
 * Return how long the cgroup of a running task was held since `before`; QUOTA_UNKNOWN if the task
 * has moved to another CPU, or it cannot be told.
 */
static __always_inline __u64 quota_held(const struct quota *before, const struct task_struct *task,
					__u64 now)
{
	struct quota quota;

	quota_read(&quota, task, now);
	if (!quota.queue || quota.queue != before->queue)
		return QUOTA_UNKNOWN;
	if (kernel_read(task, struct task_struct, prio) < MAX_RT_PRIO)
		return 0;
	return quota.throttled - before->throttled;
}

/*
 * Return how long the cgroup of the running task was held since an event of the task. A global
 * function, so the verifier walks it once.
 */
__noinline __u64 quota_since(__u64 event, __u64 now)
{
	const struct task_struct *task = bpf_get_current_task_btf();
	__u64 address = task_address(task);
	const struct quota_note *note = quota_slot(address, event);
	__u64 queue = note->quota.queue, throttled = note->quota.throttled;
	struct quota quota;

	if (!quota_recorded())
		return 0;
	quota_read(&quota, task, now);
	if (!quota.queue)
		return QUOTA_UNKNOWN;
	if (!quota_noted(note, address, event))
		return quota.throttled ? QUOTA_UNKNOWN : 0;
	if (queue != quota.queue)
		return QUOTA_UNKNOWN;
	if (kernel_read(task, struct task_struct, prio) < MAX_RT_PRIO)
		return 0;
	return quota.throttled - throttled;
}

#endif
