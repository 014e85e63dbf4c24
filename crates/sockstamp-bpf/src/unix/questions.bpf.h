/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Questions of selected tasks over connected Unix sockets, and their answers. Only the task that
 * connected asks: its socket has no name, and that of its peer has the listener's.
 */
#ifndef SOCKSTAMP_UNIX_QUESTIONS_BPF_H
#define SOCKSTAMP_UNIX_QUESTIONS_BPF_H

#include "answer/exchange.bpf.h"
#include "select/target.bpf.h"
#include "unix/unix.h"

#define SOCK_STREAM    1 /* include/linux/net.h */
#define SOCK_SEQPACKET 5
#define E2BIG	       7 /* include/uapi/asm-generic/errno-base.h */
#define ECONNRESET     104 /* include/uapi/asm-generic/errno.h */

/* An answer may come before the call that asked has returned to its hook, by this time at most. */
#define UNIX_SOON_NS 1000000

const volatile __u64 setting_slow_ns; /* shorter waits are counted, and not told one by one */
const volatile bool setting_by_cgroup; /* only of tasks in the one cgroup of `unix_cgroup` */

/* Sends on connections without room in `unix_flows`, and waits without any in `unix_waits`. */
__u64 unix_untold;
__u64 unix_lost;

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} unix_cgroup SEC(".maps");

/*
 * A connection. Each message of it is seen by two programs, on the CPUs of both ends, and several
 * threads may share an end: a look at its course takes the lock. Its ends are written before
 * it is in the map.
 */
struct unix_kept {
	struct unix_flow flow;
	__u64 exchange[4]; /* struct exchange: beside a lock the kernel takes no bit fields */
	struct bpf_spin_lock lock;
};

_Static_assert(sizeof(struct exchange) <= sizeof(((struct unix_kept *)0)->exchange), "unix_kept");

static __always_inline struct exchange *unix_exchange(struct unix_kept *kept)
{
	return (struct exchange *)kept->exchange;
}

/*
 * Connections by the cookies of their sockets: others have none, mostly. User space takes those
 * that are closed out each second or sooner: there is room for as many as a busy client may make
 * until then, 288 bytes each.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct unix_kept);
} unix_flows SEC(".maps");

/* Slow waits on their way to user space, which reads them each second: a thousand of them. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 << 10);
} unix_waits SEC(".maps");

/* A question has ended: told when the lock is given back. */
struct unix_ended {
	__u64 since;
	__u64 lasted;
	__u64 bytes;
	enum end end;
	bool is_told;
};

static __always_inline bool unix_is_unix(const struct sock *sk)
{
	return sk->__sk_common.skc_family == AF_UNIX;
}

static __always_inline bool unix_task_selected(const struct sock *sk)
{
	if (setting_by_pid && !pid_selected(current_process()))
		return false;
	if (setting_by_cgroup && bpf_current_task_under_cgroup(&unix_cgroup, 0) != 1)
		return false;
	return netns_selected(sk) && !task_spared(bpf_get_current_task_btf());
}

/* Return the time from one to the other: each CPU reads its clock before it has the lock. */
static __always_inline __u64 unix_from_to(__u64 from, __u64 to)
{
	return to > from ? to - from : 0;
}

/* Return a connection of the target's. */
static __always_inline struct unix_kept *unix_known(const struct sock *sk)
{
	__u64 cookie = sk->__sk_common.skc_cookie.counter;

	return cookie ? bpf_map_lookup_elem(&unix_flows, &cookie) : NULL;
}

static __always_inline void unix_identify(struct unix_ends *ends, struct sock *sk,
					  const struct unix_address *name)
{
	const struct task_struct *task = bpf_get_current_task_btf();
	const struct socket_alloc *file = (const struct socket_alloc *)sk->sk_socket;

	ends->socket = (__u64)sk;
	ends->cookie = bpf_get_socket_cookie(sk);
	ends->inode = BPF_CORE_READ(file, vfs_inode.i_ino);
	ends->netns = sk->__sk_common.skc_net.net->ns.inum;
	ends->cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
	ends->listener = BPF_CORE_READ(sk, sk_peer_pid, numbers[0].nr);
	ends->pid = task->tgid;
	bpf_probe_read_kernel_str(ends->comm, sizeof(ends->comm), task->group_leader->comm);
	/* The length has the family's two bytes. */
	ends->path_bytes = BPF_CORE_READ(name, len) - 2;
	bpf_probe_read_kernel(ends->path, sizeof(ends->path), name->name[0].sun_path);
}

/* A selected task sends for the first time on a socket: return its flow, if it asks there. */
static __noinline int unix_begin(struct sock *sk)
{
	const struct unix_sock *own = (const struct unix_sock *)sk;
	const struct unix_address *name;
	const struct unix_sock *peer;
	struct unix_kept kept;
	__u64 cookie;

	if (BPF_CORE_READ(own, addr))
		return 0;
	peer = (const struct unix_sock *)BPF_CORE_READ(own, peer);
	name = peer ? BPF_CORE_READ(peer, addr) : NULL;
	if (!name)
		return 0;
	cookie = bpf_get_socket_cookie(sk);
	__builtin_memset(&kept, 0, sizeof(kept));
	unix_identify(&kept.flow.ends, sk, name);
	/* Another thread may begin it, too. */
	if (bpf_map_update_elem(&unix_flows, &cookie, &kept, BPF_NOEXIST) == -E2BIG)
		__sync_fetch_and_add(&unix_untold, 1);
	return 0;
}

static __always_inline void unix_emit(const struct unix_kept *kept, const struct unix_ended *ended)
{
	const struct task_struct *task = bpf_get_current_task_btf();
	struct unix_wait *wait;

	if (!ended->is_told)
		return;
	wait = bpf_ringbuf_reserve(&unix_waits, sizeof(*wait), 0);
	if (!wait) {
		__sync_fetch_and_add(&unix_lost, 1);
		return;
	}
	__builtin_memset(wait, 0, sizeof(*wait));
	wait->ends = kept->flow.ends;
	wait->since = ended->since;
	wait->lasted = ended->lasted;
	wait->bytes = ended->bytes;
	wait->end = ended->end;
	if (ended->end == END_DATA) {
		wait->server = task->tgid;
		bpf_probe_read_kernel_str(wait->server_comm, sizeof(wait->server_comm),
					  task->group_leader->comm);
	}
	/* User space looks once a second: no task needs to be woken. */
	bpf_ringbuf_submit(wait, BPF_RB_NO_WAKEUP);
}

/* The open question ends: with the reason why it may be no pair, or 0. Locked. */
static __always_inline void unix_settle(struct unix_kept *kept, __u32 reason, __u64 now,
					struct unix_ended *ended)
{
	struct unix_course *course = &kept->flow.course;
	struct exchange *exchange = unix_exchange(kept);
	__u64 since = exchange->asked, ns = unix_from_to(since, now);

	reason = exchange_settled(exchange, reason, ns);
	course->since = 0;
	course->doubted = exchange->doubts >= DOUBTS;
	if (reason)
		return;
	course->answered++;
	course->sum_ns += ns;
	ended->since = since;
	ended->lasted = ns;
	ended->bytes = course->bytes;
	ended->end = END_DATA;
	ended->is_told = ns >= setting_slow_ns;
}

/* A part of a question was sent at this time, by a thread with these low bits. Locked. */
static __always_inline void unix_asked(struct unix_kept *kept, const struct sock *sk, __u32 bytes,
				       __u64 now, __u8 task, struct unix_ended *ended)
{
	struct unix_course *course = &kept->flow.course;
	struct exchange *exchange = unix_exchange(kept);
	__u64 came = course->unasked;

	if (!exchange->open)
		exchange_rest(exchange, unix_from_to(course->heard, now));
	course->bytes = exchange->open ? course->bytes + bytes : bytes;
	exchange_asked(exchange, 0, bytes, now, task != exchange->task);
	exchange->task = task;
	exchange->asked = now;
	exchange->asks = true;
	course->unasked = 0;
	course->since = now;
	/* Bytes that were read before belong to the question before. */
	if (sk->sk_receive_queue.qlen) {
		if (came && unix_from_to(came, now) < UNIX_SOON_NS) {
			unix_settle(kept, exchange->unpaired, now, ended);
			return;
		}
		exchange->unpaired = NO_PAIR(PIPELINED);
	}
	course->doubted = exchange->doubts >= DOUBTS || exchange->unpaired;
}

/* A send call of any socket has ended. */
static __always_inline void unix_sent(struct sock *sk, int result)
{
	struct unix_ended ended = {};
	struct unix_kept *kept;
	__u64 now;
	__u8 task;

	if (!unix_is_unix(sk) || result <= 0 || !unix_task_selected(sk))
		return;
	if (sk->sk_type != SOCK_STREAM && sk->sk_type != SOCK_SEQPACKET)
		return;
	kept = unix_known(sk);
	if (!kept) {
		unix_begin(sk);
		kept = unix_known(sk);
	}
	if (!kept)
		return;
	now = bpf_ktime_get_ns();
	task = bpf_get_current_pid_tgid();
	bpf_spin_lock(&kept->lock);
	unix_asked(kept, sk, result, now, task, &ended);
	bpf_spin_unlock(&kept->lock);
	unix_emit(kept, &ended);
}

/* Bytes have come. Locked. */
static __always_inline void unix_heard(struct unix_kept *kept, __u64 now, struct unix_ended *ended)
{
	struct unix_course *course = &kept->flow.course;
	struct exchange *exchange = unix_exchange(kept);
	__u64 gap = unix_from_to(course->heard, now);
	__u32 reason = exchange->unpaired;

	course->heard = now;
	if (!exchange->open) {
		course->unasked = now;
		exchange_goes_on(exchange, 0, gap);
		return;
	}
	if (!reason && exchange->pauses >= PAUSES && octave(gap) <= exchange->pace + 1)
		reason = NO_PAIR(STREAM);
	unix_settle(kept, reason, now, ended);
}

/* Bytes have come to a socket; the task that runs has sent them. */
static __always_inline void unix_arrived(const struct sock *sk)
{
	struct unix_ended ended = {};
	struct unix_kept *kept;
	__u64 now;

	if (!unix_is_unix(sk))
		return;
	kept = unix_known(sk);
	if (!kept)
		return;
	now = bpf_ktime_get_ns();
	bpf_spin_lock(&kept->lock);
	unix_heard(kept, now, &ended);
	bpf_spin_unlock(&kept->lock);
	unix_emit(kept, &ended);
}

/* No answer will come to the open question any more. Locked. */
static __always_inline void unix_failed(struct unix_kept *kept, __u64 now, enum end end,
					struct unix_ended *ended)
{
	struct unix_course *course = &kept->flow.course;

	if (course->since && !course->doubted) {
		course->failed++;
		ended->since = course->since;
		ended->lasted = unix_from_to(course->since, now);
		ended->bytes = course->bytes;
		ended->end = end;
		ended->is_told = true;
	}
	unix_exchange(kept)->open = false;
	course->since = 0;
}

/* A read of any socket has ended: nothing will come any more, if it has no data. */
static __always_inline void unix_read(const struct sock *sk, int result)
{
	struct unix_ended ended = {};
	struct unix_kept *kept;
	__u64 now;

	if (result > 0 || !unix_is_unix(sk))
		return;
	if (result ? result != -ECONNRESET : !(sk->sk_shutdown & RCV_SHUTDOWN))
		return;
	kept = unix_known(sk);
	if (!kept)
		return;
	now = bpf_ktime_get_ns();
	bpf_spin_lock(&kept->lock);
	unix_failed(kept, now, result ? END_RESET : END_CLOSED_BY_PEER, &ended);
	bpf_spin_unlock(&kept->lock);
	unix_emit(kept, &ended);
}

/* Return true if a task sleeps for a socket, or an event loop has it. */
static __always_inline bool unix_is_watched(const struct sock *sk)
{
	const struct socket_wq *queue = (const struct socket_wq *)word_at(&sk->sk_wq);
	const struct list_head *head = &queue->wait.head;

	return word_at(&head->next) != (__u64)head;
}

/*
 * Tell user space of a connection, whose socket may be closed: every read is safe. The value that
 * the walk shows has no lock that programs could take.
 */
static __always_inline void unix_tell(struct bpf_iter__bpf_map_elem *ctx)
{
	const __u64 *place = ctx->key;
	struct unix_kept *kept;
	struct unix_flow flow;
	__u64 cookie;

	if (!place)
		return;
	cookie = *place;
	kept = bpf_map_lookup_elem(&unix_flows, &cookie);
	if (!kept)
		return;
	flow.ends = kept->flow.ends;
	bpf_spin_lock(&kept->lock);
	flow.course = kept->flow.course;
	bpf_spin_unlock(&kept->lock);
	flow.course.watched =
		flow.course.since && unix_is_watched((const struct sock *)flow.ends.socket);
	bpf_seq_write(ctx->meta->seq, &flow, sizeof(flow));
}

#endif
