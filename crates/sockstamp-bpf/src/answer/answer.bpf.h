/* SPDX-License-Identifier: GPL-2.0-only */
/* peer.answer and peer.rest in their counts and their records. */
#ifndef SOCKSTAMP_ANSWER_ANSWER_BPF_H
#define SOCKSTAMP_ANSWER_ANSWER_BPF_H

#include "abi/abi.h"
#include "answer/exchange.bpf.h"
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

#endif
