/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Find the task that waited for the data, and when it got a CPU. sk_data_ready() fires before
 * sock_def_readable() wakes (net/core/sock.c, v6.18), so the waiting task is still on the socket's
 * wait queue; its entry's wake function tells how it waits. The scheduler records for every task
 * when it got a CPU (struct sched_info, kernel/sched/stats.h). So no scheduler hook is needed, and
 * tasks unrelated to selected sockets run none of this.
 */
#ifndef SOCKSTAMP_SCHED_SCHED_BPF_H
#define SOCKSTAMP_SCHED_SCHED_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"
#include "sched/pool.bpf.h"
#include "sched/queue.bpf.h"
#include "sched/quota.bpf.h"
#include "sched/run_clock.bpf.h"

/*
 * The task that is expected to read the latest arrival, with its counters at that time. The
 * difference to its counters at the read shows what it did in between.
 */
struct reader {
	__u64 last; /* address of the task that read last */
	__u64 task; /* address of the expected task */
	__u64 ran; /* how long it had run; RAN_UNKNOWN */
	__u64 run_delay; /* how long it had waited for a CPU */
	__u32 runs; /* how often it had got one */
	__u32 arrival; /* serial number */
};

#define RAN_UNKNOWN (~0ULL)

/* The task that waited for the latest arrivals for which a task was waiting. */
struct waiter {
	__u64 task; /* its address: the memory may be gone, so use only safe reads */
	__u64 run_delay; /* how long it had waited for a CPU by then */
	__u32 runs; /* how often it had got one */
	__u32 first; /* serial numbers of these arrivals */
	__u32 last;
	__u8 asleep; /* and not only about to sleep, or about to check for data */
	__u8 reads; /* it waits inside the read call */
	__u8 several; /* several tasks wait for this socket, or read it */
	__u8 unused;
	struct reader reader;
};

const volatile bool setting_sched; /* rx.wakeup is a stage of its own */

/*
 * When tasks got a CPU at last, as the scheduler noted it, at the first read after that. A task of
 * an event loop reads several sockets after one wake-up: when it reads the last of them, others may
 * have had its CPU meanwhile, and the scheduler no longer knows the time. Slots are shared by hash:
 * slot_take(). Nothing is noted where one is taken.
 */
struct got_cpu {
	__u64 task;
	__u64 when; /* by the scheduler's clock */
	__u32 runs; /* how often it has got one */
};

/* The tasks that are likely to read within the same few milliseconds: 6 kB. */
#define GOT_CPU_SLOTS 256
struct got_cpu got_cpu[GOT_CPU_SLOTS];

static __always_inline struct got_cpu *got_cpu_slot(__u64 task, __u32 runs)
{
	return &got_cpu[((task * 0x61C8864680B583EBULL >> 56) + runs) % GOT_CPU_SLOTS];
}

static __always_inline void got_cpu_note(const struct task_struct *task)
{
	__u32 runs = task->sched_info.pcount;
	__u64 address = task_address(task);
	struct got_cpu *slot = got_cpu_slot(address, runs);

	if (slot->task == address && slot->runs == runs)
		return;
	if (!slot_take(&slot->task))
		return;
	slot->when = task->sched_info.last_arrival;
	slot->runs = runs;
	order_stores();
	slot->task = address;
}

/* Return when a task got a CPU for the n-th time; 0 if it read nothing until the next time. */
static __always_inline __u64 got_cpu_find(const struct task_struct *task, __u32 runs)
{
	__u64 address = task_address(task);
	const volatile struct got_cpu *slot = got_cpu_slot(address, runs);
	__u64 when = slot->when;

	/* Another task that takes the slot changes `task` first. */
	order_loads();
	return slot->task == address && slot->runs == runs ? when : 0;
}

/*
 * The scheduler leaves out the time of interrupts (IRQ_TIME_ACCOUNTING), and is a few microseconds
 * late. Times that differ by more than this belong to another task.
 */
#define SPENT_SLACK_NS 50000

static __always_inline bool task_on_cpu(const struct task_struct *task)
{
	if (!bpf_core_field_exists(task->on_cpu))
		return false;
	/* The verifier refuses reads beyond the end of a field. */
	if (bpf_core_field_size(task->on_cpu) == sizeof(unsigned char))
		return kernel_read(task, struct task_struct___byte, on_cpu);
	return kernel_read(task, struct task_struct, on_cpu);
}

/*
 * Return how long a task had run in all by `now`. The scheduler adds the time since it gave the
 * task a CPU only at the next tick or switch (update_curr(), kernel/sched/fair.c, v6.18).
 */
static __always_inline __u64 task_ran(const struct task_struct *task, __u64 now)
{
	__u64 added = kernel_read(task, struct task_struct, se.sum_exec_runtime);
	__u64 since, ran;

	if (!task_on_cpu(task))
		return added;
	if (!run_clock_known(now))
		return RAN_UNKNOWN;
	since = run_clock_time(kernel_read(task, struct task_struct, sched_info.last_arrival));
	ran = kernel_read(task, struct task_struct, se.prev_sum_exec_runtime) + now - since;
	/* Only the fair class keeps prev_sum_exec_runtime. */
	return ran + SPENT_SLACK_NS < added ? RAN_UNKNOWN : ran;
}

/* Return how long a task had waited for a CPU in all by `now`. */
static __always_inline __u64 task_delay(const struct task_struct *task, __u64 now)
{
	__u64 delay = kernel_read(task, struct task_struct, sched_info.run_delay);
	__u64 queued = kernel_read(task, struct task_struct, sched_info.last_queued);

	/* It waits right now: the scheduler adds this wait when the task gets a CPU. */
	if (queued && run_clock_known(now) && now > run_clock_time(queued))
		delay += now - run_clock_time(queued);
	return delay;
}

/* Note the task that is expected to read an arrival. */
static __always_inline void reader_note(struct reader *reader, const struct task_struct *task,
					__u32 runs, __u32 arrival, __u64 now)
{
	/* Without casts this would take a call per field. */
	if (!setting_casts)
		return;
	reader->task = 0;
	order_stores();
	reader->ran = task_ran(task, now);
	reader->run_delay = task_delay(task, now);
	reader->runs = runs;
	reader->arrival = arrival;
	order_stores();
	reader->task = (__u64)task;
}

/*
 * Note at sk_data_ready() the task that waits for this arrival. Arrivals have consecutive numbers.
 */
static __always_inline void sched_note_waiter(const struct sock *sk, struct waiter *waiter,
					      __u32 arrival, __u64 now)
{
	struct reader *reader = &waiter->reader;
	const struct task_struct *task;
	__u64 found;
	__u32 runs;

	if (!setting_sched)
		return;
	if (waiter->several)
		pool_note_arrival(sk, arrival, now);
	/* Earlier data woke it, and it has not run since. */
	task = (const struct task_struct *)waiter->task;
	if (waiter->asleep && task_runs(task) == waiter->runs) {
		waiter->last = arrival;
		reader->arrival = arrival;
		quota_note(task, arrival, now);
		return;
	}
	found = sock_waiter(sk);
	task = (const struct task_struct *)(found & ~WAITER_FLAGS);
	if (found & WAITER_SEVERAL && !waiter->several) {
		waiter->several = true;
		pool_note_arrival(sk, arrival, now);
	}
	if (!task) {
		/* The task that reads this socket has other work. */
		task = (const struct task_struct *)reader->last;
		if (!task)
			return;
		reader_note(reader, task, task_runs(task), arrival, now);
		quota_note(task, arrival, now);
		return;
	}
	runs = task_runs(task);
	reader_note(reader, task, runs, arrival, now);
	quota_note(task, arrival, now);
	if (waiter->task != (__u64)task || waiter->runs != runs || waiter->last + 1 != arrival) {
		waiter->task = (__u64)task;
		waiter->runs = runs;
		waiter->run_delay = kernel_read(task, struct task_struct, sched_info.run_delay);
		waiter->first = arrival;
	}
	waiter->last = arrival;
	waiter->asleep = task_asleep(task);
	/* Or inside a send call, for room. */
	waiter->reads = found & WAITER_READS && !sk->sk_write_pending;
}

/*
 * Return true if the scheduler does not know when the task got its CPU. A wake-up that makes the
 * scheduler run at once leaves its clock as it was (rq_clock_skip_update(), kernel/sched/core.c,
 * v6.18), while the CPU still ends the interrupt, or the send call, that woke the task. By that
 * clock the task has not waited at all.
 */
static __always_inline bool task_preempted_others(const struct slept *slept,
						  const struct task_struct *task)
{
	return task->sched_info.run_delay == slept->run_delay;
}

/* A task that preempts others runs when the interrupt or the call has ended that woke it. */
#define PREEMPTS_NS 1000000

#define SPENT_UNKNOWN (~0ULL)

/*
 * rx.app of a read, and what its task did in rx.app and rx.wakeup. The stack has no room for more.
 */
struct spent {
	union {
		__u64 app;
		__u64 queue; /* given: address of the socket's own wait queue */
	};
	__u64 running; /* SPENT_UNKNOWN: all of it is unknown */
	__u64 runnable; /* waiting for a CPU, or for the quota */
	__u64 quota; /* time that the cgroup was held in both stages; QUOTA_UNKNOWN */
	__u64 copied; /* given: when the call had copied, or soon after that */
};

/* Return true if the reader waited for this arrival, and how it slept. */
static __always_inline bool sched_find_sleep(const struct waiter *waiter,
					     const struct task_struct *task, __u64 queue,
					     __u32 arrival, __u64 ready, __u64 now,
					     struct slept *slept)
{
	slept->run_delay = waiter->run_delay;
	slept->runs = waiter->runs;
	/* Later arrivals may be the next call's, after whatever the task does before that. */
	slept->reads = waiter->reads && arrival == waiter->first;
	if ((__u64)task == waiter->task && arrival - waiter->first <= waiter->last - waiter->first)
		return true;
	/* By the clock a task shows that it has not run before `ready`. */
	return waiter->several && run_clock_known(now) &&
	       pool_find_sleep(queue, task_address(task), arrival, ready, slept);
}

/*
 * Return how long after `ready` the reader got a CPU, or STAGE_ABSENT if it had not waited for this
 * arrival. If it got a CPU more than once, and read nothing after the first time, the scheduler no
 * longer knows that time, but still knows the whole time in run queues, which is used. A quota
 * holds a task up when it returns from the poll that woke it, so that its second wait is for that,
 * too. Of several tasks one may have done other work before: if the time is not short, and the task
 * was not inside the read call, where it has only to copy once it runs, the stage is unknown.
 */
static __always_inline __u64 sched_wakeup(const struct slept *slept, const struct task_struct *task,
					  bool several, __u64 ready, __u64 now, __u64 copied)
{
	__u32 runs = task_runs(task) - slept->runs;
	__u64 delay = task->sched_info.run_delay - slept->run_delay;
	__s64 waited = delay;
	__u64 when;

	/* The task had not gone to sleep yet. */
	if (!runs)
		return 0;
	if (runs == 1 && slept->reads && copied > ready && copied - ready < PREEMPTS_NS &&
	    copied <= now && task_preempted_others(slept, task))
		return copied - ready;
	when = runs == 1 ? task->sched_info.last_arrival : got_cpu_find(task, slept->runs + 1);
	if (when && run_clock_known(now))
		waited = run_clock_time(when) - ready;
	else if (several && runs != 1 && !slept->reads && delay > SPENT_SLACK_NS)
		return STAGE_ABSENT;
	/* One of several had run already: it did not sleep then. */
	if (waited < -SPENT_SLACK_NS)
		return STAGE_ABSENT;
	if (waited < 0)
		return 0;
	return (__u64)waited < now - ready ? waited : now - ready;
}

static __always_inline bool spent_known(const struct spent *spent)
{
	return spent->running != SPENT_UNKNOWN;
}

/* Return the part of rx.wakeup that was for the quota; rx.wakeup is the first wait. */
static __always_inline __u64 spent_held(const struct spent *spent, __u64 wakeup)
{
	if (wakeup == STAGE_ABSENT || spent->quota == QUOTA_UNKNOWN)
		return 0;
	return spent->quota < wakeup ? spent->quota : wakeup;
}

static __always_inline __u64 spent_runqueue(const struct spent *spent, __u64 wakeup)
{
	if (wakeup == STAGE_ABSENT || spent->quota == QUOTA_UNKNOWN)
		return 0;
	return wakeup - spent_held(spent, wakeup);
}

/* Return the part of rx.app that was for the quota. */
static __always_inline __u64 spent_throttled(const struct spent *spent, __u64 wakeup)
{
	__u64 left;

	if (!spent_known(spent) || spent->quota == QUOTA_UNKNOWN)
		return 0;
	left = spent->quota - spent_held(spent, wakeup);
	return left < spent->runnable ? left : spent->runnable;
}

static __always_inline __u64 spent_runnable(const struct spent *spent, __u64 wakeup)
{
	if (!spent_known(spent) || spent->quota == QUOTA_UNKNOWN)
		return 0;
	return spent->runnable - spent_throttled(spent, wakeup);
}

static __always_inline __u64 spent_running(const struct spent *spent)
{
	return spent_known(spent) ? spent->running : 0;
}

static __always_inline __u64 spent_blocked(const struct spent *spent)
{
	return spent_known(spent) ? spent->app - spent->running - spent->runnable : 0;
}

static __always_inline void spent_record(struct message_record *record, const struct spent *spent,
					 __u64 wakeup)
{
	record->stages[STAGE_RX_WAKEUP] = wakeup;
	record->stages[STAGE_RX_APP] = spent->app;
	record->parts[PART_RUNQUEUE] = spent_runqueue(spent, wakeup);
	record->parts[PART_WAKEUP_THROTTLED] = spent_held(spent, wakeup);
	record->parts[PART_RUNNING] = spent_running(spent);
	record->parts[PART_RUNNABLE] = spent_runnable(spent, wakeup);
	record->parts[PART_APP_THROTTLED] = spent_throttled(spent, wakeup);
	record->parts[PART_BLOCKED] = spent_blocked(spent);
}

static __always_inline void spent_compute(struct spent *spent, __u64 ran, __u64 delay)
{
	__u64 app = spent->app;

	if (ran > app + app / 8 + SPENT_SLACK_NS || delay > app + app / 8 + SPENT_SLACK_NS)
		return;
	spent->running = ran < app ? ran : app;
	app -= spent->running;
	spent->runnable = delay < app ? delay : app;
}

/*
 * Find at a read what its task did in rx.app: from its `wakeup` on if it had waited for this
 * arrival, otherwise from the arrival on. A task that has had its CPU all the time was running.
 */
static __always_inline void sched_split_app(struct waiter *waiter, const struct slept *slept,
					    const struct task_struct *task, __u32 arrival,
					    __u64 now, __u64 wakeup, struct spent *spent)
{
	struct reader *reader = &waiter->reader;
	__u32 runs = task_runs(task);
	__u64 ran, delay, expected;

	if (reader->last && reader->last != (__u64)task)
		waiter->several = true;
	reader->last = (__u64)task;
	if (wakeup != STAGE_ABSENT && runs - slept->runs <= 1) {
		spent->running = spent->app;
		return;
	}
	expected = reader->task;
	order_loads();
	ran = reader->ran;
	delay = reader->run_delay;
	runs -= reader->runs;
	order_loads();
	if (expected != (__u64)task || reader->task != expected || reader->arrival != arrival)
		return;
	if (!runs) {
		spent->running = spent->app;
		return;
	}
	if (ran == RAN_UNKNOWN || !run_clock_known(now))
		return;
	ran = task_ran(task, now) - ran;
	delay = task->sched_info.run_delay - delay;
	/* If there were several waits for a CPU, rx.wakeup has all of them. */
	if (wakeup != STAGE_ABSENT)
		delay = delay > wakeup ? delay - wakeup : 0;
	spent_compute(spent, ran, delay);
}

/*
 * Split the time from `ready` to a read into rx.wakeup, which is returned, and rx.app. `spent` must
 * be zero but for what is given. A global function, so the verifier walks it once, not once per
 * path through the read.
 */
__noinline __u64 sched_split_read(struct waiter *waiter, __u32 arrival, __u64 ready, __u64 now,
				  struct spent *spent)
{
	__u64 wakeup = STAGE_ABSENT;
	const struct task_struct *task;
	struct slept slept;
	__u64 queue;

	if (!spent)
		return STAGE_ABSENT;
	queue = spent->queue;
	spent->app = now - ready;
	spent->running = SPENT_UNKNOWN;
	if (!setting_sched || !waiter)
		return STAGE_ABSENT;
	task = bpf_get_current_task_btf();
	if (sched_find_sleep(waiter, task, queue, arrival, ready, now, &slept))
		wakeup = sched_wakeup(&slept, task, waiter->several, ready, now, spent->copied);
	got_cpu_note(task);
	if (wakeup != STAGE_ABSENT)
		spent->app -= wakeup;
	sched_split_app(waiter, &slept, task, arrival, now, wakeup, spent);
	return wakeup;
}

/*
 * Find how long the reader waited for its quota. The caller of sched_split_read() calls this: the
 * stack has no room for one more frame below that function.
 */
static __always_inline void sched_split_quota(struct spent *spent, __u32 arrival, __u64 wakeup,
					      __u64 now)
{
	if (setting_sched && (spent->runnable || (wakeup != STAGE_ABSENT && wakeup)))
		spent->quota = quota_since(arrival, now);
}

#endif
