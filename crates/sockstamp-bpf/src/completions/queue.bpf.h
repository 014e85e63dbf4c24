/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Read the socket's error queue when it is reported (tracepoint inet_sk_error_report).
 *
 * sk_error_report() (net/core/sock.c, v6.1 to v7.2) fires it after the socket's own callback, which
 * has woken pollers. It fires once per stamp (sock_queue_err_skb()) and per zerocopy completion,
 * also if that was merged into the entry at the tail (__msg_zerocopy_callback(),
 * net/core/skbuff.c). By then the queue's lock is no longer held, and the context is the one that
 * freed the packet: usually softirq, or the process. The entry may therefore have been read
 * already, another one may follow it, and reports of one socket may run on several CPUs at once.
 *
 * This loses nothing: unseen entries stay in the queue until the application reads them. But
 * nothing false may be published. An skb in this queue is linked to its successor; an skb that has
 * left has no successor (__skb_unlink()). The entry is read before and after this test: equal
 * values are those of an entry of this queue.
 *
 * Where the CPU keeps stores in order, or another entry follows: who adds that one takes the
 * queue's lock, which the first one's writer has given back. Of the last entry, if another CPU has
 * just added it, arm64 may show the link before the contents, because taking a lock orders nothing
 * that was written before it. Neither the lock's word nor a second look rules that out.
 */
#ifndef SOCKSTAMP_COMPLETIONS_QUEUE_BPF_H
#define SOCKSTAMP_COMPLETIONS_QUEUE_BPF_H

#include "completions/area.bpf.h"

#define SO_EE_ORIGIN_TIMESTAMPING 4 /* include/uapi/linux/errqueue.h */
#define SO_EE_ORIGIN_ZEROCOPY	  5

/* Entries that other CPUs may have added after ours; each has its own report. */
#define QUEUE_DEPTH 4

struct queue_entry {
	__u8 origin;
	__u8 code;
	__u32 info;
	__u32 data;
	__u64 software_ns;
	__u64 hardware_ns;
};

static __always_inline void entry_load(const struct sk_buff *skb, struct queue_entry *entry)
{
	const struct sock_exterr_skb *error = (const struct sock_exterr_skb *)skb->cb;

	entry->origin = error->ee.ee_origin;
	entry->code = error->ee.ee_code;
	entry->info = error->ee.ee_info;
	entry->data = error->ee.ee_data;
	if (entry->origin != SO_EE_ORIGIN_TIMESTAMPING)
		return;
	entry->software_ns = skb->tstamp;
	entry->hardware_ns =
		kernel_read(skb->head + skb->end, struct skb_shared_info, hwtstamps.hwtstamp);
}

static __always_inline bool entry_equal(const struct queue_entry *a, const struct queue_entry *b)
{
	return a->origin == b->origin && a->code == b->code && a->info == b->info &&
	       a->data == b->data && a->software_ns == b->software_ns &&
	       a->hardware_ns == b->hardware_ns;
}

/*
 * Return true if the skb was in the queue, before `next`, as read into `entry`. (If it grew,
 * another report comes.)
 */
static __always_inline bool entry_read(const struct sk_buff *skb, const void *next,
				       struct queue_entry *entry)
{
	struct queue_entry again = {};

	entry_load(skb, entry);
	order_loads();
	if ((const void *)skb->next != next)
		return false;
	order_loads();
	entry_load(skb, &again);
	return entry_equal(entry, &again);
}

static __always_inline bool entry_is_range(const struct queue_entry *entry)
{
	return entry->origin == SO_EE_ORIGIN_ZEROCOPY;
}

/*
 * A stamp is of hardware or of software, never both: __skb_tstamp_tx(), net/core/skbuff.c, v6.18.
 */
static __always_inline void entry_stamp(const struct queue_entry *entry, struct area_stamp *stamp)
{
	stamp->id = entry->data;
	stamp->kind = entry->info;
	stamp->clock = entry->hardware_ns ? AREA_CLOCK_PHC : AREA_CLOCK_REALTIME;
	stamp->time_ns = entry->hardware_ns ?: entry->software_ns;
}

/*
 * Return true if this is the last published entry of its kind: then everything before it was
 * published too.
 */
static __always_inline bool entry_known(const struct completions_mark *mark,
					const struct queue_entry *entry)
{
	struct area_stamp stamp;

	if (entry_is_range(entry))
		return mark->range_known && mark->range_first == entry->info &&
		       !seq_after(entry->data, mark->range_last);
	entry_stamp(entry, &stamp);
	return mark->stamp_id == stamp.id && mark->stamp_kind == stamp.kind &&
	       mark->stamp_ns == stamp.time_ns;
}

/* Return true if this is the last range, and it has grown. */
static __always_inline bool entry_grew(const struct completions_mark *mark,
				       const struct queue_entry *entry)
{
	return entry_is_range(entry) && mark->range_known && mark->range_first == entry->info;
}

/*
 * Called under the lock. Stamps of a selected socket come without entries: those of its own
 * requests are the same ones, with ids that may begin elsewhere.
 */
static __always_inline void entry_put(struct completions_mark *mark, struct area *area,
				      const struct queue_entry *entry)
{
	struct area_stamp stamp;

	if (entry_is_range(entry)) {
		area_put_range(mark, area, entry->info, entry->data, entry->code);
	} else if (entry->origin == SO_EE_ORIGIN_TIMESTAMPING && mark->kind != MARK_SELECTED) {
		entry_stamp(entry, &stamp);
		area_put_stamp(mark, area, &stamp);
	}
}

/* Read the last entries, back to the known one, and return their number. */
static __always_inline int queue_read(struct sock *sk, const struct completions_mark *mark,
				      struct area *area, struct queue_entry *entries)
{
	const void *head = &sk->sk_error_queue, *next = head;
	const struct sk_buff *skb = sk->sk_error_queue.prev;
	int count;

	for (count = 0; count < QUEUE_DEPTH; count++) {
		if ((const void *)skb == head)
			break;
		if (!entry_read(skb, next, &entries[count])) {
			__sync_fetch_and_add(&area->torn, 1);
			__sync_fetch_and_add(&entries_torn, 1);
			break;
		}
		if (entry_known(mark, &entries[count]))
			break;
		if (entry_grew(mark, &entries[count]))
			return count + 1;
		next = skb;
		skb = skb->prev;
	}
	return count;
}

static __always_inline void queue_report(struct sock *sk)
{
	struct completions_mark *mark = bpf_sk_storage_get(&sockstamp_marks, sk, NULL, 0);
	struct queue_entry entries[QUEUE_DEPTH] = {};
	struct area *area;
	int count, i;

	if (!mark)
		return;
	area = area_of(mark);
	if (!area)
		return;
	count = queue_read(sk, mark, area, entries);
	if (!count)
		return;
	bpf_spin_lock(&mark->lock);
	for (i = QUEUE_DEPTH - 1; i >= 0; i--)
		if (i < count && !entry_known(mark, &entries[i]))
			entry_put(mark, area, &entries[i]);
	bpf_spin_unlock(&mark->lock);
}

#endif
