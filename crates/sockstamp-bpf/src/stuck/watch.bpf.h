/* SPDX-License-Identifier: GPL-2.0-only */
/* Find how tasks watch a socket, by the entries of its wait queue. */
#ifndef SOCKSTAMP_STUCK_WATCH_BPF_H
#define SOCKSTAMP_STUCK_WATCH_BPF_H

#include "sched/queue.bpf.h"
#include "stuck/stuck.h"

#define EPOLLOUT 4

/* Without these an item of an epoll instance wakes nobody: epoll_wakes_by(). */
#define WATCHED_EVENTS (EPOLLIN | EPOLLRDNORM | EPOLLOUT)

/* The entry whose wait queue entry this is. */
#define entry_around(entry, type) \
	((const type *)((__u64)(entry) - bpf_core_field_offset(type, wait)))

static __always_inline __u32 watch_events(__u32 events, __u32 in, __u32 out)
{
	return (events & EPOLLIN ? in : 0) | (events & EPOLLOUT ? out : 0);
}

static __always_inline __u32 watch_of_poll(const struct wait_queue_entry *entry)
{
	const struct poll_table_entry *watched = entry_around(entry, struct poll_table_entry);

	return watch_events(word_at(&watched->key), STUCK_POLLS_IN, STUCK_POLLS_OUT);
}

static __always_inline __u32 watch_of_epoll(const struct wait_queue_entry *entry)
{
	const struct eppoll_entry *watched = entry_around(entry, struct eppoll_entry);
	const struct epitem *item = (const struct epitem *)word_at(&watched->base);
	const struct eventpoll *instance = (const struct eventpoll *)word_at(&item->ep);
	const struct list_head *sleepers = &instance->wq.head;
	__u32 in = STUCK_EPOLL_IN;

	if (word_at(&sleepers->next) != (__u64)sleepers)
		in |= STUCK_EPOLL_SLEEPS;
	return watch_events(word_at(&item->event), in, STUCK_EPOLL_OUT);
}

/* Return how an entry of a socket's queue watches. A global function, as entry_waiter(). */
__noinline __u32 entry_watch(__u64 link)
{
	const struct wait_queue_entry *entry = entry_of((const struct list_head *)link);
	__u64 function = (__u64)kernel_read(entry, struct wait_queue_entry, func);

	/* An entry that left the queue meanwhile cannot be read. */
	if (!function)
		return 0;
	if (function == setting_wake_epoll)
		return watch_of_epoll(entry);
	if (function == setting_wake_stream)
		return STUCK_IN_CALL;
	if (function == setting_wake_poll)
		return watch_of_poll(entry);
	return function == setting_wake_uring ? STUCK_URING : STUCK_OTHERWISE;
}

static __always_inline void watch_note_waiter(struct stuck_socket *found,
					      const struct task_struct *task)
{
	const struct task_struct *leader;

	if (!task || found->waiter_pid)
		return;
	found->waiter_pid = kernel_read(task, struct task_struct, tgid);
	leader = (const struct task_struct *)word_at(&task->group_leader);
	bpf_probe_read_kernel_str(found->waiter_comm, sizeof(found->waiter_comm), leader->comm);
}

/*
 * Return how tasks watch a socket; note the first of them in `found`, if there is one. The queue
 * may change meanwhile: every read is safe.
 */
static __always_inline __u32 watch_walk(const struct sock *sk, struct stuck_socket *found)
{
	const struct socket_wq *queue = (const struct socket_wq *)word_at(&sk->sk_wq);
	const struct list_head *head = &queue->wait.head;
	__u64 link = word_at(&head->next);
	__u32 watch = 0;
	__u64 task;

	for (int i = 0; i < WAITERS_MAX && link != (__u64)head; i++) {
		watch |= entry_watch(link);
		if (found) {
			task = entry_waiter(link, WATCHED_EVENTS) & ~WAITER_FLAGS;
			watch_note_waiter(found, (const struct task_struct *)task);
		}
		link = word_at(&((const struct list_head *)link)->next);
	}
	return watch;
}

static __always_inline __u32 sock_watch(const struct sock *sk)
{
	return watch_walk(sk, NULL);
}

static __always_inline void watch_note(struct stuck_socket *found, const struct sock *sk)
{
	found->watch |= watch_walk(sk, found);
}

#endif
