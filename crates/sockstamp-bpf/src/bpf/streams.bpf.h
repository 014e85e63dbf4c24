/* SPDX-License-Identifier: GPL-2.0-only */
/* Calls and segments of TCP. */
#ifndef SOCKSTAMP_BPF_STREAMS_BPF_H
#define SOCKSTAMP_BPF_STREAMS_BPF_H

#include "connection/connection.bpf.h"
#include "connection/untried.bpf.h"
#include "kernel/kernel.bpf.h"
#include "select/select.bpf.h"
#include "tcp/events/close.bpf.h"
#include "tcp/flow.bpf.h"
#include "tcp/gap/release.bpf.h"
#include "tcp/receive/read.bpf.h"
#include "tcp/events/segment.bpf.h"
#include "tcp/send/by_packets.bpf.h"
#include "tcp/send/end.bpf.h"
#include "tcp/send/entry.bpf.h"
#include "tcp/silence.bpf.h"
#include "tcp/turned_away.bpf.h"
#include "tcp/unanswered.bpf.h"

SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(on_tcp_sendmsg_locked, const struct sock *sk, const struct msghdr *msg,
	     const struct sk_buff *tail, int size_goal)
{
	if (sock_selected(sk))
		tx_sendmsg_turn(sk, msg, tail, size_goal);
	return 0;
}

SEC("fentry/tcp_sendmsg_locked")
int BPF_PROG(on_sendmsg_begun, const struct sock *sk, const struct msghdr *msg)
{
	if (sock_selected(sk) && (sk = tcp_known(sk)))
		tx_sendmsg_begins(sk, msg);
	return 0;
}

SEC("fentry/do_tcp_sendpages")
int BPF_PROG(on_sendpages_begun, const struct sock *sk, const struct page *page, int offset,
	     unsigned long size, int flags)
{
	if (sock_selected(sk) && (sk = tcp_known(sk)))
		tx_sendpages_begins(sk, size, flags);
	return 0;
}

SEC("fexit/do_tcp_sendpages")
int BPF_PROG(on_sendpages_ended, const struct sock *sk, const struct page *page, int offset,
	     unsigned long size, int flags, long result)
{
	if (sock_selected(sk) && (sk = tcp_known(sk)))
		tx_sendmsg_ends(sk, result);
	return 0;
}

SEC("fentry/sk_stream_wait_memory")
int BPF_PROG(on_wait_begun, const struct sock *sk)
{
	if (sock_selected(sk))
		tx_wait_memory(sk, true);
	return 0;
}

SEC("fexit/sk_stream_wait_memory")
int BPF_PROG(on_wait_ended, const struct sock *sk)
{
	if (sock_selected(sk))
		tx_wait_memory(sk, false);
	return 0;
}

SEC("fentry/__tcp_push_pending_frames")
int BPF_PROG(on_push, const struct sock *sk)
{
	if (sock_selected(sk) && (sk = tcp_known(sk)))
		tx_push_pending(sk);
	return 0;
}

SEC("fexit/tcp_sendmsg_locked")
int BPF_PROG(on_sendmsg_ended, const struct sock *sk, const struct msghdr *msg, unsigned long size,
	     int result)
{
	if (sock_selected(sk) && (sk = tcp_known(sk)))
		tx_sendmsg_ends(sk, result);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(on_tcp_retransmit_skb, const struct sock *sk, const struct sk_buff *skb)
{
	if (sock_may_be_selected(sk) && (sk = tcp_known(sk))) {
		tx_retransmit(sk, skb);
		undelivered_times_out(sk);
	}
	return 0;
}

/* Every segment of an established connection, before TCP works on it, with the socket locked. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(on_tcp_probe, const struct sock *sk, const struct sk_buff *skb)
{
	if (sock_selected(sk) && (sk = tcp_known(sk)))
		on_segment(sk, skb);
	return 0;
}

/*
 * Handle half-closed connections and unfinished handshakes. Other sockets come here before they
 * have sequence numbers to compare with.
 */
SEC("fentry/tcp_rcv_state_process")
int BPF_PROG(on_rcv_state_process, const struct sock *sk, const struct sk_buff *skb)
{
	if (sock_transfers_unprobed(sk) && sock_selected(sk) && (sk = tcp_known(sk)))
		on_segment(sk, skb);
	return 0;
}

/* Use the function that has the tracepoint now (v6.12). */
SEC("fentry/sock_def_readable")
int BPF_PROG(on_sock_def_readable, const struct sock *sk)
{
	if (sock_selected(sk) && (sk = tcp_known(sk)))
		rx_data_ready(sk);
	return 0;
}

/* Find the result by the number of arguments: v7.2 has one less. */
SEC("fexit/tcp_recvmsg")
int BPF_PROG(on_recvmsg_ended, const struct sock *sk, const struct msghdr *msg,
	     unsigned long length, int flags)
{
	__u64 result;

	if (flags & (MSG_PEEK | MSG_ERRQUEUE) || !sock_selected(sk) || !(sk = tcp_known(sk)))
		return 0;
	if (!bpf_get_func_ret(ctx, &result) && (int)result > 0)
		rx_recvmsg_ends(sk, (int)result);
	return 0;
}

/* A function of its own, for the same reason as on_stamp(). */
static __noinline int on_state(const struct sock *sk, int before, int state)
{
	undelivered_settles(sk, before, state);
	turned_away_settles(sk, before, state);
	questions_settle(sk, before, state);
	silence_settles(sk, before, state);
	linger_settles(sk, before, state);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_inet_sock_set_state, const struct sock *sk, int old_state, int new_state)
{
	if (sk->sk_protocol != IPPROTO_TCP || new_state == TCP_ESTABLISHED)
		return 0;
	if ((!sock_has_storage(sk) && old_state != TCP_SYN_SENT) || !(sk = tcp_known(sk)))
		return 0;
	if (old_state == TCP_SYN_SENT && !tcp_of(sk)->segs_out)
		connect_denied(sk);
	if (!sock_has_storage(sk))
		return 0;
	if (new_state == TCP_SYN_SENT)
		untried_is_tried(sk);
	on_state(sk, old_state, new_state);
	if (new_state == TCP_CLOSE) {
		connection_closes(sk);
		released_socket_closes(sk);
		flow_close(sk);
	}
	return 0;
}

#endif
