/* SPDX-License-Identifier: GPL-2.0-only */
/* The target: tasks and a cgroup. */
#ifndef SOCKSTAMP_SELECT_TARGET_BPF_H
#define SOCKSTAMP_SELECT_TARGET_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"

/* Cgroups may be nested as deep as one likes; deeper ones are not found. */
#define CGROUP_LEVELS 64

const volatile bool setting_by_pid; /* only messages of processes that were named: */
const volatile bool setting_pids; /* by id, in `pids` */
const volatile bool setting_comms; /* by name, in `comms` */
const volatile bool setting_spare_own; /* no messages of this or other sockstamps */
/* Only flows of these network namespaces, up to the first 0; none: any. */
const volatile __u32 setting_netns[NAMESPACES];
const volatile __u32 setting_interface; /* only flows routed through this index there; 0: any */
/* The id of the target cgroup, for walks over sockets, which are attached to no cgroup. */
const volatile __u64 setting_cgroup;

/* Thread group ids of the selected tasks: as many as a command line can sensibly name. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u8);
} pids SEC(".maps");

/* Names of the selected processes, padded with zeros. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, char[COMM_LENGTH]);
	__type(value, __u8);
} comms SEC(".maps");

static __always_inline bool comm_selected(const struct task_struct *task)
{
	char comm[COMM_LENGTH] = {};

	bpf_probe_read_kernel_str(comm, sizeof(comm), task->group_leader->comm);
	return bpf_map_lookup_elem(&comms, comm);
}

/* Every condition holds: the task's process is among the ids, and it has one of the names. */
static __always_inline bool task_selected(const struct task_struct *task, __u32 tgid)
{
	if (setting_pids && !bpf_map_lookup_elem(&pids, &tgid))
		return false;
	return !setting_comms || comm_selected(task);
}

/* Return true if messages of the current task, of this thread group, are measured. */
static __always_inline bool pid_selected(__u32 tgid)
{
	return !setting_by_pid || task_selected(bpf_get_current_task_btf(), tgid);
}

/* Sockops programs may not ask for the id by its own helper before v6.10. */
static __always_inline __u32 current_process(void)
{
	return bpf_get_current_task_btf()->tgid;
}

/* Inodes of namespaces are above 0 (PROC_DYNAMIC_FIRST, fs/proc/generic.c). */
static __always_inline bool namespace_selected(__u32 inode)
{
	for (int slot = 0; slot < NAMESPACES; slot++)
		if (setting_netns[slot] == inode)
			return true;
	return !setting_netns[0];
}

static __always_inline bool netns_selected(const struct sock *sk)
{
	return !setting_netns[0] || namespace_selected(sk->__sk_common.skc_net.net->ns.inum);
}

/*
 * Return true if this is a process of a sockstamp, whose traffic is made by measuring. Anybody may
 * take the name; holding CAP_BPF in the first user namespace, as the first thread of a sockstamp
 * that measures does (it drops it from the effective set alone; other threads have none), needs no
 * name to hide from BPF programs. A frame of its own: sockops programs have no room for the name.
 */
static __noinline bool task_is_sockstamp(const struct task_struct *task)
{
	const struct task_struct *leader = task->group_leader;
	const struct cred *cred = leader->cred;
	char comm[COMM_LENGTH] = {};
	__u64 permitted = 0;

	bpf_probe_read_kernel_str(comm, sizeof(comm), leader->comm);
	if (bpf_strncmp(comm, sizeof(comm), "sockstamp"))
		return false;
	BPF_CORE_READ_INTO(&permitted, cred, cap_permitted);
	return permitted >> CAP_BPF & 1 && !BPF_CORE_READ(cred, user_ns, parent);
}

/* Return true if no socket of this task is measured. Tests of two letters reject nearly all. */
static __always_inline bool task_spared(const struct task_struct *task)
{
	if (!setting_spare_own)
		return false;
	task = untrusted(task, struct task_struct);
	return task->group_leader->comm[0] == 's' && task->group_leader->comm[4] == 's' &&
	       task_is_sockstamp(task);
}

struct cgroup_search {
	__u64 ancestors; /* the address of its path */
	__u64 found;
};

static long cgroup_ascend(__u32 level, struct cgroup_search *search)
{
	const struct cgroup *ancestor;

	if (bpf_probe_read_kernel(&ancestor, sizeof(ancestor),
				  (void *)search->ancestors + level * sizeof(ancestor)))
		return 1;
	search->found = BPF_CORE_READ(ancestor, kn, id) == setting_cgroup;
	return search->found;
}

/*
 * Return true if the sockops program would run for this socket. `ancestors` holds a cgroup's path
 * from the root, itself included; a cgroup's id is that of its directory (cgroup_id(),
 * include/linux/cgroup.h).
 */
static __always_inline bool cgroup_selected(const struct sock *sk)
{
	/* As plain numbers: the verifier allows arithmetic with these. */
	const struct cgroup *cgroup = BPF_CORE_READ(sk, sk_cgrp_data.cgroup);
	struct cgroup_search search = {
		.ancestors = (__u64)cgroup + bpf_core_field_offset(struct cgroup, ancestors),
	};
	__u32 levels = BPF_CORE_READ(cgroup, level) + 1;

	bpf_loop(levels < CGROUP_LEVELS ? levels : CGROUP_LEVELS, cgroup_ascend, &search, 0);
	return search.found;
}

#endif
