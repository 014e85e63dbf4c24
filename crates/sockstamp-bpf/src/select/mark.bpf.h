/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Let sockstamps recognise each other's sockets. Each has a map of marks, in socket storage, all of
 * one name, of which the kernel keeps 15 characters. In every version the first byte of a mark is
 * its kind, and the second the bits that it must restore.
 */
#ifndef SOCKSTAMP_SELECT_MARK_BPF_H
#define SOCKSTAMP_SELECT_MARK_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"

#define MARKS_NAME "sockstamp_marks"

#define MARK_ASKED 1 /* where those are */

/* Bits that a sockstamp asks of a socket (asked.bpf.h). */
enum asked {
	ASKED_STAMPS = 1 << 0, /* SK_BPF_CB_TX_TIMESTAMPING */
	ASKED_ENTRY = 1 << 1, /* BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG */
	ASKED_STATES = 1 << 2, /* BPF_SOCK_OPS_STATE_CB_FLAG */
	ASKED_SEGMENTS = 1 << 3, /* BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG */
	ASKED_TAGS = 1 << 4, /* BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG */
	ASKED_READS = 1 << 5, /* SK_BPF_CB_RX, of kernel/series */
	ASKED_PACKETS = 1 << 6, /* SK_BPF_CB_TX_EVERY_SKB, of kernel/series */
};

enum mark_kind {
	MARK_LISTENER = 1, /* of a selected task: what it accepts inherits the mark */
	MARK_SELECTED,
	MARK_HELD, /* a connection that a selected task has open: to be adopted */
	MARK_DATAGRAM, /* a selected UDP socket */
	MARK_OWN, /* of a sockstamp, not to be selected, and what a listener accepts neither */
};

/* A connection that is being opened. Written under the socket lock. */
struct opening {
	__u64 began; /* connect(), or a peer's handshake ended; 0: ended, or never seen */
	__u64 again; /* when a SYN was last retransmitted; 0: never, or the first was answered */
	__u32 group; /* token of the connecting task's group */
	__u32 pid; /* of the connecting task */
	char comm[COMM_LENGTH]; /* only where records are sent */
};

enum tag_state {
	TAG_NONE,
	TAG_WANTED, /* the kernel asks for options, and the next segment with room gets a tag */
	TAG_RESERVED, /* the segment that is being sent has the room */
	TAG_SENT, /* with data, which may have to be sent again */
};

/* The tags of a connection: those that it writes, and those that it read (tcp/tag). */
struct tagging {
	__u64 written; /* when the last one was; 0: never */
	__u32 shift; /* numbers of received bytes less the sender's own */
	__u32 seq; /* of the segment with the last one */
	__u8 state; /* enum tag_state */
	__u8 tries; /* segments without room, since it was wanted */
	__u8 seen; /* `shift` is known */
	__u8 misses; /* callbacks for options since the last tag that was read */
};

struct mark {
	__u8 kind; /* this byte and the next are read by others, too */
	__u8 asked; /* enum asked */
	__u8 adopted; /* the flow was there before us */
	__u8 holds; /* a connected UDP socket: no hook but those of its packets shows its sends */
	__u32 retransmits; /* how much of the kernel's count is in ours */
	__u32 needless; /* ... of those that were needless: flow_needless() */
	__u32 segments; /* how much of data_segs_out is in ours, or is from before */
	__u64 moved[DIRECTION_COUNT]; /* ... of the bytes written, and read */
	__u32 tx_seq; /* where the first message starts */
	__u32 ooopack; /* segments that had come out of order when the flow was selected */
	__u8 directions; /* bits of those whose messages are measured; 0: of none any more */
	__u8 opened_by; /* enum opened_by */
	__u8 released; /* the bit is given back until the next window */
	struct opening opening;
	struct tagging tag;
};

#endif
