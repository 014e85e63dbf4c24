/* SPDX-License-Identifier: GPL-2.0-only */
/* A flow whose socket closes. */
#ifndef SOCKSTAMP_TCP_EVENTS_CLOSE_BPF_H
#define SOCKSTAMP_TCP_EVENTS_CLOSE_BPF_H

#include "histogram/histogram.bpf.h"
#include "kernel/kernel.bpf.h"
#include "select/select.bpf.h"
#include "tcp/flow.bpf.h"
#include "tcp/flows/select.bpf.h"
#include "tcp/receive/read.bpf.h"
#include "tcp/receiving.bpf.h"
#include "tcp/send/end.bpf.h"

static __always_inline void flow_close(const struct sock *sk)
{
	struct mark *mark = flow_mark_lookup(sk);
	struct bank *bank = this_bank();
	const struct sock *closed;
	const struct tcp_sock *tp;
	struct flow *flow;
	bool read;

	if (mark)
		flow_count_traffic(mark, sk, tcp_of(sk), true);
	flow = flow_lookup(sk);
	if (!flow || !bank)
		return;
	/* The other programs may be gone: what became of messages in flight is not known. */
	if (stopping)
		return;
	tx_refuse_in_flight(bank, sk, flow);
	rx_account_unseen_read(bank, sk, flow);
	flow_end(flow);
	tp = tcp_of(sk);
	read = rx_saw_all_reads(sk, tp->rcv_nxt, flow->rx.done);
	/*
	 * Keep the state while bytes can still be read; it goes with the socket. A closed socket
	 * has thrown away what was not read: tcp_close(), v6.18. One that was never accepted has no
	 * reader.
	 */
	closed = untrusted(sk, struct sock);
	if (!read && closed->sk_socket &&
	    (void *)closed->sk_receive_queue.next != (void *)&closed->sk_receive_queue)
		return;
	receiving_clear(flow->rx.key);
	bpf_sk_storage_delete(&flows, (void *)sk);
}

#endif
