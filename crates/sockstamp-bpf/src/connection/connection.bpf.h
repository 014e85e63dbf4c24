/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measure conn.handshake, from connect() to the end of the handshake, on the side that connects,
 * and conn.accept, from there to accept(), on the side that listens. No message has these stages,
 * and each connection is measured.
 *
 * No hook that exists on every host runs in each accept(). But an accept() that asks for the peer's
 * address, as most do, runs the programs of cgroup/getpeername (inet_accept() calls getname(),
 * net/socket.c, v6.18). Other accepts are refused (VERDICT_UNSEEN_ACCEPT).
 */
#ifndef SOCKSTAMP_CONNECTION_CONNECTION_BPF_H
#define SOCKSTAMP_CONNECTION_CONNECTION_BPF_H

#include "abi/abi.h"
#include "group/resolve.bpf.h"
#include "ledger/ledger.bpf.h"
#include "neighbour/neighbour.bpf.h"
#include "record/record.bpf.h"
#include "select/select.bpf.h"
#include "wait/attempts.bpf.h"
#include "wait/ending.bpf.h"
#include "wait/wait.bpf.h"

/* arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h */
#ifdef __TARGET_ARCH_x86
#define NR_GETPEERNAME	 52
#define NR32_GETPEERNAME 368 /* syscall_32.tbl, of programs of 32 bits */
#define NR32_SOCKETCALL	 102
#else
#define NR_GETPEERNAME	 205
#define NR32_GETPEERNAME 287 /* arch/arm64/tools/syscall_32.tbl */
#define NR32_SOCKETCALL	 102
#endif

/*
 * Return true in accept(), which asks for the peer's address, and not in getpeername(). An accept()
 * of io_uring may come at the end of any system call, as task work, and in threads that make none:
 * their registers are those of the call that made them (create_io_thread(), v6.18).
 */
static __always_inline bool accepting(void)
{
	const struct pt_regs *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	long number;

	if (bpf_core_field_exists(regs->orig_ax))
		number = regs->orig_ax;
	else if (bpf_core_field_exists(regs->syscallno))
		number = regs->syscallno;
	else
		return false;
	return number != NR_GETPEERNAME && number != NR32_GETPEERNAME && number != NR32_SOCKETCALL;
}

/* Remember the current task. */
static __always_inline void connection_task(struct opening *opening, const struct sock *sk)
{
	const struct task_struct *task = bpf_get_current_task_btf();

	opening->pid = task->tgid;
	if (setting_groups)
		opening->group =
			group_resolve(sk, setting_groups & GROUP_BY_TASK ? opening->pid : 0);
	if (setting_record)
		bpf_probe_read_kernel_str(opening->comm, sizeof(opening->comm), task->comm);
}

/* Needs a stack frame of its own: that of a sockops program has no room for the key of a group. */
static __noinline int connection_begins(struct mark *mark, const struct sock *sk)
{
	struct opening *opening = &mark->opening;

	opening->began = 0;
	opening->again = 0;
	if (mark->opened_by == OPENED_BY_US) {
		if (!mark_measures(mark, DIRECTION_TX))
			return 0;
		connection_task(opening, sk);
	} else if (mark->opened_by != OPENED_BY_PEER || !mark_measures(mark, DIRECTION_RX)) {
		return 0;
	}
	opening->began = bpf_ktime_get_ns();
	return 0;
}

/* Two times of one SYN: ours is taken after it was sent, the kernel's is of whole milliseconds. */
#define SYN_TOLERANCE_NS 4000000LL

/*
 * A peer answers: note when the SYN was sent that it answers, if another one was the last. The
 * answer returns that SYN's time stamp (RFC 7323, section 3), which is the kernel's clock:
 * tcp_time_stamp_ts(), include/net/tcp.h, and tcp_rcv_synsent_state_process(), v6.18.
 */
static __always_inline void connection_answered(struct opening *opening, const struct tcp_sock *tp)
{
	__u32 answered = tp->rx_opt.rcv_tsecr;
	__u64 sent = opening->again;
	__s64 earlier;

	if (!sent || !answered || !BPF_CORE_READ_BITFIELD(tp, rx_opt.saw_tstamp))
		return;
	if (bpf_core_field_exists(tp->tcp_usec_ts) && BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts))
		earlier = (__s64)(__s32)((__u32)(sent / 1000) - answered) * 1000;
	else
		earlier = (__s64)(__s32)((__u32)(sent / 1000000) - answered) * 1000000;
	if (earlier <= SYN_TOLERANCE_NS)
		return;
	sent -= earlier;
	opening->again = sent > opening->began + SYN_TOLERANCE_NS ? sent : 0;
}

/* Return how long after connect() the SYN was sent that the peer answered. */
static __always_inline __u64 connection_again(const struct opening *opening)
{
	return opening->again ? opening->again - opening->began : 0;
}

/*
 * Return how long the SYN that the peer answered, or the first of several, waited for the link
 * address of the next hop.
 */
static __always_inline __u64 connection_neighbour(const struct opening *opening,
						  const struct sock *sk)
{
	__u64 sent = opening->again ?: opening->began;
	__u64 released = neighbour_released(sk, sent);

	return released ? released - sent : 0;
}

static __always_inline void connection_record(const struct opening *opening, const struct sock *sk,
					      enum direction direction, enum verdict verdict,
					      __u64 now, __u32 retransmits)
{
	struct message_record *record = record_new(direction, verdict);

	if (!record)
		return;
	flow_identify(&record->flow, sk);
	record->flow.opened_by = direction == DIRECTION_TX ? OPENED_BY_US : OPENED_BY_PEER;
	record->flow.pid = opening->pid;
	__builtin_memcpy(record->flow.comm, opening->comm, sizeof(opening->comm));
	record->group = opening->group & GROUP_INDEX_MASK;
	record->time = now;
	record->weight = 1;
	record->retransmits = retransmits;
	if (direction == DIRECTION_TX) {
		record->stages[STAGE_CONN_HANDSHAKE] = now - opening->began;
		record->parts[PART_SYN_AGAIN] = connection_again(opening);
		record->parts[PART_HANDSHAKE_NEIGHBOUR] = connection_neighbour(opening, sk);
		record->stamps.tx.entry = opening->began;
		record->stamps.tx.queued = now;
	} else {
		record->stages[STAGE_CONN_ACCEPT] = now - opening->began;
		if (verdict == VERDICT_VALID)
			record->cpu = record_cpu();
		record->stamps.rx.ready = opening->began;
		record->stamps.rx.read = now;
	}
	record_submit(record);
}

/* A global function, so that the verifier walks it once, and not once per way to end. */
__noinline int connection_account_stage(struct bank *bank, const struct opening *opening,
					__u32 group, __u32 opened, __u64 now)
{
	if (!bank || !opening)
		return 0;
	if (opened)
		account_stage(bank, group, STAGE_CONN_HANDSHAKE, now - opening->began, 1);
	else
		account_stage(bank, group, STAGE_CONN_ACCEPT, now - opening->began, 1);
	account_part(bank, group, PART_SYN_AGAIN, connection_again(opening), 1);
	return 0;
}

/* Called with the socket locked. */
static __noinline int connection_ends(struct mark *mark, const struct sock *sk,
				      enum verdict verdict)
{
	bool opened = mark->opened_by == OPENED_BY_US;
	enum direction direction = opened ? DIRECTION_TX : DIRECTION_RX;
	struct opening *opening = &mark->opening;
	struct bank *bank = this_bank();
	__u64 now = bpf_ktime_get_ns();
	__u32 retransmits, group;

	if (!bank || !opening->began)
		return 0;
	retransmits = opened ? tcp_of(sk)->total_retrans : 0;
	if (opened && verdict == VERDICT_VALID)
		connection_answered(opening, tcp_of(sk));
	if (opened && setting_waits)
		attempts_count_connect(opening, sk, now - opening->began, verdict != VERDICT_VALID);
	group = group_valid(opening->group) ? opening->group & GROUP_INDEX_MASK : GROUP_OTHER;
	account_connection(bank, direction, verdict, retransmits);
	if (verdict == VERDICT_VALID) {
		connection_account_stage(bank, opening, group, opened, now);
		if (opened)
			account_part(bank, group, PART_HANDSHAKE_NEIGHBOUR,
				     connection_neighbour(opening, sk), 1);
	}
	if (setting_record && record_wanted(verdict, now - opening->began))
		connection_record(opening, sk, direction, verdict, now, retransmits);
	opening->began = 0;
	return 0;
}

/* Return true if the socket has a file, or had one: then its connection was accepted. */
static __always_inline bool connection_accepted(const struct sock *sk)
{
	return untrusted(sk, struct sock)->sk_socket ||
	       sk->__sk_common.skc_flags & 1UL << SOCK_DEAD;
}

static __always_inline enum verdict connection_failure(const struct mark *mark,
						       const struct sock *sk)
{
	if (mark->opened_by != OPENED_BY_US)
		return connection_accepted(sk) ? VERDICT_UNSEEN_ACCEPT : VERDICT_UNACCEPTED;
	switch (sk->sk_err) {
	case 0:
		return VERDICT_CONNECT_ABORTED;
	case ECONNREFUSED:
		return VERDICT_CONNECT_REFUSED;
	case ETIMEDOUT:
		return VERDICT_CONNECT_TIMEOUT;
	}
	return VERDICT_CONNECT_FAILED;
}

/*
 * Return how a connect ended. A SYN that this host itself has dropped was not let out, whatever the
 * program has seen of that: a timeout, its own or TCP's, or a refusal that a firewall made up.
 * After an error of TCP's, the SYNs are gone from the socket, but not the count of those that were
 * sent again and left (tcp_done_with_error(), tcp_retransmit_skb(), v6.18).
 */
static __always_inline enum end connect_end(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_of(sk);
	bool kept;

	switch (sk->sk_err) {
	case 0:
		kept = syn_kept(tp);
		break;
	case ETIMEDOUT:
	case ECONNREFUSED:
		kept = tp->total_retrans && !tp->retrans_out;
		break;
	default:
		kept = false;
	}
	if (kept)
		return END_DENIED;
	/* A host refuses by a segment. A firewall may do so by ICMP, which comes to no socket. */
	if (sk->sk_err == ECONNREFUSED && !tp->segs_in)
		return END_PROHIBITED;
	return end_by_error(sk->sk_err);
}

/* A connection that this end opens fails, or is given up. */
static __noinline int connect_failed(const struct opening *opening, const struct sock *sk)
{
	enum end end = connect_end(sk);
	__u64 now = bpf_ktime_get_ns();
	struct wait_record *record;

	if (!wait_wanted(end, now - opening->began))
		return 0;
	record = wait_new(WAIT_CONNECT, end, opening->began, now);
	if (!record)
		return 0;
	flow_identify(&record->flow, sk);
	record->flow.local_port = port_of(sk);
	record->flow.opened_by = OPENED_BY_US;
	record->flow.pid = opening->pid;
	__builtin_memcpy(record->flow.comm, opening->comm, sizeof(opening->comm));
	record->syns = end == END_DENIED ? 0 : tcp_of(sk)->total_retrans + 1;
	record->asked = opening->again ? opening->again - opening->began : 0;
	wait_emit(record);
	return 0;
}

/* Called when the socket closes. */
static __always_inline void connection_closes(const struct sock *sk)
{
	struct mark *mark = flow_mark_lookup(sk);

	if (!mark || !mark->opening.began)
		return;
	if (mark->opened_by == OPENED_BY_US)
		connect_failed(&mark->opening, sk);
	connection_ends(mark, sk, connection_failure(mark, sk));
}

/*
 * Return why no SYN was made, after the socket was about to send one. It lacks a port, or the one
 * that the program gave it is in use towards this peer; else the route for the ports, or the
 * header, was missing (tcp_v4_connect(), net/ipv4/tcp_ipv4.c, v6.18).
 */
static __always_inline enum end connect_untried(const struct sock *sk)
{
	const struct sock *base = untrusted(sk, struct sock);
	bool bound = BPF_CORE_READ_BITFIELD(base, sk_userlocks) & SOCK_BINDPORT_LOCK;

	return bound || !base->__sk_common.skc_num ? END_NO_PORT : END_NO_ROUTE;
}

/* A connect() of the current task made no SYN, so the socket is not marked. */
static __noinline int connect_denied(const struct sock *sk)
{
	enum end end = connect_untried(sk);
	struct opening opening = {.pid = bpf_get_current_pid_tgid() >> 32};
	struct bank *bank = this_bank();
	__u64 now = bpf_ktime_get_ns();
	struct wait_record *record;

	if (stopping || !wait_wanted(end, 0) || setting_interface || !pid_selected(opening.pid) ||
	    task_spared(bpf_get_current_task_btf()) || !netns_selected(sk) || !filter_flow(sk) ||
	    !cgroup_selected(sk))
		return 0;
	if (bank)
		account_connection(bank, DIRECTION_TX, VERDICT_CONNECT_FAILED, 0);
	bpf_get_current_comm(opening.comm, sizeof(opening.comm));
	attempts_count_connect(&opening, sk, 0, true);
	record = wait_new(WAIT_CONNECT, end, now, now);
	if (!record)
		return 0;
	record->syns = 0;
	flow_identify(&record->flow, sk);
	record->flow.opened_by = OPENED_BY_US;
	record->flow.pid = opening.pid;
	__builtin_memcpy(record->flow.comm, opening.comm, sizeof(opening.comm));
	wait_emit(record);
	return 0;
}

#endif
