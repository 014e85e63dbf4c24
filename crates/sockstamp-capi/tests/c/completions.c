/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Stamps and completions from memory, of the service that listens at the path in the first
 * argument. Ends by 0 if they are there, and in the error queue as well.
 */
#include "expect.h"

/* Until so many have come, at most a minute; which ids did. */
static unsigned int ids_in_memory(struct sockstamp_registration *registration, int wanted)
{
	const struct sockstamp_report *reports;
	unsigned int ids = 0;

	for (int look = 0; look < 60000 && __builtin_popcount(ids) < wanted; look++) {
		int count = sockstamp_registration_read(registration, &reports);

		for (int i = 0; i < count; i++) {
			EXPECT(reports[i].type, SOCKSTAMP_REPORT_STAMP);
			EXPECT(reports[i].stamp.kind, SOCKSTAMP_KIND_SND);
			EXPECT(reports[i].stamp.time.clock, SOCKSTAMP_CLOCK_REALTIME);
			ids |= 1u << reports[i].stamp.id;
		}
		usleep(1000);
	}
	return ids;
}

static void stamps(const struct sockstamp_completions *completions)
{
	struct sockstamp_registration *registration, *again;
	struct sockstamp_registration_state state;
	struct sockstamp_report reports[8];
	struct sockstamp_queue *queue;
	int pair[2];

	udp_pair(pair);
	EXPECT(sockstamp_options_set(
		       pair[0], SOCKSTAMP_TX_SOFTWARE | SOCKSTAMP_OPT_ID | SOCKSTAMP_OPT_TSONLY, 0),
	       0);
	EXPECT(sockstamp_completions_register(completions, pair[0], 1, &registration), 0);
	EXPECT(sockstamp_completions_register(completions, pair[0], 0, &again), -EBUSY);
	EXPECT(sockstamp_completions_register(completions, 1, 0, &again), -ENOTSOCK);
	EXPECT(sockstamp_registration_is_served(registration), 1);
	for (int i = 0; i < 3; i++)
		EXPECT(send(pair[0], "x", 1, 0), 1);
	EXPECT(ids_in_memory(registration, 3), 7);
	EXPECT(sockstamp_registration_state(registration, &state), 0);
	EXPECT(state.queued, 3);
	EXPECT(state.lost, 0);
	EXPECT(state.has_stamps, 0);
	EXPECT(sockstamp_registration_is_served(registration), 1);

	EXPECT(sockstamp_registration_queue_is_read(registration), 0);
	EXPECT(sockstamp_queue_create(&queue), 0);
	EXPECT(sockstamp_queue_drain(queue, pair[0], reports, NULL, 8), 3);
	EXPECT(sockstamp_registration_state(registration, &state), 0);
	EXPECT(state.queued, 0);
	sockstamp_queue_free(queue);
	sockstamp_registration_free(registration);
	close_pair(pair);
}

static void sender(const struct sockstamp_completions *completions)
{
	enum { SIZE = 60000 };
	struct sockstamp_sender_options options = {.buffer_size = SIZE, .buffers = 1};
	struct sockstamp_sender_counters counters;
	struct sockstamp_sender *sender;
	static char bytes[SIZE];
	void *buffer;
	int pair[2];

	tcp_pair(pair);
	EXPECT(sockstamp_sender_create(&sender, pair[0], &options), 0);
	EXPECT(sockstamp_sender_use_memory(sender, completions, 0), 0);
	for (int i = 0; i < 3; i++) {
		EXPECT(sockstamp_sender_acquire(sender, 60000, &buffer), 0);
		memset(buffer, i, SIZE);
		EXPECT(sockstamp_sender_submit(sender, buffer, SIZE, NULL), 0);
		EXPECT(recv(pair[1], bytes, SIZE, MSG_WAITALL), SIZE);
		EXPECT(bytes[SIZE - 1], i);
	}
	EXPECT(sockstamp_sender_wait_idle(sender, 60000), 0);
	EXPECT(sockstamp_sender_counters(sender, &counters), 0);
	EXPECT(counters.completed, counters.lent);
	EXPECT(counters.lent >= 3, 1);
	sockstamp_sender_free(sender);
	close_pair(pair);
}

int main(int argc, char **argv)
{
	struct sockstamp_completions *completions;

	EXPECT(argc, 2);
	EXPECT(sockstamp_completions_create(&completions, argv[1]), 0);
	stamps(completions);
	sender(completions);
	sockstamp_completions_free(completions);
	return 0;
}
