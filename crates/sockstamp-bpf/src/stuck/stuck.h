/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/* The layouts that the walk over sockets shares with user space. Parses alone, as abi.h does. */
#ifndef SOCKSTAMP_STUCK_STUCK_H
#define SOCKSTAMP_STUCK_STUCK_H

#include "abi/abi.h"
#include "unix/unix.h"

/* The ways in which tasks watch a socket, as bits. */
enum stuck_watch {
	STUCK_IN_CALL = 1, /* one sleeps in a call on this socket */
	STUCK_POLLS_IN = 2, /* one sleeps in poll() or select(), for data */
	STUCK_POLLS_OUT = 4, /* or for room */
	STUCK_EPOLL_IN = 8, /* an epoll instance watches it, whether or not a task sleeps there */
	STUCK_EPOLL_OUT = 16,
	STUCK_URING = 32, /* a request of io_uring waits for it */
	STUCK_EPOLL_SLEEPS = 64, /* a task sleeps in an epoll instance that watches it for data */
	STUCK_OTHERWISE = 128, /* in a way that is not known */
};

/*
 * A socket that may be waited on, as TCP knew it when the walk came by. Ages without a unit are
 * nanoseconds, and come from 32 bits of jiffies, which wrap after 49 days at 1000 Hz.
 */
struct stuck_socket {
	struct flow_identity flow; /* the process is one that holds it */
	struct wait_connection connection;
	char waiter_comm[COMM_LENGTH]; /* of the process of a task that sleeps for it */
	__u32 waiter_pid; /* 0: none is known to */
	__u32 watch; /* enum stuck_watch */
	__u64 socket; /* its address */
	__u64 now; /* CLOCK_MONOTONIC, as are the two in microseconds */
	__u64 first_sent_us; /* the first segment in flight, or the last acknowledged */
	__u64 delivered_us; /* the last acknowledgement of data, or the first segment in flight */
	__u64 oldest_ago; /* of a listener: since the oldest connection was established */
	__u64 acknowledged; /* bytes, in its life */
	__u32 syn_sent_ago_us; /* of a connection that is not established */
	__u32 backlog; /* of a listener: connections that are not accepted */
	__u32 copied_seq;
	__u32 write_seq;
	__u32 sends; /* segments with data that were sent */
	__u32 receives; /* and received */
	__s32 send_queue; /* bytes of memory, as sk_wmem_queued */
	__s32 send_buffer;
	__u8 state;
	__u8 shutdown;
	__u8 retransmits; /* in a row */
	__u8 listened; /* it listens, or was made by a socket that did */
	__u8 hole; /* segments wait for a missing one */
	__u8 pure_ack_last; /* the segment that last moved the window had no data behind it */
	__u8 write_pending; /* a call waits for room, or for the connection */
	__u8 no_space; /* a task was told that there is no room */
	__u8 syn_kept; /* no SYN has left this host */
	__u8 padding[7];
};

/* The ways in which a task may wait at a Unix socket. */
enum stuck_role {
	STUCK_END, /* of a connection: for data, or for room */
	STUCK_LISTENS, /* connections wait to be accepted */
	STUCK_CONNECTS, /* a task waits for room in the queue of a listener */
	STUCK_SENDS, /* or in that of a socket that reads datagrams */
};

/* A Unix socket that may be waited on, or a task that waits for room at one. */
struct stuck_unix {
	char path[UNIX_PATH_LENGTH]; /* of the service */
	__u32 path_bytes;
	char comm[COMM_LENGTH]; /* of the process that holds the socket */
	char waiter_comm[COMM_LENGTH]; /* of the process of a task that sleeps for it */
	__u32 pid;
	__u32 waiter_pid; /* 0: none is known to */
	__u32 listener; /* the process that began to listen, as SO_PEERCRED has it; 0: not known */
	__u32 netns;
	__u32 watch; /* enum stuck_watch */
	__u32 peer_watch; /* the same of the other end */
	__u32 unread; /* messages in the queue of the end that is waited for, or connections */
	__u32 limit; /* a queue is full above it */
	__u64 oldest; /* the address of the first of them */
	__u64 socket; /* its address */
	__u64 inode;
	__u64 peer_inode; /* 0: it has not been accepted */
	__u64 cookie;
	__u64 cgroup;
	__u64 now; /* CLOCK_MONOTONIC */
	__u64 slept; /* at least, since the task began to sleep */
	__u64 switches; /* its sleeps until now */
	__u8 role; /* enum stuck_role */
	__u8 asks; /* it has connected to the path */
	__u8 full; /* it has no room for what a task would send */
	__u8 padding[5];
};

#endif
