/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keep the measured messages of a flow between send and ACK. The flow itself has room for TX_SLOTS.
 * A writer of small messages on a long path has hundreds in flight: those are kept in chunks, which
 * come and go with them.
 */
#ifndef SOCKSTAMP_TCP_SEND_SLOTS_BPF_H
#define SOCKSTAMP_TCP_SEND_SLOTS_BPF_H

#include "tcp/flow.bpf.h"

/* Messages of a chunk, a power of two: with its head it takes a slab object of 2 kB. */
#define TX_CHUNK 8
/* Messages of one flow in flight, and turns of each loop over them. */
#define TX_INFLIGHT_MAX 1024
struct tx_chunk_key {
	__u64 flow; /* the socket's address */
	__u32 number; /* messages before it, in chunks */
	__u32 padding;
};

struct tx_chunk {
	struct tx_message messages[TX_CHUNK];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* user space sets it: limits.rs */
	__type(key, struct tx_chunk_key);
	__type(value, struct tx_chunk);
} tx_chunks SEC(".maps");

/* Initial value of a chunk, too large for the stack. Never written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tx_chunk);
} tx_blank_chunk SEC(".maps");

static __always_inline struct tx_chunk_key tx_chunk_of(const struct flow *flow, __u32 counter)
{
	struct tx_chunk_key key = {.flow = flow->rx.key, .number = counter / TX_CHUNK};

	return key;
}

static __always_inline struct tx_message *tx_in_chunk(struct flow *flow, __u32 counter)
{
	struct tx_chunk_key key = tx_chunk_of(flow, counter);
	struct tx_chunk *chunk = bpf_map_lookup_elem(&tx_chunks, &key);

	if (!chunk)
		return NULL;
	/* The compiler would form the address first, which the verifier refuses. */
	barrier_var(counter);
	return &chunk->messages[counter % TX_CHUNK];
}

/* Find a message that is in flight; NULL if its chunk went while this ran on another CPU. */
static __always_inline struct tx_message *tx_find_slot(struct flow *flow, __u32 counter)
{
	struct tx_message *message = &flow->tx.messages[counter % TX_SLOTS];

	return message->counter == counter ? message : tx_in_chunk(flow, counter);
}

static __always_inline struct tx_message *tx_chunk_add(struct flow *flow, __u32 counter)
{
	struct tx_message *message = tx_in_chunk(flow, counter);
	struct tx_chunk_key key = tx_chunk_of(flow, counter);
	struct tx_chunk *blank;
	__u32 zero = 0;

	if (message)
		return message;
	blank = bpf_map_lookup_elem(&tx_blank_chunk, &zero);
	if (!blank || bpf_map_update_elem(&tx_chunks, &key, blank, BPF_NOEXIST))
		return NULL;
	flow->tx.chunks++;
	return tx_in_chunk(flow, counter);
}

/*
 * Find a slot for the message that comes next; NULL if there is none. Fewer than TX_SLOTS
 * consecutive counters are in flight, so that none of them has the same slot in the flow.
 */
static __always_inline struct tx_message *tx_vacant_slot(struct flow *flow)
{
	__u32 counter = flow->tx.head;
	__u32 in_flight = counter - flow->tx.tail;

	if (in_flight < TX_SLOTS)
		return &flow->tx.messages[counter % TX_SLOTS];
	return in_flight < TX_INFLIGHT_MAX ? tx_chunk_add(flow, counter) : NULL;
}

/* Release the oldest message, and its chunk if it was the last in it. */
static __always_inline void tx_release_oldest(struct flow *flow)
{
	__u32 counter = flow->tx.tail++;
	struct tx_chunk_key key = tx_chunk_of(flow, counter);

	if (!flow->tx.chunks)
		return;
	if (counter % TX_CHUNK != TX_CHUNK - 1 && flow->tx.tail != flow->tx.head)
		return;
	if (!bpf_map_delete_elem(&tx_chunks, &key))
		flow->tx.chunks--;
}

#endif
