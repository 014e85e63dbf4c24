// SPDX-License-Identifier: GPL-2.0-only
/* `sockstamp completions`: error queues of the sockets that asked, in memory of their applications.
 */
#include "common.bpf.h"
#include "../completions/queue.bpf.h"

SEC("tp_btf/inet_sk_error_report")
int BPF_PROG(completions_error_report, struct sock *sk)
{
	queue_report(sk);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
