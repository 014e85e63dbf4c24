/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Count the bytes that a connection moves from TCP's own counters: exact, whatever part of the time
 * is measured, and at no cost to its messages.
 */
#ifndef SOCKSTAMP_TCP_MOVED_BPF_H
#define SOCKSTAMP_TCP_MOVED_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"

/* Return true if `write_seq` counts a FIN. */
static __always_inline bool tcp_sent_fin(int state)
{
	return state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 || state == TCP_CLOSING ||
	       state == TCP_LAST_ACK;
}

/* Return how many bytes send calls have queued. `state`: before the present change, if any. */
static __always_inline __u64 tcp_bytes_written(const struct tcp_sock *tp, int state)
{
	return tp->bytes_acked + (__u32)(tp->write_seq - tp->snd_una) - tcp_sent_fin(state);
}

/*
 * Return how many bytes read calls have taken. `rcv_nxt` counts the peer's FIN at once, and
 * `copied_seq` when a read returns 0 (tcp_recvmsg_locked(), v6.18). A program that keeps the socket
 * of a closed connection reads what is left.
 */
static __always_inline __u64 tcp_bytes_read(const struct sock *sk, const struct tcp_sock *tp,
					    bool closes)
{
	bool fin = sk->__sk_common.skc_flags & 1UL << SOCK_DONE;
	__s32 unread = tp->rcv_nxt - tp->copied_seq - fin;

	if (unread < 0 || (closes && sk->sk_socket))
		unread = 0;
	return tp->bytes_received - fin - unread;
}

#endif
