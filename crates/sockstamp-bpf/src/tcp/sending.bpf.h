/* SPDX-License-Identifier: GPL-2.0-only */
/* Keep the state of messages that a flow sends, until they are acknowledged. */
#ifndef SOCKSTAMP_TCP_SENDING_BPF_H
#define SOCKSTAMP_TCP_SENDING_BPF_H

#include "abi/abi.h"
#include "kernel/kernel.bpf.h"
#include "sample/sample.bpf.h"

/*
 * Measured messages between send and ACK that the flow itself has room for: one request. More of
 * them are kept elsewhere (tcp/send/slots.bpf.h), so that a flow in use stays below 1 kB.
 */
#define TX_SLOTS 1
/* Threads that may be inside send on one socket at once and still be told apart. */
#define SENDERS 2

/* The unit of times that have 32 bits: they wrap after 73 minutes. */
#define HEARD_NS 1024

struct tx_message {
	struct tx_stamps stamps; /* until its end, `ack` is client_times(): a flow has no room */
	__u64 sndbuf;
	__u64 service; /* since the last read; STAGE_ABSENT: nothing was read */
	char comm[COMM_LENGTH]; /* of the task; only where records are sent */
	__u32 counter; /* tx.head when it was queued: tells whether this slot holds it */
	__u32 waited[CAUSE_COUNT]; /* in ticks: the flow's when it was queued; its own once it left
				    */
	__u32 weight;
	union { /* a flow has no room for both */
		__u32 neighbour; /* in ticks: how long its packet waited for its next hop */
		__u32 min_rtt_us; /* from its end on */
	};
	__u32 bytes; /* that its call queued */
	__u32 seq_last; /* sequence number of the last byte: the kernel's tskey */
	__u32 pid;
	__u32 packet; /* key of the stamps of the packet that its last byte left in */
	__u32 hash; /* of that packet */
	__u16 group; /* its slot */
	__u16 cpu; /* as in its record */
	__u16 interface_first; /* slots in `interfaces` */
	__u16 interface_last;
	__u16 retransmits;
	__u8 repeats;
	__u8 flags; /* MESSAGE_ */
};

/* The total time that each cause has held the head of the write queue. */
struct waiting {
	__u64 since; /* up to when it is accounted for */
	__u64 waited[CAUSE_COUNT];
	__u32 cause; /* enum part; what holds it since */
	bool seen_by_ack; /* that was found when a segment arrived */
	bool recovers; /* TCP did so before the last segment came */
	bool closed; /* the peer's window was, before TCP began to recover */
};

struct sender {
	__u64 entry;
	__u64 service; /* as tx_message's */
	__u64 full; /* since when it waits for room in the send buffer; 0: it does not */
	__u64 sndbuf; /* how long it has waited for room */
	union {
		__u64 left; /* bytes that its call had not queued when its last turn began */
		/* Where functions are traced: address of its struct msghdr, which lives as long as
		 * the call; 0: it has none. */
		__u64 call;
	};
	__u32 tid; /* 0: free */
	__u32 pid;
	__u16 retransmits; /* of bytes that its call has queued so far */
	__u8 flags; /* SENDER_, MESSAGE_UNPAIRED, MESSAGE_SPENT */
	__u8 unpaired; /* NO_PAIR() */
	__u32 start; /* write_seq when its call began */
	__u32 turn; /* write_seq when its last turn began */
	union {
		__u32 asked; /* bytes that its call was given */
		__u32 bytes; /* that its call queued, at its end */
		/* Where write_seq is once all bytes of a call without a struct msghdr are queued.
		 */
		__u32 end;
	};
};

/* Reasons why the next turn of a send may not be its first. */
enum crowded {
	TX_CROWDED = 1, /* more tasks were inside send at once than `senders` has room for */
	TX_ADOPTED, /* some were when the flow was adopted */
	TX_WINDOW, /* some may have been when a window's programs came */
};

/* Beside the flags of abi.h: the parts of its app.service were noted (sched/service.bpf.h). */
#define MESSAGE_SPENT	 (1 << 5)
#define MESSAGE_HELD	 (1 << 6) /* a cause has held it: `waited` is not all 0 */
#define MESSAGE_UNPAIRED (1 << 7) /* `service` is NO_PAIR() of the reason why it has none */

/* Beside MESSAGE_UNPAIRED and MESSAGE_SPENT. */
#define SENDER_MORE	(1 << 0) /* MSG_MORE */
#define SENDER_NOWAIT	(1 << 1) /* MSG_DONTWAIT */
#define SENDER_PROMPTED (1 << 2) /* a slow answer, if it is one: sched/prompted.bpf.h */

/* Written under the socket lock, except as noted. */
struct sending {
	/* Counters, not positions: tcp/send/slots.bpf.h finds the slot of each. */
	__u32 head;
	__u32 tail;
	__u32 sched; /* first message that has not left TCP */
	__u32 snd; /* first message that no driver has taken; written without the lock */
	__u32 seq; /* where the next message starts */
	__u32 question; /* when the last question began, in HEARD_NS; set if `asked` is */
	__u16 chunks; /* how many hold messages of the flow */
	__u8 ack_flags; /* MESSAGE_ACK_WITH_DATA, ACK_SMALL: of the segment that is worked on */
	__u8 crowded; /* no entry is noted: enum crowded */
	__u16 leading; /* the first device, if packets come to another one after it; 0: not seen */
	__u8 more; /* an answer went on when all of it had been read; a reader clears it */
	__u8 turn; /* TURN_, of questions that follow each other: written by turns */
	struct sampler sampler;
	struct waiting waiting;
	struct sender senders[SENDERS];
	struct tx_message messages[TX_SLOTS];
};

#endif
