/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Learn from the first bytes that an end sends how questions follow. In HTTP/2 many are in
 * flight, among frames that are none: order tells nothing. In TLS the end of a handshake is
 * followed by tickets, which look like the answer to what came with it (RFC 8446, section 4.6.1).
 * A fatal error of PostgreSQL ends a connection that it does not want.
 */
#ifndef SOCKSTAMP_TCP_SEND_GREETING_BPF_H
#define SOCKSTAMP_TCP_SEND_GREETING_BPF_H

#include "kernel/kernel.bpf.h"
#include "tcp/flow.bpf.h"
#include "tcp/turned_away.bpf.h"

/* Sends that are looked at: some protocols ask in their own words whether they may begin TLS. */
#define GREETINGS 3
/* The head of a frame in HTTP/2: RFC 9113, section 4.1. */
#define GREETING_BYTES 9

/*
 * include/linux/uio.h, v6.7. In kernels before, these are of memory that is not the user's, from
 * which nothing is read.
 */
#define ITER_UBUF  0
#define ITER_IOVEC 1

/* Pairs of a connection until the one that ends its handshake, that included. */
#define TLS_PAIRS 2

/* Read the first bytes of a send call: the caller has just written them. */
static __always_inline bool greeting_read(const struct msghdr *msg, __u8 *head)
{
	const struct iov_iter *from = &msg->msg_iter;
	__u8 type = BPF_CORE_READ(from, iter_type);
	const void *bytes;

	if (!bpf_core_field_exists(from->__iov) || from->count < GREETING_BYTES)
		return false;
	if (type == ITER_UBUF)
		bytes = BPF_CORE_READ(from, ubuf);
	else if (type == ITER_IOVEC)
		bytes = BPF_CORE_READ(from, __iov, iov_base);
	else
		return false;
	bytes += BPF_CORE_READ(from, iov_offset);
	return !bpf_probe_read_user(head, GREETING_BYTES, bytes);
}

/* Return true if they are the beginning of a client's preface: RFC 9113, section 3.4. */
static __always_inline bool greeting_asks_http2(const __u8 *head)
{
	return head[0] == 'P' && head[1] == 'R' && head[2] == 'I' && head[3] == ' ';
}

/* ... of a server's, which is a SETTINGS frame of stream 0. */
static __always_inline bool greeting_answers_http2(const __u8 *head)
{
	return !head[0] && head[3] == 4 && !head[5] && !head[6] && !head[7] && !head[8];
}

/* ... of a handshake in TLS: RFC 8446, section 5.1. */
static __always_inline bool greeting_begins_tls(const __u8 *head)
{
	return head[0] == 22 && head[1] == 3;
}

/*
 * ... of an error that ends the session: "Message Formats" and "Error and Notice Message Fields" of
 * the documentation of PostgreSQL.
 */
static __always_inline bool greeting_is_fatal(const __u8 *head)
{
	return head[0] == 'E' && !head[1] && !head[2] && head[5] == 'S' && head[6] == 'F' &&
	       head[7] == 'A' && head[8] == 'T';
}

/* A send call begins, with the socket locked. */
static __always_inline void greeting_note(const struct sock *sk, struct exchange *exchange,
					  const struct msghdr *msg)
{
	__u8 head[GREETING_BYTES] = {};

	if (exchange->greetings >= GREETINGS)
		return;
	exchange->greetings++;
	if (!greeting_read(msg, head))
		return;
	if (exchange->asks ? greeting_asks_http2(head) : greeting_answers_http2(head))
		exchange->multiplexed = true;
	if (greeting_begins_tls(head))
		exchange->handshake = TLS_PAIRS;
	if (exchange->serves && setting_waits && greeting_is_fatal(head))
		service_turns_away(sk, false);
}

#endif
