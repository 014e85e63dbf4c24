/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Select sockets to watch, once per socket. The result is a bit on the socket (sk_bpf_cb_flags,
 * v6.15), so that a packet of any other socket costs one bit test, and a mark in socket storage,
 * which is freed with the socket. Without the bit, the test is whether the socket has any storage
 * of that kind.
 */
#ifndef SOCKSTAMP_SELECT_SELECT_BPF_H
#define SOCKSTAMP_SELECT_SELECT_BPF_H

#include "histogram/histogram.bpf.h"
#include "kernel/kernel.bpf.h"
#include "select/filter.bpf.h"
#include "select/mark.bpf.h"
#include "select/target.bpf.h"
#include "window/window.bpf.h"

const volatile bool setting_bit = true; /* a bit on the socket selects it (v6.15) */

/* Our own mark, unlike the bit on the socket, which all users of BPF timestamping share. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct mark);
} sockstamp_marks SEC(".maps");

/*
 * Programs go one after the other, which takes a while each. They end their work at once by this:
 * or the end of a send call would be seen, and an ACK, where the entry, or the packet, is no more.
 */
volatile bool stopping;

static __always_inline bool sock_selected(const struct sock *sk)
{
	if (setting_bit)
		return sk->sk_bpf_cb_flags & SK_BPF_CB_TX_TIMESTAMPING;
	return sk->sk_protocol == IPPROTO_TCP && sock_has_storage(sk) && sock_is_full(sk) &&
	       !stopping;
}

/* Open sockets without their bit: after a walk that asks for it, those that it did not reach. */
__s64 released_flows;

/* As sock_selected(), also true while this may be a selected socket without its bit. */
static __always_inline bool sock_may_be_selected(const struct sock *sk)
{
	return (setting_windows && released_flows) || sock_selected(sk);
}

/* The mark of a selected flow; NULL if this is none of ours. */
static __always_inline struct mark *flow_mark_lookup(const struct sock *sk)
{
	struct mark *mark = bpf_sk_storage_get(&sockstamp_marks, (void *)sk, 0, 0);

	return mark && mark->kind == MARK_SELECTED && mark->directions ? mark : NULL;
}

/* Without a filter the verifier removes all of this. */
static __always_inline bool mark_measures(const struct mark *mark, enum direction direction)
{
	return !setting_filtered || mark->directions & DIRECTION_BIT(direction);
}

/*
 * Return true if the service is at the other end: this one connected to it. Of connections that
 * existed before, it is unknown: the lower port is taken for the service's, for ephemeral ones are
 * high (ip(7), ip_local_port_range). An unconnected socket of UDP has no remote port.
 */
static __always_inline bool flow_is_client(const struct sock *sk, const struct mark *mark)
{
	__u16 remote = bpf_ntohs(sk->__sk_common.skc_dport);

	if (mark && mark->opened_by != OPENED_BEFORE)
		return mark->opened_by == OPENED_BY_US;
	return remote && remote < sk->__sk_common.skc_num;
}

/*
 * Return the socket's cached route. It is set before the SYN and in an accepted socket:
 * tcp_v4_connect(), tcp_v6_connect(), tcp_v4_syn_recv_sock(), tcp_v6_syn_recv_sock() call
 * sk_setup_caps() or ip6_dst_store() (v6.18). The socket is locked.
 */
static __always_inline bool route_selected(const struct sock *sk)
{
	const struct dst_entry *route;

	if (!setting_interface)
		return true;
	route = sk->sk_dst_cache;
	if (route)
		return route->dev->ifindex == setting_interface;
	count_loss(LOSS_FLOW);
	return false;
}

/*
 * Return the directions in which messages of a connected socket are selected; called once per flow.
 */
static __always_inline __u8 flow_directions(const struct sock *sk)
{
	return netns_selected(sk) && route_selected(sk) ? filter_flow(sk) : 0;
}

static __always_inline void mark_set_released(struct mark *mark, bool released)
{
	if (mark->released == released)
		return;
	mark->released = released;
	__sync_fetch_and_add(&released_flows, released ? 1 : -1);
}

/* Of a sockstamp: neither it nor what it accepts is selected, now or when sockets are walked. */
static __always_inline void mark_sockstamp_socket(void *sk)
{
	struct mark *mark =
		bpf_sk_storage_get(&sockstamp_marks, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (mark)
		mark->kind = MARK_OWN;
	else
		count_loss(LOSS_FLOW);
}

static __always_inline void mark_listener(void *sk)
{
	struct mark *mark =
		bpf_sk_storage_get(&sockstamp_marks, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (mark)
		mark->kind = MARK_LISTENER;
	else
		count_loss(LOSS_FLOW);
}

/* Sockets that a walk has come to: user space sees by it that the walk goes on. */
volatile __u64 visited_sockets;

#endif
