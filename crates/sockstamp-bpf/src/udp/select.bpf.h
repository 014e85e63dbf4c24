/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Selection of UDP sockets. They have no handshake and the kernel calls nothing for them, so they
 * are marked when they are made (cgroup/sock_create), or at the start if they exist already. The
 * mark makes sk_bpf_storage of the socket non-zero: the one test that a packet of any other UDP
 * socket costs.
 */
#ifndef SOCKSTAMP_UDP_SELECT_BPF_H
#define SOCKSTAMP_UDP_SELECT_BPF_H

#include "select/asked.bpf.h"
#include "select/select.bpf.h"
#include "udp/arrivals.bpf.h"
#include "udp/unanswered.bpf.h"

static __always_inline void udp_select(void *sk)
{
	struct mark *mark =
		bpf_sk_storage_get(&sockstamp_marks, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!mark) {
		count_loss(LOSS_FLOW);
		return;
	}
	mark->kind = MARK_DATAGRAM;
	/* Read the cookie now: the kernel assigns it at the first request. */
	if (setting_record || setting_groups & GROUP_BY_FLOW)
		bpf_get_socket_cookie(sk);
}

/* The namespace of a socket that the current task makes: sock_create(), net/socket.c, v6.1. */
static __always_inline bool task_netns_selected(void)
{
	return !setting_netns[0] ||
	       namespace_selected(bpf_get_current_task_btf()->nsproxy->net_ns->ns.inum);
}

/*
 * Have a marked socket call back, where the kernel has what that takes (kernel/series). `socket` is
 * the argument of bpf_setsockopt() here.
 */
static __always_inline void udp_request_callbacks(void *socket, const struct sock *sk,
						  struct mark *mark)
{
	if (setting_packet_bit &&
	    !sk_callbacks_request(socket, sk, ASKED_STAMPS | ASKED_READS | ASKED_PACKETS,
				  &mark->asked))
		count_loss(LOSS_FLOW);
}

/* Return the mark of a selected UDP socket; NULL if this is none of ours. */
static __always_inline struct mark *udp_mark_lookup(const void *sk)
{
	struct mark *mark = bpf_sk_storage_get(&sockstamp_marks, (void *)sk, 0, 0);

	return mark && mark->kind == MARK_DATAGRAM ? mark : NULL;
}

/*
 * A message, or the connect before some, comes before its programs are attached. What is in the
 * ring from earlier may be what was read, and the last question may have its answer.
 */
static __always_inline void udp_note_unfollowed(void *sk)
{
	struct udp_flow *flow = bpf_sk_storage_get(&udp_flows, sk, 0, 0);

	demand_request(DEMAND_DATAGRAMS);
	/* Before a window, they come in time. */
	if (!stopping && (!window_bounded() || window_contains(bpf_ktime_get_ns())) &&
	    pid_selected(bpf_get_current_pid_tgid() >> 32))
		count_loss(LOSS_DATAGRAM);
	if (!flow)
		return;
	/* Where the socket calls back, all arrivals and reads are followed. */
	if (!setting_packet_bit) {
		udp_tail_set(flow, flow->rx_head);
		flow->rx_proven = 0;
	}
	udp_ask_no_more(&flow->exchange, 0);
	flow->exchange.state = 0;
}

/*
 * A socket has a peer: where no function is traced, no hook but those of packets, and of all send
 * calls of the host, shows that it sends. While it is idle, the program at the end of send calls is
 * kept, and no other.
 */
static __always_inline void udp_hold_demand(struct mark *mark)
{
	if (!setting_on_demand || setting_packet_bit || setting_udp_entries || mark->holds)
		return;
	mark->holds = true;
	demand_hold(DEMAND_SENDS, 1);
	demand_request(DEMAND_SENDS);
	demand_request(DEMAND_DATAGRAMS);
}

/* A send call ends, and its packets were not followed. Others were counted where they began. */
static __always_inline void udp_sendmsg_ends_unfollowed(struct sock *sk)
{
	struct mark *mark;

	if (sk->__sk_common.skc_state != TCP_ESTABLISHED)
		return;
	mark = udp_mark_lookup(sk);
	if (mark && mark->holds && demand_met(DEMAND_SENDS))
		udp_note_unfollowed(sk);
}

/* connect(2) of a socket in the target's cgroup: its first sends come before its programs do. */
static __always_inline void udp_connects(struct bpf_sock *sk)
{
	struct mark *mark;

	if (sk->protocol != IPPROTO_UDP || sk->type != SOCK_DGRAM)
		return;
	mark = udp_mark_lookup(sk);
	if (!mark)
		return;
	/* Its sends show themselves. */
	if (setting_packet_bit || setting_udp_entries) {
		demand_request(DEMAND_DATAGRAMS);
		return;
	}
	/* Where the ends of its sends are seen, they are counted themselves. */
	if (!mark->holds && !demand_met(DEMAND_DATAGRAMS) && !demand_met(DEMAND_SENDS))
		udp_note_unfollowed(sk);
	udp_hold_demand(mark);
}

/*
 * bind(2), connect(2), or a send of a socket without a port, which has yet to begin: from here on
 * the socket can receive, and is in the table that a walk at the end goes over. A socket that is
 * disconnected loses its port and leaves the table (`__udp_disconnect()`, net/ipv4/udp.c, v6.18),
 * with its bits.
 */
static __always_inline void udp_gets_port(struct bpf_sock_ops *ctx, struct sock *sk)
{
	struct mark *mark = udp_mark_lookup(sk);

	if (mark && !mark->asked)
		udp_request_callbacks(ctx, sk, mark);
}

/* A datagram can be read, and its arrival was not noted. */
static __always_inline void udp_data_ready(const struct sock *sk)
{
	if (!demand_met(DEMAND_DATAGRAMS) && udp_by_socket_calls(sk) && udp_mark_lookup(sk))
		demand_request(DEMAND_DATAGRAMS);
}

/* A socket is made: the task is known, the cgroup is that of the attachment. */
static __always_inline void udp_socket_created(struct bpf_sock *sk)
{
	if (!stopping && sk->protocol == IPPROTO_UDP && sk->type == SOCK_DGRAM &&
	    task_netns_selected() && pid_selected(bpf_get_current_pid_tgid() >> 32) &&
	    !task_spared(bpf_get_current_task_btf()))
		udp_select(sk);
}

/* A socket that is there already and can receive, with its lock held: iter/udp. */
static __always_inline void udp_request_callbacks_of_existing(struct udp_sock *udp)
{
	struct mark *mark = udp_mark_lookup(udp);

	visited_sockets++;
	if (mark && !mark->asked)
		udp_request_callbacks(udp, (const struct sock *)udp, mark);
}

/* The end: clear the bits, as of TCP. */
static __always_inline void udp_deselect(struct udp_sock *udp)
{
	struct mark *mark = bpf_sk_storage_get(&sockstamp_marks, udp, 0, 0);
	__u8 asked;

	visited_sockets++;
	if (!setting_packet_bit || !mark || !mark->asked)
		return;
	asked = mark->asked;
	bpf_sk_storage_delete(&sockstamp_marks, udp);
	sk_callbacks_give_back(udp, (const struct sock *)udp, asked);
}

/* The last descriptor of a socket is closed: inet_release(), net/ipv4/af_inet.c, v6.1. */
static __always_inline void udp_socket_released(struct bpf_sock *sk)
{
	volatile struct mark *mark;
	struct udp_flow *flow;

	if (sk->protocol != IPPROTO_UDP || sk->type != SOCK_DGRAM)
		return;
	mark = bpf_sk_storage_get(&sockstamp_marks, sk, 0, 0);
	if (!mark || mark->kind != MARK_DATAGRAM)
		return;
	mark->kind = 0;
	if (mark->holds)
		demand_hold(DEMAND_SENDS, -1);
	mark->holds = false;
	flow = bpf_sk_storage_get(&udp_flows, sk, 0, 0);
	if (!flow)
		return;
	udp_asks_no_more(flow);
	udp_flow_released(flow);
	udp_tail_set(flow, flow->rx_head);
}

/* A socket that is there already, as often as it has descriptors. */
static __always_inline void udp_select_file(const struct task_struct *task, struct file *file)
{
	struct socket *socket;
	struct mark *mark;
	struct sock *sk;

	if (task_spared(task) || (setting_by_pid && !task_selected(task, task->tgid)))
		return;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return;
	sk = socket->sk;
	if (!sk || sk->sk_protocol != IPPROTO_UDP || sk->sk_type != SOCK_DGRAM ||
	    !netns_selected(sk) || !cgroup_selected(sk))
		return;
	udp_select(sk);
	mark = udp_mark_lookup(sk);
	if (mark)
		mark->adopted = true;
	if (mark && sk->__sk_common.skc_state == TCP_ESTABLISHED)
		udp_hold_demand(mark);
}

#endif
