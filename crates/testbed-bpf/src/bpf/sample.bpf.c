// SPDX-License-Identifier: GPL-2.0-only
/* Run the sampler, for tests, on messages of known number, times and values. */
#include "kernel/kernel.bpf.h"
#include "sample/sample.bpf.h"

volatile struct {
	__u64 messages;
	__u64 interval_ns; /* between messages; an eighth of this in the middle third */
	__u64 period; /* the value of message i is i % period */
} population;

volatile struct {
	__u64 measured;
	__u64 messages; /* by weight, as all below */
	__u64 values; /* their sum */
	__u64 low; /* messages with a value in the lower half */
	__u64 largest; /* weight of one message */
} estimate;

struct sampler sampler;
__u64 now = 1ULL << 40; /* some time after boot */

static int message(__u32 index, void *context)
{
	bool burst = index > population.messages / 3 && index < population.messages * 2 / 3;
	__u64 value = index % population.period;
	__u32 weight;

	now += burst ? population.interval_ns / 8 : population.interval_ns;
	sample_refresh(&sampler, now);
	if (sample_skip(&sampler))
		return 0;
	weight = sample_take(&sampler);
	estimate.measured++;
	if (weight > estimate.largest)
		estimate.largest = weight;
	estimate.messages += weight;
	estimate.values += value * weight;
	if (value < population.period / 2)
		estimate.low += weight;
	return 0;
}

SEC("syscall")
int sample_population(void *context)
{
	sample_start(&sampler);
	bpf_loop(population.messages, message, NULL, 0);
	return 0;
}

#define RANGES 512

/* Bytes of a stream, one message each, and the weight of each that is chosen: 0 if it is not. */
volatile struct {
	__u32 count;
	__u32 starts[RANGES];
	__u32 ends[RANGES];
	__u32 weights[RANGES];
} stream;

static int stream_message(__u32 index, void *context)
{
	__u32 start, end;

	if (index >= RANGES)
		return 1;
	start = stream.starts[index];
	end = stream.ends[index];
	if (!stream_skip(&sampler, start, end))
		stream.weights[index] = stream_take(&sampler, end - start);
	return 0;
}

SEC("syscall")
int sample_stream(void *context)
{
	bpf_loop(stream.count, stream_message, NULL, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
