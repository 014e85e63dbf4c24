/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tell why TCP sends a segment again. Most of these are no loss: a tail loss probe goes out when an
 * ACK is late (RFC 8985, section 7), a timeout also to a peer that closed its window on data in
 * flight, and what was taken for lost may only have been overtaken. A peer reports what came twice
 * (D-SACK, RFC 2883).
 */
#ifndef SOCKSTAMP_TCP_SEND_RESENT_BPF_H
#define SOCKSTAMP_TCP_SEND_RESENT_BPF_H

#include "group/resolve.bpf.h"
#include "ledger/ledger.bpf.h"
#include "tcp/flow.bpf.h"

#define TCPHDR_SYN 0x02 /* RFC 9293, section 3.1 */
/* include/uapi/linux/tcp.h */
#define TCP_CA_RECOVERY 3
#define TCP_CA_LOSS	4

/*
 * Below Recovery only tcp_send_loss_probe() sends again: TCP enters Recovery or Loss before it does
 * for any other reason (tcp_enter_recovery(), tcp_enter_loss(), tcp_simple_retransmit(), v6.18).
 */
static __always_inline enum resent resent_why(const struct tcp_sock *tp, const struct sk_buff *skb)
{
	__u8 state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);

	if (skb_tcp(skb)->tcp_flags & TCPHDR_SYN)
		return RESENT_SYN;
	if (!tp->snd_wnd)
		return RESENT_WINDOW;
	if (state < TCP_CA_RECOVERY)
		return RESENT_PROBE;
	return state == TCP_CA_LOSS ? RESENT_TIMEOUT : RESENT_FAST;
}

/*
 * Return how many segments that were sent again had come before. The network duplicates some as
 * well: as tcp_dsack_seen() (net/ipv4/tcp_input.c, v6.18), believe no more than were sent again.
 */
static __always_inline __u32 flow_needless(const struct tcp_sock *tp)
{
	__u32 reported = tp->dsack_dups;
	__u32 resent = tp->total_retrans;

	return reported < resent ? reported : resent;
}

/*
 * Count those that were reported since the last time. `sk`: the socket with the verifier's trust,
 * without which it has no storage.
 */
static __always_inline void flow_count_needless(struct bank *bank, struct mark *mark,
						const struct sock *sk, const struct tcp_sock *tp)
{
	__u32 needless = flow_needless(tp);
	struct flow *flow;

	if (needless == mark->needless)
		return;
	flow = setting_groups ? flow_lookup(sk) : NULL;
	account_needless(bank, group_of_socket(flow ? &flow->group : NULL, sk),
			 needless - mark->needless);
	mark->needless = needless;
}

#endif
