/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Send waits to user space: those that were slow, those that what was waited for did not end, and
 * those that are open.
 */
#ifndef SOCKSTAMP_WAIT_WAIT_BPF_H
#define SOCKSTAMP_WAIT_WAIT_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"

const volatile bool setting_waits; /* user space wants waits */
const volatile __u64 setting_slow_ns; /* those that ended by data are sent from this length on */
const volatile __u64 setting_tick_ns; /* the length of a jiffy */

/*
 * Some 1000 waits: user space comes at least once a second, and a connection has one slow wait at
 * a time. It sets one page before load where it wants none.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 512 << 10);
} waits SEC(".maps");

__u64 waits_lost; /* found no room */

#define SOCK_SNDBUF_LOCK 1 /* include/net/sock.h */
#define SRTT_SHIFT	 3 /* tcp_sock::srtt_us is kept eightfold, include/linux/tcp.h */

/* Return true if a wait that ended, or was looked at, is to be sent. */
static __always_inline bool wait_wanted(enum end end, __u64 ns)
{
	return setting_waits && (end != END_DATA || ns >= setting_slow_ns);
}

/* Return a record of which nothing else is known yet; NULL if there is no room. */
static __always_inline struct wait_record *wait_new(enum wait kind, enum end end, __u64 since,
						    __u64 now)
{
	struct wait_record *record = bpf_ringbuf_reserve(&waits, sizeof(*record), 0);

	if (!record) {
		__sync_fetch_and_add(&waits_lost, 1);
		return NULL;
	}
	__builtin_memset(record, 0, sizeof(*record));
	record->kind = kind;
	record->end = end;
	record->since = since;
	record->time = now;
	record->members = 1;
	record->asked = WAIT_UNKNOWN;
	record->left = WAIT_UNKNOWN;
	record->acknowledged = WAIT_UNKNOWN;
	record->arrived = WAIT_UNKNOWN;
	record->out_of_order = WAIT_UNKNOWN;
	record->window_closed = WAIT_UNKNOWN;
	record->buffer_full = WAIT_UNKNOWN;
	record->resent = COUNT_UNKNOWN;
	record->resent_in_vain = COUNT_UNKNOWN;
	record->syns = COUNT_UNKNOWN;
	return record;
}

/* Send the record. User space fetches waits by itself: waking it would delay whoever waited. */
static __always_inline void wait_emit(struct wait_record *record)
{
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* Return the time since a jiffy, as a tcp_sock has it; 0 is none. */
static __always_inline __u64 wait_since_jiffy(__u32 jiffy)
{
	if (!jiffy)
		return WAIT_UNKNOWN;
	return (__u64)((__u32)bpf_jiffies64() - jiffy) * setting_tick_ns;
}

/* Note what TCP knows of the connection of a wait. Call it in a function of its own: it is long. */
static __always_inline void wait_describe_connection(struct wait_record *record,
						     const struct sock *sk)
{
	struct wait_connection *connection = &record->connection;
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
	connection->sent_ago = wait_since_jiffy(tp->data_segs_out ? tp->lsndtime : 0);
	connection->received_ago = wait_since_jiffy(inet->icsk_ack.lrcvtime);
	connection->heard_ago = wait_since_jiffy(tp->rcv_tstamp);
	connection->buffer_set =
		BPF_CORE_READ_BITFIELD(base, sk_userlocks) & SOCK_SNDBUF_LOCK ? 1 : 0;
	connection->paced = base->sk_max_pacing_rate;
	/* Before v4.20 it has 32 bits, all set without a limit. */
	if (connection->paced == (__u32)-1)
		connection->paced = WAIT_UNKNOWN;
}

#endif
