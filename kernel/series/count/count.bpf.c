// SPDX-License-Identifier: GPL-2.0
/* Programs whose cost is counted. Each does next to nothing: what is counted is the hook. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define SOL_SOCKET 1

/* The socket asks for these once it is connected. */
const volatile int cb_flags; /* SK_BPF_CB_FLAGS */
const volatile __u32 option_len; /* bytes of a TCP option in each packet */
const volatile bool reserve_none; /* HDR_OPT_LEN_CB as a hook: nothing reserved */
const volatile bool write_none; /* the kernel pads what was reserved */
const volatile __u64 reserve_flags;
const volatile bool ask_for_stamps; /* in SENDMSG_CB, by the kfunc */

__u64 runs;
__u64 refused;

extern int bpf_sock_ops_enable_tx_tstamp(struct bpf_sock_ops_kern *skops,
					 __u64 flags) __ksym __weak;

static void begin(struct bpf_sock_ops *skops)
{
	int flags = cb_flags;

	if (flags && bpf_setsockopt(skops, SOL_SOCKET, SK_BPF_CB_FLAGS, &flags, sizeof(flags)))
		refused++;
	if (option_len || reserve_none)
		bpf_sock_ops_cb_flags_set(skops, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

static void write_option(struct bpf_sock_ops *skops)
{
	__u8 option[40] = {0xfd, option_len};

	if (option_len >= 2 && option_len <= sizeof(option))
		bpf_store_hdr_opt(skops, option, option_len, 0);
}

SEC("sockops")
int on_sockops(struct bpf_sock_ops *skops)
{
	runs++;
	switch (skops->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		begin(skops);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		if (cb_flags == SK_BPF_CB_RX)
			begin(skops);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		if (option_len && bpf_reserve_hdr_opt(skops, option_len, reserve_flags))
			refused++;
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		if (!write_none)
			write_option(skops);
		break;
	case BPF_SOCK_OPS_TSTAMP_SENDMSG_CB:
		if (ask_for_stamps)
			bpf_sock_ops_enable_tx_tstamp(bpf_cast_to_kern_ctx(skops), 0);
		break;
	}
	return 1;
}

SEC("tp_btf/tcp_sendmsg_locked")
int on_tracepoint(void *ctx)
{
	runs++;
	return 0;
}

SEC("fentry/tcp_sendmsg_locked")
int on_fentry(void *ctx)
{
	runs++;
	return 0;
}

/* Receiving without callbacks is measured by these. */
SEC("tp_btf/tcp_probe")
int on_segment(void *ctx)
{
	runs++;
	return 0;
}

SEC("tp_btf/sk_data_ready")
int on_data_ready(void *ctx)
{
	runs++;
	return 0;
}

SEC("tp_btf/sock_recv_length")
int on_read(void *ctx)
{
	runs++;
	return 0;
}

/* UDP sockets that are there already. */
SEC("iter/udp")
int select_udp(struct bpf_iter__udp *ctx)
{
	struct udp_sock *sk = ctx->udp_sk;
	int flags = cb_flags;

	if (sk && bpf_setsockopt(sk, SOL_SOCKET, SK_BPF_CB_FLAGS, &flags, sizeof(flags)))
		refused++;
	return 0;
}

char _license[] SEC("license") = "GPL";
