/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Choose the measured messages. Messages of a flow and direction come in blocks of N; one of each
 * block, drawn before any of it is seen, is measured and stands for all N: its weight. Every
 * message is thus measured with probability 1/N, regardless of its properties, and weighted sums
 * are unbiased. N is fixed, or follows the rate of the flow: 1 up to `setting_rate_cap` messages
 * per second. User space lowers the cap if measuring costs too much (cost/governor.rs).
 *
 * In step, datagrams are chosen by their bytes (udp/in_step.bpf.h). TCP messages are chosen if they
 * contain a sequence number that is a multiple of `setting_in_step`. Both ends of a connection
 * choose the same messages without communicating, however packets are split. The number is
 * absolute: it is also known for connections that are older than sockstamp, and both ends have the
 * same number unless a device between them rewrites it.
 */
#ifndef SOCKSTAMP_SAMPLE_SAMPLE_BPF_H
#define SOCKSTAMP_SAMPLE_SAMPLE_BPF_H

#include "kernel/kernel.bpf.h"

const volatile __u32 setting_rate_cap; /* measured messages per second; 0: no cap */
volatile __u32 rate_divisor; /* of the cap; 0 is 1: written by user space */
const volatile __u32 setting_sample; /* one message in this many; 0: by the cap */

const volatile __u32 setting_in_step; /* a power of two; 0: messages are sampled as above */

#define SAMPLE_WINDOW_NS 1000000000ULL
/* A larger weight needs more than 2^20 messages per second for each measured one. */
#define SAMPLE_WEIGHT_MAX (1U << 20)

/* More messages than a flow has per second. */
#define SAMPLE_REST (1U << 30)

/* The number of steps of the cap per doubling of N. */
#define SAMPLE_STEPS 8

struct sampler {
	__u64 window; /* when the current count of the rate began */
	__u32 skip; /* messages to pass over before the next measured one */
	__u32 rest; /* messages of the block after the drawn one */
	__u32 weight; /* N of the block with the next measured message */
	__u32 seen; /* messages of this window */
	__u32 measured; /* measured messages of this window since N was last doubled */
	__u32 cap; /* of this window: a new cap applies from the next one */
};

static __always_inline bool sampling(void)
{
	return setting_rate_cap || setting_sample;
}

/* Open a block of N messages, after the `rest` of the last block. */
static __always_inline void sample_draw(struct sampler *sampler, __u32 rest, __u32 n)
{
	__u32 drawn = n > 1 ? bpf_get_prandom_u32() % n : 0;

	sampler->weight = n;
	sampler->skip = rest + drawn;
	sampler->rest = n - 1 - drawn;
}

/* Return the cap in force. `own`: the cap of a group; 0: that of all flows. */
static __always_inline __u32 sample_cap(__u32 own)
{
	__u32 cap = own ? own : setting_rate_cap;
	__u32 divisor = rate_divisor;

	if (divisor)
		cap /= divisor;
	return cap ? cap : 1;
}

/* Return N for the rate of the window that ends now. */
static __always_inline __u32 sample_weight(const struct sampler *sampler, __u64 elapsed)
{
	__u64 rate = (__u64)sampler->seen * SAMPLE_WINDOW_NS / elapsed;
	__u64 weight = (rate + sampler->cap - 1) / sampler->cap;

	if (weight > SAMPLE_WEIGHT_MAX)
		return SAMPLE_WEIGHT_MAX;
	return weight ? weight : 1;
}

/*
 * Return true if the window ends before the next message. The end of a window opens a new block,
 * whatever is left of the last one. Its time must not depend on what was drawn: otherwise two
 * blocks, or none, could stand for a message. `now` may be stale, so a clock that costs nothing
 * will do.
 */
static __always_inline bool sample_due(const struct sampler *sampler, __u64 now)
{
	__s64 elapsed = now - sampler->window;

	return setting_rate_cap && elapsed >= (__s64)SAMPLE_WINDOW_NS;
}

static __always_inline void sample_begin(struct sampler *sampler, __u64 now)
{
	sampler->window = now;
	sampler->seen = 0;
	sampler->measured = 0;
}

static __always_inline void sample_open(struct sampler *sampler, __u64 now, __u32 own)
{
	sampler->cap = sample_cap(own);
	sample_draw(sampler, 0, sample_weight(sampler, now - sampler->window));
	sample_begin(sampler, now);
}

/* Begin a window without a measured message: no block ends in it. */
static __always_inline void sample_pause(struct sampler *sampler, __u64 now)
{
	sampler->weight = SAMPLE_REST;
	sampler->skip = SAMPLE_REST;
	sampler->rest = 0;
	sample_begin(sampler, now);
}

static __always_inline void sample_refresh(struct sampler *sampler, __u64 now)
{
	if (sample_due(sampler, now))
		sample_open(sampler, now, 0);
}

/* Return true if the next message is to be skipped. */
static __always_inline bool sample_will_skip(const struct sampler *sampler)
{
	return sampling() && sampler->skip;
}

/* Count a message; return true if it is skipped. */
static __always_inline bool sample_skip(struct sampler *sampler)
{
	if (!sampling())
		return false;
	sampler->seen++;
	if (!sampler->skip)
		return false;
	sampler->skip--;
	return true;
}

/* Return the weight of the message that is being measured, and draw the next one. */
static __always_inline __u32 sample_take(struct sampler *sampler)
{
	__u32 weight = sampler->weight;
	__u32 next = weight;

	if (!sampling())
		return 1;
	if (setting_rate_cap && ++sampler->measured >= sampler->cap && weight < SAMPLE_WEIGHT_MAX) {
		/* Messages come faster than predicted: a few more at each step up to the new N. */
		next = weight * 2;
		sampler->measured -= (sampler->cap + SAMPLE_STEPS - 1) / SAMPLE_STEPS;
	}
	sample_draw(sampler, sampler->rest, next);
	return weight;
}

/* Return true if the bytes from `start` to before `end`, at least one, contain a multiple. */
static __always_inline bool stream_in_step(__u32 start, __u32 end)
{
	return ((start - 1) ^ (end - 1)) & ~(setting_in_step - 1) || end - start >= setting_in_step;
}

/* Do as sample_will_skip() for TCP: in step, the choice depends on bytes that are not known yet. */
static __always_inline bool stream_will_skip(const struct sampler *sampler)
{
	return !setting_in_step && sample_will_skip(sampler);
}

/* Do as sample_skip() for TCP. */
static __always_inline bool stream_skip(struct sampler *sampler, __u32 start, __u32 end)
{
	return setting_in_step ? !stream_in_step(start, end) : sample_skip(sampler);
}

/*
 * Do as sample_take() for TCP and UDP. Any phase of the multiples is equally probable, so `length`
 * bytes contain one with probability length / setting_in_step. Weights are whole numbers: the
 * fraction is drawn at random.
 */
static __always_inline __u32 stream_take(struct sampler *sampler, __u32 length)
{
	if (!setting_in_step)
		return sample_take(sampler);
	if (!length || length >= setting_in_step)
		return 1;
	return (setting_in_step + bpf_get_prandom_u32() % length) / length;
}

/* The first block begins with the flow. */
static __always_inline void sample_start(struct sampler *sampler)
{
	if (!sampling())
		return;
	sampler->cap = sample_cap(0);
	sample_draw(sampler, 0, setting_sample ? setting_sample : 1);
}

#endif
