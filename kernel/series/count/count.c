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
#include <net/if.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <linux/bpf.h>
#include <linux/errqueue.h>
#include <linux/ethtool.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "count.skel.h"

#define CGROUP "/sys/fs/cgroup/count"
#define SMALL  1200
#define SMALLS 54 /* that fit into an skb */
#define BULK   (SMALLS * SMALL)
#define LARGE  60000 /* of a datagram */
#define MTU    1500 /* that it is cut to; otherwise loopback takes it whole */

#define TIMESTAMPS "/proc/sys/net/ipv4/tcp_timestamps"

/* Patch 13. Where the kernel lacks it, it refuses the control message. */
#define SCM_ZC_NOTIFICATION 500
#define ZC_RANGES	    8

struct zc_note {
	__u32 count;
	struct {
		__u32 first, last, code;
	} ranges[ZC_RANGES];
};

/* Patch 15. */
#define SCM_TX_TIMESTAMPS 501
#define TX_STAMPS	  64

struct tx_stamps {
	__u32 count;
	struct {
		__u32 type, key, nsec, sec_low, sec_high;
	} stamps[TX_STAMPS];
};

enum traffic {
	ONE_WAY,
	REQUEST,
	BULK_SENDS,
	BULK_SEGMENTS, /* the same over a device without TSO */
	SMALL_SENDS, /* that share skbs */
	UDP_SENDS,
	UDP_FRAGMENTS, /* of a large datagram */
	TCP_SENDMSG,
	UDP_SENDMSG,
	ZC_TCP,
	ZC_UDP,
	STAMPS_TCP, /* each send call is stamped by SO_TIMESTAMPING */
	STAMPS_UDP,
};

/* The control message of sendmsg(). */
enum control { NO_CONTROL, PRIORITY, NOTIFICATION, STAMPS };

/* Programs that are loaded beside the traffic. */
enum hook { NOTHING, SOCKOPS, TRACEPOINT, FENTRY, SELECT_UDP, RX_TRACEPOINTS };

struct row {
	const char *name;
	enum traffic traffic;
	enum hook hook;
	int cb_flags;
	unsigned int option_len;
	bool reserve_none, write_none, cached, stamps;
	bool no_timestamps; /* the option of TCP */
	enum control control;
	bool v6;
	unsigned int interval; /* sends between looks for completions */
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
	{"tcp.receive.callbacks", ONE_WAY, SOCKOPS, .cb_flags = SK_BPF_CB_RX},
	{"tcp.request.nothing", REQUEST, NOTHING},
	/* Two calls per packet, as a cached option has, and no option. */
	{"tcp.request.calls", REQUEST, SOCKOPS, .reserve_none = true},
	{"tcp.request.option", REQUEST, SOCKOPS, .option_len = 12},
	{"tcp.request.option-cached", REQUEST, SOCKOPS, .option_len = 12, .cached = true},
	{"tcp.small.nothing", SMALL_SENDS, NOTHING},
	{"tcp.small.option", SMALL_SENDS, SOCKOPS, .option_len = 12},
	{"tcp.small.option-cached", SMALL_SENDS, SOCKOPS, .option_len = 12, .cached = true},
	{"tcp.small.stamps", SMALL_SENDS, SOCKOPS, .cb_flags = SK_BPF_CB_TX_TIMESTAMPING,
	 .stamps = true},
	{"tcp.small.every-skb", SMALL_SENDS, SOCKOPS, .cb_flags = SK_BPF_CB_TX_EVERY_SKB},
	{"tcp.bulk.nothing", BULK_SENDS, NOTHING},
	{"tcp.bulk.calls", BULK_SENDS, SOCKOPS, .reserve_none = true},
	{"tcp.bulk.option", BULK_SENDS, SOCKOPS, .option_len = 12},
	{"tcp.bulk.option-cached", BULK_SENDS, SOCKOPS, .option_len = 12, .cached = true},
	{"tcp.bulk.every-skb", BULK_SENDS, SOCKOPS, .cb_flags = SK_BPF_CB_TX_EVERY_SKB},
	{"udp.send.nothing", UDP_SENDS, NOTHING},
	{"udp.send.callbacks-of-others", UDP_SENDS, SOCKOPS},
	{"udp.send.callbacks", UDP_SENDS, SELECT_UDP, .cb_flags = SK_BPF_CB_TX_TIMESTAMPING},
	{"udp.send.stamps", UDP_SENDS, SELECT_UDP, .cb_flags = SK_BPF_CB_TX_TIMESTAMPING,
	 .stamps = true},
	{"udp.send.every-skb", UDP_SENDS, SELECT_UDP, .cb_flags = SK_BPF_CB_TX_EVERY_SKB},
	{"udp.receive.by-tracepoints", UDP_SENDS, RX_TRACEPOINTS},
	{"udp.receive.callbacks", UDP_SENDS, SELECT_UDP, .cb_flags = SK_BPF_CB_RX},
	{"udp.fragments.nothing", UDP_FRAGMENTS, NOTHING},
	{"udp.fragments.stamps", UDP_FRAGMENTS, SELECT_UDP, .cb_flags = SK_BPF_CB_TX_TIMESTAMPING,
	 .stamps = true},
	{"udp.fragments.every-skb", UDP_FRAGMENTS, SELECT_UDP,
	 .cb_flags = SK_BPF_CB_TX_EVERY_SKB},
	/* The price, for others, of control messages that return something. */
	{"tcp.sendmsg.plain", TCP_SENDMSG, NOTHING},
	{"tcp.sendmsg.control", TCP_SENDMSG, NOTHING, .control = PRIORITY},
	{"udp.sendmsg.plain", UDP_SENDMSG, NOTHING},
	{"udp.sendmsg.control", UDP_SENDMSG, NOTHING, .control = PRIORITY},
	{"zc.tcp4.each.classic", ZC_TCP, NOTHING, .interval = 1},
	{"zc.tcp4.each.returned", ZC_TCP, NOTHING, .interval = 1, .control = NOTIFICATION},
	{"zc.tcp6.each.classic", ZC_TCP, NOTHING, .interval = 1, .v6 = true},
	{"zc.tcp6.each.returned", ZC_TCP, NOTHING, .interval = 1, .v6 = true,
	 .control = NOTIFICATION},
	{"zc.udp4.each.classic", ZC_UDP, NOTHING, .interval = 1},
	{"zc.udp4.each.returned", ZC_UDP, NOTHING, .interval = 1, .control = NOTIFICATION},
	{"zc.udp6.each.classic", ZC_UDP, NOTHING, .interval = 1, .v6 = true},
	{"zc.udp6.each.returned", ZC_UDP, NOTHING, .interval = 1, .v6 = true,
	 .control = NOTIFICATION},
	{"zc.tcp4.32nd.classic", ZC_TCP, NOTHING, .interval = 32},
	{"zc.tcp4.32nd.returned", ZC_TCP, NOTHING, .interval = 32, .control = NOTIFICATION},
	{"zc.tcp6.32nd.classic", ZC_TCP, NOTHING, .interval = 32, .v6 = true},
	{"zc.tcp6.32nd.returned", ZC_TCP, NOTHING, .interval = 32, .v6 = true,
	 .control = NOTIFICATION},
	{"zc.udp4.32nd.classic", ZC_UDP, NOTHING, .interval = 32},
	{"zc.udp4.32nd.returned", ZC_UDP, NOTHING, .interval = 32, .control = NOTIFICATION},
	{"zc.udp6.32nd.classic", ZC_UDP, NOTHING, .interval = 32, .v6 = true},
	{"zc.udp6.32nd.returned", ZC_UDP, NOTHING, .interval = 32, .v6 = true,
	 .control = NOTIFICATION},
	{"stamps.tcp4.each.classic", STAMPS_TCP, NOTHING, .interval = 1},
	{"stamps.tcp4.each.returned", STAMPS_TCP, NOTHING, .interval = 1, .control = STAMPS},
	{"stamps.udp4.each.classic", STAMPS_UDP, NOTHING, .interval = 1},
	{"stamps.udp4.each.returned", STAMPS_UDP, NOTHING, .interval = 1, .control = STAMPS},
	{"stamps.tcp4.32nd.classic", STAMPS_TCP, NOTHING, .interval = 32},
	{"stamps.tcp4.32nd.returned", STAMPS_TCP, NOTHING, .interval = 32, .control = STAMPS},
	{"stamps.udp4.32nd.classic", STAMPS_UDP, NOTHING, .interval = 32},
	{"stamps.udp4.32nd.returned", STAMPS_UDP, NOTHING, .interval = 32, .control = STAMPS},
	{"tcp.segments.nothing", BULK_SEGMENTS, NOTHING},
	{"tcp.segments.stamps", BULK_SEGMENTS, SOCKOPS, .cb_flags = SK_BPF_CB_TX_TIMESTAMPING,
	 .stamps = true},
	{"tcp.segments.every-skb", BULK_SEGMENTS, SOCKOPS, .cb_flags = SK_BPF_CB_TX_EVERY_SKB},
	/* The cost of an option of 12 bytes apart from the calls: bytes that no program writes, and
	 * that of TCP, in both directions.
	 */
	{"tcp.request.option-unwritten", REQUEST, SOCKOPS, .option_len = 12, .write_none = true},
	{"tcp.request.without-timestamps", REQUEST, NOTHING, .no_timestamps = true},
	{"tcp.bulk.option-unwritten", BULK_SENDS, SOCKOPS, .option_len = 12, .write_none = true},
	{"tcp.bulk.without-timestamps", BULK_SENDS, NOTHING, .no_timestamps = true},
};

static char buf[BULK];
/* The kernel sends its pages. */
static char lent[BULK] __attribute__((aligned(4096)));
/* Completions or stamps that came back. */
static unsigned long long completed;

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

static bool is_udp(enum traffic traffic)
{
	return traffic == UDP_SENDS || traffic == UDP_FRAGMENTS || traffic == UDP_SENDMSG ||
	       traffic == ZC_UDP || traffic == STAMPS_UDP;
}

static bool is_zerocopy(enum traffic traffic)
{
	return traffic == ZC_TCP || traffic == ZC_UDP;
}

static bool is_stamped(enum traffic traffic)
{
	return traffic == STAMPS_TCP || traffic == STAMPS_UDP;
}

static void connect_ends(const struct row *row, int ends[2])
{
	int type = is_udp(row->traffic) ? SOCK_DGRAM : SOCK_STREAM, one = 1;
	int family = row->v6 ? AF_INET6 : AF_INET;
	struct sockaddr_in6 address6 = {.sin6_family = AF_INET6};
	struct sockaddr_in address4 = {.sin_family = AF_INET};
	struct sockaddr *address = row->v6 ? (void *)&address6 : (void *)&address4;
	socklen_t len = row->v6 ? sizeof(address6) : sizeof(address4);
	int stamps = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE |
		     SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY;
	int listener = socket(family, type, 0);

	address4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address6.sin6_addr = in6addr_loopback;
	if (bind(listener, address, len) || getsockname(listener, address, &len))
		fail("bind");
	if (type == SOCK_STREAM && listen(listener, 1))
		fail("listen");
	ends[0] = socket(family, type, 0);
	if (connect(ends[0], address, len))
		fail("connect");
	if (is_zerocopy(row->traffic) &&
	    setsockopt(ends[0], SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)))
		fail("SO_ZEROCOPY");
	if (is_stamped(row->traffic) &&
	    setsockopt(ends[0], SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof(stamps)))
		fail("SO_TIMESTAMPING");
	if (type == SOCK_DGRAM) {
		ends[1] = listener;
		return;
	}
	ends[1] = accept(listener, NULL, NULL);
	close(listener);
	setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(ends[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static size_t size(enum traffic traffic)
{
	switch (traffic) {
	case BULK_SENDS:
	case BULK_SEGMENTS:
		return BULK;
	case UDP_FRAGMENTS:
		return LARGE;
	default:
		return 64;
	}
}

/* Set the MTU of loopback, and return the former one. */
static int set_mtu(int mtu)
{
	struct ifreq request = {.ifr_name = "lo"};
	int any = socket(AF_INET, SOCK_DGRAM, 0), before;

	if (ioctl(any, SIOCGIFMTU, &request))
		fail("SIOCGIFMTU");
	before = request.ifr_mtu;
	request.ifr_mtu = mtu;
	if (ioctl(any, SIOCSIFMTU, &request))
		fail("SIOCSIFMTU");
	close(any);
	return before;
}

/* Without TSO, GSO makes the segments before the device gets them. */
static void set_tso(__u32 on)
{
	struct ethtool_value value = {.cmd = ETHTOOL_STSO, .data = on};
	struct ifreq request = {.ifr_name = "lo", .ifr_data = (void *)&value};
	int any = socket(AF_INET, SOCK_DGRAM, 0);

	if (ioctl(any, SIOCETHTOOL, &request))
		fail("ETHTOOL_STSO");
	close(any);
}

static void set_timestamps(const char *value)
{
	int file = open(TIMESTAMPS, O_WRONLY);

	if (file < 0 || write(file, value, 1) != 1)
		fail(TIMESTAMPS);
	close(file);
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

static const struct {
	int type;
	size_t len;
} controls[] = {
	[PRIORITY] = {SO_PRIORITY, sizeof(int)},
	[NOTIFICATION] = {SCM_ZC_NOTIFICATION, sizeof(struct zc_note)},
	[STAMPS] = {SCM_TX_TIMESTAMPS, sizeof(struct tx_stamps)},
};

static void count_returned(enum control control, const void *data)
{
	const struct tx_stamps *stamps = data;
	const struct zc_note *note = data;

	if (control == STAMPS)
		completed += stamps->count;
	for (unsigned int i = 0; control == NOTIFICATION && i < note->count; i++)
		completed += note->ranges[i].last - note->ranges[i].first + 1;
}

static ssize_t send_with(int to, void *data, size_t len, int flags, enum control type)
{
	static char control[CMSG_SPACE(sizeof(struct tx_stamps))];
	struct iovec iov = {.iov_base = data, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *header = (void *)control;
	ssize_t sent;

	if (type != NO_CONTROL) {
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = controls[type].type;
		header->cmsg_len = CMSG_LEN(controls[type].len);
		*(__u32 *)CMSG_DATA(header) = 0;
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(controls[type].len);
	}
	sent = sendmsg(to, &msg, flags);
	if (sent > 0)
		count_returned(type, CMSG_DATA(header));
	return sent;
}

/* Until the error queue is empty, as msg_zerocopy of the kernel's selftests does. */
static void read_queue(int from)
{
	for (;;) {
		char control[200];
		struct msghdr msg = {.msg_control = control, .msg_controllen = sizeof(control)};
		struct sock_extended_err *err = NULL;

		if (recvmsg(from, &msg, MSG_ERRQUEUE))
			return;
		for (struct cmsghdr *one = CMSG_FIRSTHDR(&msg); one; one = CMSG_NXTHDR(&msg, one)) {
			if (one->cmsg_level != SOL_SOCKET)
				err = (void *)CMSG_DATA(one);
		}
		completed += err->ee_origin == SO_EE_ORIGIN_ZEROCOPY ?
			     err->ee_data - err->ee_info + 1 : 1;
	}
}

/* Each send is looked after, or each of so many: by the next send, or in the queue. */
static void looked_after(const struct row *row, const int ends[2], int number)
{
	bool zerocopy = is_zerocopy(row->traffic);
	ssize_t len = zerocopy ? BULK : 64;

	for (int i = 1; i <= number; i++) {
		enum control control = i % row->interval == 0 ? row->control : NO_CONTROL;

		if (send_with(ends[0], lent, len, zerocopy ? MSG_ZEROCOPY : 0, control) != len)
			fail("sendmsg");
		if (recv(ends[1], buf, len, MSG_WAITALL) != len)
			fail("recv");
		if (i % row->interval == 0 && row->control == NO_CONTROL)
			read_queue(ends[0]);
	}
}

static void messages(const struct row *row, const int ends[2], int number)
{
	enum traffic traffic = row->traffic;

	if (is_zerocopy(traffic) || is_stamped(traffic)) {
		looked_after(row, ends, number);
		return;
	}
	if (traffic == SMALL_SENDS) {
		for (; number > 0; number -= SMALLS)
			small_sends(ends);
		return;
	}
	while (number--) {
		if (traffic == TCP_SENDMSG || traffic == UDP_SENDMSG) {
			if (send_with(ends[0], buf, 64, 0, row->control) != 64)
				fail("sendmsg");
			if (recv(ends[1], buf, 64, MSG_WAITALL) != 64)
				fail("recv");
			continue;
		}
		transfer(ends[0], ends[1], size(traffic));
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
	bpf_program__set_autoload(skel->progs.on_segment, row->hook == RX_TRACEPOINTS);
	bpf_program__set_autoload(skel->progs.on_read, row->hook == RX_TRACEPOINTS);
	skel->rodata->cb_flags = row->cb_flags;
	skel->rodata->option_len = row->option_len;
	skel->rodata->reserve_none = row->reserve_none;
	skel->rodata->write_none = row->write_none;
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
		skel->links.on_segment = bpf_program__attach(skel->progs.on_segment);
		skel->links.on_read = bpf_program__attach(skel->progs.on_read);
		return skel->links.on_data_ready && skel->links.on_segment && skel->links.on_read;
	default:
		return true;
	}
}

/* Where the kernel lacks what the row is about, it says so. */
static void count_row(const struct row *row, int cgroup)
{
	/* A quarter of it is whole skbs of small sends as well. */
	bool is_bulk = size(row->traffic) != 64 || is_zerocopy(row->traffic);
	int number = is_bulk ? 432 : 4320, ends[2];
	unsigned long long runs = 0;
	struct count *skel = NULL;
	long long began, took;

	if (row->hook != NOTHING) {
		skel = load(row);
		if (!skel || !attach(skel, row->hook, cgroup))
			goto lacking;
	}
	connect_ends(row, ends);
	if (row->interval && row->control != NO_CONTROL) {
		if (send_with(ends[0], buf, 1, MSG_DONTWAIT, row->control) != 1)
			goto close;
		if (recv(ends[1], buf, 1, 0) != 1)
			fail("recv");
	}
	if (row->hook == SELECT_UDP && !select_udp(skel))
		goto close;
	messages(row, ends, number / 4);
	if (skel)
		runs = skel->bss->runs;
	completed = 0;
	began = now();
	messages(row, ends, number);
	took = now() - began;
	if (skel)
		runs = skel->bss->runs - runs;
	if (skel && skel->bss->refused)
		goto close;
	/* Stamps of the last sends may come later. */
	if (row->interval && completed < (unsigned long long)number - 64)
		fail("completions or stamps");
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

/* Loopback and TCP are as the row has them, and then as before. */
static void set_up_and_count(const struct row *row, int cgroup)
{
	bool is_split = row->traffic == UDP_FRAGMENTS || row->traffic == BULK_SEGMENTS;
	int mtu = is_split ? set_mtu(MTU) : 0;

	if (row->traffic == BULK_SEGMENTS)
		set_tso(0);
	if (row->no_timestamps)
		set_timestamps("0");
	count_row(row, cgroup);
	if (row->no_timestamps)
		set_timestamps("1");
	if (row->traffic == BULK_SEGMENTS)
		set_tso(1);
	if (is_split)
		set_mtu(mtu);
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
			set_up_and_count(&rows[i], cgroup);
	}
	return 0;
}
