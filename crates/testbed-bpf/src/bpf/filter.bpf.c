// SPDX-License-Identifier: GPL-2.0-only
/* Evaluate the filter, for tests that compare the result with sockstamp-model's. */
#include "kernel/kernel.bpf.h"
#include "select/filter.bpf.h"

struct filter_question {
	struct filter_end source;
	struct filter_end destination;
	__u32 protocol;
};

SEC("syscall")
int answer(struct filter_question *question)
{
	struct filter_end destination = question->destination;
	struct filter_end source = question->source;

	return filter_accepts(&source, &destination, question->protocol);
}

char LICENSE[] SEC("license") = "GPL";
