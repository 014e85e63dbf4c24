/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measure peer.answer, the mirror of app.service, on the side that asks: from a send to what
 * answers it (tcp/answer.bpf.h, udp/answer.bpf.h).
 */
#ifndef SOCKSTAMP_ANSWER_ANSWER_BPF_H
#define SOCKSTAMP_ANSWER_ANSWER_BPF_H

#include "abi/abi.h"
#include "ledger/ledger.bpf.h"

/* An answer whose first byte is in a read. */
struct answer {
	__u64 ns; /* STAGE_ABSENT: none */
	__u64 network;
	bool pipelined;
};

static __always_inline void answer_add(struct bank *bank, __u32 group, const struct answer *answer,
				       __u32 weight)
{
	if (answer->pipelined)
		account_pipelined(bank, DIRECTION_RX, weight);
	if (answer->ns == STAGE_ABSENT)
		return;
	account_stage(bank, group, STAGE_PEER_ANSWER, answer->ns, weight);
	account_part(bank, group, PART_NETWORK, answer->network, weight);
}

static __always_inline void answer_record(struct message_record *record,
					  const struct answer *answer)
{
	record->stages[STAGE_PEER_ANSWER] = answer->ns;
	record->parts[PART_NETWORK] = answer->network;
	if (answer->pipelined)
		record->flags |= MESSAGE_PIPELINED;
}

#endif
