/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Test what the examples leave out: each function with wrong and with correct arguments, on sockets
 * of the loopback interface. Exit with 0 if all is as sockstamp.h says.
 */
#include "expect.h"

/* Until one comes, at most five seconds. */
static struct sockstamp_report next_report(struct sockstamp_queue *queue, int fd,
					   struct sockstamp_statistics *statistics)
{
	struct pollfd pollfd = {.fd = fd};
	struct sockstamp_report report;

	for (int look = 0; look < 50; look++) {
		poll(&pollfd, 1, 100);
		if (sockstamp_queue_drain(queue, fd, &report, statistics, 1) == 1)
			return report;
	}
	fprintf(stderr, "no report came\n");
	exit(1);
}

static void null_is_refused(void)
{
	struct sockstamp_time time = {0};
	struct sockstamp_report report;
	uint32_t flags;
	int64_t ns;

	EXPECT(sockstamp_offset_measure(SOCKSTAMP_CLOCK_TAI, SOCKSTAMP_CLOCK_TAI, NULL), -EFAULT);
	EXPECT(sockstamp_time_convert(&time, NULL), -EFAULT);
	EXPECT(sockstamp_time_since(NULL, &time, &ns), -EFAULT);
	EXPECT(sockstamp_interface_query(NULL, NULL), -EFAULT);
	EXPECT(sockstamp_options_probe(NULL), -EFAULT);
	EXPECT(sockstamp_options_get(-1, &flags, NULL), -EBADF);
	EXPECT(sockstamp_options_set(-1, 0, 0), -EBADF);
	EXPECT(sockstamp_send(0, NULL, 1, NULL, 0, NULL), -EFAULT);
	EXPECT(sockstamp_receive(0, NULL, 0, NULL), -EFAULT);
	EXPECT(sockstamp_received_parse(NULL, 1, NULL), -EFAULT);
	EXPECT(sockstamp_queue_create(NULL), -EFAULT);
	EXPECT(sockstamp_queue_drain(NULL, 0, &report, NULL, 1), -EFAULT);
	EXPECT(sockstamp_queue_counters(NULL, NULL), -EFAULT);
	EXPECT(sockstamp_report_parse(NULL, 1, &report, NULL), -EFAULT);
	EXPECT(sockstamp_batch_create(NULL, 1), -EFAULT);
	EXPECT(sockstamp_batch_receive(NULL, 0, NULL), -EFAULT);
	EXPECT(sockstamp_stamping_create(NULL, 0), -EFAULT);
	EXPECT(sockstamp_matcher_create(NULL, SOCKSTAMP_STREAM, 0, 1, 0), -EFAULT);
	EXPECT(sockstamp_matcher_sent(NULL, 1, 1, NULL), -EFAULT);
	EXPECT(sockstamp_matcher_sent_unstamped(NULL, 1), -EFAULT);
	EXPECT(sockstamp_matcher_stamp(NULL, NULL, NULL), -EFAULT);
	EXPECT(sockstamp_matcher_unfinished(NULL, NULL, 0), -EFAULT);
	EXPECT(sockstamp_matcher_counters(NULL, NULL), -EFAULT);
	EXPECT(sockstamp_completions_create(NULL, NULL), -EFAULT);
	EXPECT(sockstamp_completions_register(NULL, 0, 0, NULL), -EFAULT);
	EXPECT(sockstamp_registration_read(NULL, NULL), -EFAULT);
	EXPECT(sockstamp_registration_state(NULL, NULL), -EFAULT);
	EXPECT(sockstamp_registration_queue_is_read(NULL), -EFAULT);
	EXPECT(sockstamp_registration_is_served(NULL), -EFAULT);
	EXPECT(sockstamp_sender_create(NULL, 0, NULL), -EFAULT);
	EXPECT(sockstamp_sender_support(NULL), -EFAULT);
	EXPECT(sockstamp_sender_use_memory(NULL, NULL, 0), -EFAULT);
	EXPECT(sockstamp_sender_acquire(NULL, 0, NULL), -EFAULT);
	EXPECT(sockstamp_sender_submit(NULL, NULL, 0, NULL), -EFAULT);
	EXPECT(sockstamp_sender_release(NULL, NULL), -EFAULT);
	EXPECT(sockstamp_sender_flush(NULL), -EFAULT);
	EXPECT(sockstamp_sender_reports(NULL, NULL, 0), -EFAULT);
	EXPECT(sockstamp_sender_wait_idle(NULL, 0), -EFAULT);
	EXPECT(sockstamp_sender_ask_again(NULL), -EFAULT);
	EXPECT(sockstamp_sender_counters(NULL, NULL), -EFAULT);
	EXPECT(sockstamp_receiver_create(NULL, 0, 1, 1), -EFAULT);
	EXPECT(sockstamp_receiver_receive(NULL, NULL), -EFAULT);
	EXPECT(sockstamp_receiver_release(NULL), -EFAULT);

	sockstamp_queue_free(NULL);
	sockstamp_batch_free(NULL);
	sockstamp_stamping_free(NULL);
	sockstamp_matcher_free(NULL);
	sockstamp_completions_free(NULL);
	sockstamp_registration_free(NULL);
	sockstamp_sender_free(NULL);
	sockstamp_receiver_free(NULL);
}

static void clocks_and_interfaces(void)
{
	struct sockstamp_interface interface;
	struct sockstamp_offset offset;
	struct sockstamp_time time = {.ns = 1000, .clock = SOCKSTAMP_CLOCK_MONOTONIC};
	struct sockstamp_time before = time;
	int64_t ns = 0;

	EXPECT(strcmp(sockstamp_version(), VERSION), 0);
	EXPECT(sockstamp_offset_measure(SOCKSTAMP_CLOCK_MONOTONIC, SOCKSTAMP_CLOCK_REALTIME,
					&offset),
	       0);
	EXPECT(sockstamp_time_convert(&time, &offset), 0);
	EXPECT(time.ns, 1000 + offset.ns);
	EXPECT(time.clock, SOCKSTAMP_CLOCK_REALTIME);
	EXPECT(sockstamp_time_since(&time, &before, &ns), -EINVAL);
	EXPECT(sockstamp_interface_query("lo", &interface), 0);
	EXPECT(interface.stamps, SOCKSTAMP_TX_SOFTWARE | SOCKSTAMP_RX_SOFTWARE);
	EXPECT(interface.phc_index, -1);
	EXPECT(sockstamp_interface_query("sockstamp-none", &interface), -ENODEV);
}

static void options(void)
{
	uint32_t supported, flags, phc;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	EXPECT(sockstamp_options_probe(&supported), 0);
	EXPECT(supported & SOCKSTAMP_OPT_ID, SOCKSTAMP_OPT_ID);
	EXPECT(sockstamp_options_set(fd, SOCKSTAMP_TX_SCHED | SOCKSTAMP_WIDE, 0), 0);
	EXPECT(sockstamp_options_get(fd, &flags, &phc), 0);
	EXPECT(flags, SOCKSTAMP_TX_SCHED | SOCKSTAMP_SOFTWARE | SOCKSTAMP_WIDE);
	EXPECT(phc, 0);
	EXPECT(sockstamp_options_set(fd, SOCKSTAMP_OWN_ID, 0), -EINVAL);
	EXPECT(sockstamp_options_set(fd, SOCKSTAMP_TX_SCHED, 3), -EINVAL);
	EXPECT(sockstamp_options_set(fd, 1 << 5, 0), -EINVAL);
	EXPECT(sockstamp_options_set(1, 0, 0), -ENOTSOCK);
	close(fd);
}

/* An id of its own where the kernel has that, and what a message asks for in the place of the
 * socket. */
static void requests(struct sockstamp_queue *queue)
{
	struct sockstamp_request request = {.flags = SOCKSTAMP_REQUEST_STAMPS,
					    .stamps = SOCKSTAMP_TX_SCHED};
	struct iovec parts[] = {{.iov_base = "ab", .iov_len = 2}, {0}, {"c", 1}};
	struct sockaddr unix_address = {.sa_family = AF_UNIX};
	struct sockstamp_report report;
	struct sockaddr_in address;
	uint32_t supported;
	int pair[2];

	address = udp_pair(pair);
	EXPECT(sockstamp_options_set(
		       pair[0], SOCKSTAMP_SOFTWARE | SOCKSTAMP_OPT_ID | SOCKSTAMP_OPT_TSONLY, 0),
	       0);
	EXPECT(sockstamp_options_probe(&supported), 0);
	if (supported & SOCKSTAMP_OWN_ID) {
		request.flags |= SOCKSTAMP_REQUEST_ID;
		request.id = 4711;
	}
	EXPECT(sockstamp_send(pair[0], parts, 3, NULL, 0, &request), 3);
	report = next_report(queue, pair[0], NULL);
	EXPECT(report.type, SOCKSTAMP_REPORT_STAMP);
	EXPECT(report.stamp.kind, SOCKSTAMP_KIND_SCHED);
	EXPECT(report.stamp.id, supported & SOCKSTAMP_OWN_ID ? 4711 : 0);
	EXPECT(report.stamp.time.clock, SOCKSTAMP_CLOCK_REALTIME);
	EXPECT(sockstamp_send(pair[0], parts, 1, (struct sockaddr *)&address, sizeof(address),
			      NULL),
	       2);
	EXPECT(sockstamp_queue_drain(queue, pair[0], &report, NULL, 1), 0);

	EXPECT(sockstamp_send(pair[0], parts, 1, &unix_address, sizeof(unix_address), NULL),
	       -EAFNOSUPPORT);
	request.stamps = SOCKSTAMP_RX_SOFTWARE;
	EXPECT(sockstamp_send(pair[0], parts, 1, NULL, 0, &request), -EINVAL);
	request = (struct sockstamp_request){.reserved = 1};
	EXPECT(sockstamp_send(pair[0], parts, 1, NULL, 0, &request), -EINVAL);
	close_pair(pair);
}

static void batches(void)
{
	const struct sockstamp_message *messages;
	struct sockstamp_stamping *stamping;
	struct sockstamp_received received;
	struct sockstamp_batch *batch;
	struct sockaddr_in address;
	char control[512], bytes[2];
	struct msghdr message = {.msg_control = control, .msg_controllen = sizeof(control)};
	int pair[2], on = 1, hops = 33;

	address = udp_pair(pair);
	EXPECT(sockstamp_stamping_create(&stamping, 5000), 1);
	EXPECT(sockstamp_options_set(pair[1], SOCKSTAMP_RX_SOFTWARE, 0), 0);
	EXPECT(send(pair[0], "one", 3, 0), 3);
	EXPECT(send(pair[0], "three", 5, 0), 5);
	EXPECT(send(pair[0], "too long", 8, 0), 8);
	EXPECT(sockstamp_batch_create(&batch, 0), -EINVAL);
	EXPECT(batch == NULL, 1);
	EXPECT(sockstamp_batch_create(&batch, 5), 0);
	EXPECT(sockstamp_batch_receive(batch, pair[1], &messages), 3);
	EXPECT(messages[1].length, 5);
	EXPECT(memcmp(messages[1].data, "three", 5), 0);
	EXPECT(messages[1].received.software.clock, SOCKSTAMP_CLOCK_REALTIME);
	EXPECT(messages[1].received.hardware.clock, SOCKSTAMP_CLOCK_NONE);
	EXPECT(messages[1].received.from.v4.sin_family, AF_INET);
	EXPECT(messages[1].received.from.v4.sin_addr.s_addr, address.sin_addr.s_addr);
	EXPECT(messages[2].received.flags, SOCKSTAMP_RECEIVED_CUT);
	sockstamp_batch_free(batch);

	EXPECT(send(pair[0], "cut", 3, 0), 3);
	EXPECT(sockstamp_receive(pair[1], bytes, sizeof(bytes), &received), 2);
	EXPECT(received.flags, SOCKSTAMP_RECEIVED_CUT);
	EXPECT(memcmp(bytes, "cu", 2), 0);
	EXPECT(received.hop_limit, -1);

	EXPECT(setsockopt(pair[1], IPPROTO_IP, IP_RECVTTL, &on, sizeof(on)), 0);
	EXPECT(setsockopt(pair[0], IPPROTO_IP, IP_TTL, &hops, sizeof(hops)), 0);
	EXPECT(send(pair[0], "mine", 4, 0), 4);
	EXPECT(recvmsg(pair[1], &message, 0), 0);
	EXPECT(sockstamp_received_parse(control, message.msg_controllen, &received), 0);
	EXPECT(received.software.clock, SOCKSTAMP_CLOCK_REALTIME);
	EXPECT(received.hop_limit, hops);
	EXPECT(received.flags, 0);
	EXPECT(received.from.any.sa_family, AF_UNSPEC);
	EXPECT(sockstamp_received_parse(control, 7, &received), 0);
	EXPECT(received.flags, SOCKSTAMP_RECEIVED_STAMP_LOST);
	EXPECT(received.software.clock, SOCKSTAMP_CLOCK_NONE);
	sockstamp_stamping_free(stamping);
	close_pair(pair);
}

static void statistics(struct sockstamp_queue *queue)
{
	struct sockstamp_statistics statistics;
	struct sockstamp_report report;
	int pair[2];

	tcp_pair(pair);
	EXPECT(sockstamp_options_set(pair[0],
				     SOCKSTAMP_TX_ACK | SOCKSTAMP_OPT_ID | SOCKSTAMP_OPT_STATS, 0),
	       0);
	EXPECT(send(pair[0], "hello", 5, 0), 5);
	report = next_report(queue, pair[0], &statistics);
	EXPECT(report.stamp.kind, SOCKSTAMP_KIND_ACK);
	EXPECT(report.stamp.id, 4);
	EXPECT(statistics.present >> SOCKSTAMP_TCP_BYTES_SENT & 1, 1);
	EXPECT(statistics.value[SOCKSTAMP_TCP_BYTES_SENT], 5);
	EXPECT(statistics.value[SOCKSTAMP_TCP_SND_CWND] > 0, 1);
	close_pair(pair);
}

/* Send a datagram to an unused port, and read the same entry by recvmsg(2). */
static void network_errors(struct sockstamp_queue *queue)
{
	struct sockstamp_report report, parsed;
	char control[512];
	struct msghdr message = {.msg_control = control, .msg_controllen = sizeof(control)};
	struct sockaddr_in address;
	int pair[2], on = 1;

	for (int way = 0; way < 2; way++) {
		address = udp_pair(pair);
		close(pair[1]);
		EXPECT(setsockopt(pair[0], IPPROTO_IP, IP_RECVERR, &on, sizeof(on)), 0);
		EXPECT(send(pair[0], "x", 1, 0), 1);
		if (way == 0) {
			report = next_report(queue, pair[0], NULL);
		} else {
			EXPECT(recvmsg(pair[0], &message, MSG_ERRQUEUE), 0);
			EXPECT(sockstamp_report_parse(control, message.msg_controllen, &parsed,
						      NULL),
			       0);
			report = parsed;
		}
		EXPECT(report.type, SOCKSTAMP_REPORT_NETWORK);
		EXPECT(report.error.number, ECONNREFUSED);
		EXPECT(report.error.origin, SO_EE_ORIGIN_ICMP);
		EXPECT(report.error.type, 3);
		EXPECT(report.error.code, 3);
		EXPECT(report.error.offender.v4.sin_addr.s_addr, address.sin_addr.s_addr);
		close(pair[0]);
	}
	EXPECT(sockstamp_report_parse(control, 7, &report, NULL), -EBADMSG);
}

/* Datagrams of segments to an address, with a stamp beside the completion; then what may not be
 * done with a buffer. */
static void datagram_sender(void)
{
	struct sockstamp_sender_options options = {
		.buffer_size = 9000, .buffers = 1, .threshold = 1};
	struct sockstamp_how how = {.segment = 1000};
	struct sockstamp_sender_counters counters;
	struct sockstamp_report reports[8];
	struct sockstamp_sender *sender;
	void *buffer;
	char bytes[2000];
	int pair[2], fd;

	how.to.v4 = udp_pair(pair);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	EXPECT(sockstamp_options_set(
		       fd, SOCKSTAMP_TX_SOFTWARE | SOCKSTAMP_OPT_ID | SOCKSTAMP_OPT_TSONLY, 0),
	       0);
	EXPECT(sockstamp_sender_create(&sender, fd, &options), 0);
	EXPECT(sockstamp_sender_support(sender), SOCKSTAMP_ZEROCOPY_AVAILABLE);
	EXPECT(sockstamp_sender_acquire(sender, 0, &buffer), 0);
	memset(buffer, 7, 3000);
	EXPECT(sockstamp_sender_submit(sender, buffer, 3000, &how), 0);
	EXPECT(sockstamp_sender_submit(sender, buffer, 3000, &how), -EINVAL);
	for (int datagram = 0; datagram < 3; datagram++) {
		EXPECT(recv(pair[1], bytes, sizeof(bytes), 0), 1000);
		EXPECT(bytes[999], 7);
	}
	EXPECT(sockstamp_sender_wait_idle(sender, 5000), 0);
	EXPECT(sockstamp_sender_reports(sender, reports, 8), 1);
	EXPECT(reports[0].type, SOCKSTAMP_REPORT_STAMP);
	EXPECT(sockstamp_sender_counters(sender, &counters), 0);
	EXPECT(counters.lent, 1);
	EXPECT(counters.completed, 1);
	EXPECT(counters.in_flight, 0);

	EXPECT(sockstamp_sender_acquire(sender, -1, &buffer), 0);
	EXPECT(sockstamp_sender_acquire(sender, -1, &buffer), -ENOBUFS);
	EXPECT(sockstamp_sender_release(sender, bytes), -EINVAL);
	EXPECT(sockstamp_sender_release(sender, buffer), 0);
	EXPECT(sockstamp_sender_release(sender, buffer), -EINVAL);
	EXPECT(sockstamp_sender_acquire(sender, 0, &buffer), 0);
	EXPECT(sockstamp_sender_submit(sender, buffer, 9001, NULL), -EMSGSIZE);
	EXPECT(sockstamp_sender_acquire(sender, 0, &buffer), 0);
	EXPECT(sockstamp_sender_submit(sender, buffer, 10, NULL), -EDESTADDRREQ);
	EXPECT(sockstamp_sender_ask_again(sender), 0);
	sockstamp_sender_free(sender);
	close(fd);

	/* 0 is the default. Another socket, as this one has had SO_ZEROCOPY. */
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	options.threshold = 0;
	EXPECT(sockstamp_sender_create(&sender, fd, &options), 0);
	EXPECT(sockstamp_sender_acquire(sender, 0, &buffer), 0);
	EXPECT(sockstamp_sender_submit(sender, buffer, 3000, &how), 0);
	EXPECT(sockstamp_sender_counters(sender, &counters), 0);
	EXPECT(counters.lent, 0);
	EXPECT(counters.below_threshold, 1);
	sockstamp_sender_free(sender);
	EXPECT(sockstamp_sender_create(&sender, 1, &options), -ENOTSOCK);
	options.buffers = 0;
	EXPECT(sockstamp_sender_create(&sender, fd, &options), -EINVAL);
	close(fd);
	close_pair(pair);
}

/* A stream takes what it has room for, and the rest when it has more; the receiver looks at it
 * where it is. */
static void stream_sender_and_receiver(void)
{
	enum { SIZE = 8 << 20 };
	struct sockstamp_sender_options options = {.buffer_size = SIZE, .buffers = 1};
	struct sockstamp_receiver *receiver;
	struct sockstamp_sender *sender;
	struct sockstamp_view view;
	size_t received = 0;
	void *buffer;
	int pair[2], room = 1 << 18, left, got;

	tcp_pair(pair);
	EXPECT(sockstamp_receiver_create(&receiver, pair[1], 0, 1), -EINVAL);
	EXPECT(sockstamp_receiver_create(&receiver, pair[1], 1 << 20, 1 << 16), 0);
	EXPECT(sockstamp_receiver_receive(receiver, &view), -EAGAIN);
	EXPECT(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
	EXPECT(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)), 0);
	EXPECT(sockstamp_sender_create(&sender, pair[0], &options), 0);
	EXPECT(sockstamp_sender_acquire(sender, 0, &buffer), 0);
	for (int at = 0; at < SIZE; at++)
		((unsigned char *)buffer)[at] = at % 251;
	left = sockstamp_sender_submit(sender, buffer, SIZE, NULL);
	EXPECT(left > 0 && left < SIZE, 1);
	EXPECT(sockstamp_sender_acquire(sender, 0, &buffer), -EAGAIN);
	EXPECT(sockstamp_sender_wait_idle(sender, 0), 1);
	while (received < SIZE) {
		const unsigned char *parts[2];
		size_t lengths[2];

		left = sockstamp_sender_flush(sender);
		EXPECT(left >= 0, 1);
		got = sockstamp_receiver_receive(receiver, &view);
		if (got == -EAGAIN)
			continue;
		EXPECT(got, view.mapped_length + view.copied_length);
		parts[0] = view.mapped;
		parts[1] = view.copied;
		lengths[0] = view.mapped_length;
		lengths[1] = view.copied_length;
		for (int part = 0; part < 2; part++)
			for (size_t at = 0; at < lengths[part]; at++, received++)
				if (parts[part][at] != received % 251)
					EXPECT(parts[part][at], received % 251);
	}
	EXPECT(sockstamp_receiver_release(receiver), 0);
	EXPECT(sockstamp_sender_flush(sender), 0);
	EXPECT(sockstamp_sender_wait_idle(sender, 5000), 0);
	sockstamp_sender_free(sender);
	close(pair[0]);
	EXPECT(sockstamp_receiver_receive(receiver, &view), 0);
	sockstamp_receiver_free(receiver);
	close(pair[1]);
}

static void nobody_serves_completions(void)
{
	struct sockstamp_completions *completions = (void *)1;

	EXPECT(sockstamp_completions_create(&completions, "/nowhere/notifications.sock"), -ENOENT);
	EXPECT(completions == NULL, 1);
}

int main(void)
{
	struct sockstamp_queue_counters counters;
	struct sockstamp_queue *queue;

	null_is_refused();
	clocks_and_interfaces();
	options();
	EXPECT(sockstamp_queue_create(&queue), 0);
	requests(queue);
	batches();
	statistics(queue);
	network_errors(queue);
	EXPECT(sockstamp_queue_counters(queue, &counters), 0);
	EXPECT(counters.entries, 3);
	EXPECT(counters.cut + counters.malformed + counters.without_time, 0);
	sockstamp_queue_free(queue);
	datagram_sender();
	stream_sender_and_receiver();
	nobody_serves_completions();
	return 0;
}
