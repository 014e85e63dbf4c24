/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Serves one file by HTTP, without copying it into the kernel.
 *
 *     cc zerocopy_file_server.c $(pkg-config --cflags --libs sockstamp) -o zerocopy_file_server
 *     ./zerocopy_file_server FILE 8080
 *
 * Eight buffers go round: one is filled while the kernel has the others, and is filled again when
 * it is done with it. Connections are served one after the other, as many as the third argument
 * says.
 */
#include <errno.h>
#include <fcntl.h>
#include <sockstamp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFERS 8
#define BUFFER	(256 * 1024)
/* Longest time of a peer's acknowledgement. */
#define PATIENCE_MS 60000

/* Up to the empty line behind the request's headers. Whatever is asked, there is one file. */
static int read_request(int fd)
{
	char request[4096];
	size_t length = 0;

	while (length < sizeof(request) - 1) {
		ssize_t got = read(fd, request + length, sizeof(request) - 1 - length);

		if (got <= 0)
			return got ? -errno : -ECONNRESET;
		length += got;
		request[length] = '\0';
		if (strstr(request, "\r\n\r\n"))
			return 0;
	}
	return -EMSGSIZE;
}

/* Fill buffers and send them until the file ends. */
static int send_file(struct sockstamp_sender *sender, int file)
{
	struct stat status;
	void *buffer;
	ssize_t length;
	int error;

	if (fstat(file, &status))
		return -errno;
	error = sockstamp_sender_acquire(sender, PATIENCE_MS, &buffer);
	if (error)
		return error;
	length = snprintf(buffer, BUFFER,
			  "HTTP/1.1 200 OK\r\nContent-Length: %lld\r\nConnection: close\r\n\r\n",
			  (long long)status.st_size);
	while (length > 0) {
		error = sockstamp_sender_submit(sender, buffer, length, NULL);
		if (!error)
			error = sockstamp_sender_acquire(sender, PATIENCE_MS, &buffer);
		if (error)
			return error;
		length = read(file, buffer, BUFFER);
	}
	error = length ? -errno : 0;
	sockstamp_sender_release(sender, buffer);
	return error;
}

static int serve(int fd, const char *path)
{
	/* To a peer on this host the kernel copies after all, and it is better not to ask. */
	struct sockstamp_sender_options options = {
		.buffer_size = BUFFER,
		.buffers = BUFFERS,
		.threshold = SOCKSTAMP_THRESHOLD,
		.stop_when_copied = 8,
	};
	struct sockstamp_sender_counters counters;
	struct sockstamp_sender *sender;
	int file, error;

	file = open(path, O_RDONLY);
	if (file < 0)
		return -errno;
	error = sockstamp_sender_create(&sender, fd, &options);
	if (!error)
		error = read_request(fd);
	if (!error)
		error = send_file(sender, file);
	/* Buffers that the kernel still has when a sender is freed are lost to the program. */
	if (!error && sockstamp_sender_wait_idle(sender, PATIENCE_MS) > 0)
		error = -ETIMEDOUT;
	if (!error) {
		sockstamp_sender_counters(sender, &counters);
		printf("lent %llu, copied after all %llu, copied at once %llu\n",
		       (unsigned long long)counters.lent,
		       (unsigned long long)counters.completed_copied,
		       (unsigned long long)(counters.below_threshold + counters.not_asked));
	}
	sockstamp_sender_free(sender);
	close(file);
	return error;
}

static int listen_on(const char *port)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(atoi(port))};
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET6, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) || listen(fd, 8) ||
	    getsockname(fd, (struct sockaddr *)&address, &length)) {
		perror("listen");
		exit(1);
	}
	printf("port %d\n", ntohs(address.sin6_port));
	return fd;
}

int main(int argc, char **argv)
{
	int listener, left;

	if (argc < 3) {
		fprintf(stderr, "usage: zerocopy_file_server FILE PORT [CONNECTIONS]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	listener = listen_on(argv[2]);
	for (left = argc > 3 ? atoi(argv[3]) : -1; left; left -= left > 0) {
		int fd = accept(listener, NULL, NULL);
		int error = fd < 0 ? -errno : serve(fd, argv[1]);

		if (error)
			fprintf(stderr, "%s\n", strerror(-error));
		close(fd);
	}
	close(listener);
	return 0;
}
