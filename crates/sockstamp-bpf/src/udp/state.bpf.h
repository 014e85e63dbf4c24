/* SPDX-License-Identifier: GPL-2.0-only */
/* Keep the state of a UDP socket: its datagrams until they are read, its sends until they leave. */
#ifndef SOCKSTAMP_UDP_STATE_BPF_H
#define SOCKSTAMP_UDP_STATE_BPF_H

#include "demand/demand.bpf.h"
#include "group/group.bpf.h"
#include "record/identity.bpf.h"
#include "sample/sample.bpf.h"
#include "sched/sched.bpf.h"
#include "select/admit.bpf.h"
#include "select/asked.bpf.h"
#include "select/select.bpf.h"

#define SOCK_DGRAM 2 /* include/linux/net.h */

/* Unread datagrams of a socket that have room in its state: arrivals.bpf.h keeps the rest. */
#define UDP_ARRIVALS 32
/* Messages of a socket between the start of their send call and the driver. */
#define UDP_SENDS 32

struct udp_remote {
	__u8 address[16]; /* IPv4 in the first four bytes */
	__u16 port; /* host order; 0: not known */
} __attribute__((aligned(4)));

struct udp_arrival {
	__u64 next; /* the counter after its own, as rx_head; 0: it is being written */
	__u64 time; /* when it reached the socket */
	__u64 skb; /* udp_name(); 0: dropped since */
	__u32 lag; /* from the RX software stamp to time */
	__u16 length; /* at most 65507 bytes: RFC 768 */
	__u8 node; /* of memory: whose producers' queue it passes */
	__u8 cpu; /* low byte of the one that brought it */
	struct udp_remote remote; /* only where udp_peer_wanted() */
	__u32 stamp; /* low half of skb->tstamp, which tells it from a later skb of the name */
	__u32 number; /* datagram_number(), only in step */
	__u32 taken; /* low half of the time when it was seen to be taken; 0: not yet */
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
	UDP_SPLIT =
		1 << 4, /* it has packets in front of the last, or the last is split on its way */
	UDP_DOUBTED = 1 << 5, /* its last packet left unseen, or another's was taken for it */
	UDP_LEFT = 1 << 6, /* the driver has its last packet */
	UDP_OUTLASTED = 1 << 7, /* it may have begun before the programs of its window came */
	UDP_RESOLVED =
		1 << 8, /* its last packet waits for its neighbour since `sched`, or has done so */
};

/*
 * A packet between its socket and the driver. Segments of UDP_SEGMENT (udp(7)) that are taken apart
 * on the way have new addresses. But their payload stays where it is, in pages that they share
 * (skb_segment(), net/core/skbuff.c, v6.18): the last of them ends where the whole packet did.
 */
struct udp_packet_name {
	__u64 skb; /* udp_name() */
	__u64 tail; /* where its last page's bytes end; 0: it has no pages */
	__u32 segments; /* there are some: the address may be another's by the time that they leave
			 */
	__u32 borrowed; /* the pages are the user's, and may be sent again */
};

struct udp_send {
	__u64 entry; /* 0: no hook shows it */
	__u64 sched; /* first packet into the packet scheduler */
	__u64 sched_last;
	__u64 snd; /* last packet to the driver of its first device */
	__u64 snd_last; /* ... and of its last one */
	struct udp_packet_name name; /* of the last packet */
	char comm[COMM_LENGTH]; /* of its task; only where records are sent */
	__u64 state;
	__u32 tid;
	__u32 pid;
	__u32 bytes;
	__u32 weight;
	__u16 group; /* its slot */
	__u16 cpu; /* as in its record */
	__u32 ifindex; /* where its last packet was seen last */
	__u16 interface_first; /* slots in `interfaces` */
	__u16 interface_last;
	__u16 repeats; /* further devices of the last packet */
	__u16 hop; /* 1 + slot of the last packet in `hops`; 0: none */
	struct udp_remote remote; /* only where udp_peer_wanted() */
	__u32 number; /* datagram_number(), only in step */
	__u64 flags; /* changed by sender and driver at once */
};

/* True if its memory is counted as state. */
enum udp_account {
	UDP_NEW,
	UDP_COUNTED,
	UDP_RELEASED, /* its socket is closed */
};

enum udp_role {
	UDP_UNTOLD,
	UDP_ASKS,
	UDP_ANSWERS,
};

/*
 * The question that a socket has asked last, and the answer that came. A sender and the CPU that
 * delivers may write at once.
 */
struct udp_exchange {
	__u64 asked; /* when its last datagram was queued; 0: it has been answered */
	__u64 last; /* ... and stays */
	__u64 first; /* ... and of the first datagram of the same question */
	__u64 ns; /* how long the answer took */
	__u64 state; /* 1 + counter of the answer's arrival; 0: it was read */
	__u64 peer; /* udp_peer_name() */
	__u64 late; /* until when questions that were asked again may be answered; 0: none was */
	__u64 least; /* the shortest time of an answer so far; 0: none yet */
	__s32 in_flight; /* questions without an answer */
	__s32 former; /* of them, those to peers that were asked before this one */
	__u32 length; /* of its last datagram */
	__u8 unpaired; /* NO_PAIR() of what is known to be wrong with it */
	__u8 surplus; /* there were more answers than questions: pairs in step until they count */
	__u8 role; /* enum udp_role */
	__u8 awaited; /* a read has found no answer, or one of two that were asked at once */
};

/* Forget what was asked: questions without an answer are `left`. */
static __always_inline void udp_ask_no_more(struct udp_exchange *exchange, __s32 left)
{
	exchange->asked = 0;
	exchange->in_flight = left;
	exchange->former = left;
}

/* Threads of a socket whose last read is known. More share their places. */
#define UDP_READERS 8

struct udp_reader {
	__u64 end; /* of its last read */
	__u64 tid;
};

/*
 * The state of a socket, within one 8 kB slab object. Tasks send and read at once, and several CPUs
 * deliver, all without a lock: shared fields are changed atomically.
 */
struct udp_flow {
	__u64 key; /* in `udp_behind`: the socket's address */
	__u64 rx_head; /* counters, not slots: arrivals.bpf.h finds the slot of each */
	__u64 rx_tail; /* the next to be read */
	__s64 rx_behind; /* arrivals in `udp_behind` */
	__u64 rx_sought; /* where udp_find_arrival() goes on */
	__u64 rx_proven; /* since when the queue holds what is in the ring alone; 0: not known */
	__u32 rx_reader; /* the thread that read last */
	__u16 rx_shared; /* more than one thread reads */
	__u16 rx_resumed; /* since a gap the ring has not been in step with the queue */
	__u64 rx_refused; /* reads that ended without theirs, which is one of those seen taken */
	struct udp_reader rx_readers[UDP_READERS]; /* by their ids */
	__u64 tx_window; /* number of the window that the state of sends is of */
	__u64 rx_window; /* ... of reads */
	__u64 account; /* enum udp_account */
	__u64 tx_used; /* a bit per slot */
	struct sampler tx_sampler;
	struct sampler rx_sampler;
	struct waiter waiter;
	struct udp_exchange exchange;
	__u64 group; /* of the last message, as in struct flow */
	struct flow_identity identity; /* only where records are sent */
	struct udp_arrival rx[UDP_ARRIVALS];
	struct udp_send tx[UDP_SENDS];
};

#define UDP_FLOW_BYTES 8192
_Static_assert(sizeof(struct udp_flow) + STORAGE_HEAD <= UDP_FLOW_BYTES,
	       "state of a UDP socket takes more slab");

/*
 * The name of a packet of a socket during its life: its address relative to the socket,
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

const volatile bool setting_udp_entries; /* the functions that send show each begin of a call */

/* Return true if it can be selected; raw sockets may carry the protocol's number too. */
static __always_inline bool udp_selectable(const struct sock *sk)
{
	return setting_udp && sk->sk_protocol == IPPROTO_UDP && sk->sk_type == SOCK_DGRAM &&
	       sock_has_storage(sk) && sock_is_full(sk);
}

/* Return true if the tracepoints of socket calls apply to it. */
static __always_inline bool udp_by_socket_calls(const struct sock *sk)
{
	return !setting_udp_functions && udp_selectable(sk);
}

/* Return true if it can be selected, and the programs that follow its messages are attached. */
static __always_inline bool udp_followed(const struct sock *sk)
{
	return udp_selectable(sk) && demand_met(DEMAND_DATAGRAMS);
}

/* Return true if its packets are followed where those of all sockets pass. */
static __always_inline bool udp_packets_followed(const struct sock *sk)
{
	return !setting_packet_bit && udp_followed(sk);
}

/*
 * Return true if udp_sendmsg() is its whole send call: on an IPv6 socket it is a part of
 * udpv6_sendmsg() (v4-mapped peers, net/ipv6/udp.c, v6.12).
 */
static __always_inline bool udp_selectable_ipv4(const struct sock *sk)
{
	return udp_selectable(sk) && sk->__sk_common.skc_family == AF_INET;
}

/* The socket is closed, or the state came when it was closed already: one of the two finds out. */
static __always_inline void udp_flow_released(struct udp_flow *flow)
{
	if (__sync_val_compare_and_swap(&flow->account, UDP_COUNTED, UDP_RELEASED) == UDP_COUNTED)
		state_give_back(UDP_FLOW_BYTES);
}

/*
 * `sk`: as this kind of program has it, a struct sock or a struct bpf_sock. A reader and a sender
 * may be the first together, or while the socket is closed: the state is counted once. A socket
 * that is turned away stays so.
 */
static __always_inline struct udp_flow *udp_flow_create(const void *sk)
{
	volatile struct mark *mark = bpf_sk_storage_get(&sockstamp_marks, (void *)sk, 0, 0);
	struct udp_flow *flow;

	if (!mark || mark->kind != MARK_DATAGRAM)
		return NULL;
	if (!state_admit(UDP_FLOW_BYTES)) {
		mark->kind = 0;
		return NULL;
	}
	flow = bpf_sk_storage_get(&udp_flows, (void *)sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow)
		count_loss(LOSS_FLOW);
	if (!flow || __sync_val_compare_and_swap(&flow->account, UDP_NEW, UDP_COUNTED)) {
		state_give_back(UDP_FLOW_BYTES);
		return flow;
	}
	flow->key = (__u64)sk;
	/* What is queued already is not known. */
	flow->rx_resumed = setting_windows;
	if (mark->kind != MARK_DATAGRAM)
		udp_flow_released(flow);
	sample_start(&flow->tx_sampler);
	sample_start(&flow->rx_sampler);
	return flow;
}

/*
 * Return the state, for hooks that see a packet, and with it an interface: a socket belongs to one
 * if its first packet does.
 */
static __always_inline struct udp_flow *udp_flow_of_packet(const void *sk, __u32 interface)
{
	struct udp_flow *flow = bpf_sk_storage_get(&udp_flows, (void *)sk, 0, 0);

	if (flow || (setting_interface && interface != setting_interface))
		return flow;
	return udp_flow_create(sk);
}

static __always_inline struct udp_flow *udp_flow_lookup_or_create(const void *sk)
{
	struct udp_flow *flow = bpf_sk_storage_get(&udp_flows, (void *)sk, 0, 0);

	return flow || setting_interface ? flow : udp_flow_create(sk);
}

/*
 * Tasks that send at once count in one sampler without a lock. Where they have run it below zero,
 * it begins anew.
 */
static __always_inline void udp_sample_refresh(struct sampler *sampler, __u64 now, __u32 group)
{
	group_sample_refresh(sampler, now, group);
	if (sampling() && sampler->skip > 2 * sampler->weight)
		sample_start(sampler);
}

#endif
