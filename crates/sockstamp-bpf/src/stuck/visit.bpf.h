/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copy what TCP knows of sockets that may be waited on. Open files lead to sockets of every network
 * namespace, together with their processes, and no socket is locked: a hung task may hold the lock
 * of one for ever. A field may therefore be a segment newer than its neighbour.
 */
#ifndef SOCKSTAMP_STUCK_VISIT_BPF_H
#define SOCKSTAMP_STUCK_VISIT_BPF_H

#include "record/identity.bpf.h"
#include "select/filter.bpf.h"
#include "select/target.bpf.h"
#include "stuck/stuck.h"
#include "stuck/unix_visit.bpf.h"
#include "stuck/watch.bpf.h"
#include "wait/connection.bpf.h"

#define SOCK_NOSPACE 2 /* include/linux/net.h */

/* The target's sockets of TCP that the walk came by. */
__u64 stuck_visited;

/* The stack has no room for it, and one walk runs at a time. */
struct stuck_socket stuck_found;

/*
 * Return true if a socket may have been the last to speak: tcp_event_data_sent() and
 * tcp_event_data_recv() note when, in ticks.
 */
static __always_inline bool stuck_sent_last(const struct tcp_sock *tp)
{
	return !tp->data_segs_in || (__s32)(tp->lsndtime - tp->inet_conn.icsk_ack.lrcvtime) >= 0;
}

/* Return true if a program or a route set the rate of a socket. Before v4.20 it has 32 bits. */
static __always_inline bool stuck_paced(const struct sock *sk)
{
	return sk->sk_max_pacing_rate != ~0UL && sk->sk_max_pacing_rate != (__u32)-1;
}

/* So many accepted sockets that sent lately show how the others of a service fare. */
#define STUCK_SENDERS	64
#define STUCK_LATELY_NS 1000000000ULL

/* Those that this walk has shown. */
__u64 stuck_senders;

static __always_inline bool stuck_sent_lately(const struct tcp_sock *tp)
{
	return tp->data_segs_out && stuck_senders < STUCK_SENDERS &&
	       wait_since_jiffy(tp->lsndtime) < STUCK_LATELY_NS && ++stuck_senders;
}

/*
 * Return true if a socket was the last to hear. Within a tick that is so unless a mere
 * acknowledgement came after the data: tcp_update_wl() notes its number, that of the next byte.
 */
static __always_inline bool stuck_heard_last(const struct tcp_sock *tp)
{
	__s32 later = tp->inet_conn.icsk_ack.lrcvtime - tp->lsndtime;

	if (!tp->data_segs_in || !tp->data_segs_out)
		return tp->data_segs_in;
	return later > 0 || (!later && tp->snd_wl1 != tp->rcv_nxt);
}

/* Return true if anybody may wait on a socket between connect() and close(). */
static __always_inline bool stuck_open(const struct tcp_sock *tp, const struct sock *sk)
{
	if (tp->write_seq != tp->snd_una || tp->rcv_nxt != tp->copied_seq || stuck_paced(sk))
		return true;
	/* An accepted socket that was the last to speak has answered. */
	return sk->sk_max_ack_backlog ? stuck_heard_last(tp) || stuck_sent_lately(tp) :
					stuck_sent_last(tp);
}

static __always_inline bool stuck_may_be_waited_on(const struct tcp_sock *tp, const struct sock *sk)
{
	switch (sk->__sk_common.skc_state) {
	case TCP_SYN_SENT:
		return true;
	case TCP_LISTEN:
		/* Children of a backlog of 0 cannot be told by theirs. */
		return sk->sk_ack_backlog || !sk->sk_max_ack_backlog;
	case TCP_ESTABLISHED:
	case TCP_FIN_WAIT1:
	case TCP_FIN_WAIT2:
	case TCP_CLOSE_WAIT:
		return sk->sk_shutdown != SHUTDOWN_MASK && stuck_open(tp, sk);
	}
	return false;
}

/* Return the connection that has waited longest for accept(), if there is one. */
static __always_inline const struct tcp_sock *stuck_unaccepted(const struct tcp_sock *tp)
{
	const struct request_sock *oldest = (const struct request_sock *)word_at(
		&tp->inet_conn.icsk_accept_queue.rskq_accept_head);

	return oldest ? (const struct tcp_sock *)word_at(&oldest->sk) : NULL;
}

/* A listener has no route: the connection that waits there has. */
static __always_inline bool stuck_routed(const struct sock *sk)
{
	const struct net_device *device = NULL;
	const struct dst_entry *route;

	if (sk->__sk_common.skc_state == TCP_LISTEN)
		sk = (const struct sock *)stuck_unaccepted((const struct tcp_sock *)sk);
	if (!sk)
		return false;
	route = kernel_read(sk, struct sock, sk_dst_cache);
	if (!route)
		return false;
	bpf_core_read(&device, sizeof(device), &route->dev);
	return device && kernel_read(device, struct net_device, ifindex) == setting_interface;
}

static __always_inline bool stuck_selected(const struct sock *sk)
{
	if (!netns_selected(sk) || !filter_flow(sk))
		return false;
	if (setting_interface && !stuck_routed(sk))
		return false;
	return !setting_cgroup || cgroup_selected(sk);
}

/* Note when the oldest connection was established: tcp_create_openreq_child() sets lsndtime. */
static __always_inline void stuck_listener(struct stuck_socket *found, const struct tcp_sock *tp)
{
	const struct tcp_sock *child = stuck_unaccepted(tp);

	found->backlog = kernel_read((const struct sock *)tp, struct sock, sk_ack_backlog);
	if (child)
		found->oldest_ago = wait_since_jiffy(kernel_read(child, struct tcp_sock, lsndtime));
}

/* tcp_connect() notes its time here, in the unit of the connection's timestamps. */
static __always_inline __u32 syn_sent_ago_us(const struct tcp_sock *tp, __u64 now)
{
	if (bpf_core_field_exists(tp->tcp_usec_ts) && BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts))
		return (__u32)(now / 1000) - tp->retrans_stamp;
	return ((__u32)(now / 1000000) - tp->retrans_stamp) * 1000;
}

static __always_inline void stuck_times(struct stuck_socket *found, const struct tcp_sock *tp)
{
	found->now = bpf_ktime_get_ns();
	found->first_sent_us = tp->first_tx_mstamp;
	found->delivered_us = tp->delivered_mstamp;
	found->syn_sent_ago_us = syn_sent_ago_us(tp, found->now);
}

static __always_inline void stuck_bytes(struct stuck_socket *found, const struct tcp_sock *tp,
					const struct sock *sk)
{
	found->copied_seq = tp->copied_seq;
	found->write_seq = tp->write_seq;
	found->sends = tp->data_segs_out;
	found->receives = tp->data_segs_in;
	found->acknowledged = tp->bytes_acked;
	found->send_queue = sk->sk_wmem_queued;
	found->send_buffer = sk->sk_sndbuf;
	found->retransmits = tp->inet_conn.icsk_retransmits;
	found->hole = tp->out_of_order_queue.rb_node != NULL;
	found->pure_ack_last = tp->snd_wl1 == tp->rcv_nxt;
}

static __always_inline void stuck_identify(struct stuck_socket *found,
					   const struct task_struct *task, const struct sock *sk)
{
	flow_identify(&found->flow, sk);
	found->flow.pid = task->tgid;
	bpf_probe_read_kernel_str(found->flow.comm, sizeof(found->flow.comm),
				  task->group_leader->comm);
	found->socket = (__u64)sk;
	found->state = sk->__sk_common.skc_state;
}

static __always_inline void stuck_describe(struct stuck_socket *found,
					   const struct task_struct *task,
					   const struct tcp_sock *tp, const struct sock *sk)
{
	stuck_identify(found, task, sk);
	found->shutdown = sk->sk_shutdown;
	/* sk_clone() copies it from the listener, and connect() sets none. */
	found->listened = sk->sk_max_ack_backlog != 0;
	found->write_pending = sk->sk_write_pending != 0;
	found->syn_kept = found->state == TCP_SYN_SENT && syn_kept(tp);
	found->no_space = sk->sk_socket->flags >> SOCK_NOSPACE & 1;
	stuck_times(found, tp);
	stuck_bytes(found, tp, sk);
	/* The verifier knows the type of this one. */
	connection_describe(&found->connection, (const struct sock *)tp);
	if (found->state == TCP_LISTEN)
		stuck_listener(found, tp);
	watch_note(found, sk);
}

static __always_inline bool stuck_of_target(const struct task_struct *task, const struct sock *sk)
{
	return stuck_selected(sk) && stuck_task_selected(task);
}

/*
 * Connections wait at the first subflow of a listener of MPTCP, which no file leads to
 * (mptcp_stream_accept(), net/mptcp/protocol.c, v6.18). Every listener of Go's net is one.
 */
static __always_inline bool stuck_mptcp_listener(const struct task_struct *task,
						 const struct sock *sk)
{
	const struct tcp_sock *first;

	if (!bpf_core_type_exists(struct mptcp_sock) || sk->__sk_common.skc_state != TCP_LISTEN)
		return false;
	first = (const struct tcp_sock *)BPF_CORE_READ((const struct mptcp_sock *)sk, first);
	if (!first)
		return false;
	stuck_identify(&stuck_found, task, sk);
	stuck_found.now = bpf_ktime_get_ns();
	stuck_listener(&stuck_found, first);
	watch_note(&stuck_found, sk);
	return stuck_found.backlog;
}

static __always_inline bool stuck_tcp(const struct task_struct *task, struct sock *sk)
{
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (!tp || !stuck_may_be_waited_on(tp, sk))
		return false;
	bpf_get_socket_cookie(sk);
	stuck_describe(&stuck_found, task, tp, sk);
	return true;
}

/* A walk begins. */
static __always_inline void stuck_begin(void)
{
	stuck_senders = 0;
	unix_sleep_clock_begin();
}

static __always_inline void stuck_visit(struct bpf_iter__task_file *ctx,
					const struct task_struct *task, struct file *file)
{
	struct socket *socket = bpf_sock_from_file(file);
	struct sock *sk;
	bool waits;

	if (!ctx->meta->seq_num)
		stuck_begin();
	if (!socket)
		return;
	sk = socket->sk;
	if (sk && sk->__sk_common.skc_family == AF_UNIX) {
		stuck_unix_visit(ctx->meta->seq, task, sk);
		return;
	}
	if (!sk || (sk->sk_protocol != IPPROTO_TCP && sk->sk_protocol != IPPROTO_MPTCP))
		return;
	if (!stuck_of_target(task, sk))
		return;
	/* Connections of MPTCP are not looked at. */
	if (sk->sk_protocol == IPPROTO_TCP || sk->__sk_common.skc_state == TCP_LISTEN)
		stuck_visited++;
	__builtin_memset(&stuck_found, 0, sizeof(stuck_found));
	waits = sk->sk_protocol == IPPROTO_TCP ? stuck_tcp(task, sk) :
						 stuck_mptcp_listener(task, sk);
	if (waits)
		stuck_write(ctx->meta->seq, &stuck_found, sizeof(stuck_found));
}

#endif
