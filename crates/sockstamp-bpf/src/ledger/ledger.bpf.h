/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The only ledger of messages and connections. Every count is added to the bank of this CPU, which
 * has the sum of all, and to the message's group. Groups have no counts of connections and of
 * unpaired messages, only their stages: those counts are the host's. A message is counted once; if
 * it is measured, it ends once, either with its stages or refused. No other code counts messages.
 */
#ifndef SOCKSTAMP_LEDGER_LEDGER_BPF_H
#define SOCKSTAMP_LEDGER_LEDGER_BPF_H

#include "abi/abi.h"
#include "group/group.bpf.h"
#include "histogram/histogram.bpf.h"
#include "sched/sched.bpf.h"
#include "window/window.bpf.h"

/* Count messages of a selected flow, measured or not, with `bytes` bytes each. */
static __always_inline void account_messages(struct bank *bank, __u32 group,
					     enum direction direction, __u32 bytes, __u32 messages)
{
	count(&bank->messages[direction], messages);
	count(&bank->bytes[direction], (__u64)bytes * messages);
	group_messages(group, direction, bytes, messages);
}

/* Count how many of these are datagrams: the bytes of a connection are known without windows. */
static __always_inline void account_datagrams(struct bank *bank, enum direction direction,
					      __u32 bytes, __u32 messages)
{
	if (!setting_windows)
		return;
	count(&bank->datagrams[direction], messages);
	count(&bank->datagram_bytes[direction], (__u64)bytes * messages);
}

/* Count a message of this weight whose stamps are taken. */
static __always_inline void account_measured(struct bank *bank, __u32 group,
					     enum direction direction, __u32 weight)
{
	count(&bank->measured[direction], 1);
	count(&bank->measured_weight[direction], weight);
	group_measured(group, direction);
}

/* Count a measured message as valid: its stages are counted separately. */
static __always_inline void account_ended(__u32 group, enum direction direction)
{
	group_ended(group, direction, 0);
}

/*
 * Count a measured message as refused. Keep the test of the verdict: the compiler knows the
 * verdicts of a caller and drops it, but the verifier needs it.
 */
static __always_inline void account_refused(struct bank *bank, __u32 group,
					    enum direction direction, __u32 verdict, __u32 weight)
{
	barrier_var(verdict);
	if (verdict < VERDICT_COUNT)
		count(&bank->refusals[direction][verdict], weight);
	group_ended(group, direction, weight);
}

/* Count a message whose existence is known only afterwards. */
static __always_inline void account_missed(struct bank *bank, __u32 group, enum direction direction,
					   enum verdict verdict, __u32 weight)
{
	account_messages(bank, group, direction, 0, weight);
	account_measured(bank, group, direction, weight);
	account_refused(bank, group, direction, verdict, weight);
}

/*
 * Count a measured message that belongs to no single question or answer, by its NO_PAIR(). Keep the
 * test, as that of a verdict.
 */
static __always_inline void account_unpaired(struct bank *bank, enum direction direction,
					     __u32 unpaired, __u32 weight)
{
	__u32 reason = unpaired - 1;

	barrier_var(reason);
	if (reason < UNPAIRED_COUNT)
		count(&bank->unpaired[direction][reason], weight);
}

/* Count a connection that was opened or accepted, or why it was not. */
static __always_inline void account_connection(struct bank *bank, enum direction direction,
					       enum verdict verdict, __u32 syns_again)
{
	count(&bank->syns_again, syns_again);
	if (verdict == VERDICT_VALID)
		count(&bank->connections[direction], 1);
	else if (verdict < VERDICT_COUNT)
		count(&bank->refusals[direction][verdict], 1);
}

static __always_inline void account_retransmits(struct bank *bank, __u32 group, __u32 segments,
						enum resent why)
{
	count(&bank->retransmits, segments);
	if (why < RESENT_COUNT)
		count(&bank->resent[why], segments);
	group_retransmitted(group, segments);
	if (why == RESENT_SYN || why == RESENT_WINDOW)
		group_retransmitted_lossless(group, segments);
}

/* Count segments that were sent again although the first ones had come. */
static __always_inline void account_needless(struct bank *bank, __u32 group, __u32 segments)
{
	count(&bank->needless, segments);
	group_retransmitted_lossless(group, segments);
}

/* `index`: a stage, or DISTRIBUTION_TOTAL() of a direction. */
static __always_inline void account_stage(struct bank *bank, __u32 group, __u32 index, __u64 ns,
					  __u32 weight)
{
	histogram_add(bank, index, ns, weight);
	if (setting_groups)
		group_add(group, index, ns, weight);
}

/* Add to a distribution of datagrams: a bank keeps it apart from TCP, a group does not. */
static __always_inline void account_datagram(struct bank *bank, __u32 group,
					     enum bank_distribution apart, __u32 index, __u64 ns,
					     __u32 weight)
{
	histogram_add(bank, apart, ns, weight);
	if (setting_groups)
		group_add(group, index, ns, weight);
}

static __always_inline void account_part(struct bank *bank, __u32 group, enum part part, __u64 ns,
					 __u32 weight)
{
	part_add(&bank->parts[part], ns, weight);
	if (setting_groups && ns)
		group_part_add(group, part, ns, weight);
}

/*
 * Add rx.app, and the parts of it and of rx.wakeup. A global function, so the verifier walks it
 * once, not once per path through a read.
 */
__noinline int account_spent(struct bank *bank, __u32 group, const struct spent *spent,
			     __u64 wakeup, __u32 weight)
{
	if (!bank || !spent)
		return 0;
	if (wakeup != STAGE_ABSENT)
		account_stage(bank, group, STAGE_RX_WAKEUP, wakeup, weight);
	account_stage(bank, group, STAGE_RX_APP, spent->app, weight);
	account_part(bank, group, PART_RUNQUEUE, spent_runqueue(spent, wakeup), weight);
	account_part(bank, group, PART_WAKEUP_THROTTLED, spent_held(spent, wakeup), weight);
	account_part(bank, group, PART_RUNNING, spent_running(spent), weight);
	account_part(bank, group, PART_RUNNABLE, spent_runnable(spent, wakeup), weight);
	account_part(bank, group, PART_APP_THROTTLED, spent_throttled(spent, wakeup), weight);
	account_part(bank, group, PART_BLOCKED, spent_blocked(spent), weight);
	return 0;
}

#endif
