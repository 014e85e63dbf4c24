/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/* The layouts that the programs for Unix sockets share with user space. Parses alone, as abi.h. */
#ifndef SOCKSTAMP_UNIX_UNIX_H
#define SOCKSTAMP_UNIX_UNIX_H

#include "abi/abi.h"

/* Bytes of a path, or of an abstract name: include/uapi/linux/un.h. */
#define UNIX_PATH_LENGTH 108

/* The end that asks, and the service that it asks. */
struct unix_ends {
	char path[UNIX_PATH_LENGTH]; /* of the socket that the peer was accepted from */
	__u32 path_bytes; /* the zero of a path may be one of them */
	char comm[COMM_LENGTH]; /* of the process that asks */
	__u32 pid; /* ... */
	__u32 netns; /* of its socket */
	__u32 listener; /* the process that began to listen, as SO_PEERCRED has it; 0: not known */
	__u32 padding;
	__u64 socket; /* that asks: its address */
	__u64 inode; /* ... */
	__u64 cookie; /* ... */
	__u64 cgroup; /* ... */
};

/* The questions of a connection, and their answers. */
struct unix_course {
	__u64 since; /* when the open question's last part was sent; 0: none is open */
	__u64 bytes; /* of that question */
	__u64 heard; /* when bytes last came */
	__u64 unasked; /* when bytes came without a question */
	__u64 answered; /* answers that are known to be their questions' */
	__u64 failed; /* questions that ended otherwise */
	__u64 sum_ns; /* of the times of these answers */
	__u8 doubted; /* what is sent may be no question */
	__u8 watched; /* a task sleeps for it, or an event loop has it: at the last look */
	__u8 unused[6];
};

/* A connection of the target's, from its first question on. */
struct unix_flow {
	struct unix_ends ends;
	struct unix_course course;
};

/* A question whose answer came late, or that ended otherwise. */
struct unix_wait {
	struct unix_ends ends;
	__u64 since;
	__u64 lasted;
	__u64 bytes;
	__u32 server; /* the process that answered; 0: none did */
	__u32 end; /* enum end */
	char server_comm[COMM_LENGTH];
};

#endif
