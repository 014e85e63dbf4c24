/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Set and clear bits on a socket that make the kernel call sockops programs. All programs of the
 * host share each bit, and nothing shows how many need it. The mark of each sockstamp therefore has
 * the bits that it must clear: those that it set, and those that another sockstamp, which has them
 * in its own mark, had set. The last mark with a bit clears it. A bit that was set before all of
 * them is in no mark, and stays. If another program sets a bit that is already ours, nothing shows
 * it, and the program loses the bit with ours; except one that writes options beside a tag
 * (tcp/tag).
 *
 * The socket is locked throughout, so only one sockstamp at a time works on it.
 */
#ifndef SOCKSTAMP_SELECT_ASKED_BPF_H
#define SOCKSTAMP_SELECT_ASKED_BPF_H

#include "kernel/kernel.bpf.h"
#include "select/mark.bpf.h"

/*
 * Bits that kernel/series adds, as in the running kernel; 0: not used. Without the build feature
 * `series` they are 0 for the compiler, which leaves out what they turn on.
 */
#ifdef SOCKSTAMP_SERIES
const volatile __u32 setting_receive_bit; /* SK_BPF_CB_RX */
const volatile __u32 setting_packet_bit; /* SK_BPF_CB_TX_EVERY_SKB: messages of UDP by callbacks */
#else
enum { setting_receive_bit = 0, setting_packet_bit = 0 };
#endif

/* The number of storages that are examined per socket. */
#define STORAGES_MAX 64

/*
 * Return the bits in all marks on this socket, including ours. Each sockstamp has its own map of
 * marks, all with the same name. The list is read defensively, because storages of other programs
 * may change meanwhile. A map without references is that of a killed sockstamp: a worker removes
 * its marks some time later (bpf_map_put(), kernel/bpf/syscall.c, v6.18).
 */
static __always_inline __u8 asked_by_marks(const struct sock *sk)
{
	const struct hlist_node *node = BPF_CORE_READ(sk, sk_bpf_storage, list.first);
	__u8 all = 0;
	int i;

	bpf_for(i, 0, STORAGES_MAX)
	{
		const struct bpf_local_storage_elem *elem;
		char name[sizeof(MARKS_NAME)];
		__s64 references = 0;
		__u8 asked = 0;

		if (!node)
			break;
		elem = (void *)node - bpf_core_field_offset(struct bpf_local_storage_elem, snode);
		BPF_CORE_READ_STR_INTO(&name, elem, sdata.smap, map.name);
		BPF_CORE_READ_INTO(&references, elem, sdata.smap, map.refcnt.counter);
		BPF_CORE_READ_INTO(&asked, elem, sdata.data[MARK_ASKED]);
		if (references && !bpf_strncmp(name, sizeof(name), MARKS_NAME))
			all |= asked;
		node = BPF_CORE_READ(node, next);
	}
	return all;
}

/* Return the bits that are in bpf_sock_ops_cb_flags. */
static __always_inline int sock_ops_cb_flags_of(__u8 bits)
{
	int callbacks = 0;

	if (bits & ASKED_ENTRY)
		callbacks |= BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG;
	if (bits & ASKED_STATES)
		callbacks |= BPF_SOCK_OPS_STATE_CB_FLAG;
	if (bits & ASKED_SEGMENTS)
		callbacks |= BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG;
	if (bits & ASKED_TAGS)
		callbacks |= BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG;
	return callbacks;
}

/* Bits in sk_bpf_cb_flags; only TCP has the others. */
#define ASKED_OF_SOCKET (ASKED_STAMPS | ASKED_READS | ASKED_PACKETS)

static __always_inline int sk_bpf_cb_flags_of(__u8 bits)
{
	int flags = 0;

	if (bits & ASKED_STAMPS)
		flags |= SK_BPF_CB_TX_TIMESTAMPING;
	if (bits & ASKED_READS)
		flags |= setting_receive_bit;
	if (bits & ASKED_PACKETS)
		flags |= setting_packet_bit;
	return flags;
}

static __always_inline __u8 sk_callbacks_on(const struct sock *sk)
{
	int flags = sk->sk_bpf_cb_flags;
	__u8 bits = 0;

	if (flags & SK_BPF_CB_TX_TIMESTAMPING)
		bits |= ASKED_STAMPS;
	if (flags & setting_receive_bit)
		bits |= ASKED_READS;
	if (flags & setting_packet_bit)
		bits |= ASKED_PACKETS;
	return bits;
}

static __always_inline __u8 tcp_callbacks_on(const struct tcp_sock *tp)
{
	__u8 bits = sk_callbacks_on((const struct sock *)tp);
	int callbacks = tp->bpf_sock_ops_cb_flags;

	if (callbacks & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG)
		bits |= ASKED_ENTRY;
	if (callbacks & BPF_SOCK_OPS_STATE_CB_FLAG)
		bits |= ASKED_STATES;
	if (callbacks & BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG)
		bits |= ASKED_SEGMENTS;
	if (callbacks & BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG)
		bits |= ASKED_TAGS;
	return bits;
}

/*
 * Switch only these bits of a socket of any protocol on or off. `socket` is the argument for
 * bpf_setsockopt().
 */
static __always_inline bool sk_callbacks_switch(void *socket, const struct sock *sk, __u8 bits,
						bool on)
{
	int flags = sk->sk_bpf_cb_flags & ~sk_bpf_cb_flags_of(bits);

	if (on)
		flags |= sk_bpf_cb_flags_of(bits);
	return !bpf_setsockopt(socket, SOL_SOCKET, SK_BPF_CB_FLAGS, &flags, sizeof(flags));
}

/* Do the same for a TCP socket, which has more bits. */
static __always_inline bool tcp_callbacks_switch(void *socket, const struct tcp_sock *tp, __u8 bits,
						 bool on)
{
	int callbacks = tp->bpf_sock_ops_cb_flags & ~sock_ops_cb_flags_of(bits);

	if (on)
		callbacks |= sock_ops_cb_flags_of(bits);
	if (bits & ASKED_OF_SOCKET &&
	    !sk_callbacks_switch(socket, (const struct sock *)tp, bits, on))
		return false;
	return !(bits & ~ASKED_OF_SOCKET) ||
	       !bpf_setsockopt(socket, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &callbacks,
			       sizeof(callbacks));
}

/* Request these bits. `asked` is the mark's field, which stays when a socket is reused. */
static __always_inline bool tcp_callbacks_request(void *socket, const struct tcp_sock *tp,
						  __u8 wanted, __u8 *asked)
{
	__u8 found = tcp_callbacks_on(tp) & wanted;
	__u8 missing = wanted & ~found;

	if (found)
		*asked |= found & asked_by_marks((const struct sock *)tp);
	if (missing && !tcp_callbacks_switch(socket, tp, missing, true))
		return false;
	*asked |= missing;
	return true;
}

/* Do the same for a UDP socket. */
static __always_inline bool sk_callbacks_request(void *socket, const struct sock *sk, __u8 wanted,
						 __u8 *asked)
{
	__u8 found = sk_callbacks_on(sk) & wanted;
	__u8 missing = wanted & ~found;

	if (found)
		*asked |= found & asked_by_marks(sk);
	if (missing && !sk_callbacks_switch(socket, sk, missing, true))
		return false;
	*asked |= missing;
	return true;
}

/* Clear the bits of a deleted mark, except those of other marks. */
static __always_inline void tcp_callbacks_give_back(void *socket, const struct tcp_sock *tp,
						    __u8 asked)
{
	__u8 last = asked & ~asked_by_marks((const struct sock *)tp);

	if (last)
		tcp_callbacks_switch(socket, tp, last, false);
}

/* Do the same for a UDP socket. */
static __always_inline void sk_callbacks_give_back(void *socket, const struct sock *sk, __u8 asked)
{
	__u8 last = asked & ~asked_by_marks(sk);

	if (last)
		sk_callbacks_switch(socket, sk, last, false);
}

#endif
