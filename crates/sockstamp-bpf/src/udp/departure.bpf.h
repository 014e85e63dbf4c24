/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The packets of UDP's sends, from the packet scheduler to the driver. The times of a message are
 * those of its last byte, so of the packet that carries it: the last fragment, the last segment.
 * From the scheduler to the driver that packet is identified by its address in memory; the others
 * need not be. A packet that reuses the memory of one that left unseen is noticed when it is
 * queued: the message that waited for the earlier packet is refused.
 */
#ifndef SOCKSTAMP_UDP_DEPARTURE_BPF_H
#define SOCKSTAMP_UDP_DEPARTURE_BPF_H

#include "neighbour/neighbour.bpf.h"
#include "udp/answer.bpf.h"
#include "udp/drop_reason.bpf.h"
#include "udp/end.bpf.h"
#include "udp/hops.bpf.h"
#include "udp/in_step.bpf.h"
#include "udp/packet.bpf.h"
#include "udp/peer.bpf.h"
#include "udp/reset.bpf.h"
#include "udp/select.bpf.h"
#include "udp/slots.bpf.h"
#include "udp/state.bpf.h"
#include "udp/unanswered.bpf.h"

#define PF_KTHREAD 0x00200000 /* include/linux/sched.h */

/*
 * A send call ends soon after it has queued a packet. One that seems to continue is no call: its
 * packet was released in another task's time, by a neighbour's answer (ARP).
 */
#define UDP_CALL_NS 1000000000

/*
 * Return whose bytes are corked (AF_INET, AF_INET6), until udp_push_pending_frames() has finished;
 * 0: none are.
 */
static __always_inline int udp_pending(const struct sock *sk)
{
	return kernel_read(sk, struct udp_sock, pending);
}

static __always_inline bool udp_own_device(const struct sock *sk, const struct net_device *device)
{
	return untrusted(device, struct net_device)->nd_net.net ==
	       untrusted(sk, struct sock)->__sk_common.skc_net.net;
}

/*
 * A barrier too: the driver sets a flag, then looks at the state; the end of the call sets the
 * state, then looks at the flags.
 */
static __always_inline void udp_set_flag(struct udp_send *send, __u64 flag)
{
	fully_ordered(__sync_fetch_and_or(&send->flags, flag));
}

/* A global function, so that the verifier walks it once, and not once per send. */
__noinline int udp_note_queued(struct udp_send *send, const struct udp_packet *packet)
{
	if (!send || !packet)
		return 0;
	/* A device on top of another (bond, VLAN, bridge) passes the packet on. */
	if (udp_named(&send->name, &packet->name) && send->ifindex != packet->ifindex) {
		if (setting_hops && send->hop)
			return 0;
		send->repeats++;
	} else {
		if (setting_hops && send->hop)
			hop_stop_following(send);
		/* A send is one datagram: corked bytes left first, or a neighbour's answer let one
		 * go. */
		if (send->flags & UDP_WHOLE) {
			if (send->flags & UDP_FLUSHED) {
				send->sched = 0;
				send->flags = 0;
			} else {
				send->flags |= UDP_DOUBTED;
			}
		}
		if (send->sched || !packet->last || packet->name.segments)
			send->flags |= UDP_SPLIT;
		if (!send->sched) {
			send->sched = packet->now;
			send->interface_first = packet->interface;
		}
		send->sched_last = packet->now;
		send->snd = 0;
	}
	send->name = packet->name;
	send->ifindex = packet->ifindex;
	send->interface_last = packet->interface;
	if (packet->last)
		send->flags |= UDP_WHOLE;
	/* A barrier too: from here on the driver may find it. */
	fully_ordered(__sync_fetch_and_and(&send->flags, ~(__u64)UDP_LEFT));
	return 0;
}

/* Return true if the last packet has not left: its name, which was written before, may be read. */
static __always_inline bool udp_stays(const struct udp_send *send)
{
	__u64 flags = *(volatile __u64 *)&send->flags;

	order_loads();
	return !(flags & UDP_LEFT);
}

/* A packet about to be queued, and the sends that it is compared with. */
struct udp_queueing {
	struct bank *bank;
	struct udp_flow *flow;
	const struct udp_packet *packet;
	__u32 tid; /* of the send call that is under way; 0: in none */
	__u32 taken; /* it may be taken for another packet */
};

static long udp_flush_step(__u32 slot, struct udp_queueing *queueing)
{
	struct udp_send *send = udp_send_at(queueing->flow, slot);

	if (!udp_taken(queueing->flow, slot) || send->state != UDP_CORKED)
		return 0;
	udp_note_queued(send, queueing->packet);
	send->flags |= UDP_SHARED;
	if (queueing->packet->last)
		send->state = UDP_WAITING;
	return 0;
}

/* Corked bytes leave: with those of this call, or by setsockopt(UDP_CORK). */
__noinline int udp_flush_corked(struct udp_flow *flow, const struct udp_packet *packet)
{
	struct udp_queueing queueing = {.flow = flow, .packet = packet};

	if (flow && packet)
		udp_each_slot(flow, udp_flush_step, &queueing);
	return 0;
}

/*
 * Return true if the socket has only packets of this many bytes: sk_wmem_alloc is 1 without any
 * (sk_alloc(), v6.18).
 */
static __always_inline bool udp_no_other_packet(const struct sock *sk, __u32 truesize)
{
	return (__u32)sk->sk_wmem_alloc.refs.counter <= truesize + 1;
}

/* Take a packet's name from a send, if it has that. A global function, as udp_leave_send(). */
__noinline int udp_take_name_from(struct bank *bank, struct udp_flow *flow, __u32 slot,
				  const struct udp_packet *packet, __u32 tid)
{
	struct udp_send *send;

	if (!bank || !flow || !packet)
		return false;
	send = udp_send_at(flow, slot);
	if (!udp_stays(send) ||
	    !(udp_named(&send->name, &packet->name) || udp_overlaps(&send->name, packet)))
		return false;
	/* The call has queued it before, or it is the same packet at its next device. */
	if (send->state == UDP_OPEN && (!tid || send->tid == tid))
		return false;
	if (send->state == UDP_OPEN)
		udp_set_flag(send, UDP_DOUBTED);
	else
		udp_end_missed_send(bank, flow, slot);
	return true;
}

static long udp_take_step(__u32 slot, struct udp_queueing *queueing)
{
	if (udp_taken(queueing->flow, slot))
		queueing->taken |= udp_take_name_from(queueing->bank, queueing->flow, slot,
						      queueing->packet, queueing->tid);
	return 0;
}

/*
 * A new packet is about to wait, so whatever else had its memory is gone. `tid`: of the send call
 * that is under way; 0: in none. Returns whether the packet may be taken for that other one.
 */
__noinline int udp_take_name(struct bank *bank, struct udp_flow *flow,
			     const struct udp_packet *packet, __u32 tid)
{
	struct udp_queueing queueing = {.bank = bank, .flow = flow, .packet = packet, .tid = tid};

	if (!bank || !flow || !packet)
		return 0;
	udp_each_slot(flow, udp_take_step, &queueing);
	/* The other one's segments may be under way still, and end where this one does. */
	return queueing.taken && packet->name.segments && packet->name.borrowed;
}

static long udp_let_go_step(__u32 slot, struct udp_queueing *queueing)
{
	const struct udp_packet *packet = queueing->packet;
	struct udp_send *send = udp_send_at(queueing->flow, slot);

	if (!udp_taken(queueing->flow, slot) ||
	    (send->flags & (UDP_RESOLVED | UDP_LEFT)) != UDP_RESOLVED ||
	    !udp_named(&send->name, &packet->name))
		return 0;
	if (send->ifindex)
		send->repeats++;
	else
		send->interface_first = packet->interface;
	send->sched_last = packet->now;
	send->interface_last = packet->interface;
	send->ifindex = packet->ifindex;
	queueing->taken = true;
	return 1;
}

/* Return true if this packet has waited for its neighbour, after its call was over. */
__noinline int udp_let_go(struct udp_flow *flow, const struct udp_packet *packet)
{
	struct udp_queueing queueing = {.flow = flow, .packet = packet};

	if (!flow || !packet)
		return false;
	udp_each_slot(flow, udp_let_go_step, &queueing);
	return queueing.taken;
}

struct udp_giving_up {
	struct bank *bank;
	struct udp_flow *flow;
	__u64 now;
};

static long udp_give_up_step(__u32 slot, struct udp_giving_up *giving_up)
{
	struct udp_flow *flow = giving_up->flow;
	struct udp_send *send = udp_send_at(flow, slot);

	if (!udp_taken(flow, slot) || !send->sched_last ||
	    giving_up->now - send->sched_last < UDP_CALL_NS)
		return 0;
	if (send->state == UDP_OPEN)
		udp_release_slot(flow, slot);
	else
		udp_end_missed_send(giving_up->bank, flow, slot);
	return 0;
}

/*
 * The socket has no packet but one: a message that still waits for others has missed them, and a
 * call that is still open never was one. Recent ones are left alone: netem takes packets off the
 * socket's account before they leave (skb_orphan_partial(), v6.18).
 */
__noinline int udp_give_up_missed(struct bank *bank, struct udp_flow *flow, __u64 now)
{
	struct udp_giving_up giving_up = {.bank = bank, .flow = flow, .now = now};

	if (bank && flow)
		udp_each_slot(flow, udp_give_up_step, &giving_up);
	return 0;
}

/* An open socket: one that sends no more would leave what it has missed in flight. */
static __always_inline void udp_give_up_held(struct file *file)
{
	struct bank *bank = this_bank();
	struct udp_flow *flow;
	struct socket *socket;
	struct sock *sk;

	socket = bpf_sock_from_file(file);
	if (!socket || !bank)
		return;
	sk = socket->sk;
	if (!sk || !udp_selectable(sk) || !udp_no_other_packet(sk, 0))
		return;
	flow = bpf_sk_storage_get(&udp_flows, sk, 0, 0);
	if (flow && flow->tx_used)
		udp_give_up_missed(bank, flow, bpf_ktime_get_ns());
}

/* net_dev_queue(): __dev_queue_xmit() of each device on the way, in the sender's task. */
static __always_inline void udp_packet_to_qdisc(const struct sock *sk, const struct sk_buff *skb)
{
	const struct net_device *device = untrusted(skb, struct sk_buff)->dev;
	struct udp_flow *flow = udp_flow_of_packet(sk, device->ifindex);
	struct bank *bank = this_bank();
	struct udp_packet packet = {};
	struct udp_send *send;
	bool doubted = false;
	bool corked;
	__u32 slot, tid;
	__u64 asked;

	if (!flow || !bank || !udp_own_device(sk, device))
		return;
	udp_reset_sending_if_after_gap(flow);
	/*
	 * This is not in a send call: packets that waited for a neighbour's address come in
	 * softirq.
	 */
	tid = bpf_get_current_pid_tgid();
	if (bpf_get_current_task_btf()->flags & PF_KTHREAD)
		tid = 0;
	if (!tid && !flow->tx_used)
		return;
	udp_name_packet(sk, skb, &packet.name);
	packet.shared = (__u64)(skb->head + skb->end);
	packet.ifindex = device->ifindex;
	packet.interface = interface_slot(device);
	packet.now = bpf_ktime_get_ns();
	demand_used(DEMAND_DATAGRAMS, packet.now);
	if (flow->tx_used && neighbour_lets_go(sk, packet.now) && udp_let_go(flow, &packet))
		return;
	if (flow->tx_used) {
		if (udp_no_other_packet(sk, skb->truesize))
			udp_give_up_missed(bank, flow, packet.now);
		doubted = udp_take_name(bank, flow, &packet, tid);
	}
	if (!tid)
		return;
	packet.last = udp_last_fragment(skb);
	corked = udp_pending(sk);
	if (corked)
		udp_flush_corked(flow, &packet);
	slot = udp_find_open_call(flow, tid);
	if (slot == UDP_NO_SLOT)
		slot = udp_claim_slot(flow, tid);
	/* Counted at the end of the call, which finds no slot either. */
	if (slot == UDP_NO_SLOT)
		return;
	send = udp_send_at(flow, slot);
	/* Later fragments have no header of UDP. */
	if (!send->sched) {
		if (udp_peer_wanted())
			udp_peer(sk, skb, false, &send->remote);
		if (setting_in_step)
			send->number = datagram_number(skb);
		asked = udp_asked_peer(sk, flow, skb);
		udp_asks_next(flow, asked, packet.now, skb->len);
		udp_ask(flow, asked, packet.now, skb->len);
	}
	udp_note_queued(send, &packet);
	if (corked)
		udp_set_flag(send, UDP_FLUSHED);
	if (doubted)
		udp_set_flag(send, UDP_DOUBTED);
}

static long udp_part_step(__u32 slot, struct udp_opened *opened)
{
	struct udp_send *send = udp_send_at(opened->flow, slot);

	if (!udp_taken(opened->flow, slot))
		return 0;
	if ((opened->slot != UDP_NO_SLOT && opened->slot != slot) || !(send->flags & UDP_SPLIT))
		return 0;
	udp_set_flag(send, UDP_DROPPED);
	opened->dropped = true;
	return 0;
}

/*
 * A packet is dropped that no message ends with: a part of the datagram that is being sent, or,
 * since a packet scheduler may drop what it has, of any that was split. Return true if there is
 * one.
 */
__noinline int udp_drop_split(struct udp_flow *flow, __u32 tid)
{
	struct udp_opened opened = {.flow = flow, .slot = udp_find_open_call(flow, tid)};

	if (flow)
		udp_each_slot(flow, udp_part_step, &opened);
	return opened.dropped;
}

/* A queued packet that the driver takes, or that is dropped on the way. */
struct udp_leaving {
	struct udp_packet_name name;
	__u64 now;
	__u64 flags; /* what that means for its sends */
};

/*
 * Return true if a send waits for the packet; that send's last packet has left then. It is a global
 * function, so that the verifier walks it once, and not once per send.
 */
__noinline int udp_leave_send(struct bank *bank, struct udp_flow *flow, __u32 slot,
			      const struct udp_leaving *leaving)
{
	struct udp_send *send;

	if (!bank || !flow || !leaving)
		return false;
	send = udp_send_at(flow, slot);
	if (!udp_stays(send) || !udp_named(&send->name, &leaving->name))
		return false;
	if (!send->snd)
		send->snd = leaving->now;
	send->snd_last = leaving->now;
	udp_set_flag(send, leaving->flags);
	udp_complete_send_if_over(bank, flow, slot);
	return true;
}

/* As udp_leave_send(), before it: the last packet of a send is followed from here on. */
__noinline int udp_follow_hops_of(struct udp_flow *flow, __u32 slot,
				  const struct udp_leaving *leaving,
				  const struct hop_packet *packet)
{
	struct udp_send *send;

	if (!flow || !leaving || !packet)
		return 0;
	send = udp_send_at(flow, slot);
	if (udp_stays(send) && send->flags & UDP_WHOLE && udp_named(&send->name, &leaving->name))
		hop_follow(send, packet);
	return 0;
}

struct udp_following {
	struct udp_flow *flow;
	const struct udp_leaving *leaving;
	struct hop_packet packet;
};

static long udp_follow_step(__u32 slot, struct udp_following *following)
{
	if (udp_taken(following->flow, slot))
		udp_follow_hops_of(following->flow, slot, following->leaving, &following->packet);
	return 0;
}

static __always_inline void udp_follow_hops(struct udp_flow *flow, const struct sk_buff *skb,
					    const struct udp_leaving *leaving)
{
	struct udp_following following = {.flow = flow, .leaving = leaving};

	hop_read(skb, leaving->now, &following.packet);
	udp_each_slot(flow, udp_follow_step, &following);
}

struct udp_packet_left {
	struct bank *bank;
	struct udp_flow *flow;
	struct udp_leaving leaving;
	__u64 known; /* a send waits for it */
};

static long udp_left_step(__u32 slot, struct udp_packet_left *left)
{
	if (udp_taken(left->flow, slot))
		left->known |= udp_leave_send(left->bank, left->flow, slot, &left->leaving);
	return 0;
}

/*
 * Handle the fate of a queued packet: the driver takes it, or it is dropped on the way. Calls that
 * were corked together share one. Return true if it is a message's.
 */
static __always_inline bool udp_packet_left(const struct sock *sk, const struct sk_buff *skb,
					    bool dropped)
{
	struct udp_flow *flow = bpf_sk_storage_get(&udp_flows, (void *)sk, 0, 0);
	struct udp_packet_left left = {
		.bank = this_bank(),
		.flow = flow,
		.leaving.flags = dropped ? UDP_LEFT | UDP_DROPPED : UDP_LEFT,
	};

	if (!flow || !left.bank || !flow->tx_used || window_detached())
		return false;
	udp_reset_sending_if_after_gap(flow);
	udp_name_packet(sk, skb, &left.leaving.name);
	left.leaving.now = bpf_ktime_get_ns();
	if (setting_hops && !dropped)
		udp_follow_hops(flow, skb, &left.leaving);
	udp_each_slot(flow, udp_left_step, &left);
	if (dropped && !left.known)
		return udp_drop_split(flow, bpf_get_current_pid_tgid());
	return left.known;
}

/* net_dev_start_xmit(): the driver of each device on the way takes the packet, or a part of it. */
static __always_inline void udp_packet_to_driver(const struct sock *sk, const struct sk_buff *skb,
						 const struct net_device *device)
{
	if (udp_own_device(sk, device))
		udp_packet_left(sk, skb, false);
}

/* A packet is dropped that has no receiver here. */
static __always_inline void udp_packet_dropped(const struct sk_buff *skb, int reason)
{
	const struct sock *sender = skb->sk;

	/* A received packet may have been given its socket early: skb_sk_is_prefetched(). */
	if (sender && !skb->skb_iif && udp_selectable(sender) && udp_packet_left(sender, skb, true))
		udp_count_reason(DIRECTION_TX, reason);
}

#endif
