/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What sockstamps know of each other's sockets. Each that selects some has a map of marks, socket
 * storage, all of one name, of which the kernel keeps 15 characters. The first byte of a mark is
 * its kind, in every version.
 */
#ifndef SOCKSTAMP_MARK_BPF_H
#define SOCKSTAMP_MARK_BPF_H

#define MARKS_NAME "sockstamp_marks"

enum mark_kind {
	MARK_LISTENER = 1, /* of a selected task: what it accepts inherits the mark */
	MARK_SELECTED, /* its SK_BPF_CB_TX_TIMESTAMPING stays until nobody has this mark on it */
	MARK_HELD, /* a connection that a selected task has open: to be adopted */
	MARK_DATAGRAM, /* a selected UDP socket */
};

#endif
