// SPDX-License-Identifier: GPL-2.0-only
/* The programs: each a thin wrapper over the feature that it serves. Reject first. */
#include "kernel/kernel.bpf.h"
#include "connection/untried.bpf.h"
#include "drops/drops.bpf.h"
#include "neighbour/neighbour.bpf.h"
#include "tcp/flows/adopt.bpf.h"
#include "tcp/flows/select.bpf.h"
#include "tcp/flows/sockets.bpf.h"
#include "tcp/gap/release.bpf.h"
#include "tcp/gap/reset.bpf.h"
#include "tcp/receive/read.bpf.h"
#include "tcp/send/by_packets.bpf.h"
#include "tcp/send/queued.bpf.h"
#include "tcp/tag/tag.bpf.h"
#include "tcp/silence.bpf.h"
#include "tcp/turned_away.bpf.h"
#include "tcp/unanswered.bpf.h"
#include "udp/receive.bpf.h"
#include "udp/select.bpf.h"
#include "udp/send.bpf.h"
#include "wait/wait.bpf.h"

/*
 * Callbacks that need much of the stack are functions of their own, so that what each needs does
 * not add up: the verifier allows 512 bytes for a program and what it calls.
 */
static __noinline int on_stamp(struct bpf_sock_ops *ctx, struct bpf_sock_ops_kern *kern,
			       const struct sock *sock)
{
	struct bpf_sock *sk = ctx->sk;
	const struct sk_buff *skb;
	struct flow *flow;

	if (!sk)
		return 0;
	/* Messages that are still under way end, all the same. */
	if (window_detached() && ctx->op != BPF_SOCK_OPS_TSTAMP_ACK_CB)
		return 0;
	flow = bpf_sk_storage_get(&flows, sk, 0, 0);
	/* Where no hook shows the entry of a send, this may be the flow's first event. */
	if (!flow && !setting_entry && ctx->op == BPF_SOCK_OPS_TSTAMP_SENDMSG_CB)
		flow = flow_create(sock, tcp_of(sock)->copied_seq);
	/* Another user of BPF timestamping selected this socket. */
	if (!flow)
		return 0;
	skb = kern->skb;
	if (ctx->op == BPF_SOCK_OPS_TSTAMP_SENDMSG_CB)
		tx_sendmsg_callback(kern, sock, skb, flow);
	else if (!setting_by_packets)
		tx_timestamp_callback(sock, skb, ctx->op, flow);
	else if (setting_nic_interval && ctx->op == BPF_SOCK_OPS_TSTAMP_SND_HW_CB)
		tx_nic_stamped(sock, skb, flow);
	return 0;
}

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

/* Return true if the event was the beginning of a connection. */
static __always_inline bool on_connection(struct bpf_sock_ops *ctx, const struct sock *sk)
{
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		flow_active_open(ctx, sk);
		return true;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		flow_active_established(sk);
		tag_established(ctx, sk);
		return true;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		flow_passive_established(ctx, sk);
		tag_established(ctx, sk);
		return true;
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		flow_listen(ctx);
		return true;
	}
	return false;
}

/* Return true if a flow without state has a message under way, or begins one, after a gap. */
static __always_inline bool window_meets(const struct sock *sk, const struct tcp_skb_cb *cb)
{
	return setting_windows && window.number && (cb->seq != cb->end_seq || sk->sk_write_pending);
}

static __always_inline void on_segment(const struct sock *sk, const struct sk_buff *skb)
{
	const struct tcp_skb_cb *cb = skb_tcp(skb);
	struct flow *flow = flow_lookup(sk);

	if (window_detached())
		return;
	/*
	 * The first data of the flow may come behind a missing segment, or after a gap between
	 * windows: what is to be refused must be known.
	 */
	if (!flow && (seq_after(cb->seq, tcp_of(sk)->rcv_nxt) || window_meets(sk, cb)))
		flow = flow_lookup_or_create(sk);
	if (!flow)
		return;
	flow_reset_if_after_gap(flow, sk->sk_lock.owned);
	if (cb->seq != cb->end_seq && flow_measures(flow, DIRECTION_RX))
		hol_segment_arrives(tcp_of(sk), flow, skb, cb);
	network_note_segment(tcp_of(sk), flow, cb);
	tx_update_departures(sk, flow);
	cause_segment_arrives(sk, flow);
	tx_segment_acks(sk, flow, skb, cb);
}

/* The callback for the options of a segment. */
static __noinline int on_segment_callback(const struct sock *sk, const struct sk_buff *skb)
{
	on_segment(sk, skb);
	return 0;
}

/* A connection begins, as in on_connections(). */
static __noinline int on_connection_callback(struct bpf_sock_ops *ctx, const struct sock *sk)
{
	return on_connection(ctx, sk);
}

/* Callbacks that are not for messages, and those for options. */
static __noinline int on_other_callback(struct bpf_sock_ops *ctx, struct bpf_sock_ops_kern *kern,
					const struct sock *sk)
{
	switch (ctx->op) {
	case BPF_SOCK_OPS_STATE_CB:
		flow_half_closes(ctx, sk);
		break;
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB:
		/* Those of an established connection are tcp_probe's. */
		if (sock_transfers_unprobed(sk))
			on_segment_callback(sk, kern->skb);
		if (setting_tag)
			tag_read(ctx, kern);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		if (setting_entry_callback && ctx->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS)
			tx_mss_callback(sk);
		if (setting_tag && ctx->args[0] != BPF_WRITE_HDR_TCP_CURRENT_MSS)
			tag_reserve(ctx, kern);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		if (setting_tag)
			tag_write(ctx, kern);
		break;
	}
	return 0;
}

static __always_inline bool is_stamp(const struct bpf_sock_ops *ctx)
{
	switch (ctx->op) {
	case BPF_SOCK_OPS_TSTAMP_SENDMSG_CB:
	case BPF_SOCK_OPS_TSTAMP_SCHED_CB:
	case BPF_SOCK_OPS_TSTAMP_SND_SW_CB:
	case BPF_SOCK_OPS_TSTAMP_SND_HW_CB:
	case BPF_SOCK_OPS_TSTAMP_ACK_CB:
		return true;
	}
	return false;
}

/*
 * The socket is looked up once: for each load of a pointer from the context the verifier searches
 * all types of the kernel, as untrusted() says.
 */
SEC("sockops")
int on_sockops(struct bpf_sock_ops *ctx)
{
	struct bpf_sock_ops_kern *kern = bpf_cast_to_kern_ctx(ctx);
	const struct sock *sk = kern->sk;

	/* Those of each message come first. */
	if (is_stamp(ctx))
		on_stamp(ctx, kern, sk);
	else if (!on_connection_callback(ctx, sk))
		on_other_callback(ctx, kern, sk);
	return 1;
}

#ifdef SOCKSTAMP_SERIES
/*
 * Numbers of callbacks that kernel/series adds, as in the running kernel; 0: not used. Those of
 * receiving replace tracepoints that run for every segment and every read.
 */
const volatile __u32 setting_begin_callback; /* a send call of TCP begins */
const volatile __u32 setting_segment_callback;
const volatile __u32 setting_ready_callback;
const volatile __u32 setting_read_callback;
const volatile __u32 setting_datagram_callback; /* a send call of UDP begins */
const volatile __u32 setting_end_callback; /* ... and ends */
const volatile __u32 setting_bound_callback; /* a UDP socket has got its port */

/* A selected UDP socket calls back. */
static __noinline int on_datagram_callback(struct bpf_sock_ops *ctx)
{
	struct bpf_sock_ops_kern *kern = bpf_cast_to_kern_ctx(ctx);
	const struct sk_buff *skb = kern->skb;
	struct sock *sk = kern->sk;

	if (!udp_selectable(sk))
		return 0;
	if (ctx->op == setting_datagram_callback) {
		udp_sendmsg_begins(sk, NULL);
	} else if (ctx->op == setting_ready_callback) {
		udp_datagram_arrives(sk, NULL, skb, sk);
	} else if (demand_met(DEMAND_DATAGRAMS)) {
		if (ctx->op == BPF_SOCK_OPS_TSTAMP_SCHED_CB)
			udp_packet_to_qdisc(sk, skb);
		else if (ctx->op == BPF_SOCK_OPS_TSTAMP_SND_SW_CB)
			udp_packet_to_driver(sk, skb, skb->dev);
	}
	return 0;
}

/* Those that on_datagram_callback() has no room for on its stack. */
static __noinline int on_datagram_end(struct bpf_sock_ops *ctx)
{
	struct bpf_sock_ops_kern *kern = bpf_cast_to_kern_ctx(ctx);

	if (udp_selectable(kern->sk))
		udp_send_call_ends(kern->sk, ctx->args[0]);
	return 0;
}

static __noinline int on_datagram_consumed(struct bpf_sock_ops *ctx)
{
	struct bpf_sock_ops_kern *kern = bpf_cast_to_kern_ctx(ctx);

	if (udp_selectable(kern->sk) && !ctx->args[1])
		udp_datagram_consumed(kern->sk, kern->skb, ctx->args[0]);
	return 0;
}

static __noinline int on_datagram_bound(struct bpf_sock_ops *ctx)
{
	struct bpf_sock_ops_kern *kern = bpf_cast_to_kern_ctx(ctx);

	if (udp_selectable(kern->sk))
		udp_gets_port(ctx, kern->sk);
	return 0;
}

/* The callback before sk_data_ready(). */
static __noinline int on_ready_callback(const struct sock *sk)
{
	rx_data_ready(sk);
	return 0;
}

/* The callback at the end of a read. */
static __noinline int on_read_callback(struct bpf_sock_ops *ctx, const struct sock *sk)
{
	if (!ctx->args[1])
		rx_recvmsg_ends(sk, ctx->args[0]);
	return 0;
}

/* Return true if the event was a callback of receiving, with the socket locked. */
static __always_inline bool on_receive(struct bpf_sock_ops *ctx, struct bpf_sock_ops_kern *kern,
				       const struct sock *sk)
{
	if (setting_segment_callback && ctx->op == setting_segment_callback)
		on_segment_callback(sk, kern->skb);
	else if (ctx->op == setting_ready_callback)
		on_ready_callback(sk);
	else if (ctx->op == setting_read_callback)
		on_read_callback(ctx, sk);
	else
		return false;
	return true;
}

/* A send call begins. */
static __noinline int on_begin_callback(struct bpf_sock_ops *ctx, const struct sock *sk)
{
	tx_sendmsg_begin_callback(sk, ctx->args[1]);
	return 0;
}

/*
 * As on_sockops(), with the callbacks of kernel/series. They have twice the code, which a kernel
 * without them would have to load.
 */
SEC("sockops")
int on_series(struct bpf_sock_ops *ctx)
{
	struct bpf_sock_ops_kern *kern = bpf_cast_to_kern_ctx(ctx);
	const struct sock *sk = kern->sk;

	if (setting_packet_bit && sk->sk_protocol == IPPROTO_UDP) {
		if (ctx->op == setting_end_callback)
			on_datagram_end(ctx);
		else if (ctx->op == setting_bound_callback)
			on_datagram_bound(ctx);
		else if (ctx->op == setting_read_callback)
			on_datagram_consumed(ctx);
		else
			on_datagram_callback(ctx);
	} else if (is_stamp(ctx)) {
		on_stamp(ctx, kern, sk);
	} else if (setting_begin_callback && ctx->op == setting_begin_callback) {
		on_begin_callback(ctx, sk);
	} else if ((!setting_receive_bit || !on_receive(ctx, kern, sk)) &&
		   !on_connection_callback(ctx, sk)) {
		on_other_callback(ctx, kern, sk);
	}
	return 1;
}

SEC("iter/udp")
int ask_datagram_sockets(struct bpf_iter__udp *ctx)
{
	struct udp_sock *udp = ctx->udp_sk;

	if (udp)
		udp_request_callbacks_of_existing(udp);
	return 0;
}

SEC("iter/udp")
int deselect_datagram_sockets(struct bpf_iter__udp *ctx)
{
	struct udp_sock *udp = ctx->udp_sk;

	if (udp)
		udp_deselect(udp);
	return 0;
}
#endif

/* Without BPF timestamping, and on kernels where a program's context leads to no socket (v6.2). */
SEC("sockops")
int on_connections(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	const struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;

	if (tp)
		on_connection(ctx, (const struct sock *)tp);
	return 1;
}

SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(on_tcp_sendmsg_locked, const struct sock *sk, const struct msghdr *msg,
	     const struct sk_buff *tail, int size_goal)
{
	if (sock_selected(sk))
		tx_sendmsg_turn(sk, msg, tail, size_goal);
	return 0;
}

SEC("fentry/tcp_sendmsg_locked")
int BPF_PROG(on_sendmsg_begun, const struct sock *sk, const struct msghdr *msg)
{
	if (sock_selected(sk) && (sk = tcp_known(sk)))
		tx_sendmsg_begins(sk, msg);
	return 0;
}

SEC("fentry/do_tcp_sendpages")
int BPF_PROG(on_sendpages_begun, const struct sock *sk, const struct page *page, int offset,
	     unsigned long size, int flags)
{
	if (sock_selected(sk) && (sk = tcp_known(sk)))
		tx_sendpages_begins(sk, size, flags);
	return 0;
}

SEC("fexit/do_tcp_sendpages")
int BPF_PROG(on_sendpages_ended, const struct sock *sk, const struct page *page, int offset,
	     unsigned long size, int flags, long result)
{
	if (sock_selected(sk) && (sk = tcp_known(sk)))
		tx_sendmsg_ends(sk, result);
	return 0;
}

SEC("fentry/sk_stream_wait_memory")
int BPF_PROG(on_wait_begun, const struct sock *sk)
{
	if (sock_selected(sk))
		tx_wait_memory(sk, true);
	return 0;
}

SEC("fexit/sk_stream_wait_memory")
int BPF_PROG(on_wait_ended, const struct sock *sk)
{
	if (sock_selected(sk))
		tx_wait_memory(sk, false);
	return 0;
}

SEC("fentry/__tcp_push_pending_frames")
int BPF_PROG(on_push, const struct sock *sk)
{
	if (sock_selected(sk) && (sk = tcp_known(sk)))
		tx_push_pending(sk);
	return 0;
}

SEC("fexit/tcp_sendmsg_locked")
int BPF_PROG(on_sendmsg_ended, const struct sock *sk, const struct msghdr *msg, unsigned long size,
	     int result)
{
	if (sock_selected(sk) && (sk = tcp_known(sk)))
		tx_sendmsg_ends(sk, result);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(on_sock_send_length, struct sock *sk, int result)
{
	if (udp_by_socket_calls(sk))
		udp_send_call_ends(sk, result);
	return 0;
}

/* For few tasks a signal is frequent, and for none of them a message is. */
SEC("tp_btf/signal_deliver")
int BPF_PROG(on_signal_deliver)
{
	task_interrupted();
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(on_tcp_retransmit_skb, const struct sock *sk, const struct sk_buff *skb)
{
	if (sock_may_be_selected(sk) && (sk = tcp_known(sk))) {
		tx_retransmit(sk, skb);
		undelivered_times_out(sk);
	}
	return 0;
}

/* A packet is about to leave, and it is not known whether the address of its next hop is right. */
SEC("tp_btf/neigh_event_send_done")
int BPF_PROG(on_neigh_event_send, const struct neighbour *neighbour, int queued)
{
	neighbour_asked(neighbour, queued);
	return 0;
}

/* The state of a neighbour changes: an answer has come (ARP, neighbour discovery), or none. */
SEC("tp_btf/neigh_update")
int BPF_PROG(on_neigh_update, const struct neighbour *neighbour, const u8 *address, u8 state)
{
	neighbour_changes(neighbour, state);
	return 0;
}

/* Every segment of an established connection, before TCP works on it, with the socket locked. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(on_tcp_probe, const struct sock *sk, const struct sk_buff *skb)
{
	if (sock_selected(sk) && (sk = tcp_known(sk)))
		on_segment(sk, skb);
	return 0;
}

/*
 * Handle half-closed connections and unfinished handshakes. Other sockets come here before they
 * have sequence numbers to compare with.
 */
SEC("fentry/tcp_rcv_state_process")
int BPF_PROG(on_rcv_state_process, const struct sock *sk, const struct sk_buff *skb)
{
	if (sock_transfers_unprobed(sk) && sock_selected(sk) && (sk = tcp_known(sk)))
		on_segment(sk, skb);
	return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_sk_data_ready, const struct sock *sk)
{
	if (!sock_selected(sk))
		udp_data_ready(sk);
	else if ((sk = tcp_known(sk)))
		rx_data_ready(sk);
	return 0;
}

/* Use the function that has the tracepoint now (v6.12). */
SEC("fentry/sock_def_readable")
int BPF_PROG(on_sock_def_readable, const struct sock *sk)
{
	if (sock_selected(sk) && (sk = tcp_known(sk)))
		rx_data_ready(sk);
	return 0;
}

/* Functions of their own, for the same reason as on_stamp(). */
static __noinline int on_datagram_taken(struct sock *sk, int result)
{
	udp_read(sk, result);
	return 0;
}

static __noinline int on_bytes_read(const struct sock *sk, int length)
{
	rx_recvmsg_ends(sk, length);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_sock_recv_length, struct sock *sk, int result, int flags)
{
	if (flags & (MSG_PEEK | MSG_ERRQUEUE))
		return 0;
	if (udp_by_socket_calls(sk)) {
		if (demand_met(DEMAND_DATAGRAMS))
			on_datagram_taken(sk, result);
		else
			udp_recvmsg_ends_unfollowed(sk, result);
	} else if (!setting_receive_bit && result > 0 && sock_selected(sk) && tcp_known(sk)) {
		on_bytes_read(tcp_known(sk), result);
	}
	return 0;
}

/* Find the result by the number of arguments: v7.2 has one less. */
SEC("fexit/tcp_recvmsg")
int BPF_PROG(on_recvmsg_ended, const struct sock *sk, const struct msghdr *msg,
	     unsigned long length, int flags)
{
	__u64 result;

	if (flags & (MSG_PEEK | MSG_ERRQUEUE) || !sock_selected(sk) || !(sk = tcp_known(sk)))
		return 0;
	if (!bpf_get_func_ret(ctx, &result) && (int)result > 0)
		rx_recvmsg_ends(sk, (int)result);
	return 0;
}

/* A function of its own, for the same reason as on_stamp(). */
static __noinline int on_state(const struct sock *sk, int before, int state)
{
	undelivered_settles(sk, before, state);
	turned_away_settles(sk, before, state);
	questions_settle(sk, before, state);
	silence_settles(sk, before, state);
	linger_settles(sk, before, state);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_inet_sock_set_state, const struct sock *sk, int old_state, int new_state)
{
	if (sk->sk_protocol != IPPROTO_TCP || new_state == TCP_ESTABLISHED)
		return 0;
	if ((!sock_has_storage(sk) && old_state != TCP_SYN_SENT) || !(sk = tcp_known(sk)))
		return 0;
	if (old_state == TCP_SYN_SENT && !tcp_of(sk)->segs_out)
		connect_denied(sk);
	if (!sock_has_storage(sk))
		return 0;
	if (new_state == TCP_SYN_SENT)
		untried_is_tried(sk);
	on_state(sk, old_state, new_state);
	if (new_state == TCP_CLOSE) {
		connection_closes(sk);
		released_socket_closes(sk);
		flow_close(sk);
	}
	return 0;
}

SEC("perf_event")
int on_run_clock(struct bpf_perf_event_data *ctx)
{
	struct bpf_perf_event_data_kern *kern = bpf_cast_to_kern_ctx(ctx);

	run_clock_sample(bpf_ktime_get_ns(), kern->data->time);
	return 0;
}

SEC("cgroup/sock_create")
int on_sock_create(struct bpf_sock *ctx)
{
	udp_socket_created(ctx);
	return 1;
}

SEC("cgroup/sock_release")
int on_sock_release(struct bpf_sock *ctx)
{
	udp_socket_released(ctx);
	flow_socket_released(ctx);
	untried_ends(ctx);
	return 1;
}

SEC("cgroup/connect4")
int on_connect4(struct bpf_sock_addr *ctx)
{
	if (ctx->sk)
		udp_connects(ctx->sk);
	untried_begins4(ctx);
	return 1;
}

SEC("cgroup/connect6")
int on_connect6(struct bpf_sock_addr *ctx)
{
	if (ctx->sk)
		udp_connects(ctx->sk);
	untried_begins6(ctx);
	return 1;
}

SEC("cgroup/sendmsg4")
int on_sendmsg4(struct bpf_sock_addr *ctx)
{
	udp_sendmsg_to_begins(ctx, false);
	return 1;
}

SEC("cgroup/sendmsg6")
int on_sendmsg6(struct bpf_sock_addr *ctx)
{
	udp_sendmsg_to_begins(ctx, true);
	return 1;
}

SEC("cgroup/getpeername4")
int on_getpeername4(struct bpf_sock_addr *ctx)
{
	const struct tcp_sock *tp = ctx->sk ? bpf_skc_to_tcp_sock(ctx->sk) : NULL;

	if (tp)
		flow_getpeername((const struct sock *)tp);
	return 1;
}

SEC("cgroup/getpeername6")
int on_getpeername6(struct bpf_sock_addr *ctx)
{
	const struct tcp_sock *tp = ctx->sk ? bpf_skc_to_tcp_sock(ctx->sk) : NULL;

	if (tp)
		flow_getpeername((const struct sock *)tp);
	return 1;
}

static __always_inline void packet_queued(const struct sk_buff *skb)
{
	const struct sock *sk = skb->sk;

	if (!sk)
		return;
	if (udp_packets_followed(sk))
		udp_packet_to_qdisc(sk, skb);
	else if (setting_by_packets && sock_selected(sk) && (sk = tcp_known(sk)))
		tx_packet_to_qdisc(sk, skb);
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(on_net_dev_queue, const struct sk_buff *skb)
{
	packet_queued(skb);
	return 0;
}

/* A function of its own, for the same reason as on_stamp(). */
static __noinline int on_hop_queued(const struct sk_buff *skb)
{
	hop_packet_to_qdisc(skb);
	return 0;
}

/* With --host-path one program serves both: a packet pays for one call. */
SEC("tp_btf/net_dev_queue")
int BPF_PROG(on_host_queue, const struct sk_buff *skb)
{
	on_hop_queued(skb);
	packet_queued(skb);
	return 0;
}

static __always_inline void tx_taken(const struct sock *sk, const struct sk_buff *skb,
				     const struct net_device *device)
{
	if (setting_by_packets)
		tx_packet_to_driver(sk, skb, device);
	else
		tx_part_to_driver(sk, skb, device);
}

static __always_inline void packet_started(const struct sock *sk, const struct sk_buff *skb,
					   const struct net_device *device)
{
	if (udp_packets_followed(sk))
		udp_packet_to_driver(sk, skb, device);
	else if (sock_selected(sk) && (sk = tcp_known(sk)))
		tx_taken(sk, skb, device);
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(on_net_dev_start_xmit, const struct sk_buff *skb, const struct net_device *device)
{
	const struct sock *sk = skb->sk;

	if (sk)
		packet_started(sk, skb, device);
	else if (paths_detached)
		path_xmit(skb, device);
	return 0;
}

/* A function of its own, for the same reason as on_stamp(). */
static __noinline int on_hop_started(const struct sk_buff *skb, const struct net_device *device)
{
	hop_packet_to_driver(skb, device);
	return 0;
}

/* As on_host_queue(). A datagram is followed from its driver on: look for it first. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(on_host_xmit, const struct sk_buff *skb, const struct net_device *device)
{
	const struct sock *sk = skb->sk;

	if (setting_hops)
		on_hop_started(skb, device);
	if (sk)
		packet_started(sk, skb, device);
	else
		path_xmit(skb, device);
	return 0;
}

SEC("cgroup_skb/ingress")
int on_cgroup_ingress(struct __sk_buff *ctx)
{
	const struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	const struct sock *sk = skb->sk;

	if (sk && udp_followed(sk) && ctx->sk)
		udp_datagram_arrives(ctx->sk, ctx, skb, sk);
	return 1;
}

/* As above, of all cgroups. */
SEC("cgroup_skb/ingress")
int on_host_ingress(struct __sk_buff *ctx)
{
	hop_packet_arrives(bpf_cast_to_kern_ctx(ctx));
	return 1;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(on_kfree_skb, const struct sk_buff *skb, void *location, int reason,
	     const struct sock *receiver)
{
	bool followed = setting_hops && hop_packet_freed(skb, !receiver);

	if (drop_has_reason(reason))
		drop_packet(skb, reason);
	if (receiver && udp_selectable(receiver))
		udp_datagram_dropped(receiver, skb);
	else if (!followed)
		udp_packet_dropped(skb);
	return 0;
}

/* Before v6.11, where it tells of no receiver. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(on_packet_dropped, const struct sk_buff *skb)
{
	if (!setting_hops || !hop_packet_freed(skb, true))
		udp_packet_dropped(skb);
	return 0;
}

SEC("tp_btf/consume_skb")
int BPF_PROG(on_consume_skb, const struct sk_buff *skb)
{
	hop_packet_freed(skb, false);
	return 0;
}

SEC("fentry/udp_sendmsg")
int BPF_PROG(on_udp_send_begun, struct sock *sk)
{
	if (udp_selectable_ipv4(sk))
		udp_sendmsg_begins(sk, NULL);
	return 0;
}

SEC("fexit/udp_sendmsg")
int BPF_PROG(on_udp_send_ended, const struct sock *sk, const struct msghdr *msg, unsigned long size,
	     int result)
{
	if (udp_selectable_ipv4(sk))
		udp_sendmsg_ends(sk, result);
	return 0;
}

SEC("fentry/udpv6_sendmsg")
int BPF_PROG(on_udpv6_send_begun, struct sock *sk)
{
	if (udp_selectable(sk))
		udp_sendmsg_begins(sk, NULL);
	return 0;
}

SEC("fexit/udpv6_sendmsg")
int BPF_PROG(on_udpv6_send_ended, const struct sock *sk, const struct msghdr *msg,
	     unsigned long size, int result)
{
	if (udp_selectable(sk))
		udp_sendmsg_ends(sk, result);
	return 0;
}

/* The functions of reading are of both families. */
SEC("fentry/__udp_enqueue_schedule_skb")
int BPF_PROG(on_datagram, const struct sock *sk, const struct sk_buff *skb)
{
	if (setting_hops)
		hop_packet_arrives(skb);
	if (udp_selectable(sk))
		udp_datagram_arrives(sk, NULL, skb, sk);
	return 0;
}

SEC("fexit/__udp_enqueue_schedule_skb")
int BPF_PROG(on_datagram_queued, const struct sock *sk, const struct sk_buff *skb, int result)
{
	if (result < 0 && udp_selectable(sk))
		udp_datagram_dropped(sk, skb);
	return 0;
}

SEC("fentry/skb_consume_udp")
int BPF_PROG(on_datagram_read, const struct sock *sk, const struct sk_buff *skb, int length)
{
	if (udp_selectable(sk))
		udp_datagram_consumed(sk, skb, length);
	return 0;
}

/* The walks over sockets that exist already, at the start and at the end. */
SEC("iter/task_file")
int mark_sockets(struct bpf_iter__task_file *ctx)
{
	const struct task_struct *task = ctx->task;
	struct file *file = ctx->file;

	if (task && file)
		mark_file(task, file);
	return 0;
}

SEC("iter/task_file")
int mark_datagram_sockets(struct bpf_iter__task_file *ctx)
{
	const struct task_struct *task = ctx->task;
	struct file *file = ctx->file;

	if (task && file)
		udp_select_file(task, file);
	return 0;
}

SEC("iter/task_file")
int give_up_datagrams(struct bpf_iter__task_file *ctx)
{
	const struct task_struct *task = ctx->task;
	struct file *file = ctx->file;

	if (setting_hops && !ctx->meta->seq_num)
		hops_give_up();
	if (task && file)
		udp_give_up_held(file);
	return 0;
}

SEC("iter/tcp")
int mark_listening_subflows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;

	if (common)
		mark_listening_subflow(common);
	return 0;
}

SEC("iter/tcp")
int adopt_flows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;

	if (common)
		adopt_flow(common);
	return 0;
}

SEC("iter/tcp")
int switch_flows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;

	if (common)
		release_or_recall_flow(common);
	return 0;
}

SEC("iter/tcp")
int deselect_flows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;

	if (common)
		deselect_flow(common);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
