/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Find the sleep of a task that is one of several: threads around one epoll instance, each with its
 * own instance of the same sockets, or inside reads of one socket. Data wakes the first of them, or
 * all, and whichever runs first takes it. So each task in the queue is noted with its count, and
 * each queue that was told of an arrival. A task that another socket has woken is in no queue any
 * more, but has not run either while its count is the same.
 */
#ifndef SOCKSTAMP_SCHED_POOL_BPF_H
#define SOCKSTAMP_SCHED_POOL_BPF_H

#include "kernel/kernel.bpf.h"
#include "sched/queue.bpf.h"

/* Counters of a task when it slept: its turns on a CPU, and its time of waiting for those. */
struct slept {
	__u64 run_delay;
	__u32 runs;
	__u32 reads; /* inside the read call that takes this arrival */
};

/*
 * A task that was seen asleep in a queue. Slots are shared by hash: slot_take(). Nothing is noted
 * where one is taken. A wrong slot shows by its task, by its count, or by its queue.
 */
struct sleeper {
	__u64 task;
	__u64 queue; /* address of the eventpoll, or of the socket's own queue */
	__u64 since; /* when it was first seen there */
	struct slept slept;
};

/* The tasks of pools of a host that sleep at the same time: 10 kB. */
#define SLEEPER_SLOTS 256
struct sleeper sleepers[SLEEPER_SLOTS];

/* A queue that was told of arrivals at a socket, by their serial numbers. Shared as a sleeper. */
struct told {
	__u64 queue;
	__u64 receiver; /* address of the socket's own queue */
	__u32 first;
	__u32 last;
};

/* The sockets of pools that have data which nobody has read yet: 24 kB. */
#define TOLD_SLOTS 1024
struct told tolds[TOLD_SLOTS];

/* Tasks in a queue, and entries of a socket, that are examined: pools are rarely larger. */
#define POOL_MAX 8

static __always_inline struct sleeper *sleeper_slot(__u64 task)
{
	return &sleepers[(task * 0x61C8864680B583EBULL >> 56) % SLEEPER_SLOTS];
}

static __always_inline struct told *told_slot(__u64 queue, __u64 receiver)
{
	return &tolds[((queue ^ receiver) * 0x61C8864680B583EBULL >> 54) % TOLD_SLOTS];
}

static __always_inline void pool_note_sleeper(const struct task_struct *task, __u64 queue,
					      bool reads, __u64 now)
{
	struct sleeper *slot = sleeper_slot((__u64)task);
	__u32 runs = task_runs(task);

	if (slot->task == (__u64)task && slot->slept.runs == runs && slot->queue == queue)
		return;
	if (!slot_take(&slot->task))
		return;
	slot->queue = queue;
	slot->since = now;
	slot->slept.run_delay = kernel_read(task, struct task_struct, sched_info.run_delay);
	slot->slept.runs = runs;
	slot->slept.reads = reads;
	order_stores();
	slot->task = (__u64)task;
}

static __always_inline void pool_note_told(__u64 queue, __u64 receiver, __u32 arrival)
{
	struct told *slot = told_slot(queue, receiver);
	__u64 before = slot_take_from(&slot->queue);

	if (before == SLOT_BUSY)
		return;
	/* Compare while it is ours: before, another program could make it that of others. */
	if (before != queue || slot->receiver != receiver || slot->last + 1 != arrival) {
		slot->receiver = receiver;
		slot->first = arrival;
	}
	slot->last = arrival;
	order_stores();
	slot->queue = queue;
}

/* Return true if the queue was told of an arrival at the socket. */
static __always_inline bool pool_was_told(__u64 queue, __u64 receiver, __u32 arrival)
{
	const volatile struct told *slot = told_slot(queue, receiver);
	__u32 first, last;
	bool told;

	if (slot->queue != queue)
		return false;
	order_loads();
	first = slot->first;
	last = slot->last;
	told = slot->receiver == receiver && arrival - first <= last - first;
	/* A program that takes the slot changes `queue` first, and the numbers for the same one. */
	order_loads();
	return told && slot->queue == queue && slot->first == first && slot->last == last;
}

static __always_inline void pool_note_instance(const struct wait_queue_entry *entry, __u64 receiver,
					       __u32 arrival, __u64 now)
{
	const struct epitem *item = epoll_item(entry);
	__u64 instance = word_at(&item->ep);
	const struct list_head *queue = &((const struct eventpoll *)instance)->wq.head;
	__u64 link = word_at(&queue->next);

	if (!epoll_wakes_by(item, EPOLLIN | EPOLLRDNORM))
		return;
	pool_note_told(instance, receiver, arrival);
	for (int i = 0; i < POOL_MAX && link != (__u64)queue; i++) {
		pool_note_sleeper(entry_private(entry_of((const struct list_head *)link)), instance,
				  false, now);
		link = word_at(&((const struct list_head *)link)->next);
	}
}

/* Note the tasks that wait by an entry. A global function, so the verifier walks it once. */
__noinline int pool_note_entry(__u64 link, __u64 receiver, __u32 arrival, __u64 now)
{
	const struct wait_queue_entry *entry = entry_of((const struct list_head *)link);
	__u64 function = (__u64)kernel_read(entry, struct wait_queue_entry, func);

	if (function == setting_wake_epoll)
		pool_note_instance(entry, receiver, arrival, now);
	else if (function == setting_wake_stream || function == setting_wake_datagram)
		pool_note_sleeper(entry_private(entry), receiver, true, now);
	else if (function == setting_wake_poll)
		pool_note_sleeper(poll_task(entry), receiver, false, now);
	return 0;
}

/* Note at sk_data_ready() all tasks that wait for this arrival. */
static __always_inline void pool_note_arrival(const struct sock *sk, __u32 arrival, __u64 now)
{
	__u64 receiver = word_at(&sk->sk_wq);
	const struct list_head *head = &((const struct socket_wq *)receiver)->wait.head;
	__u64 link = word_at(&head->next);

	/*
	 * Without casts this would take a call per field. And of tasks inside calls, some may wait
	 * for room.
	 */
	if (!setting_casts || sk->sk_write_pending)
		return;
	for (int i = 0; i < POOL_MAX && link != (__u64)head; i++) {
		pool_note_entry(link, receiver, arrival, now);
		link = word_at(&((const struct list_head *)link)->next);
	}
}

/* Return true if the task slept in a queue that was told of this arrival, and how. */
static __always_inline bool pool_find_sleep(__u64 receiver, __u64 task, __u32 arrival, __u64 ready,
					    struct slept *slept)
{
	const volatile struct sleeper *slot = sleeper_slot(task);
	__u64 queue, since;

	if (slot->task != task)
		return false;
	order_loads();
	queue = slot->queue;
	since = slot->since;
	slept->run_delay = slot->slept.run_delay;
	slept->runs = slot->slept.runs;
	slept->reads = slot->slept.reads && since == ready;
	/* A program that takes the slot changes `task` first, and `since` for the same task. */
	order_loads();
	if (since > ready || slot->task != task || slot->since != since)
		return false;
	return queue == receiver || pool_was_told(queue, receiver, arrival);
}

#endif
