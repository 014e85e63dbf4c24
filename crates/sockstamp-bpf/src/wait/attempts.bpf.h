/* SPDX-License-Identifier: GPL-2.0-only */
/* Count all waits of a kind: what failed is held against what was tried. */
#ifndef SOCKSTAMP_WAIT_ATTEMPTS_BPF_H
#define SOCKSTAMP_WAIT_ATTEMPTS_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"
#include "record/identity.bpf.h"
#include "select/mark.bpf.h"

/* Processes and services; user space takes them all each time it asks. One where nobody asks. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct attempts_key);
	__type(value, struct attempts);
} attempts SEC(".maps");

__u64 attempts_untold; /* found no room */

/* Note whose connects these are, by the socket. */
static __always_inline void attempts_of_connect(struct attempts_key *key, const struct sock *sk,
						__u32 pid)
{
	struct flow_identity identity = {};

	flow_identify(&identity, sk);
	__builtin_memcpy(key->address, identity.remote_address, sizeof(key->address));
	key->netns = identity.netns;
	key->pid = pid;
	key->port = identity.remote_port;
	key->family = identity.family;
	key->kind = WAIT_CONNECT;
	key->protocol = identity.protocol;
}

/* Count a connect. A function of its own, for its stack. */
static __noinline int attempts_count_connect(const struct opening *opening, const struct sock *sk,
					     __u64 ns, bool failed)
{
	struct attempts_key key = {};
	struct attempts *found;

	attempts_of_connect(&key, sk, opening->pid);
	found = bpf_map_lookup_elem(&attempts, &key);
	if (!found) {
		struct attempts first = {.min_ns = ns};

		__builtin_memcpy(first.comm, opening->comm, sizeof(first.comm));
		/* Another CPU may be first. */
		bpf_map_update_elem(&attempts, &key, &first, BPF_NOEXIST);
		found = bpf_map_lookup_elem(&attempts, &key);
	}
	if (!found) {
		__sync_fetch_and_add(&attempts_untold, 1);
		return 0;
	}
	__sync_fetch_and_add(&found->count, 1);
	__sync_fetch_and_add(&found->sum_ns, ns);
	if (failed)
		__sync_fetch_and_add(&found->failed, 1);
	if (ns < found->min_ns)
		found->min_ns = ns;
	return 0;
}

#endif
