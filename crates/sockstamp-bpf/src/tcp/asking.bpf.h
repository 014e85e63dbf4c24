/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tell how a program asks on a connection. Exchanges that follow each other, of which each takes
 * the least round trip, are one wait with their number: questions one after the other, or a window
 * of the programs' own (HTTP/2), of which order alone tells nothing. Tasks that send at once what
 * another one has left a connection for take turns at it.
 */
#ifndef SOCKSTAMP_TCP_ASKING_BPF_H
#define SOCKSTAMP_TCP_ASKING_BPF_H

#include "tcp/flow.bpf.h"
#include "wait/wait.bpf.h"

/* Fewer are a dialogue of a protocol, as of a handshake. */
#define TRIPS_LEAST 10
/* A series is sent in stretches, so that one that goes on is known. */
#define TRIPS_NS 1000000000ULL
/* The last answer was read by the task that had asked for it. */
#define TURN_OWN (1 << 0)
/* The last question was another task's, which had waited for its turn. */
#define TURN_TAKEN (1 << 1)
/* Shorter round trips are work of the hosts: 1 ms, in microseconds. */
#define TRIPS_RTT_LEAST 1000

/* Exchanges that follow each other. */
struct series {
	__u64 began;
	__u64 ended; /* the last one */
	__u64 last; /* the last burst */
	__u64 before; /* the one before it */
	__u64 moved; /* bytes of the connection before it */
	__u64 bytes; /* in it */
	__u32 trips; /* exchanges */
	__u32 padding;
};

/*
 * By the socket's address, as a flow has no room. 4096 connections ask so at once at most: the one
 * that did so longest ago makes room, and its series begins anew. 500 kB.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct series);
} series SEC(".maps");

const volatile struct series no_series;

/* A function of its own: describing a connection takes room on the stack. */
static __noinline int trips_emit(const struct flow *flow, const struct sock *sk,
				 const struct series *series)
{
	const struct tx_message *asked = &flow->tx.messages[0];
	struct wait_record *record;

	record = wait_new(WAIT_ANSWER, END_DATA, series->began, series->ended);
	if (!record)
		return 0;
	record->flow.pid = asked->pid;
	__builtin_memcpy(record->flow.comm, asked->comm, sizeof(asked->comm));
	flow_identify(&record->flow, sk);
	record->flow.opened_by = OPENED_BY_US | flow_earlier(flow);
	record->members = series->trips;
	wait_describe_connection(record, sk);
	record->bytes = series->bytes;
	wait_emit(record);
	return 0;
}

/* The series is over. */
static __always_inline void trips_end(const struct flow *flow, const struct sock *sk,
				      struct series *series)
{
	if (series->trips >= TRIPS_LEAST && wait_wanted(END_DATA, series->ended - series->began))
		trips_emit(flow, sk, series);
	series->trips = 0;
}

/* The connection ends. */
static __always_inline void trips_settle(const struct flow *flow, const struct sock *sk)
{
	struct series *found;
	__u64 key = flow->rx.key;

	found = bpf_map_lookup_elem(&series, &key);
	if (!found)
		return;
	trips_end(flow, sk, found);
	bpf_map_delete_elem(&series, &key);
}

/* Return the series of a connection, or NULL where another CPU takes the place. */
static __always_inline struct series *series_of(__u64 key)
{
	struct series *found = bpf_map_lookup_elem(&series, &key);

	if (found)
		return found;
	bpf_map_update_elem(&series, &key, (const void *)&no_series, BPF_NOEXIST);
	return bpf_map_lookup_elem(&series, &key);
}

/* Return the bytes of either direction that the connection has moved. */
static __always_inline __u64 trips_moved(const struct tcp_sock *tp)
{
	return tp->bytes_received + tp->bytes_acked;
}

/* Return true if a burst came a round trip after an earlier one, and little more. */
static __always_inline bool trips_follow(__u64 burst, __u64 ready, __u64 rtt)
{
	return burst && ready - burst >= rtt - rtt / 32 && ready - burst <= rtt + rtt / 4;
}

/* A burst is `ready`, after a rest, to what was sent since the one before. */
static __always_inline void trips_burst(const struct flow *flow, const struct sock *sk, __u64 rtt,
					__u64 ready)
{
	struct series *found = series_of(flow->rx.key);
	__u64 moved = trips_moved(tcp_of(sk)), from;

	if (!found)
		return;
	from = trips_follow(found->last, ready, rtt) ? found->last : found->before;
	if (!trips_follow(from, ready, rtt) ||
	    (found->trips && found->ended - found->began > TRIPS_NS))
		trips_end(flow, sk, found);
	if (trips_follow(from, ready, rtt)) {
		if (!found->trips) {
			found->began = from;
			found->moved = moved;
		}
		found->trips++;
		found->ended = ready;
		found->bytes = moved - found->moved;
	}
	found->before = found->last;
	found->last = ready;
}

/*
 * Something comes to what was sent since the last arrival, `gap` ago. What comes with it is one
 * burst: two of them may be under way at once, each of which is half of a window.
 */
static __always_inline void trips_arrive(const struct flow *flow, const struct sock *sk, __u64 gap,
					 __u64 ready)
{
	__u64 rtt = tcp_of(sk)->rtt_min.s[0].v;

	if (!setting_waits || rtt == RTT_UNKNOWN || rtt < TRIPS_RTT_LEAST)
		return;
	rtt *= 1000;
	if (gap >= rtt / 8)
		trips_burst(flow, sk, rtt, ready);
}

/* A task that waits for its turn is woken, and asks, within that. */
#define TURN_NS 2000000

/*
 * A question begins `pause` after the last read; before its task is noted. One that another task
 * sends at once, after the answer before was read by the task that had asked, was waiting for its
 * turn.
 */
static __always_inline void turn_begins(struct flow *flow, __u64 pause)
{
	__u8 task = bpf_get_current_pid_tgid();

	if (flow->exchange.open)
		return;
	if (pause < TURN_NS && flow->tx.turn & TURN_OWN && task != flow->exchange.task)
		flow->tx.turn |= TURN_TAKEN;
	else
		flow->tx.turn &= ~TURN_TAKEN;
}

/* The current task reads the answer's first byte. Return true if it had waited for its turn. */
static __always_inline bool turn_ends(struct flow *flow)
{
	__u8 task = bpf_get_current_pid_tgid();
	bool own = task == flow->exchange.task;

	if (own)
		flow->tx.turn |= TURN_OWN;
	else
		flow->tx.turn &= ~TURN_OWN;
	return own && flow->tx.turn & TURN_TAKEN;
}

#endif
