/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measure TX of UDP. A message is a send call, and ends when its last packet is passed to the
 * driver. UDP has no write queue: a send call makes the packets of one datagram and takes them to
 * the packet scheduler itself (udp_send_skb(), v6.18). The packets that a task queues on a socket
 * before the end of a send call (sock_send_length) are therefore that call's. A packet that waits
 * for a neighbour's address (ARP) comes later and from another context, and is known by its name.
 */
#ifndef SOCKSTAMP_UDP_SEND_BPF_H
#define SOCKSTAMP_UDP_SEND_BPF_H

#include "group/resolve.bpf.h"
#include "ledger/ledger.bpf.h"
#include "record/record.bpf.h"
#include "udp/departure.bpf.h"

/* The end of the call counts it if the socket has a peer: here it names another one. */
static __always_inline void udp_sendmsg_begins_unfollowed(void *sk)
{
	struct mark *mark = udp_mark_lookup(sk);

	if (mark && !(mark->holds && demand_met(DEMAND_SENDS)))
		udp_note_unfollowed(sk);
}

/*
 * Note the begin of a send: of every send where functions are traced, otherwise of unconnected ones
 * (BPF_CGROUP_RUN_PROG_UDP4_SENDMSG_LOCK() in udp_sendmsg(), v6.18), with its peer.
 */
static __always_inline void udp_sendmsg_begins(void *sk, const struct udp_remote *peer)
{
	__u64 task = bpf_get_current_pid_tgid();
	struct udp_flow *flow;
	__u32 slot;

	if (window_detached() || !pid_selected(task >> 32))
		return;
	if (!demand_met(DEMAND_DATAGRAMS)) {
		udp_sendmsg_begins_unfollowed(sk);
		return;
	}
	flow = udp_flow_lookup_or_create(sk);
	if (!flow)
		return;
	udp_reset_sending_if_after_gap(flow);
	slot = udp_find_open_call(flow, task);
	if (slot != UDP_NO_SLOT)
		udp_release_slot(flow, slot);
	slot = udp_claim_slot(flow, task);
	if (slot == UDP_NO_SLOT)
		return;
	udp_send_at(flow, slot)->entry = bpf_ktime_get_ns();
	if (peer)
		udp_send_at(flow, slot)->remote = *peer;
}

/* A send with an address begins: its packet may come late, or together with a later call's. */
static __always_inline void udp_sendmsg_to_begins(struct bpf_sock_addr *ctx, bool ipv6)
{
	struct udp_remote peer = {};
	__u32 *address = (__u32 *)peer.address;

	if (!ctx->sk)
		return;
	if (ipv6) {
		address[0] = ctx->user_ip6[0];
		address[1] = ctx->user_ip6[1];
		address[2] = ctx->user_ip6[2];
		address[3] = ctx->user_ip6[3];
	} else if (ctx->family == AF_INET6) {
		address[2] = bpf_htonl(0xffff);
		address[3] = ctx->user_ip4;
	} else {
		address[0] = ctx->user_ip4;
	}
	peer.port = bpf_ntohs(ctx->user_port);
	udp_sendmsg_begins(ctx->sk, &peer);
}

/*
 * Find the peer of corked bytes that no packet shows yet. Only the first of the calls shows it
 * otherwise: udp_sendmsg() adds to what is pending before it calls the hook of its begin (v6.18).
 */
static __always_inline void udp_corked_peer(const struct sock *sk, int pending,
					    struct udp_remote *peer)
{
	const struct inet_sock *inet = (const struct inet_sock *)sk;
	__be16 port = 0;

	if (pending == AF_INET6) {
		bpf_core_read(peer->address, 16, &inet->cork.fl.u.ip6.daddr);
		bpf_core_read(&port, sizeof(port), &inet->cork.fl.u.ip6.uli);
	} else if (sk->__sk_common.skc_family == AF_INET6) {
		peer->address[10] = 0xff;
		peer->address[11] = 0xff;
		bpf_core_read(&peer->address[12], 4, &inet->cork.fl.u.ip4.daddr);
		bpf_core_read(&port, sizeof(port), &inet->cork.fl.u.ip4.uli);
	} else {
		bpf_core_read(peer->address, 4, &inet->cork.fl.u.ip4.daddr);
		bpf_core_read(&port, sizeof(port), &inet->cork.fl.u.ip4.uli);
	}
	peer->port = bpf_ntohs(port);
}

/* Packets flushed on the way were no part of a call whose own bytes are corked now. */
static __always_inline void udp_cork(struct udp_send *send)
{
	if (setting_hops && send->hop)
		hop_stop_following(send);
	send->sched = 0;
	send->snd = 0;
	send->name.skb = 0;
	send->name.tail = 0;
	send->flags = 0;
	send->state = UDP_CORKED;
}

/* A question's packet waits for the neighbour's address: the socket or the call has its peer. */
static __always_inline void udp_ask_unseen(const struct sock *sk, struct udp_flow *flow,
					   const struct udp_send *send, __u32 length)
{
	struct udp_exchange *exchange = &flow->exchange;
	__u64 now = bpf_ktime_get_ns();
	__u64 peer = 0;

	if (exchange->role == UDP_UNTOLD)
		exchange->role = udp_role_of(sk, true, send->remote.port);
	if (exchange->role != UDP_ASKS)
		return;
	if (sk->__sk_common.skc_dport)
		peer = UDP_ONLY_PEER;
	else if (send->remote.port)
		peer = udp_remote_name(&send->remote);
	udp_asks_next(flow, peer, now, length);
	udp_ask(flow, peer, now, length);
}

/*
 * Return true if the begin of a send on this socket is seen: of every one, or, by a hook of the
 * target's cgroup, of those without a peer.
 */
static __always_inline bool udp_shows_entry(const struct sock *sk)
{
	return setting_udp_functions || setting_udp_entries || !sk->__sk_common.skc_dport;
}

/*
 * A call that ends in a window: one that may have begun before the window's programs came, or that
 * took as long, is refused.
 */
static __always_inline void udp_note_outlasted(const struct sock *sk, struct udp_send *send,
					       __u64 now)
{
	__u64 ns = udp_shows_entry(sk) ? ~0ULL : 0;

	if (send->entry)
		ns = now - send->entry;
	if (window_exceeded(ns, WINDOW_LEAD_NS))
		udp_set_flag(send, UDP_OUTLASTED);
}

/*
 * Return true if the packet of the call that ends waits for its neighbour: it is known by its name
 * once it is let go. It is there for as long as it waits.
 */
static __always_inline bool udp_waits_for_neighbour(const struct sock *sk, struct udp_send *send,
						    __u32 tid)
{
	const struct neighbour_wait *wait = neighbour_of_call(sk, tid);
	const struct sk_buff *skb;
	const unsigned char *shared;
	__u64 socket = (__u64)sk;

	if (!wait)
		return false;
	skb = (const struct sk_buff *)wait->skb;
	shared = kernel_read(skb, struct sk_buff, head) + kernel_read(skb, struct sk_buff, end);
	/* udp_name(), of plain numbers. */
	send->name.skb = wait->skb - hop_pointer(&socket);
	send->name.tail = udp_tail(shared);
	send->name.segments = kernel_read(shared, struct skb_shared_info, gso_segs) > 1;
	send->name.borrowed = udp_borrowed(shared);
	send->sched = wait->queued;
	send->sched_last = wait->queued;
	send->flags |= UDP_RESOLVED | UDP_WHOLE;
	return true;
}

/*
 * sock_send_length(), the callback of kernel/series, or the end of udp_sendmsg(): the send call is
 * over, nothing is locked, `current` is the sender.
 */
static __always_inline void udp_sendmsg_ends(const struct sock *sk, int result)
{
	__u64 task = bpf_get_current_pid_tgid();
	struct udp_flow *flow = udp_flow_lookup_or_create(sk);
	struct bank *bank = this_bank();
	struct udp_send *send;
	__u32 slot, group, weight;
	__u64 now = 0;
	int pending;

	if (!flow || !bank)
		return;
	udp_reset_sending_if_after_gap(flow);
	slot = udp_find_open_call(flow, task);
	if (slot == UDP_NO_SLOT && result >= 0)
		slot = udp_claim_slot(flow, task);
	send = udp_send_at(flow, slot);
	if (slot != UDP_NO_SLOT && udp_peer_wanted() && !send->remote.port &&
	    !sk->__sk_common.skc_dport && (pending = udp_pending(sk)))
		udp_corked_peer(sk, pending, &send->remote);
	if (result < 0 && pid_selected(task >> 32) && udp_wants(sk, &send->remote, DIRECTION_TX))
		udp_send_fails(sk, flow, &send->remote, result);
	if (result < 0 || !pid_selected(task >> 32) ||
	    (slot != UDP_NO_SLOT && !udp_wants(sk, &send->remote, DIRECTION_TX))) {
		if (slot != UDP_NO_SLOT)
			udp_release_slot(flow, slot);
		return;
	}
	if (slot != UDP_NO_SLOT && !send->sched && !udp_pending(sk))
		udp_ask_unseen(sk, flow, send, result);
	if (window_bounded()) {
		now = bpf_ktime_get_ns();
		if (!window_contains(now)) {
			if (slot != UDP_NO_SLOT)
				udp_release_slot(flow, slot);
			return;
		}
	}
	group = slot == UDP_NO_SLOT ? group_of_task(&flow->group, sk) :
				      udp_group(flow, sk, &send->remote);
	account_messages(bank, group, DIRECTION_TX, result, window_weight());
	account_datagrams(bank, DIRECTION_TX, result, window_weight());
	udp_sample_refresh(&flow->tx_sampler, send->sched_last ?: bpf_ktime_get_ns(), group);
	if (datagram_skip(&flow->tx_sampler, slot == UDP_NO_SLOT ? 0 : send->number, result)) {
		if (slot != UDP_NO_SLOT)
			udp_release_slot(flow, slot);
		return;
	}
	weight = stream_take(&flow->tx_sampler, result) * window_weight();
	account_measured(bank, group, DIRECTION_TX, weight);
	if (slot == UDP_NO_SLOT) {
		account_refused(bank, group, DIRECTION_TX, VERDICT_INFLIGHT_FULL, weight);
		return;
	}
	__sync_fetch_and_add(&udp_sends_in_flight, 1);
	if (window_bounded())
		udp_note_outlasted(sk, send, now);
	send->weight = weight;
	send->group = group;
	send->pid = task >> 32;
	send->cpu = record_cpu();
	send->bytes = result;
	/* A send has a peer and a task of its own: several may send at once. The last one's ask. */
	if (setting_record) {
		comm_read(send->comm);
		udp_identify(&flow->identity, sk, &send->remote);
		flow->identity.pid = send->pid;
		__builtin_memcpy(flow->identity.comm, send->comm, sizeof(send->comm));
		if (setting_waits && !setting_windows)
			udp_asked_anew(flow);
	}
	if (udp_pending(sk)) {
		udp_cork(send);
		return;
	}
	/*
	 * The packet was not seen, and does not wait for its neighbour: all slots were taken when
	 * it was queued. Nothing that comes later can be told to be its.
	 */
	if (!send->sched && !udp_waits_for_neighbour(sk, send, task)) {
		send->state = UDP_ENDED;
		udp_complete_send(bank, flow, slot);
		return;
	}
	/* A barrier too: the driver counts down, then looks at the state; here it is reversed. */
	__sync_lock_test_and_set(&send->state, UDP_WAITING);
	udp_complete_send_if_over(bank, flow, slot);
}

/* As udp_sendmsg_ends(), also where the programs that it needs come on demand. */
static __always_inline void udp_send_call_ends(struct sock *sk, int result)
{
	if (demand_met(DEMAND_DATAGRAMS))
		udp_sendmsg_ends(sk, result);
	else if (result >= 0)
		udp_sendmsg_ends_unfollowed(sk);
}

#endif
