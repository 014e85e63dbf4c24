/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The life of questions and their answers, on both sides: peer.answer and peer.rest on the side
 * that asks, app.service, client.pause and client.request on the side that answers. A question goes
 * from its first byte to its last before an answer. Order alone tells which answer belongs to it,
 * and only if nothing else is in flight, so each sign of something else leaves the pair without a
 * stage, for a reason that is counted. Where several pairs in ten are so, nothing about the others
 * is known either, until the flow has been in step for ten pairs.
 */
#ifndef SOCKSTAMP_ANSWER_ANSWER_BPF_H
#define SOCKSTAMP_ANSWER_ANSWER_BPF_H

#include "abi/abi.h"
#include "ledger/ledger.bpf.h"

/* An answer whose first byte is in a read, and the wait of the read for more of one. */
struct answer {
	__u64 ns; /* STAGE_ABSENT: none */
	__u64 rest; /* since when the reader waited; as a stage, how long. The same */
	__u64 network;
	__u64 unpaired; /* NO_PAIR() */
};

/* Add an answer to its stages. A global function, so the verifier walks it once. */
__noinline int answer_add(struct bank *bank, __u32 group, const struct answer *answer, __u32 weight)
{
	if (!bank || !answer)
		return 0;
	if (answer->unpaired)
		account_unpaired(bank, DIRECTION_RX, answer->unpaired, weight);
	if (answer->rest != STAGE_ABSENT)
		account_stage(bank, group, STAGE_PEER_REST, answer->rest, weight);
	if (answer->ns == STAGE_ABSENT)
		return 0;
	account_stage(bank, group, STAGE_PEER_ANSWER, answer->ns, weight);
	account_part(bank, group, PART_NETWORK, answer->network, weight);
	return 0;
}

static __always_inline void answer_record(struct message_record *record,
					  const struct answer *answer)
{
	record->stages[STAGE_PEER_ANSWER] = answer->ns;
	record->stages[STAGE_PEER_REST] = answer->rest;
	record->parts[PART_NETWORK] = answer->network;
	record->unpaired = answer->unpaired;
}

/*
 * A leaky bucket of doubts: a pair without a stage adds three, one in step takes one away. So it
 * fills where more than a quarter of the pairs are doubtful, and is below the brim after ten that
 * are not.
 */
#define DOUBT	    3
#define DOUBTS	    7
#define MOST_DOUBTS (DOUBTS + 9)

static __always_inline __u8 doubts_after(__u8 doubts, bool doubtful)
{
	if (doubtful)
		return doubts + DOUBT < MOST_DOUBTS ? doubts + DOUBT : MOST_DOUBTS;
	return doubts ? doubts - 1 : 0;
}

/* Longer messages may be parts of one: of an upload, say. */
#define QUESTION_MOST 1024

/*
 * Return true if two messages of one end in a row look like two questions, not like two parts of
 * one: both are short, and equally long but for a sixteenth (numbers, compressed headers).
 */
static __always_inline bool questions_alike(__u32 length, __u32 before)
{
	__u32 off = length > before ? length - before : before - length;

	return length < QUESTION_MOST && off <= before / 16;
}

#endif
