/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waits of UDP that end without an answer: the program asks again or somebody else, closes the
 * socket, or learns that nobody is there; or its datagram does not leave.
 *
 * Most datagrams without an answer are no questions (statistics, logs), so somebody must be known
 * to wait: it is DNS or the like, the socket was answered before, a read has found nothing, one of
 * two questions that were asked at once was answered, or the process has then asked the same by
 * another socket. A task that closes a socket and asks the same by a new one is known to wait only
 * if others of its questions to that service are answered, which user space tells.
 */
#ifndef SOCKSTAMP_UDP_UNANSWERED_BPF_H
#define SOCKSTAMP_UDP_UNANSWERED_BPF_H

#include "udp/peer.bpf.h"
#include "udp/state.bpf.h"
#include "wait/attempts.bpf.h"
#include "wait/ending.bpf.h"
#include "wait/wait.bpf.h"
#include "window/window.bpf.h"

#define PORT_OF_DNS    53
#define ANSWERING_EACH 5
/* No resolver waits longer before it asks again (RES_MAXRETRANS, resolv.h of glibc). */
#define UDP_PATIENCE_NS 30000000000ULL

/* A process's first question by the last of its sockets that asked one. */
struct udp_first {
	__u64 when;
	__u64 key; /* of the socket's flow */
	__u32 length;
	__u32 task;
};

/* Processes that ask: as many as a host can sensibly have. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct udp_first);
} udp_firsts SEC(".maps");

/* A socket asks for the first time, in the task that does. */
static __always_inline void udp_asks_first(const struct udp_flow *flow, __u64 now, __u32 length)
{
	__u64 task = bpf_get_current_pid_tgid();
	struct udp_first first = {
		.when = now, .key = flow->key, .length = length, .task = (__u32)task};
	__u32 pid = task >> 32;

	bpf_map_update_elem(&udp_firsts, &pid, &first, BPF_ANY);
}

const volatile __u16 setting_answering_each[ANSWERING_EACH]; /* ports; without that of DNS */

/* Return true for services that answer each question, by their ports, so that all who ask wait. */
static __always_inline bool udp_answers_each(__u16 port)
{
	if (port == PORT_OF_DNS)
		return true;
	for (int i = 0; i < ANSWERING_EACH; i++) {
		if (port == setting_answering_each[i])
			return true;
	}
	return false;
}

/* Return true if somebody is known to wait for an answer. */
static __always_inline bool udp_awaits(const struct udp_flow *flow)
{
	const struct udp_exchange *exchange = &flow->exchange;

	return !exchange->surplus && (exchange->least || exchange->awaited ||
				      udp_answers_each(flow->identity.remote_port));
}

/*
 * Return when the process of a flow asked the same by another socket, after the flow's question; 0
 * if it did not. Resolvers do so, and nobody who sends to several receivers in turn does: these
 * have been sent to before. Where somebody is known to wait, the question of another task is
 * another one: threads look names up side by side.
 */
static __always_inline __u64 udp_asked_elsewhere(const struct udp_flow *flow)
{
	__u32 pid = flow->identity.pid;
	const struct udp_first *first = bpf_map_lookup_elem(&udp_firsts, &pid);

	if (!first || first->key == flow->key || first->length != flow->exchange.length)
		return 0;
	if (udp_awaits(flow) && first->task != (__u32)bpf_get_current_pid_tgid())
		return 0;
	return first->when > flow->exchange.last ? first->when : 0;
}

/* A question without an answer, whose socket was closed. */
struct udp_closed {
	struct flow_identity flow;
	__u64 asked;
	__u64 closed;
	__u64 started; /* the task: another one may have its number later */
	__u32 length;
	__u32 padding;
};

/* Return when the current task began. */
static __always_inline __u64 udp_task_started(void)
{
	const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();

	return kernel_read(task, struct task_struct, start_time);
}

/* The last one of each task: as many as processes that ask. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct udp_closed);
} udp_closed_questions SEC(".maps");

/* A function of its own, for its stack. The next question alone tells whether somebody waits. */
static __noinline int udp_note_closed(const struct udp_flow *flow)
{
	struct udp_closed closed = {.flow = flow->identity,
				    .asked = flow->exchange.last,
				    .closed = bpf_ktime_get_ns(),
				    .started = udp_task_started(),
				    .length = flow->exchange.length};
	__u64 task = bpf_get_current_pid_tgid(), since = closed.closed - closed.asked;

	if (closed.flow.remote_port && since >= setting_wait_ns && since < UDP_PATIENCE_NS)
		bpf_map_update_elem(&udp_closed_questions, &task, &closed, BPF_ANY);
	return 0;
}

/* Return true if both flows have the same peer. */
static __always_inline bool udp_same_peer(const struct flow_identity *one,
					  const struct flow_identity *other)
{
	const __u64 *address = (const __u64 *)one->remote_address;
	const __u64 *another = (const __u64 *)other->remote_address;

	return one->netns == other->netns && one->remote_port == other->remote_port &&
	       address[0] == another[0] && address[1] == another[1];
}

/*
 * Return true if a question to the last peer is open, and its end would be seen in any case. One
 * that was asked again and is not answered may be in flight for ever.
 */
static __always_inline bool udp_question_open(const struct udp_flow *flow)
{
	const struct udp_exchange *exchange = &flow->exchange;

	return setting_waits && !setting_windows && exchange->role == UDP_ASKS &&
	       (exchange->asked || (!exchange->late && exchange->in_flight > exchange->former));
}

/* The last question that was asked ends. A global function: many call it. */
__noinline int udp_question_ends(struct udp_flow *flow, __u32 end, __u64 now)
{
	struct wait_record *record;
	__u64 asked;

	/* Without records, nobody knows whose it is. */
	if (!flow || !flow->identity.remote_port)
		return 0;
	asked = flow->exchange.last;
	if (!wait_wanted(end, now - asked))
		return 0;
	record = wait_new(WAIT_ANSWER, end, asked, now);
	if (!record)
		return 0;
	record->flow = flow->identity;
	record->bytes = flow->exchange.length;
	if (end_fails(end))
		attempts_count_unanswered(record);
	wait_emit(record);
	return 0;
}

/* The program waits for the last question no longer. */
static __always_inline void udp_question_given_up(struct udp_flow *flow, enum end end, __u64 now)
{
	if (now - flow->exchange.last < UDP_PATIENCE_NS && udp_awaits(flow))
		udp_question_ends(flow, end, now);
}

/*
 * An answer has come after the question was asked again. If nothing had told before that somebody
 * waits for one, the wait until then is told now. A global function, for its stack.
 */
__noinline int udp_repetition_answered(struct udp_flow *flow)
{
	struct wait_record *record;
	__u64 asked, again;

	if (!flow || !setting_waits || setting_windows || udp_awaits(flow) ||
	    !flow->identity.remote_port)
		return 0;
	asked = flow->exchange.first;
	again = flow->exchange.last;
	if (again - asked >= UDP_PATIENCE_NS || again - asked < setting_wait_ns ||
	    !wait_wanted(END_ASKED_AGAIN, again - asked))
		return 0;
	record = wait_new(WAIT_ANSWER, END_ASKED_AGAIN, asked, again);
	if (!record)
		return 0;
	record->flow = flow->identity;
	record->bytes = flow->exchange.length;
	if (end_fails(END_ASKED_AGAIN))
		attempts_count_unanswered(record);
	wait_emit(record);
	flow->exchange.awaited = true;
	return 0;
}

/* A question is about to be asked of `peer`, as udp_ask() has it. */
static __always_inline void udp_asks_next(struct udp_flow *flow, __u64 peer, __u64 now,
					  __u32 length)
{
	if (setting_waits && peer && !flow->exchange.last)
		udp_asks_first(flow, now, length);
	if (peer && udp_question_open(flow) && now - flow->exchange.last >= setting_wait_ns)
		udp_question_given_up(
			flow, flow->exchange.peer == peer ? END_ASKED_AGAIN : END_GIVEN_UP, now);
}

/* Return true if who closed a socket has asked again at once: not later than it waited before. */
static __always_inline bool udp_soon_after(const struct udp_closed *closed, __u64 asked)
{
	__u64 waited = closed->closed - closed->asked;

	return asked - closed->closed <= waited && asked - closed->asked < UDP_PATIENCE_NS;
}

/* The task has asked by this flow: if it closed another socket with the same question, again. */
static __noinline int udp_asked_anew(const struct udp_flow *flow)
{
	const struct udp_exchange *exchange = &flow->exchange;
	__u64 task = bpf_get_current_pid_tgid();
	const struct udp_closed *closed;
	struct wait_record *record;

	if (exchange->role != UDP_ASKS || exchange->first != exchange->last)
		return 0;
	closed = bpf_map_lookup_elem(&udp_closed_questions, &task);
	if (!closed || closed->length != exchange->length ||
	    !udp_soon_after(closed, exchange->last) ||
	    !udp_same_peer(&closed->flow, &flow->identity) || closed->started != udp_task_started())
		return 0;
	record = wait_new(WAIT_ANSWER, END_ASKED_AGAIN, closed->asked, exchange->last);
	if (record) {
		record->flow = closed->flow;
		record->bytes = closed->length;
		wait_emit(record);
	}
	bpf_map_delete_elem(&udp_closed_questions, &task);
	return 0;
}

/* The socket's last descriptor is closed. */
static __always_inline void udp_asks_no_more(struct udp_flow *flow)
{
	__u64 elsewhere;

	if (stopping || !udp_question_open(flow))
		return;
	elsewhere = flow->exchange.surplus ? 0 : udp_asked_elsewhere(flow);
	if (elsewhere && elsewhere - flow->exchange.last < UDP_PATIENCE_NS)
		udp_question_ends(flow, END_GIVEN_UP, elsewhere);
	else if (!flow->exchange.surplus && !udp_awaits(flow))
		udp_note_closed(flow);
	else
		udp_question_given_up(flow, END_GIVEN_UP, bpf_ktime_get_ns());
}

/* Return true for errors that routers or the peer's host have sent: nobody is there. */
static __always_inline bool udp_nobody_there(int result)
{
	return result == -ECONNREFUSED || result == -EHOSTUNREACH || result == -ENETUNREACH;
}

/* A read has got an error. */
static __noinline int udp_read_fails(const struct sock *sk, int result)
{
	struct udp_flow *flow = bpf_sk_storage_get(&udp_flows, (void *)sk, 0, 0);

	if (!flow || !udp_question_open(flow))
		return 0;
	if (result == -EAGAIN)
		flow->exchange.awaited = true;
	if (!udp_nobody_there(result))
		return 0;
	udp_question_ends(flow, end_by_error(-result), bpf_ktime_get_ns());
	udp_ask_no_more(&flow->exchange, 0);
	return 0;
}

/*
 * Return why a send failed. A socket without a peer gets the errors of its own sends alone; one
 * with a peer may get what a router answered to an earlier one.
 */
static __always_inline enum end udp_send_failure(const struct sock *sk, int result)
{
	bool connected = sk->__sk_common.skc_dport;

	if (!connected && (result == -ENETUNREACH || result == -EHOSTUNREACH))
		return END_NO_ROUTE;
	return end_by_error(-result);
}

/* A send of a selected task has got an error: its datagram did not leave. */
static __noinline int udp_send_fails(const struct sock *sk, const struct udp_flow *flow,
				     const struct udp_remote *remote, int result)
{
	__u64 now = bpf_ktime_get_ns();
	struct wait_record *record;

	if (!setting_waits || flow->exchange.role == UDP_ANSWERS ||
	    (result != -EPERM && result != -EHOSTUNREACH && result != -ENETUNREACH))
		return 0;
	record = wait_new(WAIT_ANSWER, udp_send_failure(sk, result), now, now);
	if (!record)
		return 0;
	udp_identify(&record->flow, sk, remote);
	record->flow.pid = bpf_get_current_pid_tgid() >> 32;
	comm_read(record->flow.comm);
	attempts_count_unanswered(record);
	wait_emit(record);
	return 0;
}

#endif
