/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Selection of UDP sockets. They have no handshake and the kernel calls nothing for them, so they
 * are marked when they are made (cgroup/sock_create), or at the start if they exist already. The
 * mark makes sk_bpf_storage of the socket non-zero: the one test that a packet of any other UDP
 * socket costs.
 */
#ifndef SOCKSTAMP_UDP_FLOW_BPF_H
#define SOCKSTAMP_UDP_FLOW_BPF_H

#include "../flow/adopt.bpf.h"
#include "../flow/flow.bpf.h"
#include "../group/resolve.bpf.h"
#include "../sched/sched.bpf.h"

#define IPPROTO_UDP 17 /* include/uapi/linux/in.h */
#define SOCK_DGRAM  2 /* include/linux/net.h */
#define ETH_P_IP    0x0800 /* include/uapi/linux/if_ether.h */

/* Datagrams of a socket that nobody has read yet. More are there, but their stamps are lost. */
#define UDP_ARRIVALS 64
/* Messages of a socket between the start of their send call and the driver. */
#define UDP_SENDS 32

struct udp_remote {
	__u8 address[16]; /* IPv4 in the first four bytes */
	__u16 port; /* host order; 0: not known */
} __attribute__((aligned(4)));

struct udp_arrival {
	__u64 time; /* when it reached the socket */
	__u64 skb; /* udp_name(); 0: dropped since */
	__u32 stack_ns; /* RX software stamp to time, or one of the ARRIVAL_ codes */
	__u32 length;
	struct udp_remote remote; /* only where udp_peer_wanted() */
	__u32 stamp; /* low half of skb->tstamp, which tells it from a later skb of the name */
};

enum udp_send_state {
	UDP_OPEN, /* its task is inside the send call */
	UDP_CORKED, /* its bytes wait for a later call (UDP_CORK, MSG_MORE: udp(7)) */
	UDP_WAITING, /* the call is over, its last packet has not reached the driver */
	UDP_ENDED,
};

enum udp_send_flags {
	UDP_FLUSHED = 1 << 0, /* what it sent are corked bytes, maybe of earlier calls alone */
	UDP_DROPPED = 1 << 1,
	UDP_WHOLE = 1 << 2, /* its last packet has entered the packet scheduler */
	UDP_SHARED = 1 << 3, /* left in one datagram with a later call's bytes */
	UDP_SPLIT = 1 << 4, /* some of its packets are not known by address */
	UDP_DOUBTED = 1 << 5, /* it may have been another's packet that left */
};

struct udp_send {
	__u64 entry; /* 0: no hook shows it */
	__u64 sched; /* first packet into the packet scheduler */
	__u64 sched_last;
	__u64 snd; /* first packet to the driver */
	__u64 snd_last;
	__u64 skb; /* udp_name() of the last packet */
	__u64 order; /* in which they began */
	__u64 state;
	__s64 outstanding; /* packets that the driver has not got yet */
	__u32 tid;
	__u32 pid;
	__u32 bytes;
	__u32 weight;
	__u32 group; /* its place */
	__u32 ifindex; /* where its last packet was seen last */
	__u16 interface_first; /* slots in `interfaces` */
	__u16 interface_last;
	__u16 parts; /* of the last packet */
	__u16 repeats; /* further devices of the last packet */
	struct udp_remote remote; /* only where udp_peer_wanted() */
	__u16 flags;
};

/*
 * State of a socket: together within one 8 kB slab object. Tasks send and read at once, and several
 * CPUs deliver, all without a lock: what they share is changed atomically.
 */
struct udp_flow {
	__u64 rx_head; /* counters, not positions: slot = counter % UDP_ARRIVALS */
	__u64 rx_tail; /* the next to be read */
	__s64 rx_ahead; /* datagrams known to be taken by reads whose end is not seen yet */
	__u64 rx_doubt; /* when rx_ahead changed */
	__u32 rx_reader; /* the thread that read last */
	__u16 rx_shared; /* more than one thread reads */
	__u16 rx_proven; /* the queue holds nothing but what is in the ring */
	__u64 tx_used; /* a bit a slot */
	__u64 tx_order;
	__s64 tx_untracked; /* packets between scheduler and driver that are no message's */
	struct sampler tx_sampler;
	struct sampler rx_sampler;
	struct waiter waiter;
	__u64 group; /* of the last message, as in struct flow */
	struct flow_identity identity; /* only where records are sent */
	struct udp_arrival rx[UDP_ARRIVALS];
	struct udp_send tx[UDP_SENDS];
};

/*
 * What names a packet of a socket as long as it lives: where it is in memory, seen from the socket,
 * since a difference of pointers is a plain number to the verifier. Never 0.
 */
static __always_inline __u64 udp_name(const struct sock *sk, const struct sk_buff *skb)
{
	return (__u64)skb - (__u64)sk;
}

/* Made at the socket's first packet: a selected socket that is idle costs a mark alone. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct udp_flow);
} udp_flows SEC(".maps");

const volatile bool setting_udp; /* UDP is measured */
const volatile bool setting_udp_functions; /* its functions are traced, not the socket calls */

/* Whether it can be one of ours; raw sockets may carry the protocol's number too. */
static __always_inline bool udp_selectable(const struct sock *sk)
{
	return setting_udp && sk->sk_protocol == IPPROTO_UDP && sk->sk_type == SOCK_DGRAM &&
	       sk->sk_bpf_storage && sock_is_full(sk);
}

/* Whether the tracepoints of socket calls are for it. */
static __always_inline bool udp_called(const struct sock *sk)
{
	return !setting_udp_functions && udp_selectable(sk);
}

/*
 * Whether udp_sendmsg() is its whole send call: on an IPv6 socket it is a part of udpv6_sendmsg()
 * (v4-mapped peers, net/ipv6/udp.c, v6.12).
 */
static __always_inline bool udp_selectable_ipv4(const struct sock *sk)
{
	return udp_selectable(sk) && sk->__sk_common.skc_family == AF_INET;
}

/* `sk`: as this kind of program has it, a struct sock or a struct bpf_sock. */
static __always_inline struct udp_flow *udp_flow_create(const void *sk)
{
	struct mark *mark = bpf_sk_storage_get(&sockstamp_marks, (void *)sk, 0, 0);
	struct udp_flow *flow;

	if (!mark || mark->kind != MARK_DATAGRAM)
		return NULL;
	flow = bpf_sk_storage_get(&udp_flows, (void *)sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow) {
		count_loss(LOSS_FLOW);
		return NULL;
	}
	sample_start(&flow->tx_sampler);
	sample_start(&flow->rx_sampler);
	return flow;
}

/* For hooks that see a packet: a socket is of an interface if its first packet is. */
static __always_inline struct udp_flow *udp_flow_at(const void *sk, const struct sk_buff *skb)
{
	struct udp_flow *flow = bpf_sk_storage_get(&udp_flows, (void *)sk, 0, 0);

	if (flow || (setting_interface && skb->dev->ifindex != setting_interface))
		return flow;
	return udp_flow_create(sk);
}

static __always_inline struct udp_flow *udp_flow_of(const void *sk)
{
	struct udp_flow *flow = bpf_sk_storage_get(&udp_flows, (void *)sk, 0, 0);

	return flow || setting_interface ? flow : udp_flow_create(sk);
}

static __always_inline void udp_select(void *sk)
{
	struct mark *mark =
		bpf_sk_storage_get(&sockstamp_marks, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!mark) {
		count_loss(LOSS_FLOW);
		return;
	}
	mark->kind = MARK_DATAGRAM;
	/* The kernel gives a socket its cookie when somebody asks for it first. */
	if (setting_record || setting_groups & GROUP_BY_FLOW)
		bpf_get_socket_cookie(sk);
}

/* The namespace of a socket that the current task makes: sock_create(), net/socket.c, v6.1. */
static __always_inline bool task_netns_selected(void)
{
	return !setting_netns ||
	       bpf_get_current_task_btf()->nsproxy->net_ns->ns.inum == setting_netns;
}

/* A socket is made: the task is known, the cgroup is that of the attachment. */
static __always_inline void udp_created(struct bpf_sock *sk)
{
	if (!stopping && sk->protocol == IPPROTO_UDP && sk->type == SOCK_DGRAM &&
	    task_netns_selected() && pid_selected(bpf_get_current_pid_tgid() >> 32))
		udp_select(sk);
}

/* Sockets that are there already, each as often as it has descriptors. */
SEC("iter/task_file")
int mark_datagram_sockets(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct socket *socket;
	struct sock *sk;

	if (!task || !file || (setting_by_pid && !task_selected(task, task->tgid)))
		return 0;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	sk = socket->sk;
	if (sk && sk->sk_protocol == IPPROTO_UDP && sk->sk_type == SOCK_DGRAM &&
	    netns_selected(sk) && cgroup_selected(sk))
		udp_select(sk);
	return 0;
}

/*
 * Tasks that send at once count in one sampler without a lock. Where they have run it below zero,
 * it begins anew.
 */
static __always_inline void udp_sample_refresh(struct sampler *sampler, __u64 now)
{
	sample_refresh(sampler, now);
	if (sampling() && sampler->skip > 2 * sampler->weight)
		sample_start(sampler);
}

/* Whether a message's peer is needed: to be shown, or for the filter. */
static __always_inline bool udp_peer_wanted(void)
{
	return setting_record || setting_filtered;
}

/*
 * Whether a message passes the filter; asked for each, since an unconnected socket has a peer a
 * message.
 */
static __always_inline bool udp_wants(const struct sock *sk, const struct udp_remote *remote,
				      enum direction direction)
{
	struct filter_end here, there;

	if (!setting_filtered)
		return true;
	filter_read(sk, &here, &there);
	if (!there.port && remote->port) {
		there.port = remote->port;
		if (sk->__sk_common.skc_family == AF_INET6)
			__builtin_memcpy(there.address, remote->address, sizeof(there.address));
		else
			filter_map(&there, *(__be32 *)remote->address);
	}
	return filter_directions(&here, &there, IPPROTO_UDP) & DIRECTION_BIT(direction);
}

/* Each message of an unconnected socket has a peer of its own, and sockets may be connected late.
 */
static __always_inline void udp_identify(struct flow_identity *identity, const struct sock *sk,
					 const struct udp_remote *remote)
{
	flow_identify(identity, sk);
	if (identity->remote_port || !remote->port)
		return;
	__builtin_memcpy(identity->remote_address, remote->address, sizeof(remote->address));
	identity->remote_port = remote->port;
}

static __always_inline void udp_remember_task(struct flow_identity *identity, __u32 pid)
{
	if (identity->pid == pid)
		return;
	bpf_get_current_comm(identity->comm, sizeof(identity->comm));
	identity->pid = pid;
}

/*
 * Where a packet came from (`source`), or goes to, as the socket would have it: IPv4 on an IPv6
 * socket is v4-mapped. Ports come first in the header: RFC 768.
 */
static __always_inline void udp_peer(const struct sock *sk, const struct sk_buff *skb, bool source,
				     struct udp_remote *remote)
{
	const unsigned char *network = skb->head + skb->network_header;
	const unsigned char *transport = skb->head + skb->transport_header;
	__be16 port = 0;

	if (skb->protocol != bpf_htons(ETH_P_IP)) {
		bpf_probe_read_kernel(remote->address, 16, network + (source ? 8 : 24));
	} else if (sk->__sk_common.skc_family == AF_INET6) {
		remote->address[10] = 0xff;
		remote->address[11] = 0xff;
		bpf_probe_read_kernel(&remote->address[12], 4, network + (source ? 12 : 16));
	} else {
		bpf_probe_read_kernel(remote->address, 4, network + (source ? 12 : 16));
	}
	bpf_probe_read_kernel(&port, sizeof(port), transport + (source ? 0 : 2));
	remote->port = bpf_ntohs(port);
}

#endif
