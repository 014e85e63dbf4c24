/* SPDX-License-Identifier: GPL-2.0-only */
/* Fill in whose messages are. */
#ifndef SOCKSTAMP_RECORD_IDENTITY_BPF_H
#define SOCKSTAMP_RECORD_IDENTITY_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"

const volatile bool setting_record; /* send a record per message to the ring buffer */

static __always_inline void flow_identify(struct flow_identity *identity, const struct sock *sk)
{
	const struct sock_common *common;

	sk = untrusted(sk, struct sock);
	common = &sk->__sk_common;
	identity->cookie = common->skc_cookie.counter;
	identity->cgroup = sk->sk_cgrp_data.cgroup->kn->id;
	identity->netns = common->skc_net.net->ns.inum;
	identity->family = common->skc_family;
	identity->protocol = sk->sk_protocol;
	identity->local_port = common->skc_num;
	identity->remote_port = bpf_ntohs(common->skc_dport);
	if (bpf_core_field_exists(common->skc_v6_daddr) && identity->family == AF_INET6) {
		BPF_CORE_READ_INTO(&identity->local_address, common,
				   skc_v6_rcv_saddr.in6_u.u6_addr8);
		BPF_CORE_READ_INTO(&identity->remote_address, common, skc_v6_daddr.in6_u.u6_addr8);
	} else {
		*(__be32 *)identity->local_address = common->skc_rcv_saddr;
		*(__be32 *)identity->remote_address = common->skc_daddr;
	}
}

/* Return true if the service is at this end; as flow_is_client() says of a socket. */
static __always_inline bool identity_serves(const struct flow_identity *identity)
{
	__u8 opened_by = identity->opened_by & ~OPENED_EARLIER;

	if (opened_by != OPENED_BEFORE)
		return opened_by == OPENED_BY_PEER;
	return identity->local_port <= identity->remote_port;
}

/*
 * The identity of a socket, for all its messages: a flow_identity without its last member. Tasks
 * that share the socket have names of their own, which change (execve(2), prctl(2)).
 */
#define SOCKET_IDENTITY_BYTES __builtin_offsetof(struct flow_identity, comm)

/* Read the name of the current task. */
static __always_inline void comm_read(char *comm)
{
	const struct task_struct *task;

	if (!setting_casts) {
		bpf_get_current_comm(comm, COMM_LENGTH);
		return;
	}
	/* Two words: the helper takes longer. */
	task = bpf_get_current_task_btf();
	((__u64 *)comm)[0] = word_at(task->comm);
	((__u64 *)comm)[1] = word_at(task->comm + sizeof(__u64));
}

#endif
