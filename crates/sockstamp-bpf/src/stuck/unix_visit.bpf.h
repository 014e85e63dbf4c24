/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copy what Unix sockets show of waits. They have no clocks, and nothing tells which end spoke
 * last: what is unread, which tasks sleep, and since when, is all there is. No socket is locked,
 * and every read is safe.
 */
#ifndef SOCKSTAMP_STUCK_UNIX_VISIT_BPF_H
#define SOCKSTAMP_STUCK_UNIX_VISIT_BPF_H

#include "select/target.bpf.h"
#include "stuck/stuck.h"
#include "stuck/watch.bpf.h"

#define SOCK_STREAM    1 /* include/linux/net.h */
#define SOCK_DGRAM     2
#define SOCK_SEQPACKET 5

/* A task sleeps in a call, by prepare_to_wait(). */
const volatile __u64 setting_wake_sleep = NO_FUNCTION;
/* No filter and no interface is asked for: no Unix socket has either. */
const volatile bool setting_unix;

/* Tasks that wait for room at one socket are told, up to this. */
#define UNIX_WAITERS 16

/* The stack has no room for it, and one walk runs at a time. */
struct stuck_unix stuck_unix_found;

/* The scheduler's clock and CLOCK_MONOTONIC, when the walk began: the former at most. */
__u64 stuck_scheduled;
__u64 stuck_began;

/* A kernel without CONFIG_SCHED_INFO does not tell for how long a task has slept. */
static __always_inline bool unix_sleep_known(void)
{
	return setting_unix && bpf_core_field_exists(struct sched_info, last_arrival);
}

/* The scheduler notes when a task gets a CPU: the one that walks has just got it. */
static __always_inline void unix_sleep_clock_begin(void)
{
	if (!unix_sleep_known())
		return;
	stuck_scheduled = bpf_get_current_task_btf()->sched_info.last_arrival;
	stuck_began = bpf_ktime_get_ns();
}

/* Return the time since a task went to sleep, at least. */
static __always_inline __u64 unix_slept(const struct task_struct *task, __u64 now)
{
	__u64 ran, began;

	if (!unix_sleep_known())
		return 0;
	ran = kernel_read(task, struct task_struct, se.sum_exec_runtime) -
	      kernel_read(task, struct task_struct, se.prev_sum_exec_runtime);
	began = kernel_read(task, struct task_struct, sched_info.last_arrival) + ran;
	now = stuck_scheduled + (now - stuck_began);
	return now > began ? now - began : 0;
}

/* Before each record goes its size, by which user space knows its kind. */
static __always_inline void stuck_write(struct seq_file *seq, const void *record, __u64 size)
{
	__u64 told = size; /* in memory, of which older verifiers forget what it is */

	bpf_seq_write(seq, &told, sizeof(told));
	bpf_seq_write(seq, record, size);
}

static __always_inline bool stuck_task_selected(const struct task_struct *task)
{
	return !task_spared(task) && (!setting_by_pid || task_selected(task, task->tgid));
}

static __always_inline bool unix_sleeps_by(__u64 link)
{
	const struct wait_queue_entry *entry = entry_of((const struct list_head *)link);
	__u64 function = (__u64)kernel_read(entry, struct wait_queue_entry, func);

	return function && (function == setting_wake_sleep || function == setting_wake_datagram);
}

static __always_inline void unix_note_waiter(struct stuck_unix *found,
					     const struct task_struct *task)
{
	const struct task_struct *leader;

	found->waiter_pid = kernel_read(task, struct task_struct, tgid);
	leader = (const struct task_struct *)word_at(&task->group_leader);
	bpf_probe_read_kernel_str(found->waiter_comm, sizeof(found->waiter_comm), leader->comm);
	found->switches = kernel_read(task, struct task_struct, nvcsw);
	found->slept = unix_slept(task, found->now);
}

/* Return how an entry of a queue watches; note its task in `found`, if that is the first. */
__noinline __u32 unix_entry(__u64 link, struct stuck_unix *found)
{
	bool sleeps = unix_sleeps_by(link);
	__u64 task;

	if (found && !found->waiter_pid) {
		task = sleeps ? (__u64)entry_private(entry_of((const struct list_head *)link)) :
				entry_waiter(link, WATCHED_EVENTS) & ~WAITER_FLAGS;
		if (task)
			unix_note_waiter(found, (const struct task_struct *)task);
	}
	return sleeps ? STUCK_IN_CALL : entry_watch(link);
}

static __always_inline __u32 unix_watch(const struct sock *sk, struct stuck_unix *found)
{
	const struct socket_wq *queue = (const struct socket_wq *)word_at(&sk->sk_wq);
	const struct list_head *head = &queue->wait.head;
	__u64 link = word_at(&head->next);
	__u32 watch = 0;

	for (int i = 0; i < WAITERS_MAX && link && link != (__u64)head; i++) {
		watch |= unix_entry(link, found);
		link = word_at(&((const struct list_head *)link)->next);
	}
	return watch;
}

static __always_inline void unix_path(struct stuck_unix *found, const struct unix_address *name)
{
	/* The length has the family's two bytes. */
	found->path_bytes = BPF_CORE_READ(name, len) - 2;
	bpf_probe_read_kernel(found->path, sizeof(found->path), name->name[0].sun_path);
}

static __always_inline __u64 unix_inode(const struct sock *sk)
{
	const struct socket_alloc *file = (const struct socket_alloc *)BPF_CORE_READ(sk, sk_socket);

	return file ? BPF_CORE_READ(file, vfs_inode.i_ino) : 0;
}

static __always_inline void unix_describe(struct stuck_unix *found, const struct task_struct *task,
					  const struct sock *sk)
{
	found->pid = task->tgid;
	bpf_probe_read_kernel_str(found->comm, sizeof(found->comm), task->group_leader->comm);
	found->netns = sk->__sk_common.skc_net.net->ns.inum;
	found->socket = (__u64)sk;
	found->inode = unix_inode(sk);
	found->cookie = sk->__sk_common.skc_cookie.counter;
	found->cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
	found->now = bpf_ktime_get_ns();
}

/* Note what is in the queue of the socket that is waited for. */
static __always_inline void unix_unread(struct stuck_unix *found, const struct sock *sk)
{
	found->unread = BPF_CORE_READ(sk, sk_receive_queue.qlen);
	found->limit = BPF_CORE_READ(sk, sk_max_ack_backlog);
	if (found->unread)
		found->oldest = (__u64)BPF_CORE_READ(sk, sk_receive_queue.next);
}

#define UNIX_READS  (STUCK_IN_CALL | STUCK_POLLS_IN | STUCK_EPOLL_SLEEPS | STUCK_URING)
#define UNIX_WRITES (STUCK_IN_CALL | STUCK_POLLS_OUT | STUCK_EPOLL_OUT)

/* Return true if a task waits for what may not come, or for room. */
static __always_inline bool unix_may_be_stuck(const struct stuck_unix *found, const struct sock *sk)
{
	if (found->full && found->watch & UNIX_WRITES)
		return true;
	return found->asks && found->watch & UNIX_READS && !sk->sk_receive_queue.qlen &&
	       !(sk->sk_shutdown & RCV_SHUTDOWN) &&
	       (found->unread || !(found->peer_watch & UNIX_READS));
}

/* An end of a connection. As unix_writable(), net/unix/af_unix.c, v6.18. */
static __always_inline bool unix_end(struct stuck_unix *found, const struct task_struct *task,
				     struct sock *sk)
{
	const struct unix_sock *own = (const struct unix_sock *)sk;
	const struct sock *peer = BPF_CORE_READ(own, peer);
	const struct unix_address *name;

	if (!peer)
		return false;
	found->now = bpf_ktime_get_ns();
	found->watch = unix_watch(sk, found);
	if (!found->watch)
		return false;
	name = BPF_CORE_READ((const struct unix_sock *)peer, addr);
	found->asks = name && !BPF_CORE_READ(own, addr) && sk->sk_type != SOCK_DGRAM;
	found->full = (sk->sk_wmem_alloc.refs.counter << 2) > sk->sk_sndbuf;
	found->peer_watch = unix_watch(peer, NULL);
	unix_unread(found, peer);
	if (!unix_may_be_stuck(found, sk))
		return false;
	bpf_get_socket_cookie(sk);
	unix_describe(found, task, sk);
	found->peer_inode = unix_inode(peer);
	found->listener = BPF_CORE_READ(sk, sk_peer_pid, numbers[0].nr);
	if (name)
		unix_path(found, name);
	return true;
}

/* Tell of the tasks that wait for room in the queue of a socket: unix_wait_for_peer(). */
static __always_inline void unix_tell_waiters(struct seq_file *seq, struct stuck_unix *found,
					      const struct sock *sk)
{
	const struct list_head *head = &((const struct unix_sock *)sk)->peer_wq.wait.head;
	__u64 link = word_at(&head->next);

	for (int i = 0; i < UNIX_WAITERS && link && link != (__u64)head; i++) {
		found->waiter_pid = 0;
		if (unix_sleeps_by(link))
			unix_entry(link, found);
		if (found->waiter_pid)
			stuck_write(seq, found, sizeof(*found));
		link = word_at(&((const struct list_head *)link)->next);
	}
}

/* A socket to whose queue others add: a listener, or a reader of datagrams. */
static __always_inline void unix_queue(struct seq_file *seq, struct stuck_unix *found,
				       const struct task_struct *task, const struct sock *sk)
{
	const struct unix_address *name = BPF_CORE_READ((const struct unix_sock *)sk, addr);
	bool listens = sk->sk_type != SOCK_DGRAM;

	unix_unread(found, sk);
	if (!found->unread || !name)
		return;
	unix_describe(found, task, sk);
	unix_path(found, name);
	if (listens && stuck_task_selected(task)) {
		found->role = STUCK_LISTENS;
		stuck_write(seq, found, sizeof(*found));
	}
	/* User space knows whether these are of the target. */
	found->role = listens ? STUCK_CONNECTS : STUCK_SENDS;
	unix_tell_waiters(seq, found, sk);
}

static __always_inline void stuck_unix_visit(struct seq_file *seq, const struct task_struct *task,
					     struct sock *sk)
{
	struct stuck_unix *found = &stuck_unix_found;

	if (!setting_unix || !netns_selected(sk))
		return;
	__builtin_memset(found, 0, sizeof(*found));
	if (sk->__sk_common.skc_state == TCP_LISTEN || sk->sk_type == SOCK_DGRAM)
		unix_queue(seq, found, task, sk);
	if (sk->__sk_common.skc_state == TCP_LISTEN || !stuck_task_selected(task))
		return;
	__builtin_memset(found, 0, sizeof(*found));
	if ((!setting_cgroup || cgroup_selected(sk)) && unix_end(found, task, sk))
		stuck_write(seq, found, sizeof(*found));
}

#endif
