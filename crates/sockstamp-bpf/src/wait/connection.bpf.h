/* SPDX-License-Identifier: GPL-2.0-only */
/* Describe what TCP knows of a connection at one moment. */
#ifndef SOCKSTAMP_WAIT_CONNECTION_BPF_H
#define SOCKSTAMP_WAIT_CONNECTION_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"

const volatile __u64 setting_tick_ns; /* the length of a jiffy */

#define SOCK_SNDBUF_LOCK 1 /* include/net/sock.h */
#define SRTT_SHIFT	 3 /* tcp_sock::srtt_us is kept eightfold, include/linux/tcp.h */

/* Return the time since a jiffy, as a tcp_sock has it; 0 is none. */
static __always_inline __u64 wait_since_jiffy(__u32 jiffy)
{
	if (!jiffy)
		return WAIT_UNKNOWN;
	return (__u64)((__u32)bpf_jiffies64() - jiffy) * setting_tick_ns;
}

/* enum tcp_chrono, include/linux/tcp.h */
#define TCP_CHRONO_RWND_LIMITED	  2
#define TCP_CHRONO_SNDBUF_LIMITED 3

/* Return what one of TCP's clocks shows: tcp_get_info_chrono_stats(), net/ipv4/tcp.c, v6.18. */
static __always_inline __u64 chrono_ns(const struct tcp_sock *tp, __u32 chrono)
{
	__u32 ticks = tp->chrono_stat[chrono - 1];

	if (BPF_CORE_READ_BITFIELD(tp, chrono_type) == chrono)
		ticks += (__u32)bpf_jiffies64() - tp->chrono_start;
	return ticks * setting_tick_ns;
}

/*
 * Return true if no SYN of a socket in TCP_SYN_SENT has left it: what was handed on without an
 * error is in this list (tcp_update_skb_after_send(), net/ipv4/tcp_output.c, v6.18). A firewall's
 * drop, and that of a queue, are errors; a packet that waits for its neighbour's address is none.
 */
static __always_inline bool syn_kept(const struct tcp_sock *tp)
{
	const struct list_head *sent = &tp->tsorted_sent_queue;

	return sent->next == sent;
}

/* Note what TCP knows of a connection. Call it in a function of its own: it is long. */
static __always_inline void connection_describe(struct wait_connection *connection,
						const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_of(sk);
	const struct sock *base = untrusted(sk, struct sock);
	const struct inet_connection_sock *inet = &tp->inet_conn;
	__u32 window = tp->rcv_wup + tp->rcv_wnd - tp->rcv_nxt;

	connection->known = true;
	connection->min_rtt_us = tp->rtt_min.s[0].v;
	connection->srtt_us = tp->srtt_us ? tp->srtt_us >> SRTT_SHIFT : RTT_UNKNOWN;
	connection->unacknowledged = tp->snd_nxt - tp->snd_una;
	connection->unsent = tp->write_seq - tp->snd_nxt;
	connection->unread = tp->rcv_nxt - tp->copied_seq;
	connection->peer_window = tp->snd_wnd;
	connection->own_window = (__s32)window > 0 ? window : 0;
	connection->backoff = inet->icsk_backoff;
	connection->probes = inet->icsk_probes_out;
	connection->resent = tp->total_retrans;
	if (bpf_core_field_exists(tp->dsack_dups))
		connection->dsacks = tp->dsack_dups;
	if (bpf_core_field_exists(tp->reord_seen))
		connection->reordered = tp->reord_seen;
	connection->congestion_window = tp->snd_cwnd;
	connection->threshold = tp->snd_ssthresh;
	connection->segment = tp->mss_cache;
	connection->sends = tp->data_segs_out;
	connection->receives = tp->data_segs_in;
	connection->sent_ago = wait_since_jiffy(tp->data_segs_out ? tp->lsndtime : 0);
	connection->received_ago = wait_since_jiffy(inet->icsk_ack.lrcvtime);
	connection->heard_ago = wait_since_jiffy(tp->rcv_tstamp);
	connection->buffer_set =
		BPF_CORE_READ_BITFIELD(base, sk_userlocks) & SOCK_SNDBUF_LOCK ? 1 : 0;
	connection->unscaled = !BPF_CORE_READ_BITFIELD(tp, rx_opt.wscale_ok);
	connection->window_limited = chrono_ns(tp, TCP_CHRONO_RWND_LIMITED);
	connection->buffer_limited = chrono_ns(tp, TCP_CHRONO_SNDBUF_LIMITED);
	connection->paced = base->sk_max_pacing_rate;
	/* Before v4.20 it has 32 bits, all set without a limit. */
	if (connection->paced == (__u32)-1)
		connection->paced = WAIT_UNKNOWN;
}

#endif
