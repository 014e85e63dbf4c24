/* SPDX-License-Identifier: GPL-2.0-only */
/* Tell how a wait ends with its socket. */
#ifndef SOCKSTAMP_WAIT_ENDING_BPF_H
#define SOCKSTAMP_WAIT_ENDING_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"

/* include/uapi/asm-generic/errno-base.h, errno.h */
#define EPERM	     1
#define EAGAIN	     11
#define EACCES	     13
#define EPIPE	     32
#define ENETUNREACH  101
#define ECONNABORTED 103
#define ECONNRESET   104
#define ETIMEDOUT    110
#define ECONNREFUSED 111
#define EHOSTUNREACH 113

/* Return true if what was waited for never came. A question that was asked again goes on. */
static __always_inline bool end_fails(enum end end)
{
	return end != END_OPEN && end != END_DATA && end != END_ASKED_AGAIN;
}

/*
 * Return how a connection ended, by the error of its socket: it is set before the state
 * (tcp_done_with_error(), net/ipv4/tcp_input.c, v6.18). A program that closes it sets none, nor
 * does one that has it aborted set another (tcp_abort()). Errors that are not listed come from
 * routers (icmp_err_convert, net/ipv4/icmp.c).
 */
static __always_inline enum end end_by_error(int error)
{
	switch (error) {
	case 0:
	case ECONNABORTED:
		return END_GIVEN_UP;
	case ECONNRESET:
	case EPIPE:
		return END_RESET;
	case ECONNREFUSED:
		return END_REFUSED;
	case ETIMEDOUT:
		return END_TIMED_OUT;
	case EPERM:
	case EACCES:
		return END_DENIED;
	}
	return END_UNREACHABLE;
}

#endif
