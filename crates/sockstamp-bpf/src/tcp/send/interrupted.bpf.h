/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When tasks were last interrupted by a signal: what they called before has ended, because a signal
 * is delivered on the way back to user space.
 */
#ifndef SOCKSTAMP_TCP_SEND_INTERRUPTED_BPF_H
#define SOCKSTAMP_TCP_SEND_INTERRUPTED_BPF_H

#include "kernel/kernel.bpf.h"

/*
 * Two tasks that share a slot seem to be interrupted together: their sends that wait meanwhile are
 * refused. 8 kB, a slot for each of the threads that a host with many of them runs at once.
 */
#define INTERRUPTED_SLOTS 1024

volatile __u64 interrupted[INTERRUPTED_SLOTS];

/* A signal is delivered to the current task. */
static __always_inline void task_interrupted(void)
{
	__u32 tid = bpf_get_current_pid_tgid();

	interrupted[tid % INTERRUPTED_SLOTS] = bpf_ktime_get_ns();
}

static __always_inline bool interrupted_since(__u32 tid, __u64 time)
{
	return interrupted[tid % INTERRUPTED_SLOTS] >= time;
}

#endif
