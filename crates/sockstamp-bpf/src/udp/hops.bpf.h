/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rest of a datagram's way through its host (--host-path). No key stays with a datagram, but
 * its memory does: veth, bridges and routing hand the same struct sk_buff on, whatever NAT and
 * tunnels write into the packet. From the driver of its first device on, a packet is therefore
 * known by its address, until it reaches a socket of this host, or is freed (consume_skb,
 * kfree_skb). A read frees it unseen: skb_attempt_defer_free() in skb_consume_udp(), v6.18.
 *
 * A packet of segments (UDP_SEGMENT: udp(7)) may be taken apart at a later device: it is freed, and
 * its last segment is known by where its memory ends (packet.bpf.h) and by its length, until a
 * driver takes that.
 *
 * The message ends when a physical device takes its packet, or when that is delivered, freed or
 * dropped on this host. It is kept here from the end of its call on, because an orphaned packet
 * does not lead to a socket, and the socket may be closed by then.
 */
#ifndef SOCKSTAMP_UDP_HOPS_BPF_H
#define SOCKSTAMP_UDP_HOPS_BPF_H

#include "udp/end.bpf.h"
#include "udp/packet.bpf.h"

/* Limit of probes for a free slot before a packet counts as one without room. */
#define HOP_PROBES 8

/* A packet that went no further for so long is given up. */
#define HOP_NS 5000000000ULL

const volatile bool setting_hops; /* datagrams are followed */
const volatile __u32 setting_hop_mask = HOPS - 1;

enum hop_state {
	HOP_FREE,
	HOP_TAKEN, /* it is being written, or cleared */
	HOP_OPEN, /* the send call is not over */
	HOP_OVER, /* ... but the packet's way is */
	HOP_HELD, /* the message is here: the call is over */
};

enum hop_flags {
	HOP_DROPPED = 1 << 0,
	HOP_MISSED = 1 << 1, /* what became of the packet was not seen */
	HOP_APART = 1 << 2, /* it is in segments now, and no driver has taken the last */
	HOP_QUEUED = 1 << 3, /* it waits for the driver of its next device */
};

struct hop {
	__u64 state;
	__u64 name; /* in `hop_names` */
	__u64 begun; /* when the first driver took it; with its slot that tells it from later ones
		      */
	__u64 seen; /* when a driver took it last */
	__u64 sk; /* addresses as plain numbers */
	__u64 first; /* device */
	__u64 last;
	__u64 flags;
	__u32 slot;
	__u32 length; /* of the IP packet: tunnels add to it; exact if it is in segments */
	__u16 interface; /* of the last device */
	__u16 repeats; /* devices after the first */
	struct udp_send send; /* only if it is held, as the next */
	struct flow_identity identity;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HOPS);
	__type(key, __u32);
	__type(value, struct hop);
} hops SEC(".maps");

/*
 * The names of followed packets, in buckets of a cache line: every packet that a device takes, and
 * every one that is freed, is looked up here.
 */
#define HOP_WAYS 4

struct hop_names {
	struct {
		__u64 name; /* 0: free */
		__u32 slot;
		__u32 padding;
	} ways[HOP_WAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HOPS);
	__type(key, __u32);
	__type(value, struct hop_names);
} hop_names SEC(".maps");

/* Followed packets, and those of them that are in segments: without any, nothing is looked up. */
__u64 hops_open;
__u64 hops_apart;

/* A packet that is followed maybe, at a device or at its end. */
struct hop_packet {
	__u64 name;
	__u64 now;
	__u64 sk;
	__u64 device;
	__u32 length;
	__u16 interface;
	bool last; /* of its datagram */
};

/* The address of a packet as a plain number, as udp_name(). Never 0. */
static __always_inline __u64 hop_name(const struct sk_buff *skb)
{
	return (__u64)skb - (__u64)&hops_open;
}

/* Return the value of a pointer field as a plain number. */
static __always_inline __u64 hop_pointer(const void *field)
{
	__u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), field);
	return value;
}

/* The bytes from the IP header on. */
static __always_inline __u32 hop_length(const struct sk_buff *skb)
{
	return skb->len - (skb->network_header - (__u32)(skb->data - skb->head));
}

/* struct sk_buff and pages lie on cache lines: the lowest bits are alike. */
static __always_inline __u32 hop_hash(__u64 name)
{
	return (__u32)(name >> 6) * 0x9e3779b1 >> 12;
}

static __always_inline struct hop *hop_at(__u32 slot)
{
	return bpf_map_lookup_elem(&hops, &slot);
}

static __always_inline struct hop_names *hop_bucket(__u64 name)
{
	__u32 bucket = hop_hash(name) & setting_hop_mask;

	return bpf_map_lookup_elem(&hop_names, &bucket);
}

/* Global functions, as others below with a loop, so that the verifier walks them once. */
__noinline int hop_name_add(__u64 name, __u32 slot)
{
	struct hop_names *names = hop_bucket(name);

	if (!names)
		return false;
	for (int i = 0; i < HOP_WAYS; i++) {
		if (names->ways[i].name ||
		    __sync_val_compare_and_swap(&names->ways[i].name, 0, name))
			continue;
		names->ways[i].slot = slot;
		return true;
	}
	return false;
}

__noinline int hop_name_remove(__u64 name, __u32 slot)
{
	struct hop_names *names = hop_bucket(name);

	if (!names)
		return 0;
	for (int i = 0; i < HOP_WAYS; i++) {
		if (names->ways[i].name == name && names->ways[i].slot == slot)
			names->ways[i].name = 0;
	}
	return 0;
}

static __always_inline void hop_release(struct hop *hop)
{
	if (hop->flags & HOP_APART)
		__sync_fetch_and_sub(&hops_apart, 1);
	hop->name = 0;
	__sync_fetch_and_sub(&hops_open, 1);
	__sync_lock_test_and_set(&hop->state, HOP_FREE);
}

/* Add what the way has shown to the message. */
static __always_inline void hop_apply(struct udp_send *send, const struct hop *hop)
{
	if (hop->flags & HOP_DROPPED)
		send->flags |= UDP_DROPPED;
	/* Some kernels run no tracing program on top of some tasks: a driver may take it unseen. */
	if (hop->flags & (HOP_MISSED | HOP_QUEUED))
		send->flags |= UDP_DOUBTED;
	if (!hop->repeats)
		return;
	send->snd_last = hop->seen;
	send->interface_last = hop->interface;
	send->repeats += hop->repeats;
}

/* The packet's way is over. The end of its send call, on another CPU, may come at once. */
__noinline int hop_end(struct hop *hop, __u64 flags)
{
	struct bank *bank = this_bank();

	if (!hop || !bank)
		return 0;
	hop->flags |= flags;
	hop_name_remove(hop->name, hop->slot);
	if (__sync_val_compare_and_swap(&hop->state, HOP_OPEN, HOP_OVER) == HOP_OPEN)
		return 0;
	if (__sync_val_compare_and_swap(&hop->state, HOP_HELD, HOP_TAKEN) != HOP_HELD)
		return 0;
	hop_apply(&hop->send, hop);
	udp_send_ends(bank, &hop->send, &hop->identity);
	hop_release(hop);
	return 0;
}

/* Take a free slot for a packet with this name; a negative number if there is none. */
__noinline int hop_claim(__u64 name)
{
	__u32 hash = hop_hash(name);

	for (int i = 0; i < HOP_PROBES; i++, hash++) {
		__u32 slot = hash & setting_hop_mask;
		struct hop *hop = hop_at(slot);

		if (!hop)
			return -1;
		if (hop->state ||
		    __sync_val_compare_and_swap(&hop->state, HOP_FREE, HOP_TAKEN) != HOP_FREE)
			continue;
		__sync_fetch_and_add(&hops_open, 1);
		hop->slot = slot;
		return slot;
	}
	return -1;
}

/* A packet is about to be followed: others with its address are gone, and their end was missed. */
__noinline int hop_end_reused(__u64 name, __u64 now)
{
	struct hop_names *names = hop_bucket(name);

	if (!names)
		return 0;
	for (int i = 0; i < HOP_WAYS; i++) {
		struct hop *hop = names->ways[i].name == name ? hop_at(names->ways[i].slot) : NULL;

		/* Calls that were corked together share a packet. */
		if (hop && hop->name == name && hop->begun != now)
			hop_end(hop, HOP_MISSED);
	}
	return 0;
}

/* Follow the last packet of a send from here on, if its device may lead further into this host. */
__noinline int hop_follow(struct udp_send *send, const struct hop_packet *packet)
{
	const struct interface *interface;
	struct hop *hop = NULL;
	int slot;

	if (!send || !packet)
		return 0;
	interface = interface_at(send->interface_last);
	if (interface && interface->medium != MEDIUM_VIRTUAL)
		return 0;
	hop_end_reused(packet->name, packet->now);
	slot = hop_claim(packet->name);
	if (slot >= 0)
		hop = hop_at(slot);
	if (!hop) {
		count_loss(LOSS_HOST_PATH);
		return 0;
	}
	hop->name = packet->name;
	hop->begun = packet->now;
	hop->seen = packet->now;
	hop->sk = packet->sk;
	hop->first = packet->device;
	hop->last = packet->device;
	hop->length = packet->length;
	hop->flags = 0;
	hop->repeats = 0;
	__sync_lock_test_and_set(&hop->state, HOP_OPEN);
	if (!hop_name_add(packet->name, slot)) {
		hop_release(hop);
		count_loss(LOSS_HOST_PATH);
		return 0;
	}
	send->hop = slot + 1;
	return 0;
}

/* Return where the last packet of a send is followed, and forget that. */
static __always_inline struct hop *hop_detach(struct udp_send *send)
{
	struct hop *hop = send->hop ? hop_at(send->hop - 1) : NULL;

	send->hop = 0;
	if (!hop)
		return NULL;
	if (hop->begun == send->snd_last && (hop->state == HOP_OPEN || hop->state == HOP_OVER))
		return hop;
	/* It was given up while the call went on. */
	count_loss(LOSS_HOST_PATH);
	return NULL;
}

/* Follow a packet no more: its send is not measured, or goes on with another. */
__noinline int hop_stop_following(struct udp_send *send)
{
	struct hop *hop;

	if (!send)
		return 0;
	hop = hop_detach(send);
	if (!hop)
		return 0;
	hop_name_remove(hop->name, hop->slot);
	hop_release(hop);
	return 0;
}

/*
 * A message is over as far as its socket shows. Return true if it goes on here; otherwise it has
 * what its way has shown.
 */
static __always_inline bool hop_hand_over(struct udp_send *send,
					  const struct flow_identity *identity)
{
	struct hop *hop;

	if (!send->hop)
		return false;
	if (udp_send_verdict(send) != VERDICT_VALID) {
		hop_stop_following(send);
		return false;
	}
	hop = hop_detach(send);
	if (!hop)
		return false;
	hop->send = *send;
	if (setting_record)
		hop->identity = *identity;
	if (__sync_val_compare_and_swap(&hop->state, HOP_OPEN, HOP_HELD) == HOP_OPEN)
		return true;
	/* An exchange that fails orders nothing, and the way was written before it was over. */
	order_loads();
	hop_apply(send, hop);
	hop_release(hop);
	return false;
}

/* A driver takes a packet with the name of a followed one. */
__noinline int hop_taken_by_driver(__u32 slot, const struct hop_packet *packet)
{
	const struct interface *interface;
	struct hop *hop = hop_at(slot);

	if (!hop || !packet || hop->name != packet->name)
		return 0;
	/* Another packet has its memory: its end was missed. */
	if ((packet->sk && packet->sk != hop->sk) || packet->length < hop->length ||
	    packet->device == hop->first || packet->device == hop->last)
		return hop_end(hop, HOP_MISSED);
	/* The datagram was put together and taken apart again, and this is not its last fragment.
	 */
	if (!packet->last)
		return 0;
	hop->seen = packet->now;
	hop->last = packet->device;
	hop->interface = packet->interface;
	hop->repeats++;
	hop->flags &= ~(__u64)HOP_QUEUED;
	interface = interface_at(packet->interface);
	if (interface && interface->medium == MEDIUM_PHYSICAL)
		hop_end(hop, 0);
	return 0;
}

/* Return true if a packet whose memory ends like that of one in segments is not its last segment.
 */
static __always_inline bool hop_differs(const struct hop *hop, const struct hop_packet *packet)
{
	return hop->length != packet->length || packet->device == hop->first ||
	       (packet->sk && packet->sk != hop->sk);
}

/* The last segment of a packet that was taken apart has an address of its own. */
__noinline int hop_join(__u64 tail, const struct hop_packet *packet)
{
	struct hop_names *names = hop_bucket(tail);

	if (!names || !packet)
		return 0;
	for (int i = 0; i < HOP_WAYS; i++) {
		struct hop *hop = names->ways[i].name == tail ? hop_at(names->ways[i].slot) : NULL;

		if (!hop || hop->name != tail)
			continue;
		/* Another packet has its memory: its end was missed. */
		if (hop_differs(hop, packet)) {
			hop_end(hop, HOP_MISSED);
			continue;
		}
		hop_name_remove(tail, hop->slot);
		hop_end_reused(packet->name, hop->begun);
		hop->name = packet->name;
		hop->flags &= ~(__u64)HOP_APART;
		__sync_fetch_and_sub(&hops_apart, 1);
		if (hop_name_add(packet->name, hop->slot))
			continue;
		count_loss(LOSS_HOST_PATH);
		hop_end(hop, HOP_MISSED);
	}
	return 0;
}

static __always_inline void hop_read(const struct sk_buff *skb, __u64 now,
				     struct hop_packet *packet)
{
	packet->name = hop_name(skb);
	packet->now = now;
	packet->sk = hop_pointer(&skb->sk);
	packet->device = hop_pointer(&skb->dev);
	packet->length = hop_length(skb);
}

/* Return true if one of a bucket's packets has this name. */
static __always_inline bool hop_named(const struct hop_names *names, __u64 name)
{
	bool named = false;

	for (int i = 0; i < HOP_WAYS; i++)
		named |= names->ways[i].name == name;
	return named;
}

/* A packet of anyone's is about to wait for a driver. */
static __always_inline void hop_packet_to_qdisc(const struct sk_buff *skb)
{
	__u64 name = hop_name(skb);
	struct hop_names *names;

	if (!hops_open)
		return;
	names = hop_bucket(name);
	if (!names || !hop_named(names, name))
		return;
	for (int i = 0; i < HOP_WAYS; i++) {
		struct hop *hop = names->ways[i].name == name ? hop_at(names->ways[i].slot) : NULL;

		if (hop && hop->name == name)
			hop->flags |= HOP_QUEUED;
	}
}

/* A driver takes a packet, of anyone's. */
static __always_inline void hop_packet_to_driver(const struct sk_buff *skb,
						 const struct net_device *device)
{
	__u64 name = hop_name(skb), tail = 0;
	struct hop_packet packet = {};
	struct hop_names *names;

	if (!hops_open)
		return;
	names = hop_bucket(name);
	if (!names)
		return;
	/* The last segment of one packet may have the memory of another that is gone. */
	if (hops_apart && skb->data_len)
		tail = udp_tail(skb->head + skb->end);
	if (!tail && !hop_named(names, name))
		return;
	hop_read(skb, bpf_ktime_get_ns(), &packet);
	packet.interface = interface_slot(device);
	packet.last = udp_last_fragment(skb);
	if (tail)
		hop_join(tail, &packet);
	for (int i = 0; i < HOP_WAYS; i++) {
		if (names->ways[i].name == name)
			hop_taken_by_driver(names->ways[i].slot, &packet);
	}
}

/* A packet with the name of a followed one whose memory is about to be free. */
struct hop_gone {
	__u64 name;
	__u64 device;
	__u64 tail; /* of a packet of segments; 0: it is none, or has no pages */
	__u32 length; /* of its last segment */
	__u16 segments;
	bool borrowed;
	bool dropped;
};

__noinline int hop_memory_freed(__u32 slot, const struct hop_gone *gone)
{
	struct hop *hop = hop_at(slot);

	if (!hop || !gone || hop->name != gone->name)
		return 0;
	if (gone->dropped)
		return hop_end(hop, HOP_DROPPED);
	/* Its last device had it whole, and is done with it; or it was taken apart. */
	if (gone->segments < 2 || gone->device == hop->last)
		return hop_end(hop, 0);
	hop_name_remove(hop->name, hop->slot);
	/* Memory that is the user's may be sent again, and end another packet. */
	if (!gone->tail || gone->borrowed)
		return hop_end(hop, HOP_MISSED);
	hop_end_reused(gone->tail, hop->begun);
	if (!hop_name_add(gone->tail, hop->slot)) {
		count_loss(LOSS_HOST_PATH);
		return hop_end(hop, HOP_MISSED);
	}
	hop->length = gone->length;
	hop->flags |= HOP_APART;
	__sync_fetch_and_add(&hops_apart, 1);
	hop->name = gone->tail;
	return 0;
}

/* A packet of anyone's is about to be freed. Return true if it was followed. */
static __always_inline bool hop_packet_freed(const struct sk_buff *skb, bool dropped)
{
	struct hop_gone gone = {.name = hop_name(skb), .dropped = dropped};
	const unsigned char *shared = skb->head + skb->end;
	struct hop_names *names;
	__u32 size;

	if (!hops_open)
		return false;
	names = hop_bucket(gone.name);
	if (!names || !hop_named(names, gone.name))
		return false;
	gone.device = hop_pointer(&skb->dev);
	gone.tail = udp_tail(shared);
	gone.segments = kernel_read(shared, struct skb_shared_info, gso_segs);
	gone.borrowed = udp_borrowed(shared);
	size = kernel_read(shared, struct skb_shared_info, gso_size);
	gone.length = hop_length(skb) - (gone.segments - 1) * size;
	for (int i = 0; i < HOP_WAYS; i++) {
		if (names->ways[i].name == gone.name)
			hop_memory_freed(names->ways[i].slot, &gone);
	}
	return true;
}

__noinline int hop_arrive(__u64 name)
{
	struct hop_names *names = hop_bucket(name);

	if (!names)
		return 0;
	for (int i = 0; i < HOP_WAYS; i++) {
		struct hop *hop = names->ways[i].name == name ? hop_at(names->ways[i].slot) : NULL;

		if (hop && hop->name == name)
			hop_end(hop, 0);
	}
	return 0;
}

/* A packet of anyone's has reached a socket of this host. */
static __always_inline void hop_packet_arrives(const struct sk_buff *skb)
{
	struct hop_packet packet = {};
	__u64 tail = 0;

	if (!hops_open)
		return;
	if (hops_apart && skb->data_len)
		tail = udp_tail(skb->head + skb->end);
	if (tail) {
		hop_read(skb, 0, &packet);
		hop_join(tail, &packet);
	}
	hop_arrive(hop_name(skb));
}

/* Give up a packet that has gone no further for long: its end was missed, or it waits somewhere. */
__noinline int hop_give_up(struct hop *hop, __u64 now)
{
	if (!hop || hop->state < HOP_OPEN || now - hop->seen < HOP_NS)
		return 0;
	if (hop->state == HOP_HELD)
		return hop_end(hop, HOP_MISSED);
	/* Its call was none, or has not ended, or its socket is gone. */
	hop_name_remove(hop->name, hop->slot);
	hop_release(hop);
	return 0;
}

static long hops_give_up_step(struct bpf_map *map, const __u32 *slot, struct hop *hop,
			      const __u64 *now)
{
	hop_give_up(hop, *now);
	return 0;
}

static __always_inline void hops_give_up(void)
{
	__u64 now = bpf_ktime_get_ns();

	if (hops_open)
		bpf_for_each_map_elem(&hops, hops_give_up_step, &now, 0);
}

#endif
