/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The filter expression in the form that programs evaluate: sockstamp-model's filter::Table. Parses
 * alone, like abi.h.
 */
#ifndef SOCKSTAMP_SELECT_FILTER_H
#define SOCKSTAMP_SELECT_FILTER_H

#ifdef __bpf__
#include "kernel/vmlinux.h"
#else
#include <linux/types.h>
#endif

/* The largest number of tests that sockstamp-model makes. */
#define FILTER_TESTS 64

enum filter_field {
	FILTER_PROTOCOL,
	FILTER_ADDRESS,
	FILTER_PORT,
};

enum filter_side {
	FILTER_SOURCE,
	FILTER_DESTINATION,
};

/* The step after a test: the index of a later one, or the end. */
enum filter_next {
	FILTER_ACCEPT = FILTER_TESTS,
	FILTER_REJECT,
};

struct filter_test {
	__u8 field;
	__u8 side;
	__u8 on_true;
	__u8 on_false;
	__u16 first; /* lowest port, or the protocol */
	__u16 last;
	__u32 network[4]; /* network order, IPv4 in its place in IPv6 (::ffff:0:0/96) */
	__u32 mask[4];
};

#endif
