/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Select flows to watch, once per flow. The result is a bit on the socket (sk_bpf_cb_flags, v6.15),
 * so that a packet of any other flow costs one bit test, and the state of the flow in socket
 * storage, which is freed with the socket. Without the bit, the test is whether the socket has any
 * storage of that kind.
 */
#ifndef SOCKSTAMP_TCP_FLOWS_SELECT_BPF_H
#define SOCKSTAMP_TCP_FLOWS_SELECT_BPF_H

#include "connection/connection.bpf.h"
#include "drops/drops.bpf.h"
#include "group/resolve.bpf.h"
#include "ledger/ledger.bpf.h"
#include "select/asked.bpf.h"
#include "select/select.bpf.h"
#include "tcp/flow.bpf.h"
#include "tcp/moved.bpf.h"
#include "tcp/send/resent.bpf.h"

/* Mark the socket, which is locked: bytes sent or received from here on belong to the flow. */
static __always_inline void mark_flow_selected(struct mark *mark, const struct tcp_sock *tp,
					       __u8 directions)
{
	mark->directions = directions;
	mark->kind = MARK_SELECTED;
	mark->adopted = false;
	mark->tx_seq = tp->write_seq;
	mark->ooopack = tp->rcv_ooopack;
	mark->retransmits = tp->total_retrans;
	mark->needless = flow_needless(tp);
	mark->segments = tp->data_segs_out;
	mark->moved[DIRECTION_TX] =
		tcp_bytes_written(tp, ((const struct sock *)tp)->__sk_common.skc_state);
	mark->moved[DIRECTION_RX] = tcp_bytes_read((const struct sock *)tp, tp, false);
}

static __always_inline void flow_count_moved(struct bank *bank, struct mark *mark,
					     const struct sock *sk, const struct tcp_sock *tp,
					     bool closes)
{
	const struct sock *plain = untrusted(sk, struct sock);
	__u64 written = tcp_bytes_written(tp, plain->__sk_common.skc_state);
	__u64 read = tcp_bytes_read(plain, tp, closes);

	if (mark_measures(mark, DIRECTION_TX))
		count(&bank->moved[DIRECTION_TX], written - mark->moved[DIRECTION_TX]);
	if (mark_measures(mark, DIRECTION_RX))
		count(&bank->moved[DIRECTION_RX], read - mark->moved[DIRECTION_RX]);
}

/*
 * Count what a selected flow has sent, once: when it closes, or at the end of the measurement. So
 * no packet pays for it.
 */
static __always_inline void flow_count_traffic(struct mark *mark, const struct sock *sk,
					       const struct tcp_sock *tp, bool closes)
{
	struct bank *bank = this_bank();

	if (!bank || mark->kind != MARK_SELECTED || !mark->directions)
		return;
	if (setting_windows)
		flow_count_moved(bank, mark, sk, tp, closes);
	if (!mark_measures(mark, DIRECTION_TX))
		return;
	count(&bank->segments, (__u32)(tp->data_segs_out - mark->segments));
	flow_count_needless(bank, mark, sk, tp);
}

/* Return true if a FIN went in one direction, and data may still go in the other. */
static __always_inline bool half_closed(int state)
{
	return state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 || state == TCP_CLOSE_WAIT;
}

/* Have the socket call back, in the ways that are used. */
static __always_inline bool mark_request_callbacks(struct mark *mark, void *socket,
						   const struct tcp_sock *tp)
{
	bool released = window_asks_by_walk(&((const struct sock *)tp)->__sk_common);
	__u8 wanted = released ? ASKED_STATES : ASKED_STAMPS | ASKED_STATES;

	if (setting_receive_bit)
		wanted |= ASKED_READS;
	if (setting_entry_callback)
		wanted |= ASKED_ENTRY;
	if (half_closed(((const struct sock *)tp)->__sk_common.skc_state))
		wanted |= ASKED_SEGMENTS;
	if (setting_tag)
		wanted |= ASKED_TAGS;
	if (setting_bit && !tcp_callbacks_request(socket, tp, wanted, &mark->asked))
		return false;
	mark_set_released(mark, released);
	return true;
}

/*
 * tcp_set_state(), with the socket locked: tcp_probe is silent from here on, so have the socket
 * call back for each segment (bpf_skops_parse_hdr(), net/ipv4/tcp_input.c, v6.18). Where that fails
 * nothing wrong follows: what needs to know of segments is refused.
 */
static __always_inline void flow_half_closes(struct bpf_sock_ops *ctx, const struct sock *sk)
{
	struct mark *mark;

	if (!half_closed(ctx->args[1]))
		return;
	mark = flow_mark_lookup(sk);
	if (mark)
		tcp_callbacks_request(ctx, tcp_of(sk), ASKED_SEGMENTS, &mark->asked);
}

/*
 * Return which end opens a connection. A socket that is restored (TCP_REPAIR) connects without a
 * SYN, at either end (tcp_connect(), net/ipv4/tcp_output.c, v6.18).
 */
static __always_inline enum opened_by flow_opened_by(const struct bpf_sock_ops *ctx,
						     const struct tcp_sock *tp)
{
	if (ctx->op != BPF_SOCK_OPS_TCP_CONNECT_CB)
		return OPENED_BY_PEER;
	return BPF_CORE_READ_BITFIELD(tp, repair) ? OPENED_BEFORE : OPENED_BY_US;
}

/*
 * Runs before the flow's first data segment, in either direction: in tcp_connect() and at the end
 * of the handshake of a passive open (net/ipv4/tcp_output.c and tcp_input.c, v6.18).
 */
static __always_inline void flow_select(struct bpf_sock_ops *ctx, const struct sock *kernel_sk)
{
	const struct tcp_sock *tp = tcp_of(kernel_sk);
	struct bpf_sock *sk = ctx->sk;
	struct bank *bank = this_bank();
	struct mark *mark;
	__u8 directions;

	if (!sk || !bank)
		return;
	directions = flow_directions(kernel_sk);
	if (!directions)
		return;
	if (bpf_core_field_exists(tp->is_mptcp) && tp->is_mptcp) {
		count_loss(LOSS_MPTCP);
		return;
	}
	mark = bpf_sk_storage_get(&sockstamp_marks, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!mark || !mark_request_callbacks(mark, ctx, tp)) {
		count_loss(LOSS_FLOW);
		return;
	}
	/* Read the cookie now: the kernel assigns it at the first request. */
	if (setting_record || setting_groups & GROUP_BY_FLOW)
		bpf_get_socket_cookie(ctx);
	mark_flow_selected(mark, tp, directions);
	mark->opened_by = flow_opened_by(ctx, tp);
	connection_begins(mark, kernel_sk);
	/* SYN-ACKs sent again before the socket existed: tcp_create_openreq_child(), v6.18. */
	if (tp->total_retrans && mark_measures(mark, DIRECTION_TX))
		account_retransmits(bank, group_of_socket(NULL, kernel_sk), tp->total_retrans,
				    RESENT_SYN);
}

/* The last descriptor of a socket is closed: nothing will be read that is unread. */
static __always_inline void flow_socket_released(struct bpf_sock *sk)
{
	struct flow *flow;

	if (sk->protocol != IPPROTO_TCP)
		return;
	flow = bpf_sk_storage_get(&flows, sk, 0, 0);
	if (flow)
		receiving_clear(flow->rx.key);
}

/* A socket may be connected again (connect(2), AF_UNSPEC): nothing holds from before. */
static __always_inline void flow_disconnected(struct bpf_sock *sk)
{
	struct mark *mark = bpf_sk_storage_get(&sockstamp_marks, sk, 0, 0);
	struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);

	if (flow)
		flow_end(flow);
	bpf_sk_storage_delete(&flows, sk);
	if (mark) {
		mark->directions = 0;
		mark->opening.began = 0;
		mark->tag.state = TAG_NONE;
		mark->tag.shift = 0;
		mark->tag.seen = false;
	}
}

static __always_inline void flow_active_open(struct bpf_sock_ops *ctx, const struct sock *sk)
{
	struct bpf_sock *connecting = ctx->sk;

	if (connecting)
		flow_disconnected(connecting);
	if (connecting && task_spared(bpf_get_current_task_btf()))
		mark_sockstamp_socket(connecting);
	else if (pid_selected(current_process()))
		flow_select(ctx, sk);
}

/* The SYN has its sequence number by now. Data that went with it (RFC 7413) got no callback. */
static __always_inline void flow_active_established(const struct sock *sk)
{
	struct bank *bank = this_bank();
	struct mark *mark;

	if (!bank || !sock_may_be_selected(sk))
		return;
	mark = flow_mark_lookup(sk);
	if (!mark || !mark_measures(mark, DIRECTION_TX))
		return;
	connection_ends(mark, sk, VERDICT_VALID);
	mark->tx_seq = tcp_of(sk)->write_seq;
	mark->moved[DIRECTION_TX] = tcp_bytes_written(tcp_of(sk), TCP_ESTABLISHED);
	if (!mark->adopted && BPF_CORE_READ_BITFIELD(tcp_of(sk), syn_data))
		account_missed(bank, group_of_socket(NULL, sk), DIRECTION_TX, VERDICT_FAST_OPEN, 1);
}

/*
 * A socket that sent a SYN itself, and got one before an answer (both ends connect, or it connects
 * to itself), is called so too: tcp_rcv_state_process(), net/ipv4/tcp_input.c, v6.18. It has a
 * file, which one that is to be accepted has not yet.
 */
static __always_inline void flow_passive_established(struct bpf_sock_ops *ctx,
						     const struct sock *sk)
{
	struct bpf_sock *accepted = ctx->sk;
	struct mark *inherited = NULL;

	if (!accepted)
		return;
	if (connection_accepted(sk)) {
		flow_active_established(sk);
		return;
	}
	if (setting_by_pid || setting_spare_own)
		inherited = bpf_sk_storage_get(&sockstamp_marks, accepted, 0, 0);
	if (inherited ? inherited->kind == MARK_OWN : setting_by_pid)
		return;
	if (dropped_syns)
		drop_came_through(sk);
	flow_select(ctx, sk);
}

/* A task asks for the address of a socket's peer, with the socket locked: inet_getname(), v6.18. */
static __always_inline void flow_getpeername(const struct sock *sk)
{
	struct mark *mark = flow_mark_lookup(sk);

	if (!mark || !mark->opening.began || mark->opened_by != OPENED_BY_PEER || !accepting())
		return;
	connection_task(&mark->opening, sk);
	if (pid_selected(mark->opening.pid))
		connection_ends(mark, sk, VERDICT_VALID);
	else
		mark->opening.began = 0;
}

static __always_inline void flow_listen(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	if (!sk)
		return;
	if (task_spared(bpf_get_current_task_btf()))
		mark_sockstamp_socket(sk);
	else if (setting_by_pid && pid_selected(current_process()))
		mark_listener(sk);
}

#endif
