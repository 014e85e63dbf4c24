// SPDX-License-Identifier: GPL-2.0
/* Counts the instructions of a message on a guest whose clock counts them: one a nanosecond.
 *
 *   count [ROW...]	a line a row: name, instructions a message, program runs a message
 *
 * Both ends are in one thread, over loopback: the receiving side runs in the send call's softirq,
 * so that no scheduling comes between, and the same kernel gives the same number each time.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <linux/bpf.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "count.skel.h"

#define CGROUP "/sys/fs/cgroup/count"
#define SMALL  1200
#define SMALLS 54 /* that fit into an skb */
#define BULK   (SMALLS * SMALL)

enum traffic {
	ONE_WAY,
	REQUEST,
	BULK_SENDS,
	SMALL_SENDS, /* that share skbs */
	UDP_SENDS,
};

/* What is loaded beside the traffic. */
enum hook { NOTHING, SOCKOPS, TRACEPOINT, FENTRY, SELECT_UDP, RX_TRACEPOINTS };

struct row {
	const char *name;
	enum traffic traffic;
	enum hook hook;
	int cb_flags;
	unsigned int option_len;
	bool reserve_none, cached, stamps;
};

static const struct row rows[] = {
	{"tcp.send.nothing", ONE_WAY, NOTHING},
	{"tcp.send.entry-by-tracepoint", ONE_WAY, TRACEPOINT},
	{"tcp.send.entry-by-fentry", ONE_WAY, FENTRY},
	{"tcp.send.entry-by-option-length", ONE_WAY, SOCKOPS, .reserve_none = true},
	{"tcp.send.callbacks-of-others", ONE_WAY, SOCKOPS},
	{"tcp.send.callbacks", ONE_WAY, SOCKOPS, .cb_flags = SK_BPF_CB_TX_TIMESTAMPING},
	{"tcp.send.stamps", ONE_WAY, SOCKOPS, .cb_flags = SK_BPF_CB_TX_TIMESTAMPING,
	 .stamps = true},
	{"tcp.send.every-skb", ONE_WAY, SOCKOPS, .cb_flags = SK_BPF_CB_TX_EVERY_SKB},
	{"tcp.receive.by-tracepoints", ONE_WAY, RX_TRACEPOINTS},
	{"tcp.receive.callbacks", ONE_WAY, SOCKOPS, .cb_flags = SK_BPF_CB_RX_TIMESTAMPING},
	{"tcp.request.nothing", REQUEST, NOTHING},
	{"tcp.request.option", REQUEST, SOCKOPS, .option_len = 12},
	{"tcp.request.option-cached", REQUEST, SOCKOPS, .option_len = 12, .cached = true},
	{"tcp.small.nothing", SMALL_SENDS, NOTHING},
	{"tcp.small.option", SMALL_SENDS, SOCKOPS, .option_len = 12},
	{"tcp.small.option-cached", SMALL_SENDS, SOCKOPS, .option_len = 12, .cached = true},
	{"tcp.small.stamps", SMALL_SENDS, SOCKOPS, .cb_flags = SK_BPF_CB_TX_TIMESTAMPING,
	 .stamps = true},
	{"tcp.small.every-skb", SMALL_SENDS, SOCKOPS, .cb_flags = SK_BPF_CB_TX_EVERY_SKB},
	{"tcp.bulk.nothing", BULK_SENDS, NOTHING},
	{"tcp.bulk.option", BULK_SENDS, SOCKOPS, .option_len = 12},
	{"tcp.bulk.option-cached", BULK_SENDS, SOCKOPS, .option_len = 12, .cached = true},
	{"tcp.bulk.every-skb", BULK_SENDS, SOCKOPS, .cb_flags = SK_BPF_CB_TX_EVERY_SKB},
	{"udp.send.nothing", UDP_SENDS, NOTHING},
	{"udp.send.callbacks-of-others", UDP_SENDS, SOCKOPS},
	{"udp.send.callbacks", UDP_SENDS, SELECT_UDP, .cb_flags = SK_BPF_CB_TX_TIMESTAMPING},
	{"udp.send.stamps", UDP_SENDS, SELECT_UDP, .cb_flags = SK_BPF_CB_TX_TIMESTAMPING,
	 .stamps = true},
};

static char buf[BULK];

static void fail(const char *what)
{
	fprintf(stderr, "count: %s: %s\n", what, strerror(errno));
	exit(1);
}

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int join_cgroup(void)
{
	int file;

	if (mkdir(CGROUP, 0755) && errno != EEXIST)
		fail(CGROUP);
	file = open(CGROUP "/cgroup.procs", O_WRONLY);
	if (file < 0 || write(file, "0", 1) != 1)
		fail(CGROUP);
	close(file);
	return open(CGROUP, O_RDONLY);
}

static void connect_ends(enum traffic traffic, int ends[2])
{
	int type = traffic == UDP_SENDS ? SOCK_DGRAM : SOCK_STREAM, one = 1;
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof(address);
	int listener = socket(AF_INET, type, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (void *)&address, len) || getsockname(listener, (void *)&address, &len))
		fail("bind");
	if (type == SOCK_STREAM && listen(listener, 1))
		fail("listen");
	ends[0] = socket(AF_INET, type, 0);
	if (connect(ends[0], (void *)&address, len))
		fail("connect");
	if (type == SOCK_DGRAM) {
		ends[1] = listener;
		return;
	}
	ends[1] = accept(listener, NULL, NULL);
	close(listener);
	setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(ends[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void transfer(int from, int to, size_t len)
{
	if (send(from, buf, len, 0) != (ssize_t)len)
		fail("send");
	if (recv(to, buf, len, MSG_WAITALL) != (ssize_t)len)
		fail("recv");
}

static void small_sends(const int ends[2])
{
	for (int left = SMALLS; left; left--) {
		if (send(ends[0], buf, SMALL, left > 1 ? MSG_MORE : 0) != SMALL)
			fail("send");
	}
	if (recv(ends[1], buf, BULK, MSG_WAITALL) != BULK)
		fail("recv");
}

static void messages(enum traffic traffic, const int ends[2], int number)
{
	if (traffic == SMALL_SENDS) {
		for (; number > 0; number -= SMALLS)
			small_sends(ends);
		return;
	}
	while (number--) {
		transfer(ends[0], ends[1], traffic == BULK_SENDS ? BULK : 64);
		if (traffic == REQUEST)
			transfer(ends[1], ends[0], 64);
	}
}

static bool select_udp(struct count *skel)
{
	struct bpf_link *link = bpf_program__attach_iter(skel->progs.select_udp, NULL);
	char text[64];
	int iter;

	if (!link)
		return false;
	iter = bpf_iter_create(bpf_link__fd(link));
	if (iter < 0)
		return false;
	while (read(iter, text, sizeof(text)) > 0)
		;
	close(iter);
	bpf_link__destroy(link);
	return !skel->bss->refused;
}

static struct count *load(const struct row *row)
{
	struct count *skel = count__open();

	if (!skel)
		return NULL;
	bpf_program__set_autoload(skel->progs.on_sockops,
				  row->hook == SOCKOPS || row->hook == SELECT_UDP);
	bpf_program__set_autoload(skel->progs.on_tracepoint, row->hook == TRACEPOINT);
	bpf_program__set_autoload(skel->progs.on_fentry, row->hook == FENTRY);
	bpf_program__set_autoload(skel->progs.select_udp, row->hook == SELECT_UDP);
	bpf_program__set_autoload(skel->progs.on_data_ready, row->hook == RX_TRACEPOINTS);
	bpf_program__set_autoload(skel->progs.on_copy, row->hook == RX_TRACEPOINTS);
	bpf_program__set_autoload(skel->progs.on_read, row->hook == RX_TRACEPOINTS);
	skel->rodata->cb_flags = row->cb_flags;
	skel->rodata->option_len = row->option_len;
	skel->rodata->reserve_none = row->reserve_none;
	skel->rodata->reserve_flags = row->cached;
	skel->rodata->ask_for_stamps = row->stamps;
	if (count__load(skel)) {
		count__destroy(skel);
		return NULL;
	}
	return skel;
}

static bool attach(struct count *skel, enum hook hook, int cgroup)
{
	switch (hook) {
	case SOCKOPS:
	case SELECT_UDP:
		skel->links.on_sockops = bpf_program__attach_cgroup(skel->progs.on_sockops, cgroup);
		return skel->links.on_sockops;
	case TRACEPOINT:
		skel->links.on_tracepoint = bpf_program__attach(skel->progs.on_tracepoint);
		return skel->links.on_tracepoint;
	case FENTRY:
		skel->links.on_fentry = bpf_program__attach(skel->progs.on_fentry);
		return skel->links.on_fentry;
	case RX_TRACEPOINTS:
		skel->links.on_data_ready = bpf_program__attach(skel->progs.on_data_ready);
		skel->links.on_copy = bpf_program__attach(skel->progs.on_copy);
		skel->links.on_read = bpf_program__attach(skel->progs.on_read);
		return skel->links.on_data_ready && skel->links.on_copy && skel->links.on_read;
	default:
		return true;
	}
}

/* Where the kernel lacks what the row is about, it says so. */
static void count_row(const struct row *row, int cgroup)
{
	/* A quarter of it is whole skbs of small sends as well. */
	int number = row->traffic == BULK_SENDS ? 432 : 4320, ends[2];
	unsigned long long runs = 0;
	struct count *skel = NULL;
	long long began, took;

	if (row->hook != NOTHING) {
		skel = load(row);
		if (!skel || !attach(skel, row->hook, cgroup))
			goto lacking;
	}
	connect_ends(row->traffic, ends);
	if (row->hook == SELECT_UDP && !select_udp(skel))
		goto close;
	messages(row->traffic, ends, number / 4);
	if (skel)
		runs = skel->bss->runs;
	began = now();
	messages(row->traffic, ends, number);
	took = now() - began;
	if (skel)
		runs = skel->bss->runs - runs;
	if (skel && skel->bss->refused)
		goto close;
	printf("%-34s %7lld %8.3f\n", row->name, took / number, (double)runs / number);
	close(ends[0]);
	close(ends[1]);
	count__destroy(skel);
	return;
close:
	close(ends[0]);
	close(ends[1]);
lacking:
	printf("%-34s %7s\n", row->name, "lacking");
	count__destroy(skel);
}

static int quiet(enum libbpf_print_level level, const char *format, va_list arguments)
{
	return 0;
}

int main(int argc, char **argv)
{
	int cgroup = join_cgroup();

	libbpf_set_print(quiet);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool asked = argc < 2;

		for (int j = 1; j < argc; j++)
			asked |= !!strstr(rows[i].name, argv[j]);
		if (asked)
			count_row(&rows[i], cgroup);
	}
	return 0;
}
