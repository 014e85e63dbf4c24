/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Give back the bits of selected sockets between windows, and ask for them again before the next.
 * While a socket has its bit, each of its sends calls the sockops programs, which costs some 100 ns
 * even if the program returns at once.
 *
 * User space sets `window.released` and walks over the sockets, each time. A connection that is
 * selected after the first walk keeps its bit until the next gap: a walk might not come back to it,
 * as its network namespace need not be one that can be entered. A walk that was left behind at a
 * locked socket goes by the value at that time.
 */
#ifndef SOCKSTAMP_WINDOW_RELEASE_BPF_H
#define SOCKSTAMP_WINDOW_RELEASE_BPF_H

#include "flow/asked.bpf.h"
#include "flow/sockets.bpf.h"
#include "flow/state.bpf.h"

/* A socket is closed. */
static __always_inline void release_ends(const struct sock *sk)
{
	struct mark *mark;

	if (!setting_windows || !released_flows)
		return;
	/* Not by flow_mark(): one whose state found no room may be without its bit, too. */
	mark = bpf_sk_storage_get(&sockstamp_marks, (void *)sk, 0, 0);
	if (mark)
		mark_release(mark, false);
}

/* Leave a bit that is not ours alone. */
static __always_inline void bit_release(struct tcp_sock *tp, struct mark *mark)
{
	if (!(mark->asked & ASKED_STAMPS))
		return;
	mark->asked &= ~ASKED_STAMPS;
	bits_give_back(tp, tp, ASKED_STAMPS);
	mark_release(mark, true);
}

static __always_inline void bit_recall(struct tcp_sock *tp, struct mark *mark)
{
	if (bits_ask(tp, tp, ASKED_STAMPS, &mark->asked))
		mark_release(mark, false);
	else
		count_loss(LOSS_FLOW);
}

static __always_inline void switch_flow(struct sock_common *common)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(common);
	struct mark *mark;

	if (!tp)
		return;
	visited_sockets++;
	mark = bpf_sk_storage_get(&sockstamp_marks, tp, 0, 0);
	if (!mark || mark->kind != MARK_SELECTED)
		return;
	if (setting_windows && window.released)
		bit_release(tp, mark);
	else if (mark->released)
		bit_recall(tp, mark);
}

#endif
