/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Evaluate the filter expression: once per flow, for each of its directions. A message's source is
 * the end that sends it.
 */
#ifndef SOCKSTAMP_SELECT_FILTER_BPF_H
#define SOCKSTAMP_SELECT_FILTER_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"
#include "select/filter.h"

const volatile bool setting_filtered; /* there is an expression */
const volatile struct filter_test setting_filter[FILTER_TESTS];

#define DIRECTION_BIT(direction) (1 << (direction))
#define BOTH_DIRECTIONS		 (DIRECTION_BIT(DIRECTION_TX) | DIRECTION_BIT(DIRECTION_RX))

struct filter_end {
	__u32 address[4]; /* as in filter_test */
	__u32 port; /* host order */
};

static __always_inline bool filter_holds(const volatile struct filter_test *test,
					 const struct filter_end *source,
					 const struct filter_end *destination, __u32 protocol)
{
	const struct filter_end *end = test->side == FILTER_SOURCE ? source : destination;

	switch (test->field) {
	case FILTER_PROTOCOL:
		return protocol == test->first;
	case FILTER_PORT:
		return end->port >= test->first && end->port <= test->last;
	}
	for (int i = 0; i < 4; i++) {
		if ((end->address[i] & test->mask[i]) != test->network[i])
			return false;
	}
	return true;
}

/*
 * Make the tests in their order, except those that are jumped over: jumps go forward only. The
 * verifier knows the tests, so it walks only the paths of this expression. A global function, so it
 * does so once.
 */
__noinline int filter_accepts(const struct filter_end *source, const struct filter_end *destination,
			      __u32 protocol)
{
	__u32 next = 0;

	if (!source || !destination)
		return false;
	for (__u32 i = 0; i < FILTER_TESTS; i++) {
		const volatile struct filter_test *test = &setting_filter[i];

		if (i != next)
			continue;
		next = filter_holds(test, source, destination, protocol) ? test->on_true :
									   test->on_false;
	}
	return next == FILTER_ACCEPT;
}

/* Map IPv4 into IPv6: RFC 4291, section 2.5.5.2. */
static __always_inline void filter_map(struct filter_end *end, __be32 address)
{
	end->address[0] = 0;
	end->address[1] = 0;
	end->address[2] = bpf_htonl(0xffff);
	end->address[3] = address;
}

static __always_inline void filter_read(const struct sock *sk, struct filter_end *local,
					struct filter_end *remote)
{
	const struct sock_common *common = &sk->__sk_common;

	local->port = common->skc_num;
	remote->port = bpf_ntohs(common->skc_dport);
	if (bpf_core_field_exists(common->skc_v6_daddr) && common->skc_family == AF_INET6) {
		BPF_CORE_READ_INTO(&local->address, common, skc_v6_rcv_saddr.in6_u.u6_addr32);
		BPF_CORE_READ_INTO(&remote->address, common, skc_v6_daddr.in6_u.u6_addr32);
	} else {
		filter_map(local, common->skc_rcv_saddr);
		filter_map(remote, common->skc_daddr);
	}
}

/* Return the directions, as bits, in which messages between these ends are measured. */
static __always_inline __u8 filter_directions(const struct filter_end *local,
					      const struct filter_end *remote, __u32 protocol)
{
	__u8 directions = 0;

	if (filter_accepts(local, remote, protocol))
		directions |= DIRECTION_BIT(DIRECTION_TX);
	if (filter_accepts(remote, local, protocol))
		directions |= DIRECTION_BIT(DIRECTION_RX);
	return directions;
}

/* Evaluate the expression for a connected socket. */
static __always_inline __u8 filter_flow(const struct sock *sk)
{
	struct filter_end local, remote;

	if (!setting_filtered)
		return BOTH_DIRECTIONS;
	filter_read(sk, &local, &remote);
	return filter_directions(&local, &remote, sk->sk_protocol);
}

#endif
