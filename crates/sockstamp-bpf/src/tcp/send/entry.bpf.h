/* SPDX-License-Identifier: GPL-2.0-only */
/* The entry of a send call, and the waits for room in the send buffer before its last byte. */
#ifndef SOCKSTAMP_TCP_SEND_ENTRY_BPF_H
#define SOCKSTAMP_TCP_SEND_ENTRY_BPF_H

#include "group/resolve.bpf.h"
#include "sched/prompted.bpf.h"
#include "sched/service.bpf.h"
#include "tcp/answer.bpf.h"
#include "tcp/send/greeting.bpf.h"
#include "tcp/flow.bpf.h"
#include "tcp/send/interrupted.bpf.h"

/* tcp_notsent_lowat(): without one of its own, the socket has that of its network namespace. */
static __always_inline __u32 tx_notsent_lowat(const struct tcp_sock *tp)
{
	const struct sock *sk = (const struct sock *)tp;
	__u32 lowat = tp->notsent_lowat;

	return lowat ? lowat : sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_notsent_lowat;
}

/*
 * tcp_sendmsg_locked() asks for a new skb, and waits where there is no room for one: the same
 * questions (net/ipv4/tcp.c, tcp_stream_memory_free() and sk_stream_memory_free(), v6.18) asked at
 * the top of the turn that is about to wait.
 */
static __always_inline bool tx_will_wait(const struct sock *sk, const struct sk_buff *tail,
					 int size_goal)
{
	const struct tcp_sock *tp = tcp_of(sk);

	if (tail && (int)tail->len < size_goal && !BPF_CORE_READ_BITFIELD(skb_tcp(tail), eor))
		return false;
	if (sk->sk_wmem_queued >= sk->sk_sndbuf)
		return true;
	return tp->write_seq - tp->snd_nxt >= tx_notsent_lowat(tp);
}

/* Since when the task waits for room, from now on if it is about to. */
static __always_inline void tx_account_wait(struct sender *sender, bool will_wait, __u64 now)
{
	if (sender->full)
		sender->sndbuf += now - sender->full;
	sender->full = will_wait ? now : 0;
}

/*
 * The present send answers the last read, if that took all unread data. Bytes that left the socket
 * in another way since are a request too, of which nothing is known.
 */
static __always_inline void tx_note_service(const struct sock *sk, struct flow *flow,
					    struct sender *sender)
{
	__u64 read = flow->rx.service_from;
	__u8 doubt;

	sender->service = STAGE_ABSENT;
	if (!read || read > sender->entry)
		return;
	doubt = service_doubt(sk, &flow->exchange, sender->entry);
	if (doubt) {
		sender->unpaired = doubt;
		return;
	}
	if (seq_after(tcp_of(sk)->copied_seq, flow->rx.seq + 1))
		return;
	sender->service = sender->entry - read;
	if (setting_sched && service_note_answer(read, sender->entry))
		sender->flags |= MESSAGE_SPENT;
	if (setting_waits && sender->service >= setting_wait_ns &&
	    task_prompted(flow->rx.key, read))
		sender->flags |= SENDER_PROMPTED;
}

/* The task's entry, or with task 0 a vacant slot. */
static __always_inline struct sender *entry_of_task(struct flow *flow, __u32 tid)
{
	for (int i = 0; i < SENDERS; i++) {
		if (flow->tx.senders[i].tid == tid)
			return &flow->tx.senders[i];
	}
	return NULL;
}

static __always_inline void entry_begin(const struct sock *sk, struct flow *flow,
					struct sender *sender, __u64 task)
{
	sender->tid = task;
	sender->pid = task >> 32;
	sender->entry = bpf_ktime_get_ns();
	sender->full = 0;
	sender->sndbuf = 0;
	sender->flags = 0;
	sender->unpaired = 0;
	sender->start = tcp_of(sk)->write_seq;
	sender->asked = 0;
	sender->retransmits = 0;
	tx_note_service(sk, flow, sender);
}

/*
 * A window may end while a message is copied. The new draw must not make a later turn of it an
 * entry, so draw only while no byte of a message is in the queue.
 */
static __always_inline void tx_refresh_sampler(const struct sock *sk, struct flow *flow)
{
	const struct tcp_sock *tp = tcp_of(sk);
	struct sampler *sampler = &flow->tx.sampler;
	__u64 now = tp->tcp_clock_cache;

	if (tp->write_seq == flow->tx.seq && sample_due(sampler, now))
		group_sample_refresh(sampler, now, group_of_task(&flow->group, sk));
}

/*
 * Return the task's slot for its entry. An earlier unused note of the task belongs to no send; nor
 * do notes of others, if no task waits inside send. The socket is locked.
 */
static __always_inline struct sender *entry_find_slot(const struct sock *sk, struct flow *flow,
						      __u32 tid)
{
	struct sender *sender = entry_of_task(flow, tid);

	if (!sender)
		sender = entry_of_task(flow, 0);
	if (!sender && !sk->sk_write_pending)
		sender = &flow->tx.senders[0];
	return sender;
}

/* include/net/inet_sock.h, v6.6. */
#define INET_FLAGS_RECVERR  (1UL << 9)
#define INET_FLAGS_RECVERR6 (1UL << 26)
/* include/linux/sched.h, v6.18: tasks that leave a call without a return to user space. */
#define PF_IO_WORKER   0x00000010
#define PF_USER_WORKER 0x00004000
#define PF_KTHREAD     0x00200000
/* include/linux/sched.h */
#define MAX_SCHEDULE_TIMEOUT ((long)(~0UL >> 1))

enum standing {
	ENTRY_CONTINUES, /* of the call that takes another turn */
	ENTRY_ENDED, /* of an earlier call, which queued nothing */
	ENTRY_DOUBTFUL,
};

/*
 * Return true if something lies between send calls and TCP (kTLS, sockmap): a call may then succeed
 * where tcp_sendmsg_locked() has failed.
 */
static __always_inline bool tx_has_upper_layer(const struct sock *sk)
{
	return tcp_of(sk)->inet_conn.icsk_ulp_ops || sk->sk_user_data;
}

/*
 * Return true if a call that waits for memory may give up, and be forgotten, while the connection
 * goes on: sk_stream_wait_memory(), v6.18. It does so for a signal, which is delivered before the
 * task can call again, when its time is over, and for an error that ICMP reported. Without a time
 * limit a call that a signal without a handler interrupts begins again by itself (ERESTARTSYS): it
 * is the same one. A sockmap (sk_user_data) lets a call on one socket wait for another, with the
 * first one's limit: tcp_bpf_sendmsg_redir(), net/ipv4/tcp_bpf.c, v6.18.
 */
static __always_inline bool tx_may_give_up(const struct sock *sk, const struct sender *sender)
{
	const struct inet_sock *inet = cast_kernel(sk, struct inet_sock);
	const struct task_struct *task = bpf_get_current_task_btf();

	return sk->sk_sndtimeo != MAX_SCHEDULE_TIMEOUT || tx_has_upper_layer(sk) ||
	       inet->inet_flags & (INET_FLAGS_RECVERR | INET_FLAGS_RECVERR6) ||
	       task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER) ||
	       interrupted_since(sender->tid, sender->entry);
}

/*
 * Tell a later turn of a call from the first one of the next, where the call between queued nothing
 * and failed: a call that queued something takes its entry away when it ends (SENDMSG). A turn that
 * finds room queues bytes, or fails. One that finds none waits until there is room, and takes the
 * next turn with as many bytes; or it fails, at once if it may not wait.
 */
static __always_inline enum standing entry_of_turn(const struct sock *sk, const struct flow *flow,
						   const struct sender *sender, __u32 flags,
						   __u64 left, bool will_wait)
{
	bool nothing_queued = tcp_of(sk)->write_seq == flow->tx.seq;

	/* A turn without any progress lets the backlog in: sk_flush_backlog(). */
	if (!sender->full && left <= sender->left && !nothing_queued)
		return ENTRY_CONTINUES;
	if (left != sender->left || flags & MSG_DONTWAIT || sender->flags & SENDER_NOWAIT)
		return ENTRY_ENDED;
	if (will_wait)
		return ENTRY_ENDED;
	/* Only where memory is short it waits although there was room. */
	if (!sender->full || tx_may_give_up(sk, sender))
		return ENTRY_DOUBTFUL;
	return ENTRY_CONTINUES;
}

/* A turn of a task that has an entry. Return true if it is the first one of its call. */
static __always_inline bool tx_begins_call(const struct sock *sk, struct flow *flow,
					   struct sender *sender, const struct msghdr *msg,
					   bool will_wait)
{
	__u64 left = msg->msg_iter.count;

	switch (entry_of_turn(sk, flow, sender, msg->msg_flags, left, will_wait)) {
	case ENTRY_ENDED:
		return true;
	case ENTRY_DOUBTFUL:
		sender->tid = 0;
		flow->tx.crowded = TX_CROWDED;
		return false;
	case ENTRY_CONTINUES:
		if (will_wait || sender->full)
			tx_account_wait(sender, will_wait, bpf_ktime_get_ns());
		sender->left = left;
		sender->turn = tcp_of(sk)->write_seq;
	}
	return false;
}

/*
 * A turn that is about to wait, of a message that is not to be measured: the next one must not be
 * taken for the entry of one that is, nor for a later turn of an earlier call.
 */
static __always_inline void tx_skip_turn(const struct sock *sk, struct flow *flow,
					 const struct msghdr *msg)
{
	struct sender *sender = entry_of_task(flow, bpf_get_current_pid_tgid());
	__u64 left = msg->msg_iter.count;

	flow->tx.crowded = flow->tx.crowded ?: TX_CROWDED;
	if (sender &&
	    entry_of_turn(sk, flow, sender, msg->msg_flags, left, true) != ENTRY_CONTINUES)
		sender->tid = 0;
}

/*
 * tcp_sendmsg_locked() fires once per turn of its loop, with the socket locked; the first turn is
 * the entry. A later turn finds the task's entry in place. A wait for memory lets other threads in.
 * A thread without room for its entry could later take a later turn for its first: so no entry is
 * noted until a send ends that leaves nobody waiting (sk_stream_wait_memory(), v6.18).
 */
static __always_inline void tx_sendmsg_turn(const struct sock *sk, const struct msghdr *msg,
					    const struct sk_buff *tail, int size_goal)
{
	struct flow *flow = flow_lookup_or_create(sk);
	struct sender *sender;
	bool will_wait;
	__u64 task;

	if (!flow || !flow_measures(flow, DIRECTION_TX))
		return;
	flow_reset_if_after_gap(flow, false);
	will_wait = tx_will_wait(sk, tail, size_goal);
	tx_refresh_sampler(sk, flow);
	if (stream_will_skip(&flow->tx.sampler)) {
		if (will_wait)
			tx_skip_turn(sk, flow, msg);
		return;
	}
	task = bpf_get_current_pid_tgid();
	sender = entry_of_task(flow, task);
	if (sender && !tx_begins_call(sk, flow, sender, msg, will_wait))
		return;
	if (!pid_selected(task >> 32))
		return;
	if (!sender)
		sender = entry_find_slot(sk, flow, task);
	if (!sender) {
		flow->tx.crowded = flow->tx.crowded ?: TX_CROWDED;
		return;
	}
	if (flow->tx.crowded) {
		sender->tid = 0;
		return;
	}
	greeting_note(sk, &flow->exchange, msg);
	entry_begin(sk, flow, sender, task);
	sender->full = will_wait ? sender->entry : 0;
	sender->left = msg->msg_iter.count;
	sender->asked = sender->left;
	sender->turn = sender->start;
	if (msg->msg_flags & MSG_MORE)
		sender->flags |= SENDER_MORE;
	if (msg->msg_flags & MSG_DONTWAIT)
		sender->flags |= SENDER_NOWAIT;
}

/*
 * TCP asks for the length of the header options that a program wants to write, of which we want
 * none: bpf_skops_hdr_opt_len(), v5.10. It asks for those sockets alone that have the flag set,
 * with the socket locked, and for the sake of the MSS at the start of tcp_sendmsg_locked() and
 * after each wait for memory. It asks so at other times as well, when the backlog is worked off or
 * an option is set: so an entry is noted anew until the message has a byte in the queue. A wait
 * before that one is not seen, and of tasks that are inside send together only the first.
 */
static __always_inline void tx_mss_callback(const struct sock *sk)
{
	struct sender *sender;
	struct flow *flow;
	__u64 task;

	/* In softirq no task owns the socket, and `current` is unrelated. */
	if (!sk->sk_lock.owned)
		return;
	flow = flow_lookup_or_create(sk);
	if (!flow || !flow_measures(flow, DIRECTION_TX))
		return;
	if (tcp_of(sk)->write_seq != flow->tx.seq)
		return;
	tx_refresh_sampler(sk, flow);
	if (stream_will_skip(&flow->tx.sampler) || flow->tx.crowded)
		return;
	task = bpf_get_current_pid_tgid();
	if (!pid_selected(task >> 32))
		return;
	sender = entry_find_slot(sk, flow, task);
	if (sender)
		entry_begin(sk, flow, sender, task);
}

/*
 * Return true if TCP accepts the data at once, without waiting for the connection. A server need
 * not wait for the end of a handshake that brought data: tcp_passive_fastopen(), v6.12.
 */
static __always_inline bool tx_accepts_data(const struct sock *sk)
{
	switch (sk->__sk_common.skc_state) {
	case TCP_ESTABLISHED:
	case TCP_CLOSE_WAIT:
		return true;
	case TCP_SYN_RECV:
		return tcp_of(sk)->fastopen_rsk;
	}
	return false;
}

/*
 * Note the begin of a sending function, once per call, with the socket locked; return NULL if none
 * is noted.
 */
static __always_inline struct sender *tx_note_entry(const struct sock *sk, struct flow *flow,
						    bool more)
{
	struct sender *sender;
	__u64 task;

	if (!flow_measures(flow, DIRECTION_TX))
		return NULL;
	tx_refresh_sampler(sk, flow);
	if (stream_will_skip(&flow->tx.sampler) || flow->tx.crowded)
		return NULL;
	task = bpf_get_current_pid_tgid();
	if (!pid_selected(task >> 32))
		return NULL;
	sender = entry_find_slot(sk, flow, task);
	if (!sender)
		return NULL;
	entry_begin(sk, flow, sender, task);
	if (more)
		sender->flags |= SENDER_MORE;
	return sender;
}

/*
 * BPF_SOCK_OPS_TSTAMP_SENDMSG_ENTRY_CB (kernel/series): tcp_sendmsg_locked() begins, once per call,
 * with the socket locked.
 */
static __always_inline void tx_sendmsg_begin_callback(const struct sock *sk, __u32 flags)
{
	struct flow *flow;

	if (!tx_accepts_data(sk))
		return;
	flow = flow_lookup_or_create(sk);
	if (flow)
		tx_note_entry(sk, flow, flags & MSG_MORE);
}

/* sk_stream_wait_memory() begins (`waits`) or ends: the task has no room in the send buffer. */
static __always_inline void tx_wait_memory(const struct sock *sk, bool waits)
{
	struct flow *flow = flow_lookup(sk);
	struct sender *sender;

	if (!flow)
		return;
	sender = entry_of_task(flow, bpf_get_current_pid_tgid());
	if (sender)
		tx_account_wait(sender, waits, bpf_ktime_get_ns());
}

/* Takes the current task's entry; its tid is 0 if there is none. */
static __always_inline struct sender tx_take_entry(struct flow *flow)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct sender taken = {};

	for (int i = 0; i < SENDERS; i++) {
		struct sender *sender = &flow->tx.senders[i];

		if (sender->tid != tid)
			continue;
		taken = *sender;
		sender->tid = 0;
		break;
	}
	return taken;
}

/* Where no hook shows the entry, a message starts when it is queued. */
static __always_inline void tx_begin_when_queued(const struct sock *sk, struct flow *flow,
						 struct sender *sender, __u32 start, __u64 now)
{
	__u64 task = bpf_get_current_pid_tgid();

	sender->tid = task;
	sender->pid = task >> 32;
	sender->entry = now;
	sender->start = start;
	tx_note_service(sk, flow, sender);
}

#endif
