/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rest of a container's way through its host (--host-path), and behind a device that hands on
 * copies. The kernel calls back for SND at
 * every device that a packet crosses while it belongs to the socket. Behind a routed hop it does
 * not any more (ip_rcv_core() and ip6_rcv_core() orphan it, v6.18), but it still carries the flag
 * and the key that its stamps were asked for with: they are part of its data (struct
 * skb_shared_info), pass NAT and tunnels, and go to the right segment where it is split
 * (tcp_gso_tstamp()). The key is a sequence number, so the hash of the connection that the sender
 * put on the packet (skb_set_hash_from_sk()) tells equal keys apart.
 *
 * A redirection at the egress of a device, as to ifb for shaping, sends on a copy of the packet
 * (tcf_mirred_to_dev(), net/sched/act_mirred.c, v6.18). A copy has no socket either, but the same
 * data. Where a message entered a device and no driver took it, the packets of that device are
 * followed from then on.
 */
#ifndef SOCKSTAMP_TCP_SEND_HOST_PATH_BPF_H
#define SOCKSTAMP_TCP_SEND_HOST_PATH_BPF_H

#include "demand/demand.bpf.h"
#include "host_path/interfaces.bpf.h"
#include "tcp/flow.bpf.h"
#include "tcp/packet.bpf.h"

#define SKBTX_BPF (1 << 7) /* include/linux/skbuff.h, v6.15 */

/*
 * Packets with the last byte of a measured, unacknowledged message: at most TX_SLOTS per flow, so
 * this is enough for 512 flows that use all of theirs. A power of two; user space may set another
 * size before load.
 */
#define PATHS 16384

/* Limit of probes for a packet before it counts as one without room. */
#define PATH_PROBES 8

const volatile bool setting_host_path;
const volatile __u32 setting_path_mask = PATHS - 1;

/* Copies are looked for in vain behind other devices that share this bit. */
#define DEVICE_BIT(slot) (1ULL << ((slot) % 64))

/* DEVICE_BIT() of devices that hand on copies of packets; without any, no copy is looked at. */
volatile __u64 paths_detached;

/* The stamps of a packet after the last device with callbacks. */
struct path {
	__u64 id; /* 0: free */
	__u64 snd; /* handed to the last driver of the first transmission; 0: to none yet */
	__u64 snd_last;
	__u16 first; /* interface */
	__u16 last; /* interface of `snd` */
	__u8 repeats;
	__u8 resent; /* it came to the first interface again */
	__u8 ranged; /* its bytes could be read at `last` ... */
	__u8 padding;
	__u32 from; /* ... the first of them: the part with the key, where a device cut it */
	__u32 padding_end;
};

/*
 * An array with probing, not a hash map: adding, finding and deleting an element there takes three
 * times as long as all other work for a message.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PATHS);
	__type(key, __u32);
	__type(value, struct path);
} paths SEC(".maps");

/* `packet` is the key of its stamps; TCP's hashes are not 0 (net_tx_rndhash(), v6.18). */
static __always_inline __u64 path_id(__u32 packet, __u32 hash)
{
	return (__u64)hash << 32 | packet;
}

/*
 * Clear it when it is taken, because a retransmitted packet may still write to it when it is given
 * back.
 */
static __always_inline void path_reset(struct path *path)
{
	path->snd = 0;
	path->snd_last = 0;
	path->repeats = 0;
	path->resent = false;
	path->ranged = false;
}

/* Return the element of a packet; if it has none and `take` is set, take a free one. */
static __always_inline struct path *path_find(__u64 id, bool take)
{
	__u32 slot = id ^ id >> 32;

	for (int i = 0; i < PATH_PROBES; i++, slot++) {
		__u32 place = slot & setting_path_mask;
		struct path *path = bpf_map_lookup_elem(&paths, &place);

		if (!path)
			return NULL;
		if (take && !path->id && !__sync_val_compare_and_swap(&path->id, 0, id))
			path_reset(path);
		if (path->id == id)
			return path;
	}
	return NULL;
}

/*
 * Give a packet an element; return false if there is none. A global function, so the verifier walks
 * its loop once, not once per path to it.
 */
__noinline int path_take(__u64 id)
{
	return path_find(id, true) != NULL;
}

static __always_inline void path_begin(const struct sk_buff *skb, __u32 packet)
{
	if (!path_take(path_id(packet, skb->hash)))
		count_loss(LOSS_HOST_PATH);
}

/* Follows a packet that leaves by a device, if that may lead further into this host. */
static __always_inline void path_follow(const struct sk_buff *skb, __u32 packet, __u32 slot)
{
	const struct interface *interface = interface_at(slot);

	if (!interface || interface->medium == MEDIUM_VIRTUAL)
		path_begin(skb, packet);
}

/* Return true if packets that enter a device go on as copies. */
static __always_inline bool path_is_detached(__u32 slot)
{
	return paths_detached & DEVICE_BIT(slot);
}

/*
 * No driver took a packet that had entered this device: look for copies of later ones. They may
 * have another reason, and then nothing is found.
 */
static __always_inline void path_detach(__u32 slot)
{
	/* There a packet is redirected before it is seen to enter the device. */
	if (setting_by_packets)
		return;
	if (!path_is_detached(slot))
		__sync_fetch_and_or(&paths_detached, DEVICE_BIT(slot));
	demand_request(DEMAND_PARTS);
}

/* The key that an orphaned packet may be known by; without callbacks it is its last byte. */
static __always_inline bool path_key(const struct sk_buff *skb, __u32 *key)
{
	const struct skb_shared_info *shared;
	struct packet packet;

	if (setting_by_packets) {
		if (!skb->hash || !packet_read(skb, &packet))
			return false;
		*key = packet.last;
		return true;
	}
	shared = skb_shared(skb);
	*key = shared->tskey;
	return shared->tx_flags & SKBTX_BPF;
}

/* Note that a driver takes a packet. Skip packets of a socket: SND reports those. */
static __always_inline void path_xmit(const struct sk_buff *skb, const struct net_device *device)
{
	struct packet packet;
	struct path *path;
	__u32 slot, key;

	if (!path_key(skb, &key))
		return;
	path = path_find(path_id(key, skb->hash), false);
	/* Skip a packet that was retransmitted after its ACK, or measured by another sockstamp. */
	if (!path)
		return;
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
	path->ranged = false;
	if (!packet_read(skb, &packet))
		return;
	path->ranged = packet_carries(&packet, key);
	path->from = packet.first;
}

/*
 * End the message: its SND is that of the last device. Messages may share a packet. It is a global
 * function, so that the verifier walks it once.
 */
__noinline int path_finish(struct tx_message *message)
{
	struct path *path;

	/* No packet of the message was seen to leave its socket. */
	if (!message || !message->hash)
		return 0;
	path = path_find(path_id(message->packet, message->hash), false);
	if (!path)
		return 0;
	/* The packet that was seen may be one that was sent again. */
	if (path->snd && !message->stamps.snd && message->retransmits && !path->resent)
		path->snd = 0;
	if (path->snd) {
		message->stamps.snd = path->snd;
		message->interface_last = path->last;
		demand_used(DEMAND_PARTS, path->snd);
	}
	/* Its last byte left in a part without the key, which was not seen. */
	if (path->snd && path->ranged && seq_before(message->seq_last, path->from))
		message->stamps.snd = 0;
	if (path->snd_last > message->stamps.snd_last)
		message->stamps.snd_last = path->snd_last;
	message->repeats += path->repeats;
	if (message->seq_last == message->packet) {
		/* Another packet may have it from here on. */
		order_loads_and_stores();
		path->id = 0;
	}
	return 0;
}

#endif
