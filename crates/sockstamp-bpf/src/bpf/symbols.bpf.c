// SPDX-License-Identifier: GPL-2.0-only
/*
 * Find where functions of the kernel are. /proc/kallsyms would do, but the kernel makes a line of
 * text for each of its hundred thousand symbols. It tells programs what it shows there
 * (bpf_kallsyms_lookup_name(), kernel/bpf/syscall.c, v5.16).
 */
#include "kernel/vmlinux.h"
#include <bpf/bpf_helpers.h>

/* 0: the kernel has no such function. */
__u64 wake_stream;
__u64 wake_datagram;
__u64 wake_poll;
__u64 wake_epoll;
__u64 wake_uring;
__u64 wake_sleep;

#define FIND(name, address) bpf_kallsyms_lookup_name(name, sizeof(name), 0, address)

SEC("syscall")
int find_wake_functions(void *ctx)
{
	FIND("woken_wake_function", &wake_stream);
	FIND("receiver_wake_function", &wake_datagram);
	FIND("pollwake", &wake_poll);
	FIND("ep_poll_callback", &wake_epoll);
	FIND("io_poll_wake", &wake_uring);
	FIND("autoremove_wake_function", &wake_sleep);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
