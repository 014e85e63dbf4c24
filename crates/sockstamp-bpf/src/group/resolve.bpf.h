/* SPDX-License-Identifier: GPL-2.0-only */
/* Find the group of a message. */
#ifndef SOCKSTAMP_GROUP_RESOLVE_BPF_H
#define SOCKSTAMP_GROUP_RESOLVE_BPF_H

#include "group/group.bpf.h"
#include "record/identity.bpf.h"
#include "select/select.bpf.h"

#define GROUP_BY_TASK (GROUP_BY_PID | GROUP_BY_COMM)
/* Dimensions in which the messages of one UDP socket may differ, if it is not connected. */
#define GROUP_BY_END (GROUP_BY_PORT | GROUP_BY_PEER | GROUP_BY_FLOW)

static __always_inline struct group_slot *group_slot(__u32 token)
{
	__u32 index = token & GROUP_INDEX_MASK;

	return bpf_map_lookup_elem(&group_slots, &index);
}

/* Return true if the token's group still has its slot. */
static __always_inline bool group_valid(__u32 token)
{
	struct group_slot *slot = group_slot(token);

	return slot && slot->token == token;
}

/* Number of times that a slot was taken: user space looks at slots only after that. */
__u64 groups_made;

/*
 * Give a key a free slot. 0: none is left. The key is written before the token is told, the
 * token before the first message is counted.
 */
static __always_inline __u32 group_make(const struct group_key *key)
{
	struct group_slot *slot;
	struct group *group;
	__u32 index, token, *first;

	if (bpf_map_pop_elem(&group_free, &index))
		return 0;
	slot = bpf_map_lookup_elem(&group_slots, &index);
	group = group_at(index);
	if (!slot || !group)
		return 0;
	group->key = *key;
	slot->used = 1;
	fully_ordered(__sync_fetch_and_add(&groups_made, 1));
	token = slot->token;
	if (!bpf_map_update_elem(&group_tokens, key, &token, BPF_NOEXIST))
		return token;
	/* Another CPU was faster. */
	slot->used = 0;
	bpf_map_push_elem(&group_free, &index, 0);
	first = bpf_map_lookup_elem(&group_tokens, key);
	return first ? *first : 0;
}

/*
 * An element of a hash may be given to another key while it is read (preallocated elements are used
 * again at once, kernel/bpf/hashtab.c, v6.18), so the group itself is asked whose it is.
 */
static __always_inline bool group_has_key(__u32 token, const struct group_key *key)
{
	const struct group *group = group_at(token & GROUP_INDEX_MASK);
	const __u64 *ours = (const void *)key, *its;

	if (!group)
		return false;
	its = (const void *)&group->key;
	for (int i = 0; i < sizeof(*key) / sizeof(*ours); i++) {
		if (ours[i] != its[i])
			return false;
	}
	return true;
}

/*
 * The token of a key's group; of GROUP_OTHER, and counted, if there is no room for it. No global
 * function: before v6.2 the argument of one may be no key of a map (map_key_value_types,
 * kernel/bpf/verifier.c).
 */
static __noinline __u32 group_find(const struct group_key *key)
{
	struct group_slot *other;
	__u32 token, *found;

	found = bpf_map_lookup_elem(&group_tokens, key);
	token = found ? *found : group_make(key);
	if (token && group_valid(token) && group_has_key(token, key))
		return token;
	count_loss(LOSS_GROUP);
	other = group_slot(GROUP_OTHER);
	return other ? other->token : 0;
}

/* Clear the identity outside the dimensions, so that it is the same for all messages. */
static __always_inline void group_identify(struct group_key *key, const struct sock *sk)
{
	const struct net *net = sk->__sk_common.skc_net.net;
	struct flow_identity *identity = &key->identity;

	if (setting_groups & (GROUP_BY_FLOW | GROUP_BY_PEER))
		flow_identify(identity, sk);
	identity->cgroup = 0;
	if (!(setting_groups & GROUP_BY_FLOW)) {
		identity->cookie = 0;
		identity->netns = 0;
		identity->protocol = 0;
		identity->local_port = 0;
		identity->remote_port = 0;
		__builtin_memset(identity->local_address, 0, sizeof(identity->local_address));
	}
	if (setting_groups & GROUP_BY_PROTO)
		identity->protocol = sk->sk_protocol;
	if (setting_groups & (GROUP_BY_INTERFACE | GROUP_BY_NETNS)) {
		identity->netns = net->ns.inum;
		key->netns_cookie = net->net_cookie;
	}
	if (setting_groups & GROUP_BY_INTERFACE)
		key->ifindex = sk->sk_dst_cache->dev->ifindex;
}

static __always_inline __u16 group_port(const struct sock *sk)
{
	if (flow_is_client(sk, flow_mark_lookup(sk)))
		return bpf_ntohs(sk->__sk_common.skc_dport);
	return sk->__sk_common.skc_num;
}

static __always_inline void group_name_task(struct group_key *key, __u32 pid)
{
	const struct task_struct *task = bpf_get_current_task_btf();

	if (setting_groups & GROUP_BY_PID)
		key->identity.pid = pid;
	if (setting_groups & GROUP_BY_COMM)
		bpf_probe_read_kernel_str(key->identity.comm, sizeof(key->identity.comm),
					  task->group_leader->comm);
}

/* `pid` 0: no task. */
static __always_inline void group_describe(struct group_key *key, const struct sock *sk, __u32 pid)
{
	group_identify(key, sk);
	if (setting_groups & GROUP_BY_CGROUP)
		key->identity.cgroup = sk->sk_cgrp_data.cgroup->kn->id;
	if (setting_groups & GROUP_BY_PORT)
		key->port = group_port(sk);
	if (pid)
		group_name_task(key, pid);
}

/*
 * Find the group of a socket's messages: rare. A function of its own: where nothing is grouped, the
 * verifier removes it once per program, not once per place.
 */
static __noinline __u32 group_resolve(const struct sock *sk, __u32 pid)
{
	struct group_key key = {};

	group_describe(&key, sk, pid);
	return group_find(&key);
}

/*
 * Return a number for a task whose messages are in the same group as its last one: a task may take
 * another name.
 */
static __always_inline __u32 group_task(__u32 pid)
{
	const struct task_struct *leader;
	__u64 name;

	if (!(setting_groups & GROUP_BY_COMM))
		return pid;
	leader = bpf_get_current_task_btf()->group_leader;
	name = word_at(leader->comm) * 31 + word_at(leader->comm + sizeof(name));
	return pid ^ (__u32)(name * 0x9e3779b97f4a7c15ULL >> 32);
}

/* `last`, of the flow, is one word, since a reader and a sender may write it at the same time. */
static __always_inline __u32 group_of_task(__u64 *last, const struct sock *sk)
{
	__u32 pid = 0, task = 0, token;
	__u64 known;

	if (!setting_groups)
		return GROUP_OTHER;
	if (setting_groups & GROUP_BY_TASK) {
		pid = bpf_get_current_pid_tgid() >> 32;
		task = group_task(pid);
	}
	known = *(volatile __u64 *)last;
	token = known;
	if (known >> 32 != task || !group_valid(token)) {
		token = group_resolve(sk, pid);
		*(volatile __u64 *)last = (__u64)task << 32 | token;
	}
	return token & GROUP_INDEX_MASK;
}

/* `last`, as above; NULL where the socket has no state. */
static __always_inline __u32 group_of_socket(const __u64 *last, const struct sock *sk)
{
	__u32 token = 0;

	if (!setting_groups)
		return GROUP_OTHER;
	if (last)
		token = *(const volatile __u64 *)last;
	if (!group_valid(token))
		token = group_resolve(sk, 0);
	return token & GROUP_INDEX_MASK;
}

#endif
