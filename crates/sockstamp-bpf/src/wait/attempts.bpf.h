/* SPDX-License-Identifier: GPL-2.0-only */
/* Count all waits of a kind: what failed is held against what was tried. */
#ifndef SOCKSTAMP_WAIT_ATTEMPTS_BPF_H
#define SOCKSTAMP_WAIT_ATTEMPTS_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"
#include "record/identity.bpf.h"
#include "select/mark.bpf.h"

/* Processes and services; user space takes them all once a second. One where nobody asks. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct attempts_key);
	__type(value, struct attempts);
} attempts SEC(".maps");

__u64 attempts_untold; /* found no room */
__u64 attempts_added; /* elements that were made */

/* Note whose waits these are, but for the address of the service. */
static __always_inline void attempts_among(struct attempts_key *key, const struct sock *sk,
					   enum wait kind, __u32 pid)
{
	key->netns = sk->__sk_common.skc_net.net->ns.inum;
	key->pid = pid;
	key->family = sk->__sk_common.skc_family;
	key->kind = kind;
	key->protocol = sk->sk_protocol;
}

/* Note whose waits these are: of `pid`, for the service at the socket's other end. */
static __always_inline void attempts_of(struct attempts_key *key, const struct sock *sk,
					enum wait kind, __u32 pid)
{
	const struct sock_common *common;

	sk = untrusted(sk, struct sock);
	common = &sk->__sk_common;
	attempts_among(key, sk, kind, pid);
	key->port = bpf_ntohs(common->skc_dport);
	if (bpf_core_field_exists(common->skc_v6_daddr) && key->family == AF_INET6)
		BPF_CORE_READ_INTO(&key->address, common, skc_v6_daddr.in6_u.u6_addr8);
	else
		*(__be32 *)key->address = common->skc_daddr;
}

/* Return the port of a socket; one that closes has given its number back by then. */
static __always_inline __u16 port_of(const struct sock *sk)
{
	return bpf_ntohs(untrusted(sk, struct inet_sock)->inet_sport);
}

/* ... for the service at this end. */
static __always_inline void attempts_at(struct attempts_key *key, const struct sock *sk,
					enum wait kind, __u32 pid)
{
	const struct sock_common *common;

	key->port = port_of(sk);
	sk = untrusted(sk, struct sock);
	common = &sk->__sk_common;
	attempts_among(key, sk, kind, pid);
	if (bpf_core_field_exists(common->skc_v6_daddr) && key->family == AF_INET6)
		BPF_CORE_READ_INTO(&key->address, common, skc_v6_rcv_saddr.in6_u.u6_addr8);
	else
		*(__be32 *)key->address = common->skc_rcv_saddr;
}

/* A new element. Its place is not the stack: reads have little left of that. */
const struct attempts attempts_none = {.min_ns = ~0ULL};

/* Find the counts of a key. `comm`: the name of its process, or NULL: the current task's. */
static __always_inline struct attempts *attempts_find(const struct attempts_key *key,
						      const char *comm)
{
	struct attempts *found = bpf_map_lookup_elem(&attempts, key);

	if (found)
		return found;
	/* Another CPU may be first. */
	bpf_map_update_elem(&attempts, key, &attempts_none, BPF_NOEXIST);
	fully_ordered(__sync_fetch_and_add(&attempts_added, 1));
	found = bpf_map_lookup_elem(&attempts, key);
	if (!found)
		__sync_fetch_and_add(&attempts_untold, 1);
	else if (comm)
		__builtin_memcpy(found->comm, comm, sizeof(found->comm));
	else
		comm_read(found->comm);
	return found;
}

/* Count `weight` waits that took so long each. */
static __always_inline void attempts_add(struct attempts *found, __u64 ns, __u32 weight,
					 bool failed)
{
	__sync_fetch_and_add(&found->count, weight);
	__sync_fetch_and_add(&found->sum_ns, ns * weight);
	if (failed)
		__sync_fetch_and_add(&found->failed, weight);
	if (ns < found->min_ns)
		found->min_ns = ns;
}

/*
 * Count waits of the current task that ended well. A global function, so the verifier walks it
 * once, not once per path to it. Before v6.2 the argument of one may be no key of a map
 * (map_key_value_types, kernel/bpf/verifier.c, v6.1), but its copy on the stack may.
 */
__noinline int attempts_answered(const struct attempts_key *of, __u64 ns, __u32 weight,
				 bool prompted)
{
	struct attempts_key key;
	struct attempts *found;

	if (!of)
		return 0;
	key = *of;
	found = attempts_find(&key, NULL);
	if (!found)
		return 0;
	attempts_add(found, ns, weight, false);
	if (prompted)
		__sync_fetch_and_add(&found->prompted, weight);
	return 0;
}

/* Count a connect. A function of its own, for its stack. */
static __noinline int attempts_count_connect(const struct opening *opening, const struct sock *sk,
					     __u64 ns, bool failed)
{
	struct attempts_key key = {};
	struct attempts *found;

	attempts_of(&key, sk, WAIT_CONNECT, opening->pid);
	found = attempts_find(&key, opening->comm);
	if (found)
		attempts_add(found, ns, 1, failed);
	return 0;
}

/*
 * Count an answer that the current task has read; it stands for `weight` of them. `turn`: its
 * question had waited until another task had its own answer.
 */
static __noinline int attempts_count_answer(const struct sock *sk, __u32 pid, __u64 ns,
					    __u32 weight, bool turn)
{
	struct attempts_key key = {};

	attempts_of(&key, sk, WAIT_ANSWER, pid);
	return attempts_answered(&key, ns, weight, turn);
}

/*
 * Count a request that the current task has answered; it stands for `weight` of them. `prompted`:
 * another client's message may have ended the wait.
 */
static __noinline int attempts_count_service(const struct sock *sk, __u64 ns, __u32 weight,
					     bool prompted)
{
	struct attempts_key key = {};

	attempts_at(&key, sk, WAIT_SERVICE, bpf_get_current_pid_tgid() >> 32);
	return attempts_answered(&key, ns, weight, prompted);
}

/* Count a request that was read and not answered, by its record. */
static __noinline int attempts_count_unserved(const struct wait_record *record,
					      const struct sock *sk)
{
	struct attempts_key key = {};
	struct attempts *found;

	attempts_at(&key, sk, WAIT_SERVICE, record->flow.pid);
	found = attempts_find(&key, record->flow.comm);
	if (found)
		attempts_add(found, record->time - record->since, 1, true);
	return 0;
}

/* Count a wait in vain, by its record. */
static __noinline int attempts_count_unanswered(const struct wait_record *record)
{
	__u64 ns = record->time - record->since;
	struct attempts_key key = {
		.netns = record->flow.netns,
		.pid = record->flow.pid,
		.port = record->flow.remote_port,
		.family = record->flow.family,
		.kind = record->kind,
		.protocol = record->flow.protocol,
	};
	struct attempts *found;

	__builtin_memcpy(key.address, record->flow.remote_address, sizeof(key.address));
	found = attempts_find(&key, record->flow.comm);
	if (found)
		attempts_add(found, ns, 1, true);
	return 0;
}

#endif
