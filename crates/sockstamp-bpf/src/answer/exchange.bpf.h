/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The life of questions and their answers, on both sides: peer.answer and peer.rest on the side
 * that asks, app.service, client.pause and client.request on the side that answers. A question goes
 * from its first byte to its last before an answer. Order alone tells which answer belongs to it,
 * and only if nothing else is in flight, so each sign of something else leaves the pair without a
 * stage, for a reason that is counted. Where several pairs in ten are so, nothing about the others
 * is known either, until the flow has been in step for ten pairs.
 */
#ifndef SOCKSTAMP_ANSWER_EXCHANGE_BPF_H
#define SOCKSTAMP_ANSWER_EXCHANGE_BPF_H

#include "abi/abi.h"
#include "kernel/log2.bpf.h"

/*
 * The last question of a flow, and its answer. Written with the socket locked, except `state`,
 * which a reader clears.
 */
struct exchange {
	__u64 asked; /* when its last part was; 0: it has been answered, or was not measured */
	union {
		__u64 ns; /* how long its answer took, at the end that asks */
		__u64 answered; /* at the other: when the last send was queued; 0: not known */
	};
	__u64 state; /* sequence number of the answer's first byte; 0: it was read */
	__u8 asks : 1; /* this end is the one that asks */
	__u8 open : 1; /* it is not answered */
	__u8 unpaired : 6; /* NO_PAIR() of what is known to be wrong with it */
	__u8 doubts : 5; /* doubts_after() */
	__u8 greetings : 2; /* sends whose first bytes were looked at */
	__u8 multiplexed : 1; /* it has said so itself */
	__u8 pauses : 4; /* of an end that answers and speaks without a question */
	__u8 handshake : 2; /* pairs until that of the end of a handshake in TLS; 0: none is ahead
			     */
	__u8 paired : 1; /* the last answer is known to be its question's */
	__u8 serves : 1; /* the peer has opened the connection */
	__u8 pace; /* the octave of these pauses */
	__u8 usual; /* the octave of an answer's time */
	__u8 task; /* low bits of the thread that sent the last part, at the end that asks */
	__u16 length : 11; /* of its last part, up to QUESTION_MOST */
	__u16 in_flight : 5; /* questions without an answer, as far as they look like some */
};

/*
 * A leaky bucket of doubts: a pair without a stage adds three, one in step takes one away. So it
 * fills where more than a quarter of the pairs are doubtful, and is below the brim after ten that
 * are not.
 */
#define DOUBT	    3
#define DOUBTS	    7
#define MOST_DOUBTS (DOUBTS + 9)

static __always_inline __u8 doubts_after(__u8 doubts, bool doubtful)
{
	if (doubtful)
		return doubts + DOUBT < MOST_DOUBTS ? doubts + DOUBT : MOST_DOUBTS;
	return doubts ? doubts - 1 : 0;
}

/* Longer messages may be parts of one: of an upload, say. */
#define QUESTION_MOST 1024

/*
 * Return true if two messages of one end in a row look like two questions, not like two parts of
 * one: both are short, and equally long but for a sixteenth (numbers, compressed headers).
 */
static __always_inline bool questions_alike(__u32 length, __u32 before)
{
	__u32 off = length > before ? length - before : before - length;

	return length < QUESTION_MOST && off <= before / 16;
}

/* A gap between arrivals is a pause of the sender only if it is longer than a round trip and this.
 */
#define PAUSE_NS 1000000
/* So many pauses without a question between them: the peer speaks at a pace of its own. */
#define PAUSES	    3
#define MOST_PAUSES (4 * PAUSES) /* that are counted */
/* A question was repeated if it came later by these octaves than an answer takes, */
#define AGAIN_OCTAVES 2
/* ... and later than this octave: 17 ms; where no answer has told its time, 1 s. */
#define AGAIN_LEAST  23
#define AGAIN_UNTOLD 29

/* Return the octave of a time; 0 for those below a microsecond. */
static __always_inline __u8 octave(__u64 ns)
{
	return ns >> 10 ? log2_floor(ns) : 0;
}

/* Return true if a question that is like the open one comes too late to be another. */
static __always_inline bool exchange_asked_again(const struct exchange *exchange, __u64 now)
{
	__u8 least = exchange->usual ? exchange->usual + AGAIN_OCTAVES : AGAIN_UNTOLD;

	if (least < AGAIN_LEAST)
		least = AGAIN_LEAST;
	return exchange->asked && octave(now - exchange->asked) > least;
}

/* Questions that are counted: more are as many. */
#define IN_FLIGHT_MOST 31

/* A question begins, beside those that are in flight. */
static __always_inline void exchange_add(struct exchange *exchange)
{
	if (exchange->in_flight)
		exchange->unpaired = exchange->unpaired ?: NO_PAIR(PIPELINED);
	if (exchange->in_flight < IN_FLIGHT_MOST)
		exchange->in_flight++;
}

/* An answer, or a part of one, has come to some question. */
static __always_inline void exchange_take(struct exchange *exchange)
{
	if (exchange->in_flight)
		exchange->in_flight--;
}

/* After so much time without a message no question is in flight: some have no answer. */
static __always_inline void exchange_rest(struct exchange *exchange, __u64 quiet)
{
	if (octave(quiet) > (exchange->usual ? exchange->usual + AGAIN_OCTAVES : AGAIN_UNTOLD))
		exchange->in_flight = 0;
}

/*
 * Return true if a short part of the open question may be one of its own: another task sends it, or
 * it comes later than an answer to the part before could.
 */
static __always_inline bool exchange_overlaps(const struct exchange *exchange, __u32 rtt,
					      __u32 length, __u64 now, bool another)
{
	if (length >= QUESTION_MOST || exchange->length >= QUESTION_MOST)
		return false;
	if (another)
		return true;
	if (!exchange->asked || now < exchange->asked + PAUSE_NS)
		return false;
	now -= exchange->asked + PAUSE_NS;
	return rtt == RTT_UNKNOWN || now > 1000ULL * (rtt + rtt / 8);
}

/*
 * A part of a question: a send at the end that asks, by `another` task than that of the part
 * before, or an arrival at the other. `rtt`: the least round trip. Locked.
 */
static __always_inline void exchange_asked(struct exchange *exchange, __u32 rtt, __u32 length,
					   __u64 now, bool another)
{
	if (!exchange->open) {
		exchange->open = true;
		exchange->unpaired = 0;
		exchange_add(exchange);
	} else if (questions_alike(length, exchange->length)) {
		exchange->unpaired = exchange_asked_again(exchange, now) ? NO_PAIR(ASKED_AGAIN) :
									   NO_PAIR(PIPELINED);
		exchange->doubts = MOST_DOUBTS;
		exchange_add(exchange);
	} else if (exchange_overlaps(exchange, rtt, length, now, another)) {
		exchange->unpaired = exchange->unpaired ?: NO_PAIR(PIPELINED);
		/* One thread may have come late to a part of a question, which has one answer. */
		if (another)
			exchange_add(exchange);
	}
	exchange->length = length < QUESTION_MOST ? length : QUESTION_MOST;
}

/*
 * Return the pauses that count after a question was answered. What a service sends unasked must
 * come more often than its answers; its peer sees pauses within answers, too.
 */
static __always_inline __u8 pauses_after(const struct exchange *exchange)
{
	if (exchange->asks)
		return exchange->pauses / 2;
	return exchange->pauses ? exchange->pauses - 1 : 0;
}

/*
 * The open question is answered after `ns`. Return NO_PAIR() of the reason why that is not the time
 * of an answer, or 0; `reason`: such a reason that is known already.
 */
static __always_inline __u32 exchange_settled(struct exchange *exchange, __u32 reason, __u64 ns)
{
	bool crowded, several;
	__u8 time = octave(ns);

	crowded = exchange->doubts >= DOUBTS;
	several = exchange->unpaired;
	exchange->open = false;
	exchange_take(exchange);
	/* Tickets come when the handshake ends, whatever was asked with its end. */
	if (exchange->handshake && !--exchange->handshake && !reason)
		reason = NO_PAIR(PUSHED);
	/* Where several questions were in flight, an answer that takes far less time is another's.
	 */
	if (!reason && crowded && time + 1 < exchange->usual)
		reason = NO_PAIR(MULTIPLEXED);
	exchange->doubts = doubts_after(exchange->doubts, reason);
	if (several || !crowded)
		exchange->usual = time;
	if (!reason)
		exchange->pauses = pauses_after(exchange);
	return reason ?: exchange->doubts >= DOUBTS ? NO_PAIR(MULTIPLEXED) : 0;
}

/*
 * Do the same as a global function, so that the verifier walks it once, and what follows not once
 * per way through it.
 */
__noinline __u32 exchange_answered(struct exchange *exchange, __u32 reason, __u64 ns)
{
	return exchange ? exchange_settled(exchange, reason, ns) : reason;
}

/* The end that answers sends more, and nothing was asked since its last bytes, `gap` ago. */
static __always_inline void exchange_goes_on(struct exchange *exchange, __u32 rtt, __u64 gap)
{
	__u8 pace;

	if (gap < PAUSE_NS || (rtt != RTT_UNKNOWN && gap < 1000ULL * (rtt + rtt / 8)))
		return;
	pace = octave(gap);
	if (!exchange->pauses || pace > exchange->pace)
		exchange->pace = pace;
	else if (pace < exchange->pace)
		exchange->pace--;
	if (exchange->pauses < MOST_PAUSES)
		exchange->pauses++;
}

#endif
