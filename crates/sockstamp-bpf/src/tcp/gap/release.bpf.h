/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Give back the bits of selected sockets between windows, and ask for them again before the next.
 * While a socket has its bit, each of its sends calls the sockops programs, which costs some 100 ns
 * even if the program returns at once.
 *
 * User space sets `window.released` and walks over the sockets, each time. Whatever reads it does
 * so with the socket locked, as the walk is (lock_sock() in bpf_iter_tcp_seq_show(), v6.5): a
 * socket that is selected meanwhile has read the new value, or the walk comes to it afterwards. It
 * is in the kernel's table by then (inet_hash_connect(), inet_ehash_nolisten(), v6.18). Where the
 * first walk came to no socket of its network namespace, it has its bit: the second might not come
 * there, either. A walk that was left behind at a locked socket goes by the value at that time.
 */
#ifndef SOCKSTAMP_TCP_GAP_RELEASE_BPF_H
#define SOCKSTAMP_TCP_GAP_RELEASE_BPF_H

#include "select/asked.bpf.h"
#include "select/select.bpf.h"

/* A socket is closed. */
static __always_inline void released_socket_closes(const struct sock *sk)
{
	struct mark *mark;

	if (!setting_windows || !released_flows)
		return;
	/* Not by flow_mark_lookup(): one whose state found no room may be without its bit, too. */
	mark = bpf_sk_storage_get(&sockstamp_marks, (void *)sk, 0, 0);
	if (mark)
		mark_set_released(mark, false);
}

/* Leave a bit that is not ours alone. */
static __always_inline void flow_release_callbacks(struct tcp_sock *tp, struct mark *mark)
{
	if (!(mark->asked & ASKED_STAMPS))
		return;
	mark->asked &= ~ASKED_STAMPS;
	tcp_callbacks_give_back(tp, tp, ASKED_STAMPS);
	mark_set_released(mark, true);
}

static __always_inline void flow_recall_callbacks(struct tcp_sock *tp, struct mark *mark)
{
	if (tcp_callbacks_request(tp, tp, ASKED_STAMPS, &mark->asked))
		mark_set_released(mark, false);
	else
		count_loss(LOSS_FLOW);
}

/* The namespace that the walk was at. */
__u32 walked_netns;

static __always_inline void note_namespace(const struct sock_common *common)
{
	__u32 netns = netns_of(common), number = window.number;

	if (walked_netns == netns)
		return;
	walked_netns = netns;
	bpf_map_update_elem(&released_namespaces, &netns, &number, BPF_ANY);
}

static __always_inline void release_or_recall_flow(struct sock_common *common)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(common);
	struct mark *mark;

	if (!tp)
		return;
	visited_sockets++;
	if (window.released)
		note_namespace(common);
	mark = bpf_sk_storage_get(&sockstamp_marks, tp, 0, 0);
	if (!mark || mark->kind != MARK_SELECTED)
		return;
	if (window.released)
		flow_release_callbacks(tp, mark);
	else if (mark->released)
		flow_recall_callbacks(tp, mark);
}

#endif
