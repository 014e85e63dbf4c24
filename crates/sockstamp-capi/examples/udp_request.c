/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Print how long a UDP request took by the kernel's stamps: from the driver to the arrival of the
 * answer.
 *
 *     cc udp_request.c $(pkg-config --cflags --libs sockstamp) -o udp_request
 *     ./udp_request 192.0.2.1 7
 */
#include <errno.h>
#include <netdb.h>
#include <sockstamp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int check(const char *what, int result)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, strerror(-result));
		exit(1);
	}
	return result;
}

static int connect_udp(const char *host, const char *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *server;
	struct timeval patience = {.tv_sec = 20};
	int fd;

	if (getaddrinfo(host, port, &hints, &server)) {
		fprintf(stderr, "no such server\n");
		exit(1);
	}
	fd = socket(server->ai_family, SOCK_DGRAM, 0);
	if (fd < 0 || connect(fd, server->ai_addr, server->ai_addrlen))
		check("connect", -errno);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	freeaddrinfo(server);
	return fd;
}

int main(int argc, char **argv)
{
	static const char *const kinds[] = {
		[SOCKSTAMP_KIND_SND] = "driver",
		[SOCKSTAMP_KIND_SCHED] = "packet scheduler",
		[SOCKSTAMP_KIND_ACK] = "acknowledged",
		[SOCKSTAMP_KIND_COMPLETION] = "hardware",
	};
	struct sockstamp_report reports[8];
	struct sockstamp_received answer;
	struct sockstamp_time sent = {0};
	struct sockstamp_queue *queue;
	char bytes[1500];
	int64_t took;
	int fd, count;

	if (argc != 3) {
		fprintf(stderr, "usage: udp_request HOST PORT\n");
		return 2;
	}
	fd = connect_udp(argv[1], argv[2]);
	check("options", sockstamp_options_set(fd,
					       SOCKSTAMP_TX_SCHED | SOCKSTAMP_TX_SOFTWARE |
						       SOCKSTAMP_RX_SOFTWARE | SOCKSTAMP_OPT_ID |
						       SOCKSTAMP_OPT_TSONLY,
					       0));
	/* The kernel begins to stamp received packets some milliseconds later. */
	usleep(50000);

	if (send(fd, "ping", 4, 0) < 0)
		check("send", -errno);
	check("receive", sockstamp_receive(fd, bytes, sizeof(bytes), &answer));

	check("queue", sockstamp_queue_create(&queue));
	count = check("drain", sockstamp_queue_drain(queue, fd, reports, NULL, 8));
	for (int i = 0; i < count; i++) {
		if (reports[i].type != SOCKSTAMP_REPORT_STAMP)
			continue;
		printf("%s at %llu ns\n", kinds[reports[i].stamp.kind],
		       (unsigned long long)reports[i].stamp.time.ns);
		if (reports[i].stamp.kind == SOCKSTAMP_KIND_SND)
			sent = reports[i].stamp.time;
	}
	check("a stamp is missing", sockstamp_time_since(&answer.software, &sent, &took));
	printf("answer %lld ns after the driver had the request\n", (long long)took);

	sockstamp_queue_free(queue);
	close(fd);
	return 0;
}
