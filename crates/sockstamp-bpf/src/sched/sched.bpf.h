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
	__u16 asleep; /* and not only about to sleep, or about to check for data */
	__u16 reads; /* it waits inside the read call */
	struct reader reader;
};

/* Stands for an unknown function: no entry has this address. */
#define NO_FUNCTION (~0ULL)

const volatile bool setting_sched; /* rx.wakeup is a stage of its own */
/* Addresses of the kernel's wake-up functions. */
const volatile __u64 setting_wake_stream = NO_FUNCTION; /* a blocking read of a stream */
const volatile __u64 setting_wake_datagram = NO_FUNCTION; /* a blocking read of a datagram */
const volatile __u64 setting_wake_poll = NO_FUNCTION; /* poll and select */
const volatile __u64 setting_wake_epoll = NO_FUNCTION;
const volatile __u64 setting_wake_uring = NO_FUNCTION;

/*
 * Tasks that were woken but have not run yet. They also get data that comes before they run, but
 * their queue no longer shows them: a wake-up removes them from epoll's queue
 * (ep_autoremove_wake_function(), fs/eventpoll.c), and on io_uring's queue only their state shows
 * it. Slots are shared by hash and written without a lock. A wrong slot shows by its queue, by the
 * count of its task, or because another task reads.
 */
struct woken {
	__u64 queue; /* address of the eventpoll or io_ring_ctx */
	__u64 task;
	__u64 runs;
};

/* The epoll instances that are likely to be woken within one scheduling delay: 6 kB. */
#define WOKEN_SLOTS 256
struct woken woken[WOKEN_SLOTS];

static __always_inline struct woken *woken_slot(__u64 queue)
{
	/* hash_64(), include/linux/hash.h */
	return &woken[(queue * 0x61C8864680B583EBULL >> 56) % WOKEN_SLOTS];
}

/* Return how often a task got a CPU, modulo 2^32. */
static __always_inline __u32 task_runs(const struct task_struct *task)
{
	return kernel_read(task, struct task_struct, sched_info.pcount);
}

static __always_inline bool task_asleep(const struct task_struct *task)
{
	return kernel_read(task, struct task_struct, __state) != TASK_RUNNING;
}

static __always_inline const struct task_struct *woken_remember(__u64 queue,
								const struct task_struct *task)
{
	struct woken *slot = woken_slot(queue);

	if (!task_asleep(task))
		return task;
	slot->queue = queue;
	slot->task = (__u64)task;
	slot->runs = task_runs(task);
	return task;
}

/* Return the task that was woken on this queue and has not run since. */
static __always_inline const struct task_struct *woken_find(__u64 queue)
{
	const struct woken *slot = woken_slot(queue);
	const struct task_struct *task = (const struct task_struct *)slot->task;

	if (slot->queue != queue || task_runs(task) != slot->runs)
		return NULL;
	return task;
}

/*
 * When tasks got a CPU at last, as the scheduler noted it, at the first read after that. A task of
 * an event loop reads several sockets after one wake-up: when it reads the last of them, others may
 * have had its CPU meanwhile, and the scheduler no longer knows the time. Slots are shared by hash
 * and written without a lock.
 */
struct got_cpu {
	__u64 task;
	__u64 when; /* by the scheduler's clock */
	__u32 runs; /* how often it had got one before */
};

/* The tasks that are likely to read within the same few milliseconds: 6 kB. */
#define GOT_CPU_SLOTS 256
struct got_cpu got_cpu[GOT_CPU_SLOTS];

static __always_inline struct got_cpu *got_cpu_slot(__u64 task, __u32 runs)
{
	return &got_cpu[((task * 0x61C8864680B583EBULL >> 56) + runs) % GOT_CPU_SLOTS];
}

static __always_inline void got_cpu_note(const struct waiter *waiter, __u64 when)
{
	struct got_cpu *slot = got_cpu_slot(waiter->task, waiter->runs);

	slot->task = 0;
	barrier();
	slot->when = when;
	slot->runs = waiter->runs;
	barrier();
	slot->task = waiter->task;
}

/* Return when a task got its next CPU after it was woken; 0 if nothing was read since then. */
static __always_inline __u64 got_cpu_find(const struct waiter *waiter)
{
	const volatile struct got_cpu *slot = got_cpu_slot(waiter->task, waiter->runs);
	__u64 when = slot->when;

	return slot->task == waiter->task && slot->runs == waiter->runs ? when : 0;
}

static __always_inline const struct wait_queue_entry *entry_of(const struct list_head *link)
{
	__u64 address = (__u64)link;

	return (const void *)(address - bpf_core_field_offset(struct wait_queue_entry, entry));
}

static __always_inline const void *entry_private(const struct wait_queue_entry *entry)
{
	return (const void *)word_at(&entry->private);
}

/*
 * Return the task that waits in the queue of the instance: ep_poll(), fs/eventpoll.c. An instance
 * within another is not seen.
 */
static __always_inline const struct task_struct *epoll_waiter(const struct wait_queue_entry *entry)
{
	const void *watched =
		(const void *)((__u64)entry - bpf_core_field_offset(struct eppoll_entry, wait));
	const struct epitem *item = kernel_read(watched, struct eppoll_entry, base);
	__u64 instance = word_at(&item->ep);
	const struct list_head *queue = &((const struct eventpoll *)instance)->wq.head;
	const struct list_head *first = kernel_read(queue, struct list_head, next);

	if (first == queue)
		return woken_find(instance);
	return woken_remember(instance, entry_private(entry_of(first)));
}

static __always_inline const struct task_struct *uring_task(const struct io_kiocb *request)
{
	const struct io_kiocb___before_6_13 *before = (const void *)request;
	const struct io_uring_task *context;

	if (!bpf_core_field_exists(request->tctx))
		return (const struct task_struct *)word_at(&before->task);
	context = (const struct io_uring_task *)word_at(&request->tctx);
	return (const struct task_struct *)word_at(&context->task);
}

/*
 * Return true if completions are only processed while a task waits for them, and no task is known
 * to wait.
 */
static __always_inline bool uring_deferred(const struct io_ring_ctx *ring)
{
	__u32 flags = kernel_read(ring, struct io_ring_ctx, flags);
	__u32 wanted;

	if (!(flags & IORING_SETUP_DEFER_TASKRUN))
		return false;
	if (!bpf_core_field_exists(ring->cq_wait_nr)) /* v6.1 */
		return true;
	wanted = kernel_read(ring, struct io_ring_ctx, cq_wait_nr.counter);
	return wanted >= IO_CQ_WAKE_FORCE;
}

/*
 * Return the task that submitted the read. It makes the read as task work, which wakes it from any
 * sleep, but with IORING_SETUP_DEFER_TASKRUN only from the wait for completions
 * (io_uring/io_uring.c, v6.18).
 */
static __always_inline const struct task_struct *uring_waiter(const struct wait_queue_entry *entry)
{
	/* The lowest bit is a flag: wqe_to_req(), io_uring/poll.c. */
	__u64 address = (__u64)entry_private(entry) & ~1ULL;
	const struct io_kiocb *request = (const struct io_kiocb *)address;
	const struct task_struct *task = uring_task(request);
	__u64 ring = word_at(&request->ctx);

	if (!task_asleep(task))
		return woken_find(ring);
	return uring_deferred((const struct io_ring_ctx *)ring) ? NULL : woken_remember(ring, task);
}

/* In the address of a waiting task: it waits inside a read call. */
#define WAITER_READS 1ULL

/*
 * Return the address of the task that an entry of a socket's queue wakes, with WAITER_READS; 0 if
 * it is unknown. A global function, so the verifier walks it once, not once per entry.
 */
__noinline __u64 entry_waiter(__u64 link)
{
	const struct wait_queue_entry *entry = entry_of((const struct list_head *)link);
	__u64 function = (__u64)kernel_read(entry, struct wait_queue_entry, func);

	if (function == setting_wake_epoll)
		return (__u64)epoll_waiter(entry);
	if (function == setting_wake_stream || function == setting_wake_datagram)
		return (__u64)entry_private(entry) | WAITER_READS;
	/* __pollwait(), fs/select.c */
	if (function == setting_wake_poll)
		return word_at(&((const struct poll_wqueues *)entry_private(entry))->polling_task);
	if (function == setting_wake_uring)
		return (__u64)uring_waiter(entry);
	return 0;
}

/* The number of entries of a socket's queue that are examined: there are rarely two. */
#define WAITERS_MAX 4

/*
 * Return the first waiting task as entry_waiter() does. The queue may change meanwhile: every read
 * is safe.
 */
static __always_inline __u64 sock_waiter(const struct sock *sk)
{
	const struct socket_wq *queue = (const struct socket_wq *)word_at(&sk->sk_wq);
	const struct list_head *head = &queue->wait.head;
	__u64 link = word_at(&head->next);
	__u64 task;

	for (int i = 0; i < WAITERS_MAX && link != (__u64)head; i++) {
		task = entry_waiter(link);
		if (task)
			return task;
		link = word_at(&((const struct list_head *)link)->next);
	}
	return 0;
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
					__u32 arrival, __u64 now)
{
	/* Without casts this would take a call per field. */
	if (!setting_casts || !task)
		return;
	reader->task = 0;
	barrier();
	reader->ran = task_ran(task, now);
	reader->run_delay = task_delay(task, now);
	reader->runs = task_runs(task);
	reader->arrival = arrival;
	barrier();
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
	/* Earlier data woke it, and it has not run since. */
	task = (const struct task_struct *)waiter->task;
	if (waiter->asleep && task_runs(task) == waiter->runs) {
		waiter->last = arrival;
		reader->arrival = arrival;
		quota_note(task, arrival, now);
		return;
	}
	found = sock_waiter(sk);
	task = (const struct task_struct *)(found & ~WAITER_READS);
	if (!task) {
		/* The task that reads this socket has other work. */
		task = (const struct task_struct *)reader->last;
		reader_note(reader, task, arrival, now);
		if (task)
			quota_note(task, arrival, now);
		return;
	}
	reader_note(reader, task, arrival, now);
	quota_note(task, arrival, now);
	runs = task_runs(task);
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
static __always_inline bool task_preempted_others(const struct waiter *waiter,
						  const struct task_struct *task)
{
	return task->sched_info.run_delay == waiter->run_delay;
}

/* A task that preempts others runs when the interrupt or the call has ended that woke it. */
#define PREEMPTS_NS 1000000

#define SPENT_UNKNOWN (~0ULL)

/*
 * rx.app of a read, and what its task did in rx.app and rx.wakeup. The stack has no room for more.
 */
struct spent {
	__u64 app;
	__u64 running; /* SPENT_UNKNOWN: all of it is unknown */
	__u64 runnable; /* waiting for a CPU, or for the quota */
	__u64 quota; /* time that the cgroup was held in both stages; QUOTA_UNKNOWN */
	__u64 copied; /* given: when the call had copied, or soon after that */
};

/* Return when the reader got its CPU after `runs` since it was woken; 0 if that is unknown. */
static __always_inline __u64 sched_got_cpu(const struct waiter *waiter,
					   const struct task_struct *task, __u32 runs)
{
	__u64 when = task->sched_info.last_arrival;

	if (runs != 1)
		return got_cpu_find(waiter);
	if (!waiter->reads)
		got_cpu_note(waiter, when);
	return when;
}

/*
 * Return how long after `ready` the reader got a CPU, or STAGE_ABSENT if it had not waited for this
 * arrival. If it got a CPU more than once, and read nothing after the first time, the scheduler no
 * longer knows that time, but still knows the whole time in run queues. That time is also used if
 * the scheduler's clock is unknown.
 * A task that waited inside the read call has only to copy once it runs: the first arrival since
 * then, as what came later may be the next call's, after whatever the task does before that.
 */
static __always_inline __u64 sched_wakeup(const struct waiter *waiter,
					  const struct task_struct *task, __u32 arrival,
					  __u64 ready, __u64 now, __u64 copied)
{
	__s64 waited;
	__u64 when;
	__u32 runs;

	if (!waiter->task || arrival - waiter->first > waiter->last - waiter->first)
		return STAGE_ABSENT;
	if ((__u64)task != waiter->task)
		return STAGE_ABSENT;
	runs = task_runs(task) - waiter->runs;
	/* The task had not gone to sleep yet. */
	if (!runs)
		return 0;
	if (runs == 1 && waiter->reads && arrival == waiter->first && copied > ready &&
	    copied - ready < PREEMPTS_NS && copied <= now && task_preempted_others(waiter, task))
		return copied - ready;
	when = sched_got_cpu(waiter, task, runs);
	if (when && run_clock_known(now))
		waited = run_clock_time(when) - ready;
	else
		waited = task->sched_info.run_delay - waiter->run_delay;
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
static __always_inline void sched_split_app(struct waiter *waiter, const struct task_struct *task,
					    __u32 arrival, __u64 now, __u64 wakeup,
					    struct spent *spent)
{
	struct reader *reader = &waiter->reader;
	__u32 runs = task_runs(task);
	__u64 ran, delay, expected;

	reader->last = (__u64)task;
	if (wakeup != STAGE_ABSENT && runs - waiter->runs <= 1) {
		spent->running = spent->app;
		return;
	}
	expected = reader->task;
	barrier();
	ran = reader->ran;
	delay = reader->run_delay;
	runs -= reader->runs;
	barrier();
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
 * be zero but for `copied`. A global function, so the verifier walks it once, not once per path
 * through the read.
 */
__noinline __u64 sched_split_read(struct waiter *waiter, __u32 arrival, __u64 ready, __u64 now,
				  struct spent *spent)
{
	__u64 wakeup = STAGE_ABSENT;
	const struct task_struct *task;

	if (!spent)
		return STAGE_ABSENT;
	spent->app = now - ready;
	spent->running = SPENT_UNKNOWN;
	if (!setting_sched || !waiter)
		return STAGE_ABSENT;
	task = bpf_get_current_task_btf();
	wakeup = sched_wakeup(waiter, task, arrival, ready, now, spent->copied);
	if (wakeup != STAGE_ABSENT)
		spent->app -= wakeup;
	sched_split_app(waiter, task, arrival, now, wakeup, spent);
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
