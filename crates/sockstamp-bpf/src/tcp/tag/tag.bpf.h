/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tags (--tag) tell the other end which numbers the bytes of a connection had before something on
 * the way changed them. A tag is an experimental TCP option (RFC 6994) with the sequence number of
 * its segment, as the sender has it. What the reader finds in the segment's header less that number
 * is the same for all bytes of the connection, so one tag is enough for each direction, and no
 * message but that one costs anything.
 *
 * A tag is wanted when a connection is established or adopted, and when the peer sends one: it may
 * have begun to listen. Then the kernel asks for the options of each segment, until one has room.
 * Segments of the handshake, and of several packets, of which each would have the option, get none.
 */
#ifndef SOCKSTAMP_TCP_TAG_TAG_BPF_H
#define SOCKSTAMP_TCP_TAG_TAG_BPF_H

#include "histogram/histogram.bpf.h"
#include "select/asked.bpf.h"
#include "tcp/flow.bpf.h"

#define TAG_KIND   253 /* RFC 4727 */
#define TAG_LENGTH 8
/* "SS"; RFC 6994, section 3. It is not registered: docs/join.md. */
#define TAG_EXPERIMENT 0x5353
/* Kind, length and experiment, which the kernel looks for: bpf_sock_ops_load_hdr_opt(), v6.18. */
#define TAG_SEARCHED 4

/* include/net/tcp.h */
#define TCP_HEADER_LENGTH  20
#define TCP_OPTIONS_LENGTH 40
#define TCP_FLAG_PSH	   0x08
#define TCP_FLAG_ACK	   0x10

/* A flow of full segments has room nowhere: after so many, give it up. */
#define TAG_TRIES 64
/* Callbacks for options without a tag, after one was read, until sockstamp looks for no more. */
#define TAG_MISSES 64
/* An answer to the peer's tag is no question: both would go to and fro. */
#define TAG_PAUSE_NS 1000000000ULL
/* So many in a row that were sent again, and none from the peer, are no accident. */
#define TAG_SUSPICION 3

struct tag_option {
	__u8 kind;
	__u8 length;
	__be16 experiment;
	__be32 seq;
};

struct tag_peer {
	__u32 netns;
	__u32 family;
	__u8 address[16];
};

/*
 * Tags in a row that had to be sent again, by peer. The kernel forgets the peers that were not
 * looked at for longest; then they get three more. One element if there are no tags.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct tag_peer);
	__type(value, __u32);
} tag_peers SEC(".maps");

static __always_inline void count_tag(enum tags kind)
{
	struct bank *bank = this_bank();

	if (bank)
		count(&bank->tags[kind], 1);
}

static __always_inline struct tag_peer tag_peer_of(const struct sock *sk)
{
	const struct sock_common *common = &sk->__sk_common;
	struct tag_peer peer = {.netns = common->skc_net.net->ns.inum};

	peer.family = common->skc_family;
	if (bpf_core_field_exists(common->skc_v6_daddr) && peer.family == AF_INET6)
		BPF_CORE_READ_INTO(&peer.address, common, skc_v6_daddr.in6_u.u6_addr8);
	else
		*(__be32 *)peer.address = common->skc_daddr;
	return peer;
}

static __always_inline bool tag_suspicious(const struct sock *sk)
{
	struct tag_peer peer = tag_peer_of(sk);
	__u32 *resent = bpf_map_lookup_elem(&tag_peers, &peer);

	return resent && *resent >= TAG_SUSPICION;
}

/*
 * TCP-AO (RFC 5925) signs options, and the kernel does so before programs write theirs: the peer
 * would drop the segment (__tcp_transmit_skb(), v7.2). Signatures by MD5 leave options out.
 */
static __always_inline bool tag_breaks_signature(const struct tcp_sock *tp)
{
	return bpf_core_field_exists(tp->ao_info) && tp->ao_info;
}

/* Have the next segment with room tagged. `socket` is the argument of bpf_setsockopt() here. */
static __always_inline void tag_request(void *socket, const struct sock *sk, struct mark *mark)
{
	if (tag_suspicious(sk) || tag_breaks_signature(tcp_of(sk))) {
		count_tag(TAGS_WITHHELD);
		return;
	}
	if (!tcp_callbacks_request(socket, tcp_of(sk), ASKED_ENTRY, &mark->asked))
		return;
	mark->tag.tries = 0;
	mark->tag.state = TAG_WANTED;
}

/* A connection is established. */
static __always_inline void tag_established(void *socket, const struct sock *sk)
{
	struct mark *mark;

	if (!setting_tag || !sock_may_be_selected(sk))
		return;
	mark = flow_mark_lookup(sk);
	if (mark)
		tag_request(socket, sk, mark);
}

/* Have the kernel ask no more. */
static __always_inline void tag_stop_callbacks(void *socket, const struct sock *sk,
					       struct mark *mark, enum tag_state state)
{
	mark->tag.state = state;
	if (setting_entry_callback || !(mark->asked & ASKED_ENTRY))
		return;
	mark->asked &= ~ASKED_ENTRY;
	tcp_callbacks_give_back(socket, tcp_of(sk), ASKED_ENTRY);
}

/* Return true for a segment of an open connection that has not been sent before. */
static __always_inline bool tag_suits_segment(struct bpf_sock_ops *ctx, const struct sock *sk,
					      const struct sk_buff *skb)
{
	const struct tcp_sock *tp = tcp_of(sk);

	if (sk->__sk_common.skc_state != TCP_ESTABLISHED)
		return false;
	if (ctx->skb_tcp_flags & ~(TCP_FLAG_ACK | TCP_FLAG_PSH) || skb_tcp(skb)->seq != tp->snd_nxt)
		return false;
	/* In the last one of the handshake, an acknowledgement, the peer looks for no option. */
	return skb->len || tp->data_segs_in;
}

/* As tcp_current_mss() and tcp_established_options() reckon (net/ipv4/tcp_output.c, v6.18). */
static __always_inline bool tag_fits(const struct bpf_sock_ops_kern *kern)
{
	const struct tcp_sock *tp = tcp_of(kern->sk);
	__u32 options = TCP_OPTIONS_LENGTH - kern->remaining_opt_len + TAG_LENGTH;

	if (kern->remaining_opt_len < TAG_LENGTH || skb_tcp(kern->skb)->tcp_gso_segs > 1)
		return false;
	return kern->skb->len + TCP_HEADER_LENGTH + options <= tp->mss_cache + tp->tcp_header_len;
}

/* A segment is about to be sent, and the kernel asks how long our options are. */
static __always_inline void tag_reserve(struct bpf_sock_ops *ctx, struct bpf_sock_ops_kern *kern)
{
	struct mark *mark = flow_mark_lookup(kern->sk);

	if (!mark)
		return;
	if (mark->tag.state != TAG_WANTED && mark->tag.state != TAG_RESERVED) {
		tag_stop_callbacks(ctx, kern->sk, mark, mark->tag.state);
		return;
	}
	mark->tag.state = TAG_WANTED;
	if (tag_suits_segment(ctx, kern->sk, kern->skb) && tag_fits(kern) &&
	    !bpf_reserve_hdr_opt(ctx, TAG_LENGTH, 0)) {
		mark->tag.state = TAG_RESERVED;
	} else if (++mark->tag.tries >= TAG_TRIES) {
		count_tag(TAGS_NO_ROOM);
		tag_stop_callbacks(ctx, kern->sk, mark, TAG_NONE);
	}
}

static __always_inline void tag_write(struct bpf_sock_ops *ctx, struct bpf_sock_ops_kern *kern)
{
	struct mark *mark = flow_mark_lookup(kern->sk);
	const struct tcp_skb_cb *cb = skb_tcp(kern->skb);
	struct tag_option option = {
		.kind = TAG_KIND,
		.length = TAG_LENGTH,
		.experiment = bpf_htons(TAG_EXPERIMENT),
	};

	/* Another program's options. */
	if (!mark || mark->tag.state != TAG_RESERVED)
		return;
	/* A program that runs later has reserved room, too: it loses its own if we have the kernel
	 * rest. */
	if (kern->remaining_opt_len > TAG_LENGTH)
		mark->asked &= ~ASKED_ENTRY;
	option.seq = bpf_htonl(cb->seq);
	if (bpf_store_hdr_opt(ctx, &option, sizeof(option), 0)) {
		count_tag(TAGS_NO_ROOM);
		tag_stop_callbacks(ctx, kern->sk, mark, TAG_NONE);
		return;
	}
	mark->tag.seq = cb->seq;
	mark->tag.written = bpf_ktime_get_ns();
	count_tag(TAGS_WRITTEN);
	tag_stop_callbacks(ctx, kern->sk, mark, cb->seq != cb->end_seq ? TAG_SENT : TAG_NONE);
}

/* A segment was sent again. Options may be why it was lost. */
static __always_inline void tag_resent(struct bank *bank, const struct sock *sk,
				       struct tagging *tag, const struct tcp_skb_cb *cb)
{
	struct tag_peer peer;
	__u32 first = 1, *resent;

	if (tag->state != TAG_SENT || seq_before(tag->seq, cb->seq) ||
	    !seq_before(tag->seq, cb->end_seq))
		return;
	tag->state = TAG_NONE;
	count(&bank->tags[TAGS_RESENT], 1);
	peer = tag_peer_of(sk);
	resent = bpf_map_lookup_elem(&tag_peers, &peer);
	if (resent)
		__sync_fetch_and_add(resent, 1);
	else
		bpf_map_update_elem(&tag_peers, &peer, &first, BPF_ANY);
}

/* The numbers of received bytes differ from the sender's by so much. */
static __always_inline void tag_set_shift(const struct sock *sk, struct mark *mark, __u32 shift)
{
	struct flow *flow = flow_lookup(sk);

	if (mark->tag.seen && mark->tag.shift != shift)
		count_tag(TAGS_CHANGED);
	mark->tag.seen = true;
	mark->tag.shift = shift;
	if (flow)
		flow->rx.shift = shift;
}

/*
 * The kernel's note of an unknown option stays until it parses all options of a segment again: a
 * segment with only a time stamp does not clear it (tcp_fast_parse_options(),
 * net/ipv4/tcp_input.c, v6.18). In a bulk flow, each acknowledgement would run a program.
 */
static __always_inline void tag_missed(void *socket, const struct sock *sk, struct mark *mark)
{
	if (!mark->tag.seen || !(mark->asked & ASKED_TAGS) || ++mark->tag.misses < TAG_MISSES)
		return;
	mark->asked &= ~ASKED_TAGS;
	tcp_callbacks_give_back(socket, tcp_of(sk), ASKED_TAGS);
	count_tag(TAGS_UNHEARD);
}

/* A segment with an option that the kernel does not know, before its bytes can be read. */
static __always_inline void tag_read(struct bpf_sock_ops *ctx, struct bpf_sock_ops_kern *kern)
{
	struct tag_option option = {
		.kind = TAG_KIND,
		.length = TAG_SEARCHED,
		.experiment = bpf_htons(TAG_EXPERIMENT),
	};
	const struct sock *sk = kern->sk;
	struct mark *mark = flow_mark_lookup(sk);
	struct tag_peer peer;

	if (!mark)
		return;
	if (bpf_load_hdr_opt(ctx, &option, sizeof(option), 0) != TAG_LENGTH) {
		tag_missed(ctx, sk, mark);
		return;
	}
	mark->tag.misses = 0;
	count_tag(TAGS_READ);
	tag_set_shift(sk, mark, skb_tcp(kern->skb)->seq - bpf_ntohl(option.seq));
	peer = tag_peer_of(sk);
	bpf_map_delete_elem(&tag_peers, &peer);
	if (!mark->tag.written || bpf_ktime_get_ns() - mark->tag.written > TAG_PAUSE_NS)
		tag_request(ctx, sk, mark);
}

#endif
