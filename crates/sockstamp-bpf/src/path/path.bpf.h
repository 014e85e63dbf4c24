/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rest of a container's way through its host (--host-path). The kernel calls back for SND at
 * every device that a packet crosses while it belongs to the socket. Behind a routed hop it does
 * not any more (ip_rcv_core() and ip6_rcv_core() orphan it, v6.18), but it still carries the flag
 * and the key that its stamps were asked for with: they are part of its data (struct
 * skb_shared_info), pass NAT and tunnels, and go to the right segment where it is split
 * (tcp_gso_tstamp()). The key is a sequence number, so the hash of the connection that the sender
 * put on the packet (skb_set_hash_from_sk()) tells equal keys apart.
 */
#ifndef SOCKSTAMP_PATH_BPF_H
#define SOCKSTAMP_PATH_BPF_H

#include "../flow/flow.bpf.h"
#include "interfaces.bpf.h"

#define SKBTX_BPF (1 << 7) /* include/linux/skbuff.h, v6.15 */

/*
 * Packets that carry the last byte of a measured message and have not been acknowledged: at most
 * TX_SLOTS a flow, so this is enough for 512 flows that use all of theirs. User space may set
 * another size before load.
 */
#define PATHS 16384

const volatile bool setting_host_path;

struct path_key {
	__u32 packet; /* the key of its stamps: skb_shared_info::tskey */
	__u32 hash;
};

/* What happened behind the last device that called back. */
struct path {
	__u64 snd; /* handed to the last driver of the first transmission; 0: to none yet */
	__u64 snd_last;
	__u16 first; /* interface */
	__u16 last; /* interface of `snd` */
	__u8 repeats;
	__u8 resent; /* it came to the first interface again */
	__u8 padding[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PATHS);
	__type(key, struct path_key);
	__type(value, struct path);
} paths SEC(".maps");

/* Follows a packet that leaves by a device, if that may lead further into this host. */
static __always_inline void path_open(const struct sk_buff *skb, __u32 packet, __u32 slot)
{
	const struct interface *interface = interface_at(slot);
	struct path_key key = {.packet = packet, .hash = skb->hash};
	struct path path = {};

	if (interface && interface->medium != MEDIUM_VIRTUAL)
		return;
	if (bpf_map_update_elem(&paths, &key, &path, BPF_ANY))
		count_loss(LOSS_HOST_PATH);
}

/* A driver takes a packet. Those that belong to a socket are none of ours: SND tells of them. */
static __always_inline void path_xmit(const struct sk_buff *skb, const struct net_device *device)
{
	const struct skb_shared_info *shared = skb_shared(skb);
	struct path_key key = {.hash = skb->hash};
	struct path *path;
	__u32 slot;

	if (!(shared->tx_flags & SKBTX_BPF))
		return;
	key.packet = shared->tskey;
	path = bpf_map_lookup_elem(&paths, &key);
	if (!path) {
		count_loss(LOSS_UNMATCHED);
		return;
	}
	slot = interface_slot(device);
	path->repeats++;
	path->snd_last = bpf_ktime_get_ns();
	if (!path->snd)
		path->first = slot;
	else if (path->first == slot)
		path->resent = true;
	if (path->resent)
		return;
	path->snd = path->snd_last;
	path->last = slot;
}

/* The message is over: its SND is that of the last device. Messages may share a packet. */
static __always_inline void path_close(struct tx_message *message)
{
	struct path_key key = {.packet = message->packet, .hash = message->hash};
	struct path *path = bpf_map_lookup_elem(&paths, &key);

	if (!path)
		return;
	if (path->snd) {
		message->stamps.snd = path->snd;
		message->interface_last = path->last;
	}
	if (path->snd_last > message->stamps.snd_last)
		message->stamps.snd_last = path->snd_last;
	message->repeats += path->repeats;
	if (message->seq_last == message->packet)
		bpf_map_delete_elem(&paths, &key);
}

#endif
