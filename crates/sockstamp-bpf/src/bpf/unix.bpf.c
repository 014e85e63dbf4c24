// SPDX-License-Identifier: GPL-2.0-only
/* Questions over Unix sockets. Loaded and attached for those alone. */
#include "kernel/kernel.bpf.h"
#include "unix/questions.bpf.h"

SEC("tp_btf/sock_send_length")
int BPF_PROG(on_unix_send, struct sock *sk, int result)
{
	unix_sent(sk, result);
	return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_unix_data, const struct sock *sk)
{
	unix_arrived(sk);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_unix_read, struct sock *sk, int result, int flags)
{
	if (!(flags & (MSG_PEEK | MSG_ERRQUEUE)))
		unix_read(sk, result);
	return 0;
}

SEC("iter/bpf_map_elem")
int tell_unix_flows(struct bpf_iter__bpf_map_elem *ctx)
{
	unix_tell(ctx);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
