/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The layouts that programs on packets share with user space. Parses alone, as abi.h does.
 * Addresses of IPv4 are mapped into IPv6 (RFC 4291, section 2.5.5.2).
 */
#ifndef SOCKSTAMP_PACKETS_PACKETS_H
#define SOCKSTAMP_PACKETS_PACKETS_H

#include "abi/abi.h"

/* Where a packet is seen, in the order of its path. */
enum packet_stage {
	PACKET_SCHED, /* it enters a packet scheduler */
	PACKET_DRIVER, /* a driver takes it */
	PACKET_SOFTIRQ, /* the host has received it */
	PACKET_SOCKET, /* it is about to be queued at its socket */
	PACKET_TCP, /* TCP takes it */
	PACKET_STAGES,
};

enum packet_loss {
	PACKET_LOSS_RING, /* no room in the ring buffer */
	PACKET_LOSS_HEADERS, /* its headers are not in its linear memory */
	PACKET_LOSS_FRAGMENT, /* a fragment whose first one was not seen */
	PACKET_LOSS_FLOW, /* no room for its flow */
	PACKET_LOSSES,
};

struct packet_key {
	__u32 local_address[4]; /* network order */
	__u32 remote_address[4];
	__u32 netns;
	__u16 local_port; /* host order */
	__u16 remote_port;
	__u32 protocol;
};

/* Bytes of a packet in a record; the smallest holds all headers that are not unusually long. */
#define PACKET_SMALL  128
#define PACKET_MEDIUM 2048
#define PACKET_LARGE  (64 << 10)

struct packet_record {
	__u64 time;
	__u64 address; /* of its sk_buff, which tells it from others in the host */
	__u64 cookie;
	__u64 cgroup;
	struct packet_key key;
	__u32 pid;
	/* These end at their first zero. They are aligned, to be copied by words. */
	__u8 comm[COMM_LENGTH];
	__u8 interface[INTERFACE_NAME];
	__u32 ifindex;
	__u32 length; /* from the IP header on */
	__u32 captured; /* bytes that follow */
	__u16 gso_size; /* of the segments that it will be cut into, or was put together from */
	__u16 gso_segs;
	__u8 stage;
	__u8 direction;
	__u8 padding[2];
};

#endif
