// SPDX-License-Identifier: GPL-2.0-only
/*
 * The points of the receive path where netstacklat examines packets, and the point where TCP wakes
 * the reader: count the packets of one network namespace there, and the time since their RX
 * software stamp. For tests, which compare our times with these.
 */
#include "kernel/kernel.bpf.h"

enum point {
	POINT_IP_START,
	POINT_TCP_START,
	POINT_UDP_START,
	POINT_TCP_SOCKET_ENQUEUED,
	POINT_UDP_SOCKET_ENQUEUED,
	POINT_TCP_DATA_READY,
	POINT_TCP_SOCKET_READ,
	POINT_UDP_SOCKET_READ,
	POINTS,
};

/* More than a test sends. */
#define TIMES 1024

struct reached {
	__u64 count;
	__u64 times_ns[TIMES];
} points[POINTS];

const volatile __u32 points_netns;
const volatile __s64 points_tai_minus_realtime;

#define NSEC_PER_SEC 1000000000ULL

/* The stamp is of CLOCK_REALTIME, which no helper reads. */
static __always_inline void reach(enum point point, const struct net *net, __u64 stamp)
{
	__u64 now = bpf_ktime_get_tai_ns() - points_tai_minus_realtime;
	__u64 place;

	if (!stamp || net->ns.inum != points_netns)
		return;
	place = __sync_fetch_and_add(&points[point].count, 1);
	if (place < TIMES)
		points[point].times_ns[place] = now - stamp;
}

static __always_inline void at_socket(enum point point, const struct sock *sk, __u64 stamp)
{
	reach(point, sk->__sk_common.skc_net.net, stamp);
}

/* A function whose packet has come to no socket yet. */
#define PACKET_POINT(point, function)                            \
	SEC("fentry/" #function)                                 \
	int BPF_PROG(at_##function, const struct sk_buff *skb)   \
	{                                                        \
		reach(point, skb->dev->nd_net.net, skb->tstamp); \
		return 0;                                        \
	}

PACKET_POINT(POINT_IP_START, ip_rcv_core)
PACKET_POINT(POINT_IP_START, ip6_rcv_core)
PACKET_POINT(POINT_TCP_START, tcp_v4_rcv)
PACKET_POINT(POINT_TCP_START, tcp_v6_rcv)
PACKET_POINT(POINT_UDP_START, udp_rcv)
PACKET_POINT(POINT_UDP_START, udpv6_rcv)

SEC("fexit/tcp_queue_rcv")
int BPF_PROG(at_tcp_queue_rcv, const struct sock *sk, const struct sk_buff *skb)
{
	at_socket(POINT_TCP_SOCKET_ENQUEUED, sk, skb->tstamp);
	return 0;
}

SEC("fexit/__udp_enqueue_schedule_skb")
int BPF_PROG(at_udp_enqueue, const struct sock *sk, const struct sk_buff *skb, int result)
{
	if (!result)
		at_socket(POINT_UDP_SOCKET_ENQUEUED, sk, skb->tstamp);
	return 0;
}

/*
 * The packet that came is the last of the queue, or part of it. tcp_set_rcvlowat() calls this too,
 * when the queue may be empty.
 */
SEC("fentry/tcp_data_ready")
int BPF_PROG(at_tcp_data_ready, const struct sock *sk)
{
	const struct sk_buff *skb = sk->sk_receive_queue.prev;

	if ((void *)skb != (void *)&sk->sk_receive_queue)
		at_socket(POINT_TCP_DATA_READY, sk, skb->tstamp);
	return 0;
}

SEC("fentry/tcp_recv_timestamp")
int BPF_PROG(at_tcp_recv_timestamp, const struct msghdr *msg, const struct sock *sk, void *stamps)
{
	struct scm_timestamping_internal___before_7_2 *split = stamps;
	struct scm_timestamping_internal *whole = stamps;
	__u64 stamp;

	if (bpf_core_type_size(*whole) == 3 * sizeof(ktime_t))
		stamp = BPF_CORE_READ(whole, ts[0]);
	else
		stamp = BPF_CORE_READ(split, ts[0].tv_sec) * NSEC_PER_SEC +
			BPF_CORE_READ(split, ts[0].tv_nsec);
	at_socket(POINT_TCP_SOCKET_READ, sk, stamp);
	return 0;
}

SEC("fentry/skb_consume_udp")
int BPF_PROG(at_skb_consume_udp, const struct sock *sk, const struct sk_buff *skb)
{
	at_socket(POINT_UDP_SOCKET_READ, sk, skb->tstamp);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
