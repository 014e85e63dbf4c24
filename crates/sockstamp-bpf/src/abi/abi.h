/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * Everything that the programs and user space share: one definition, from which build.rs generates
 * the Rust types. Plain C types and explicit padding, so that the header parses alone.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC unless a name says otherwise. 0 means "not stamped":
 * the clock starts at boot, so no stamp of a running program is 0.
 */
#ifndef SOCKSTAMP_ABI_ABI_H
#define SOCKSTAMP_ABI_ABI_H

#ifdef __bpf__
#include "kernel/vmlinux.h"
#else
#include <linux/types.h>
#endif

/*
 * Stages, parts and verdicts, and the slots of a histogram: build.rs writes them from the lists of
 * sockstamp-model, which have the names that users see. Parts that are the rest of their stage
 * (copy, other, path, unknown, peer, round-trip) are formed in user space and have no constant.
 */
#include "lists.h"

enum direction {
	DIRECTION_TX,
	DIRECTION_RX,
	DIRECTION_COUNT,
};

/* Losses on the way to user space or for lack of room. */
enum loss {
	LOSS_RING, /* records that found no room in the ring buffer */
	LOSS_EVICTED, /* arrivals overwritten before the application read them */
	LOSS_UNMATCHED, /* stamps whose message was no longer known */
	LOSS_FLOW, /* flows that could not be selected: no memory, or the kernel refused */
	LOSS_MPTCP, /* MPTCP subflows: the kernel calls no send callback for them */
	LOSS_HOST_PATH, /* packets that could not be followed through the host for lack of room */
	LOSS_NEIGHBOUR, /* packets whose wait for a link address found no room */
	LOSS_TURNED_AWAY, /* connections and UDP sockets beyond --max-flows or --max-memory */
	LOSS_GROUP, /* looks for a group that found no room: its messages are in GROUP_OTHER */
	LOSS_DATAGRAM, /* UDP messages, and connects, before its programs were attached */
	LOSS_COUNT,
};

/* Why TCP sent segments again. */
enum resent {
	RESENT_SYN, /* or a SYN-ACK */
	RESENT_PROBE, /* a tail loss probe: RFC 8985, section 7 */
	RESENT_WINDOW, /* to a window that the peer closed on data in flight */
	RESENT_FAST, /* taken for lost by what the peer acknowledged */
	RESENT_TIMEOUT,
	RESENT_COUNT,
};

/* Tags of `--tag` (tcp/tag). */
enum tags {
	TAGS_WRITTEN,
	TAGS_READ,
	TAGS_CHANGED, /* read, and contradicting an earlier one of the connection */
	TAGS_NO_ROOM, /* not written, for lack of a segment with room */
	TAGS_RESENT, /* on segments that were sent again */
	TAGS_WITHHELD, /* from peers to which several in a row were sent again */
	TAGS_UNHEARD, /* connections that look for tags no longer */
	TAGS_COUNT,
};

/* The length of a window. */
#define WINDOW_NS 250000000ULL
/* The programs are attached so long before a window, and so long after it at most. */
#define WINDOW_LEAD_NS 250000000ULL
#define WINDOW_TAIL_NS 1000000000ULL

/* The uses of programs that are attached on demand. */
enum demand_for {
	DEMAND_DATAGRAMS, /* a selected UDP socket moves data */
	DEMAND_SENDS, /* a selected UDP socket has a peer: only the end of its sends shows them */
	DEMAND_PARTS, /* TCP split packets: parts of them have no key */
	DEMAND_COUNT,
};

/* The medium behind an interface. */
enum medium {
	MEDIUM_UNKNOWN,
	MEDIUM_PHYSICAL, /* a device on a bus */
	MEDIUM_LOOPBACK,
	MEDIUM_VIRTUAL, /* another interface, or a program */
};

#define INTERFACE_NAME 16 /* IFNAMSIZ */

/*
 * Interfaces that can be told apart: a power of two, and more than the containers of a host, each
 * of which has one or two. Slot 0 stands for the rest.
 */
#define INTERFACES	512
#define INTERFACE_SLOTS (INTERFACES + 1)

#define NAMESPACES 16 /* network namespaces of a target */

struct interface {
	__u64 id; /* inode of the network namespace, then index in it; 0: free */
	char name[INTERFACE_NAME];
	char kind[INTERFACE_NAME]; /* of a virtual one: IFLA_INFO_KIND of rtnetlink(7) */
	__u32 medium;
	__u32 cookie; /* of the namespace, whose inode may be another's later; 0: not yet known */
};

/*
 * The distributions of a bank: one per stage, one per direction for the total of its stages, and
 * one for the time until a sent message left the host.
 */
#define DISTRIBUTION_TOTAL(direction) (STAGE_COUNT + (direction))
#define DISTRIBUTION_SENT	      (STAGE_COUNT + DIRECTION_COUNT)
#define DISTRIBUTION_COUNT	      (DISTRIBUTION_SENT + 1)

/*
 * A bank has two more: rx.stack and the total of datagrams read. They stand apart so that user
 * space can tell the two protocols apart, and are added to those of TCP for all else.
 */
enum bank_distribution {
	DISTRIBUTION_UDP_STACK = DISTRIBUTION_COUNT,
	DISTRIBUTION_UDP_TOTAL,
	BANK_DISTRIBUTION_COUNT,
};

/* One cache line holds two: a message updates all four words of one. */
struct bucket {
	__u64 count;
	__u64 sum_ns;
	__u64 min_ns; /* 0: none yet; not kept for the zero bucket, whose durations may be 0 */
	__u64 max_ns;
};

struct distribution {
	struct bucket slots[HISTOGRAM_SLOTS];
};

/* Sums over the messages with a non-zero part. */
struct part_sum {
	__u64 count;
	__u64 sum_ns;
	__u64 max_ns;
};

/*
 * There is one bank per CPU: programs add to their CPU's own, user space sums them. Messages and
 * bytes are those of all selected flows; figures about measured messages are weighted, except their
 * number.
 */
struct bank {
	__u64 messages[DIRECTION_COUNT];
	__u64 bytes[DIRECTION_COUNT];
	__u64 measured[DIRECTION_COUNT];
	__u64 measured_weight[DIRECTION_COUNT];
	__u64 retransmits;
	__u64 resent[RESENT_COUNT]; /* add up to these */
	__u64 needless; /* of these, as duplicates that peers reported tell (D-SACK) */
	__u64 segments; /* with data, of flows that have ended or were given back */
	__u64 moved[DIRECTION_COUNT]; /* bytes of these by TCP's own counters */
	__u64 datagrams[DIRECTION_COUNT]; /* of `messages`, where there may be windows */
	__u64 datagram_bytes[DIRECTION_COUNT];
	__u64 out_of_order; /* segments that came behind a missing one: TCPOFOQueue of these flows
			     */
	__u64 unpaired[DIRECTION_COUNT][UNPAIRED_COUNT]; /* no app.service, no peer.answer */
	__u64 nic_asked; /* sent messages that NICs were asked to stamp */
	__u64 nic_spared; /* that they were not asked to stamp, since one had been just before */
	__u64 nic_reads_spared; /* valid reads of stamped packets that were not followed, likewise
				 */
	__u64 nic_reads_unstamped; /* valid reads whose last byte came without a NIC's stamp */
	__u64 tags[TAGS_COUNT];
	struct part_sum parts[PART_COUNT];
	__u64 connections[DIRECTION_COUNT]; /* opened, accepted */
	__u64 syns_again; /* of those that were to be opened */
	__u64 drops; /* datagrams that selected sockets did not take */
	struct distribution distributions[BANK_DISTRIBUTION_COUNT];
	__u64 refusals[DIRECTION_COUNT][VERDICT_COUNT];
	__u64 losses[LOSS_COUNT];
	__u64 interfaces[INTERFACE_SLOTS]; /* valid sent messages by the last device on their way */
	__u64 record_due; /* when the next notable message may be recorded, less a burst */
};

enum message_flags {
	MESSAGE_COALESCED = 1 << 0, /* stamps are those of a later message in the same skb */
	MESSAGE_RESENT = 1 << 1, /* its last byte was transmitted more than once */
	MESSAGE_ACK_WITH_DATA = 1 << 2, /* the ACK may have waited for the peer's answer */
	MESSAGE_ACK_DELAYED = 1 << 3, /* it came alone, and late enough for the peer's timer */
	MESSAGE_NIC = 1 << 4, /* user space counts what the stamp of a NIC may change */
	MESSAGE_NIC_ALONE = 1 << 5, /* of a record: nothing but that requested it */
};

struct tx_stamps {
	__u64 entry; /* the send call reached tcp_sendmsg_locked() */
	__u64 queued; /* its last byte was in the write queue */
	__u64 sched; /* first entry into a packet scheduler */
	__u64 sched_last;
	__u64 snd; /* handed to the last driver of the first transmission */
	__u64 snd_last;
	__u64 snd_hw; /* clock of the NIC (PHC), not MONOTONIC */
	__u64 ack;
};

struct rx_stamps {
	__u64 software; /* RX software stamp of the last byte, moved to MONOTONIC */
	__u64 filled; /* as `software`, of the segment that it waited for; 0: it waited for none */
	__u64 ready; /* the last byte could be read */
	__u64 read; /* the read call returned it */
	__u64 oldest; /* as `software`, of the first byte; as `ready` where it had no stamp */
	__u64 nic; /* MESSAGE_NIC: clock of the NIC (PHC), not MONOTONIC */
	__u64 nic_software; /* ...: the RX software stamp of the same packet, by REALTIME */
};

/* A reason of enum unpaired, where 0 is none. */
#define NO_PAIR(reason) (1 + UNPAIRED_##reason)

#define STAGE_ABSENT (~0ULL)
#define RTT_UNKNOWN  (~0U)
#define COMM_LENGTH  16

/* The end that opened a connection. */
enum opened_by {
	OPENED_BEFORE, /* the measurement: by which end, is unknown. So it is of UDP */
	OPENED_BY_US,
	OPENED_BY_PEER,
	OPENED_EARLIER = 1 << 7, /* a bit beside these: the flow was adopted */
};

/* The owner of messages: the socket, which stays the same, and the task that used it last. */
struct flow_identity {
	__u64 cookie;
	__u64 cgroup; /* of the socket: inode of the cgroup's directory */
	__u32 netns; /* inode of the network namespace */
	__u16 family; /* AF_INET or AF_INET6 */
	__u16 local_port; /* host order */
	__u8 local_address[16]; /* IPv4 in the first four bytes */
	__u8 remote_address[16];
	__u16 remote_port; /* host order */
	__u8 protocol; /* number in the IP header */
	__u8 opened_by; /* enum opened_by; 0 in the keys of groups */
	__u32 pid;
	char comm[COMM_LENGTH]; /* of that pid */
};

/*
 * Datagrams between their first device and their end (--host-path): as many as four queues of a
 * device hold (DEFAULT_TX_QUEUE_LEN), 1.5 MB. A power of two; user space may set a smaller
 * number before load.
 */
#define HOPS 4096

/* An interface by which a message left. */
struct interface_name {
	__u32 index; /* 0: none, or one of those without room */
	__u32 netns; /* inode of the network namespace in which it has that index */
	char name[INTERFACE_NAME];
};

/* A stamp of a NIC that came after its message had ended. */
struct nic_stamp {
	__u64 cookie; /* of the socket */
	__u64 stamp; /* clock of the NIC (PHC), not MONOTONIC */
	__u32 seq_last; /* of the message */
	__u32 padding;
};

/* A message on its way to user space. */
struct message_record {
	__u64 time; /* when it completed */
	__u64 stages[STAGE_COUNT]; /* durations; STAGE_ABSENT where there is none */
	__u64 parts[PART_COUNT]; /* durations */
	union {
		struct tx_stamps tx;
		struct rx_stamps rx;
	} stamps;
	struct flow_identity flow;
	__u32 seq_end; /* sequence number after the last byte */
	__u32 bytes;
	__u32 weight;
	__u32 group; /* its slot, if messages are grouped */
	__u32 retransmits;
	__u32 min_rtt_us; /* of the connection when the ACK came; RTT_UNKNOWN: none yet; TX */
	__u16 repeats; /* SCHED and SND stamps after the first of each */
	__u16 cpu; /* 1 + the one on which the task called; 0: unknown */
	struct interface_name interface_first;
	struct interface_name interface_last;
	__u8 direction;
	__u8 verdict;
	__u8 flags;
	__u8 unpaired; /* NO_PAIR() of the reason why it has no app.service, no peer.answer; or 0 */
};

#define WAIT_UNKNOWN  (~0ULL)
#define COUNT_UNKNOWN (~0U)

/* The state of a connection, as TCP knew it at one moment. */
struct wait_connection {
	__u64 sent_ago; /* data; WAIT_UNKNOWN: never */
	__u64 received_ago; /* data */
	__u64 heard_ago; /* anything */
	__u64 paced; /* SO_MAX_PACING_RATE, bytes a second; WAIT_UNKNOWN: no limit */
	__u64 window_limited; /* in its life: the peer's window held data back */
	__u64 buffer_limited; /* ... or the send buffer was full, and all of it in flight */
	__u32 min_rtt_us; /* RTT_UNKNOWN: none yet, as of `srtt_us` */
	__u32 srtt_us;
	__u32 unacknowledged; /* bytes */
	__u32 unsent;
	__u32 unread;
	__u32 peer_window;
	__u32 own_window;
	__u32 resent; /* segments in its life */
	__u32 dsacks; /* ... */
	__u32 reordered; /* ... */
	__u32 congestion_window; /* segments */
	__u32 threshold; /* segments */
	__u32 segment; /* bytes */
	__u32 sends; /* segments with data, in its life */
	__u32 receives; /* ... */
	__u8 unscaled;
	__u8 padding[3];
	__u8 backoff;
	__u8 probes;
	__u8 buffer_set;
	__u8 known; /* 0: there is no connection */
};

/* A stretch in which a program could not go on because of one thing. Times count from `since`. */
struct wait_record {
	__u64 since;
	__u64 time; /* when it ended, or was looked at */
	__u64 bytes; /* that it is about */
	__u64 asked; /* WAIT_UNKNOWN where a time is not known */
	__u64 left;
	__u64 acknowledged;
	__u64 arrived;
	__u64 out_of_order;
	__u64 window_closed;
	__u64 buffer_full;
	__u32 resent; /* COUNT_UNKNOWN where a number is not known */
	__u32 resent_in_vain;
	__u32 syns;
	__u32 members;
	struct flow_identity flow; /* whose */
	struct wait_connection connection;
	__u16 kind; /* enum wait */
	__u16 end; /* enum end */
	__u32 owed; /* of a request: its program watches the connection for nothing */
};

/* The key of waits that are counted together. */
struct attempts_key {
	__u8 address[16]; /* of the service, as in struct flow_identity */
	__u32 netns;
	__u32 pid;
	__u16 port; /* host order */
	__u16 family;
	__u16 kind; /* enum wait */
	__u16 protocol;
};

/* All of these waits that have ended, however short they were. */
struct attempts {
	__u64 count;
	__u64 failed;
	__u64 sum_ns;
	__u64 min_ns;
	/*
	 * Slow answers of a service that another client's message prompted; and questions that one
	 * task asks on a connection when another one has its answer.
	 */
	__u64 prompted;
	char comm[COMM_LENGTH];
};

/* Reasons of the kernel's core for drops are below: Linux 6.18 has 127. */
#define DROP_REASONS 256

/* The key of packets that the kernel dropped: their ends, as they have them. */
struct drop_key {
	__u8 source[16]; /* as in struct flow_identity */
	__u8 destination[16];
	__u32 netns; /* where */
	__u16 source_port; /* host order */
	__u16 destination_port;
	__u16 family;
	__u8 protocol;
	__u8 reason; /* enum skb_drop_reason */
};

struct drop_count {
	__u64 packets;
	__u64 syns;
	__u64 first_ns; /* CLOCK_MONOTONIC */
	__u64 last_ns;
	__u64 came_ns; /* the connection was opened all the same; 0: it was not */
};

/*
 * The offsets of REALTIME from the two clocks that BPF can read; user space keeps them up to date.
 */
struct clock_offsets {
	__s64 realtime_minus_monotonic;
	__s64 tai_minus_realtime;
};

#endif
