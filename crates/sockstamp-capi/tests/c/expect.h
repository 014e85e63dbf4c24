/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Share assertions and loopback sockets between the programs here. */
#ifndef EXPECT_H
#define EXPECT_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <poll.h>
#include <sockstamp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPECT(expression, expected)                                                              \
	do {                                                                                      \
		long long is = (expression), want = (expected);                                   \
		if (is != want) {                                                                 \
			fprintf(stderr, "line %d: %s is %lld, not %lld\n", __LINE__, #expression, \
				is, want);                                                        \
			exit(1);                                                                  \
		}                                                                                 \
	} while (0)

static inline struct sockaddr_in loopback(int fd)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof(address);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	EXPECT(bind(fd, (struct sockaddr *)&address, length), 0);
	EXPECT(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	return address;
}

/* A sender at 0, connected to the receiver at 1. */
static inline struct sockaddr_in udp_pair(int *pair)
{
	struct sockaddr_in address;

	pair[0] = socket(AF_INET, SOCK_DGRAM, 0);
	pair[1] = socket(AF_INET, SOCK_DGRAM, 0);
	address = loopback(pair[1]);
	EXPECT(connect(pair[0], (struct sockaddr *)&address, sizeof(address)), 0);
	return address;
}

static inline void tcp_pair(int *pair)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = loopback(listener);

	EXPECT(listen(listener, 1), 0);
	pair[0] = socket(AF_INET, SOCK_STREAM, 0);
	EXPECT(connect(pair[0], (struct sockaddr *)&address, sizeof(address)), 0);
	pair[1] = accept(listener, NULL, NULL);
	close(listener);
}

static inline void close_pair(const int *pair)
{
	close(pair[0]);
	close(pair[1]);
}

#endif /* EXPECT_H */
