/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel as programs see it: constants that no BTF carries, and reads of memory that has no
 * type.
 *
 * Settings of each feature (`const volatile`) are constant once loaded: the verifier removes the
 * code that they turn off.
 */
#ifndef SOCKSTAMP_KERNEL_KERNEL_BPF_H
#define SOCKSTAMP_KERNEL_KERNEL_BPF_H

#include "kernel/order.bpf.h"
#include "kernel/vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define AF_UNIX	      1 /* include/linux/socket.h */
#define AF_INET	      2
#define AF_INET6      10
#define SOL_SOCKET    1 /* include/uapi/asm-generic/socket.h */
#define SOL_TCP	      6 /* include/linux/socket.h */
#define IPPROTO_TCP   6 /* include/uapi/linux/in.h */
#define IPPROTO_UDP   17
#define IPPROTO_MPTCP 262
#define IFF_LOOPBACK  0x8 /* include/uapi/linux/if.h */

#define SOCK_DEAD 0 /* enum sock_flags, include/net/sock.h: no program has it open */
#define SOCK_DONE 1 /* the peer's FIN has come */

#define SOCK_BINDADDR_LOCK 4 /* include/net/sock.h */
#define SOCK_BINDPORT_LOCK 8

#define TCP_ESTABLISHED	 1 /* include/net/tcp_states.h */
#define TCP_SYN_SENT	 2
#define TCP_SYN_RECV	 3
#define TCP_FIN_WAIT1	 4
#define TCP_FIN_WAIT2	 5
#define TCP_TIME_WAIT	 6
#define TCP_CLOSE	 7
#define TCP_CLOSE_WAIT	 8
#define TCP_LAST_ACK	 9
#define TCP_LISTEN	 10
#define TCP_CLOSING	 11
#define TCP_NEW_SYN_RECV 12

#define MSG_PEEK	     0x2 /* include/linux/socket.h */
#define MSG_DONTWAIT	     0x40
#define MSG_ERRQUEUE	     0x2000
#define MSG_MORE	     0x8000
#define MSG_SENDPAGE_NOTLAST 0x20000 /* before v6.5 */

#define RCV_SHUTDOWN  1 /* include/net/sock.h */
#define SHUTDOWN_MASK 3

#define TASK_RUNNING 0 /* include/linux/sched.h */

#define CAP_BPF 39 /* include/uapi/linux/capability.h */

#define IORING_SETUP_DEFER_TASKRUN (1U << 13) /* include/uapi/linux/io_uring.h */
#define IO_CQ_WAKE_FORCE	   (-1U >> 1) /* io_uring/io_uring.h: no task waits */

/*
 * Reject request sockets and TIME_WAIT sockets, to which a packet may belong: they have only the
 * struct sock_common of a struct sock, and a helper would read beyond it. sk_fullsock(),
 * include/net/sock.h, v6.12.
 */
static __always_inline bool sock_is_full(const struct sock *sk)
{
	__u8 state = sk->__sk_common.skc_state;

	return state != TCP_TIME_WAIT && state != TCP_NEW_SYN_RECV;
}

/* Sequence numbers wrap: RFC 9293, section 3.4. */
static __always_inline bool seq_before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

static __always_inline bool seq_after(__u32 a, __u32 b)
{
	return seq_before(b, a);
}

/*
 * Narrow a binary search for the first element that ends after `seq` down to one half: `seq_end` is
 * where the element in the middle of `low` and `high` ends. Without a branch: each would double
 * the paths that the verifier walks, and be a guess for the CPU.
 */
static __always_inline void seq_halve(__u32 *low, __u32 *high, __u32 seq_end, __u32 seq)
{
	__u32 middle = (*low + *high) / 2;
	__u32 after = (__s32)(seq - seq_end) >> 31; /* all bits, if it ends after `seq` */

	/* Hide from the compiler that a branch would do, too. */
	barrier_var(after);
	*low += (middle + 1 - *low) & ~after;
	*high -= (*high - middle) & after;
}

extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak; /* v6.2 */
extern void *bpf_rdonly_cast(const void *object, __u32 btf_id) __ksym __weak; /* v6.2 */

/*
 * Memory can be given a type (bpf_rdonly_cast()); otherwise untyped memory costs one call per
 * field.
 */
const volatile bool setting_casts = true;

/*
 * The kernel's number of each structure that memory is given as its type, by its name. Types are
 * looked up in an excerpt of the kernel's, which has these in place of bpf_core_type_id_kernel():
 * excerpt.rs.
 */
enum kernel_type {
	cfs_rq = 1,
	eppoll_entry,
	inet_sock,
	io_ring_ctx,
	list_head,
	msghdr,
	net_device,
	rb_node,
	sk_buff,
	skb_shared_info,
	sock,
	sock_common,
	task_struct,
	task_struct___byte,
	tcp_skb_cb,
	tcp_sock,
	tcphdr,
	timespec64,
	udp_sock,
	wait_queue_entry,
};

/* `struct sk_buff` -> kernel_type_struct sk_buff -> sk_buff */
#define kernel_type_struct
#define kernel_type_of(type) bpf_core_enum_value(enum kernel_type, kernel_type_##type)

/* Give a type to memory without a typed pointer; reads through it fault safely to 0. */
#define cast_kernel(pointer, type) ((type *)bpf_rdonly_cast((pointer), kernel_type_of(type)))

/*
 * Look at a structure without the verifier's trust: helpers refuse it, and reads are guarded, by
 * some five instructions each. For each load of a pointer from a trusted structure the verifier
 * searches all types of the kernel up to four times (type_is_trusted(), type_is_rcu(),
 * kernel/bpf/verifier.c, v6.18), which takes a millisecond of each start.
 */
#define untrusted(pointer, type) \
	(setting_casts ? (const type *)cast_kernel(pointer, type) : (const type *)(pointer))

/* Read a field of untyped memory, on any kernel. */
#define kernel_read(pointer, type, field)                                  \
	({                                                                 \
		typeof(((type *)0)->field) kernel_value;                   \
                                                                           \
		if (setting_casts)                                         \
			kernel_value = cast_kernel(pointer, type)->field;  \
		else                                                       \
			bpf_core_read(&kernel_value, sizeof(kernel_value), \
				      &((type *)(pointer))->field);        \
		kernel_value;                                              \
	})

/*
 * Read the word at an address. The verifier allows arithmetic with it, but not with a pointer that
 * it knows.
 */
static __always_inline __u64 word_at(const void *address)
{
	return kernel_read(address, struct timespec64, tv_sec);
}

/* Return true if the socket has storage, as each that is watched has. */
static __always_inline bool sock_has_storage(const struct sock *sk)
{
	return untrusted(sk, struct sock)->sk_bpf_storage;
}

static __always_inline const struct tcp_sock *tcp_of(const struct sock *sk)
{
	return setting_casts ? cast_kernel(sk, struct tcp_sock) : (const struct tcp_sock *)sk;
}

/*
 * Return the socket as a TCP socket, or NULL for another one. Where there are no casts, the
 * verifier must know the type before tcp_of() may be used: it learns it here, once per program.
 */
static __always_inline const struct sock *tcp_known(const struct sock *sk)
{
	return setting_casts ? sk : (const struct sock *)bpf_skc_to_tcp_sock((void *)sk);
}

/* The verifier allows skb->cb to be read as any type: btf_struct_walk(), kernel/bpf/btf.c, v6.1. */
static __always_inline struct tcp_skb_cb *skb_tcp(const struct sk_buff *skb)
{
	return (struct tcp_skb_cb *)skb->cb;
}

static __always_inline struct skb_shared_info *skb_shared(const struct sk_buff *skb)
{
	return cast_kernel(skb->head + skb->end, struct skb_shared_info);
}

#endif
