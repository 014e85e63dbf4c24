/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Let sockstamps recognise each other's sockets. Each has a map of marks, in socket storage, all of
 * one name, of which the kernel keeps 15 characters. In every version the first byte of a mark is
 * its kind, and the second the bits that it must restore.
 */
#ifndef SOCKSTAMP_FLOW_MARK_BPF_H
#define SOCKSTAMP_FLOW_MARK_BPF_H

#define MARKS_NAME "sockstamp_marks"

#define MARK_ASKED 1 /* where those are */

/* Bits that a sockstamp asks of a socket (asked.bpf.h). */
enum asked {
	ASKED_STAMPS = 1 << 0, /* SK_BPF_CB_TX_TIMESTAMPING */
	ASKED_ENTRY = 1 << 1, /* BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG */
	ASKED_STATES = 1 << 2, /* BPF_SOCK_OPS_STATE_CB_FLAG */
	ASKED_SEGMENTS = 1 << 3, /* BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG */
	ASKED_TAGS = 1 << 4, /* BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG */
	ASKED_READS = 1 << 5, /* SK_BPF_CB_RX_TIMESTAMPING, of kernel/series */
	ASKED_PACKETS = 1 << 6, /* SK_BPF_CB_TX_EVERY_SKB, of kernel/series */
};

enum mark_kind {
	MARK_LISTENER = 1, /* of a selected task: what it accepts inherits the mark */
	MARK_SELECTED,
	MARK_HELD, /* a connection that a selected task has open: to be adopted */
	MARK_DATAGRAM, /* a selected UDP socket */
	MARK_OWN, /* of a sockstamp, not to be selected, and what a listener accepts neither */
};

#endif
