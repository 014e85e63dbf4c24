/* SPDX-License-Identifier: GPL-2.0-only */
/* Find the task that waits in a socket's queue, by the wake function of its entry. */
#ifndef SOCKSTAMP_SCHED_QUEUE_BPF_H
#define SOCKSTAMP_SCHED_QUEUE_BPF_H

#include "kernel/kernel.bpf.h"

/* Stands for an unknown function: no entry has this address. */
#define NO_FUNCTION (~0ULL)

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

static __always_inline const struct wait_queue_entry *entry_of(const struct list_head *link)
{
	__u64 address = (__u64)link;

	return (const void *)(address - bpf_core_field_offset(struct wait_queue_entry, entry));
}

static __always_inline const void *entry_private(const struct wait_queue_entry *entry)
{
	return (const void *)word_at(&entry->private);
}

#define EPOLLIN	    1 /* include/uapi/linux/eventpoll.h; those of poll(2) are the same */
#define EPOLLRDNORM 64

/* In the address of a waiting task: it waits inside a read call. */
#define WAITER_READS 1ULL
/* Others wait in the same queue. */
#define WAITER_SEVERAL 2ULL
#define WAITER_FLAGS   (WAITER_READS | WAITER_SEVERAL)

/*
 * Return true if these events wake tasks by this item. With EPOLLONESHOT none does after the first,
 * until a task has asked again: ep_send_events(), ep_poll_callback(), fs/eventpoll.c, v6.18.
 */
static __always_inline bool epoll_wakes_by(const struct epitem *item, __u32 events)
{
	return word_at(&item->event) & events;
}

/* Return the item of an epoll instance that an entry of a socket's queue belongs to. */
static __always_inline const struct epitem *epoll_item(const struct wait_queue_entry *entry)
{
	const void *watched =
		(const void *)((__u64)entry - bpf_core_field_offset(struct eppoll_entry, wait));

	return kernel_read(watched, struct eppoll_entry, base);
}

/*
 * Return the task that waits in the queue of the instance, with WAITER_SEVERAL: ep_poll(),
 * fs/eventpoll.c. An instance within another is not seen.
 */
static __always_inline __u64 epoll_waiter(const struct wait_queue_entry *entry, __u32 events)
{
	const struct epitem *item = epoll_item(entry);
	__u64 instance = word_at(&item->ep);
	const struct list_head *queue = &((const struct eventpoll *)instance)->wq.head;
	const struct list_head *first = kernel_read(queue, struct list_head, next);
	__u64 several;

	if (!epoll_wakes_by(item, events))
		return 0;
	if (first == queue)
		return (__u64)woken_find(instance);
	several = kernel_read(first, struct list_head, next) != queue ? WAITER_SEVERAL : 0;
	return (__u64)woken_remember(instance, entry_private(entry_of(first))) | several;
}

/* Return the task that waits inside poll() or select(): __pollwait(), fs/select.c. */
static __always_inline const struct task_struct *poll_task(const struct wait_queue_entry *entry)
{
	const struct poll_wqueues *waiting = entry_private(entry);

	return (const struct task_struct *)word_at(&waiting->polling_task);
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

/*
 * Return the address of the task that an entry of a socket's queue wakes, with WAITER_FLAGS; 0 if
 * it is unknown, or these events do not wake it. A global function, so the verifier walks it once,
 * not once per entry.
 */
__noinline __u64 entry_waiter(__u64 link, __u32 events)
{
	const struct wait_queue_entry *entry = entry_of((const struct list_head *)link);
	__u64 function = (__u64)kernel_read(entry, struct wait_queue_entry, func);

	if (function == setting_wake_epoll)
		return epoll_waiter(entry, events);
	if (function == setting_wake_stream || function == setting_wake_datagram)
		return (__u64)entry_private(entry) | WAITER_READS;
	if (function == setting_wake_poll)
		return (__u64)poll_task(entry);
	if (function == setting_wake_uring)
		return (__u64)uring_waiter(entry);
	return 0;
}

/* The number of entries of a socket's queue that are examined: there are rarely two. */
#define WAITERS_MAX 4

/*
 * Return the first task that waits for data as entry_waiter() does. The queue may change meanwhile:
 * every read is safe.
 */
static __always_inline __u64 sock_waiter(const struct sock *sk)
{
	const struct socket_wq *queue = (const struct socket_wq *)word_at(&sk->sk_wq);
	const struct list_head *head = &queue->wait.head;
	__u64 link = word_at(&head->next);
	__u64 task;

	for (int i = 0; i < WAITERS_MAX && link != (__u64)head; i++) {
		task = entry_waiter(link, EPOLLIN | EPOLLRDNORM);
		if (task)
			return task;
		link = word_at(&((const struct list_head *)link)->next);
	}
	return 0;
}

#endif
