/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Name a packet by its memory, so that the driver's packet is known as the one that was queued: by
 * its skb, or, where it is cut into segments on the way, by the end of its last page.
 */
#ifndef SOCKSTAMP_UDP_PACKET_BPF_H
#define SOCKSTAMP_UDP_PACKET_BPF_H

#include "udp/peer.bpf.h"
#include "udp/state.bpf.h"

#define IP_MF		 0x2000 /* more fragments: RFC 791 */
#define IP6_MF		 0x0001 /* RFC 8200, section 4.5 */
#define NEXTHDR_HOP	 0
#define NEXTHDR_ROUTING	 43
#define NEXTHDR_FRAGMENT 44
#define NEXTHDR_DEST	 60

#define MAX_SKB_FRAGS 45 /* at most: CONFIG_MAX_SKB_FRAGS, v6.4 */

/* include/linux/skbuff.h, v6.18: pages that are the user's. */
#define SKBFL_ZEROCOPY_ENABLE (1 << 0)
#define SKBFL_SHARED_FRAG     (1 << 1)

struct udp_packet {
	struct udp_packet_name name;
	__u64 shared; /* the address of its skb_shared_info */
	__u64 now;
	__u32 ifindex;
	__u32 interface; /* slot in `interfaces` */
	bool last; /* of its datagram */
};

/* skb_frag_t, as it lies in memory: its names are others before v6.10 (struct bio_vec). */
struct udp_page {
	__u64 page;
	__u32 length;
	__u32 offset;
};

static __always_inline bool udp_page_at(const unsigned char *shared, __u32 index,
					struct udp_page *page)
{
	return index < MAX_SKB_FRAGS &&
	       !bpf_probe_read_kernel(page, sizeof(*page),
				      shared +
					      bpf_core_field_offset(struct skb_shared_info, frags) +
					      index * sizeof(*page));
}

/* Where its bytes end. A struct page is 64 bytes long, and a page that is shared out at most 32 kB.
 */
static __always_inline __u64 udp_page_end(const struct udp_page *page)
{
	return (page->page << 12) + page->offset + page->length;
}

/* Where the bytes of a packet's last page end: no two packets that live end at one place. */
static __always_inline __u64 udp_tail(const unsigned char *shared)
{
	__u32 count = kernel_read(shared, struct skb_shared_info, nr_frags);
	struct udp_page last;

	return count && udp_page_at(shared, count - 1, &last) ? udp_page_end(&last) : 0;
}

/* Return true if its pages are the user's, and may be sent again. */
static __always_inline bool udp_borrowed(const unsigned char *shared)
{
	return kernel_read(shared, struct skb_shared_info, flags) &
	       (SKBFL_ZEROCOPY_ENABLE | SKBFL_SHARED_FRAG);
}

/* Each of the three may come once before that of a fragment, and options a second time. */
#define EXTENSIONS_MAX 4

/*
 * Return where the header of a fragment is in an IPv6 packet; 0 if there is none. Options and
 * routes come before it: ip6_find_1stfragopt(), net/ipv6/output_core.c, v6.18.
 */
static __always_inline __u32 udp_fragment_header(const unsigned char *network)
{
	struct {
		__u8 next;
		__u8 length; /* in units of eight bytes, without the first */
	} header = {};
	__u32 offset = 40;

	bpf_probe_read_kernel(&header.next, sizeof(header.next), network + 6);
	for (int i = 0; i < EXTENSIONS_MAX; i++) {
		if (header.next != NEXTHDR_HOP && header.next != NEXTHDR_ROUTING &&
		    header.next != NEXTHDR_DEST)
			break;
		if (bpf_probe_read_kernel(&header, sizeof(header), network + offset))
			return 0;
		offset += (header.length + 1) * 8;
	}
	return header.next == NEXTHDR_FRAGMENT ? offset : 0;
}

/* Return true if a datagram ends with this packet: it is whole, or its last fragment. */
static __always_inline bool udp_last_fragment(const struct sk_buff *skb)
{
	const unsigned char *network = skb->head + skb->network_header;
	__be16 offset = 0;
	__u32 header;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		bpf_probe_read_kernel(&offset, sizeof(offset), network + 6);
		return !(offset & bpf_htons(IP_MF));
	}
	header = udp_fragment_header(network);
	if (!header)
		return true;
	bpf_probe_read_kernel(&offset, sizeof(offset), network + header + 2);
	return !(offset & bpf_htons(IP6_MF));
}

static __always_inline void udp_name_packet(const struct sock *sk, const struct sk_buff *skb,
					    struct udp_packet_name *name)
{
	const unsigned char *shared = skb->head + skb->end;

	name->skb = udp_name(sk, skb);
	name->tail = udp_tail(shared);
	name->segments = kernel_read(shared, struct skb_shared_info, gso_segs) > 1;
	name->borrowed = kernel_read(shared, struct skb_shared_info, flags) &
			 (SKBFL_ZEROCOPY_ENABLE | SKBFL_SHARED_FRAG);
}

/* Return true if this is the packet, or its last segment. */
static __always_inline bool udp_named(const struct udp_packet_name *name,
				      const struct udp_packet_name *seen)
{
	if (name->tail != seen->tail)
		return false;
	return name->segments && name->tail ? true : name->skb == seen->skb;
}

struct udp_covering {
	__u64 shared;
	__u64 tail;
	__u64 covered;
};

static long udp_covers_step(__u32 index, struct udp_covering *covering)
{
	struct udp_page page;

	if (!udp_page_at((void *)covering->shared, index, &page))
		return 1;
	covering->covered = udp_page_end(&page) - covering->tail < page.length;
	return covering->covered;
}

/*
 * Return true if the memory that ends at `tail` is a part of this packet: what ended there has
 * left, and a segment of this one may end there. `shared`: the address of its skb_shared_info.
 */
__noinline int udp_covers(__u64 shared, __u64 tail)
{
	struct udp_covering covering = {.shared = shared, .tail = tail};
	__u32 count = kernel_read((void *)shared, struct skb_shared_info, nr_frags);

	bpf_loop(count < MAX_SKB_FRAGS ? count : MAX_SKB_FRAGS, udp_covers_step, &covering, 0);
	return covering.covered;
}

/*
 * Return true if a segment of this packet may end where a waiting one does: that has left unseen,
 * or the user lends memory to both (MSG_ZEROCOPY, splice(2)), and may lend any part of it again.
 */
static __always_inline bool udp_overlaps(const struct udp_packet_name *name,
					 const struct udp_packet *packet)
{
	if (!name->segments || !name->tail || !packet->name.segments)
		return false;
	return (name->borrowed && packet->name.borrowed) || udp_covers(packet->shared, name->tail);
}

#endif
