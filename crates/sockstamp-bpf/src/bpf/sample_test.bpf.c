// SPDX-License-Identifier: GPL-2.0-only
/* Run the sampler, for tests, on messages of known number, times and values. */
#include "bpf/common.bpf.h"
#include "sample/sample.bpf.h"

volatile struct {
	__u64 messages;
	__u64 interval_ns; /* between messages; an eighth of it in the middle third of them */
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

char LICENSE[] SEC("license") = "GPL";
