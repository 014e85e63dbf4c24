/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Adopt existing connections. The hooks are in place when they are walked, and the iterator holds
 * the lock of the socket that it shows (lock_sock() in bpf_iter_tcp_seq_show(), v6.5). A connection
 * that is being established meanwhile is therefore selected once, by the first of the two, and
 * nothing that is measured later has begun before.
 */
#ifndef SOCKSTAMP_TCP_FLOWS_ADOPT_BPF_H
#define SOCKSTAMP_TCP_FLOWS_ADOPT_BPF_H

#include "tcp/flows/select.bpf.h"
#include "tcp/flows/sockets.bpf.h"
#include "tcp/receive/read.bpf.h"
#include "tcp/tag/tag.bpf.h"

/* Flows selected by adopt_flows(), of which one runs at a time. */
__u64 adopted_flows;
/*
 * Until when it selects any, by CLOCK_MONOTONIC: user space, while it waits. A walk that was left
 * behind at a locked socket must select none when it goes on.
 */
volatile __u64 adopt_until_ns;

/*
 * Connections over which messages may still go. A request and a connection of TCP Fast Open that is
 * not yet acknowledged (SYN_RECV) come to the hooks; one closed on both sides carries nothing more.
 */
static __always_inline bool adoptable(const struct sock *sk)
{
	switch (sk->__sk_common.skc_state) {
	case TCP_ESTABLISHED:
	case TCP_SYN_SENT:
	case TCP_FIN_WAIT1:
	case TCP_FIN_WAIT2:
	case TCP_CLOSE_WAIT:
		return sk->sk_shutdown != SHUTDOWN_MASK;
	}
	return false;
}

/*
 * Allocate state at once for messages under way, so that they are refused when they end: a send
 * that waits for memory, whose entry was not seen; bytes whose arrival was not seen, after a
 * missing segment or not.
 */
static __always_inline void adopt_messages_under_way(const struct sock *sk,
						     const struct tcp_sock *tp)
{
	bool sending = sk->__sk_common.skc_state != TCP_SYN_SENT && sk->sk_write_pending;
	bool unread = tp->rcv_nxt != tp->copied_seq;
	bool gap = tp->out_of_order_queue.rb_node;
	struct flow *flow;

	if (!sending && !unread && !gap)
		return;
	flow = flow_create(sk, tp->copied_seq);
	if (!flow)
		return;
	if (sending)
		flow->tx.crowded = TX_ADOPTED;
	flow->rx.gap = gap;
	if (gap)
		hol_adopt(&flow->rx, tp);
	if (unread)
		rx_adopt_unread(&flow->rx, tp->rcv_nxt);
}

/*
 * Adopt established connections that were not accepted yet: no file leads to them. The listener is
 * not known either, so any listener on the port counts; of these too, only messages of selected
 * tasks are measured.
 */
static __always_inline bool waits_for_accept(const struct sock *sk)
{
	struct listening address = listening_address(sk);

	return !sk->sk_socket && bpf_map_lookup_elem(&listening, &address);
}

/*
 * Return which end opened a connection. An accepted socket is a copy of its listener, with the
 * length of the listener's queue (inet_csk_clone_lock(), net/ipv4/inet_connection_sock.c, v6.18),
 * which others do not have, unless it is 0.
 */
static __always_inline enum opened_by opened_before(const struct sock *sk)
{
	struct listening address = listening_address(sk);

	if (untrusted(sk, struct sock)->sk_max_ack_backlog)
		return OPENED_BY_PEER;
	return bpf_map_lookup_elem(&without_queue, &address) ? OPENED_BEFORE : OPENED_BY_US;
}

static __always_inline void adopt(struct tcp_sock *tp)
{
	const struct sock *sk = (struct sock *)tp;
	__u8 directions;
	struct mark *mark = bpf_sk_storage_get(&sockstamp_marks, tp, 0, 0);

	if (mark ? mark->kind == MARK_SELECTED || mark->kind == MARK_OWN :
		   setting_by_pid && !waits_for_accept(sk))
		return;
	directions = cgroup_selected(sk) ? flow_directions(sk) : 0;
	if (!directions)
		return;
	if (bpf_core_field_exists(tp->is_mptcp) && tp->is_mptcp) {
		count_loss(LOSS_MPTCP);
		return;
	}
	mark = bpf_sk_storage_get(&sockstamp_marks, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!mark || !mark_request_callbacks(mark, tp, tp)) {
		count_loss(LOSS_FLOW);
		return;
	}
	if (setting_record || setting_groups & GROUP_BY_FLOW)
		bpf_get_socket_cookie(tp);
	mark_flow_selected(mark, tp, directions);
	mark->adopted = true;
	mark->opened_by = opened_before(sk);
	adopted_flows++;
	adopt_messages_under_way(sk, tp);
	if (setting_tag)
		tag_request(tp, sk, mark);
}

static __always_inline void adopt_flow(struct sock_common *common)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(common);

	if (!tp)
		return;
	/* The walk comes to listeners first: tcp_get_idx(), net/ipv4/tcp_ipv4.c, v6.18. */
	if (common->skc_state == TCP_LISTEN)
		note_without_queue((struct sock *)tp);
	if (!adoptable((struct sock *)tp) || bpf_ktime_get_ns() > adopt_until_ns)
		return;
	visited_sockets++;
	adopt(tp);
}

#endif
