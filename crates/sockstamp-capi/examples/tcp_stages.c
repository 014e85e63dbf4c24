/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Where the time of TCP sends went: packet scheduler, driver, acknowledged.
 *
 *     cc tcp_stages.c $(pkg-config --cflags --libs sockstamp) -o tcp_stages
 *     ./tcp_stages 192.0.2.1 9
 *
 * Sends to a server that reads, and whatever it answers is not looked at.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sockstamp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MESSAGES 5

static int check(const char *what, int result)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, strerror(-result));
		exit(1);
	}
	return result;
}

static int connect_tcp(const char *host, const char *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *server;
	int fd;

	if (getaddrinfo(host, port, &hints, &server)) {
		fprintf(stderr, "no such server\n");
		exit(1);
	}
	fd = socket(server->ai_family, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, server->ai_addr, server->ai_addrlen))
		check("connect", -errno);
	freeaddrinfo(server);
	return fd;
}

static struct sockstamp_time now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (struct sockstamp_time){
		.ns = now.tv_sec * 1000000000ull + now.tv_nsec,
		.clock = SOCKSTAMP_CLOCK_REALTIME,
	};
}

/* A line for each message that the stamp is of. */
static void print(struct sockstamp_matcher *matcher, const struct sockstamp_stamp *stamp,
		  const struct sockstamp_time *called)
{
	static const char *const kinds[] = {
		[SOCKSTAMP_KIND_SND] = "snd",
		[SOCKSTAMP_KIND_SCHED] = "sched",
		[SOCKSTAMP_KIND_ACK] = "ack",
		[SOCKSTAMP_KIND_COMPLETION] = "completion",
	};
	const struct sockstamp_match *matches;
	int64_t after;
	int count;

	count = sockstamp_matcher_stamp(matcher, stamp, &matches);
	for (int i = 0; i < count; i++) {
		check("since",
		      sockstamp_time_since(&stamp->time, &called[matches[i].message], &after));
		printf("message %llu %-5s %lld ns%s\n", (unsigned long long)matches[i].message,
		       kinds[stamp->kind], (long long)after,
		       matches[i].coverage == SOCKSTAMP_MERGED ? " (by a later send's stamp)" : "");
	}
}

int main(int argc, char **argv)
{
	uint32_t kinds =
		1 << SOCKSTAMP_KIND_SCHED | 1 << SOCKSTAMP_KIND_SND | 1 << SOCKSTAMP_KIND_ACK;
	static char bytes[10000];
	struct sockstamp_time called[MESSAGES];
	struct sockstamp_report reports[64];
	struct sockstamp_matcher *matcher;
	struct sockstamp_queue *queue;
	struct pollfd pollfd = {0};
	int fd, count;

	if (argc != 3) {
		fprintf(stderr, "usage: tcp_stages HOST PORT\n");
		return 2;
	}
	fd = connect_tcp(argv[1], argv[2]);
	check("options",
	      sockstamp_options_set(fd,
				    SOCKSTAMP_TX_SCHED | SOCKSTAMP_TX_SOFTWARE | SOCKSTAMP_TX_ACK |
					    SOCKSTAMP_OPT_ID | SOCKSTAMP_OPT_TSONLY,
				    0));
	check("queue", sockstamp_queue_create(&queue));
	/* No byte was sent before, so ids begin at the next one. */
	check("matcher", sockstamp_matcher_create(&matcher, SOCKSTAMP_STREAM, 0, MESSAGES, kinds));

	for (int i = 0; i < MESSAGES; i++) {
		struct iovec part = {.iov_base = bytes, .iov_len = sizeof(bytes)};

		called[i] = now();
		count = check("send", sockstamp_send(fd, &part, 1, NULL, 0, NULL));
		sockstamp_matcher_sent(matcher, count, i, NULL);
	}
	pollfd.fd = fd;
	while (sockstamp_matcher_unfinished(matcher, NULL, 0) > 0) {
		/* Wakes by POLLERR, which nobody has to ask for. */
		if (poll(&pollfd, 1, 5000) == 0)
			check("the peer", -ETIMEDOUT);
		count = check("drain", sockstamp_queue_drain(queue, fd, reports, NULL, 64));
		for (int i = 0; i < count; i++)
			if (reports[i].type == SOCKSTAMP_REPORT_STAMP)
				print(matcher, &reports[i].stamp, called);
	}
	sockstamp_matcher_free(matcher);
	sockstamp_queue_free(queue);
	close(fd);
	return 0;
}
