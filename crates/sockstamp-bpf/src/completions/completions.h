/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * Define the memory that the programs write and an application maps: plain types, parses alone.
 * Every word is written whole; crates/sockstamp/src/completions/area.rs reads it and repeats the
 * numbers.
 */
#ifndef SOCKSTAMP_COMPLETIONS_COMPLETIONS_H
#define SOCKSTAMP_COMPLETIONS_COMPLETIONS_H

/*
 * A range is an entry of the error queue. The queue merges completions that come in order, so few
 * ranges suffice.
 */
#define AREA_RANGES 32
/* Three stamps per message: room for about 80 messages between two reads. */
#define AREA_STAMPS 256

/* Sends whose buffers the kernel has released. */
struct area_range {
	unsigned long long ids; /* lower half: the first; upper half: the last; one word */
	unsigned long long copied; /* SO_EE_CODE_ZEROCOPY_COPIED of the entry */
};

enum area_clock {
	AREA_CLOCK_REALTIME,
	AREA_CLOCK_TAI,
	AREA_CLOCK_PHC,
};

struct area_stamp {
	unsigned int id;
	unsigned short kind; /* SCM_TSTAMP_* */
	unsigned short clock; /* enum area_clock */
	unsigned long long time_ns;
};

/*
 * The area of one socket. Element n of a ring is complete once the count is above n. It may be
 * replaced once the count reaches n plus the ring's length.
 */
struct area {
	unsigned long long ranges_written;
	unsigned long long stamps_written;
	unsigned long long torn; /* entries that left the queue while being read */
	unsigned long long selected; /* the last registration that is stamped without entries */
	unsigned long long reserved[4];
	struct area_range ranges[AREA_RANGES];
	struct area_stamp stamps[AREA_STAMPS];
};

#endif
