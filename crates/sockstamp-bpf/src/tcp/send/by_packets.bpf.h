/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * TX of TCP on kernels without BPF timestamping. No packet says to which send call it belongs, but
 * its header says which bytes it carries, and a message is a range of them: so a packet that goes
 * into the packet scheduler, or to a driver, is a stamp for the messages that end in it. Bytes are
 * acknowledged in order too, and each segment that arrives says up to where.
 */
#ifndef SOCKSTAMP_TCP_SEND_BY_PACKETS_BPF_H
#define SOCKSTAMP_TCP_SEND_BY_PACKETS_BPF_H

#include "tcp/send/queued.bpf.h"

/*
 * Note the begin of a sending function, with the socket locked. The end of a call that was in
 * progress when tracing began is never seen: its queued bytes become a message now, unless it still
 * waits for room.
 */
static __always_inline struct sender *tx_function_begins(const struct sock *sk, bool more)
{
	const struct tcp_sock *tp = tcp_of(sk);
	struct flow *flow;

	if (!tx_accepts_data(sk))
		return NULL;
	flow = flow_lookup_or_create(sk);
	if (!flow)
		return NULL;
	if (tp->write_seq != flow->tx.seq && !sk->sk_write_pending)
		tx_message_queued(sk, NULL, flow, tp->write_seq - 1);
	return tx_note_entry(sk, flow, more);
}

/* tcp_sendmsg_locked() */
static __always_inline void tx_sendmsg_begins(const struct sock *sk, const struct msghdr *msg)
{
	struct sender *sender = tx_function_begins(sk, msg->msg_flags & MSG_MORE);

	if (sender)
		sender->call = (unsigned long)msg;
}

/* do_tcp_sendpages(), which sendfile(2) and splice(2) come to before v6.5. */
static __always_inline void tx_sendpages_begins(const struct sock *sk, __u32 size, int flags)
{
	struct sender *sender = tx_function_begins(sk, flags & (MSG_MORE | MSG_SENDPAGE_NOTLAST));

	if (!sender)
		return;
	sender->call = 0;
	sender->end = tcp_of(sk)->write_seq + size;
}

/* Return true if all bytes of the call are queued. */
static __always_inline bool tx_call_is_queued(const struct sock *sk, const struct sender *sender)
{
	const void *call = (const void *)sender->call;

	if (call)
		return !kernel_read(call, struct msghdr, msg_iter.count);
	return sender->end == tcp_of(sk)->write_seq;
}

/*
 * Handle __tcp_push_pending_frames(): queued bytes may leave. If the send call has no more to copy,
 * this is the moment before its last byte leaves: tcp_push() ends tcp_sendmsg_locked()
 * (net/ipv4/tcp.c, v6.12) and do_tcp_sendpages().
 */
static __always_inline void tx_push_pending(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_of(sk);
	struct sender *sender;
	struct flow *flow;

	/* In softirq no task owns the socket, and `current` is unrelated. */
	if (!sk->sk_lock.owned)
		return;
	flow = flow_lookup(sk);
	if (!flow || tp->write_seq == flow->tx.seq)
		return;
	sender = entry_of_task(flow, bpf_get_current_pid_tgid());
	if (sender && tx_call_is_queued(sk, sender))
		tx_message_queued(sk, NULL, flow, tp->write_seq - 1);
}

/*
 * Handle the end of tcp_sendmsg_locked(), with the socket locked. Bytes that were not pushed
 * (tcp_should_autocork()), or a partial call, become a message only now. Data that went with the
 * SYN is counted with the connection.
 */
static __always_inline void tx_sendmsg_ends(const struct sock *sk, int result)
{
	struct flow *flow;

	if (!tx_accepts_data(sk))
		return;
	flow = result > 0 ? flow_lookup_or_create(sk) : flow_lookup(sk);
	if (!flow)
		return;
	if (result > 0 && tcp_of(sk)->write_seq != flow->tx.seq)
		tx_message_queued(sk, NULL, flow, tcp_of(sk)->write_seq - 1);
	else
		tx_take_entry(flow);
}

/* net_dev_queue(): __dev_queue_xmit() of each device on the way while the skb is the socket's. */
static __always_inline void tx_packet_to_qdisc(const struct sock *sk, const struct sk_buff *skb)
{
	struct flow *flow = flow_lookup(sk);
	struct packet packet;

	if (flow && flow->tx.head != flow->tx.tail && packet_of_flow(sk, skb, &packet))
		tx_sched(sk, skb, flow, &packet);
}

/* net_dev_start_xmit(): the driver of each device on the way takes the packet, or a part of it. */
static __always_inline void tx_packet_to_driver(const struct sock *sk, const struct sk_buff *skb,
						const struct net_device *device)
{
	struct flow *flow = flow_lookup(sk);
	struct packet packet;

	if (flow && flow->tx.head != flow->tx.tail && packet_of_flow(sk, skb, &packet))
		tx_snd(skb, device, flow, &packet);
}

#endif
