/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stamps of NICs, by the NIC's own clock: what they tell, user space finds out. Messages that a NIC
 * was asked to stamp are marked (MESSAGE_NIC), and each goes to user space in a record.
 */
#ifndef SOCKSTAMP_TCP_SEND_HARDWARE_BPF_H
#define SOCKSTAMP_TCP_SEND_HARDWARE_BPF_H

#include "nic/nic.bpf.h"
#include "tcp/flow.bpf.h"
#include "tcp/send/slots.bpf.h"
#include "tcp/send/stamps.bpf.h"

/* A NIC is asked to stamp the message that was queued last. */
static __always_inline bool tx_asks_nic(struct flow *flow)
{
	struct tx_message *message = tx_find_slot(flow, flow->tx.head - 1);

	if (message)
		message->flags |= MESSAGE_NIC;
	return message;
}

/* The NIC has sent a packet. If it sends it again, the first stamp counts, as that of `snd`. */
static __always_inline void tx_nic_stamped(const struct sock *sk, const struct sk_buff *skb,
					   struct flow *flow)
{
	const struct skb_shared_info *shared = skb_shared(skb);
	struct tx_walk walk = {.flow = flow, .packet = packet_of_key(shared->tskey)};
	struct tx_message *message = tx_find_message(&walk, flow->tx.snd);

	if (!message)
		nic_stamp_alone(sk, shared->tskey, shared->hwtstamps.hwtstamp);
	else if (!message->stamps.snd_hw)
		message->stamps.snd_hw = shared->hwtstamps.hwtstamp;
}

#endif
