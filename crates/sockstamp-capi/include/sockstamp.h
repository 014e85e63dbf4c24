/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * libsockstamp: timestamps and zerocopy of Linux sockets.
 *
 * The man pages of section 3 are made of the comments below, a page for each "DOC:" and what
 * follows it. sockstamp(3) comes first. Bits and numbers that the kernel's headers name too have
 * the same value here.
 */
#ifndef SOCKSTAMP_H
#define SOCKSTAMP_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * DOC: sockstamp - timestamps and zerocopy of sockets
 *
 * libsockstamp tells when the kernel and the network interface sent, received and acknowledged the
 * messages of a socket, and sends and receives without copying. It works on any socket that the
 * program has, by its file descriptor, and needs no privilege.
 *
 * sockstamp_options(3) asks for stamps, sockstamp_message(3) sends and receives messages with them,
 * sockstamp_queue(3) reads the stamps of sent messages, sockstamp_matcher(3) says which message a
 * stamp is of, and sockstamp_clock(3) relates the clocks. sockstamp_interface(3) tells what a
 * network interface can stamp. sockstamp_sender(3) and sockstamp_receiver(3) are for zerocopy.
 * sockstamp_completions(3) reads from memory what the queue has, without a system call, where the
 * service of that name runs.
 *
 * Errors: a function that can fail returns an int, 0 or more on success and a negative errno(3)
 * otherwise; errno itself says nothing. Beside what each page names, -EFAULT is a pointer that is
 * NULL and may not be, -EBADF a file descriptor that is negative, -EINVAL an argument without
 * meaning, and -ENOTRECOVERABLE a fault of the library, which it tells on stderr: the handles of
 * that call can only be freed. No function unwinds into C. Where no memory is left for a handle,
 * the program is aborted.
 *
 * Handles are made by _create, which sets the pointer to NULL if it fails, and freed by _free,
 * which takes NULL. A handle serves one thread at a time; different handles know nothing of each
 * other. Nothing else allocates memory.
 *
 * Structures are filled by the library as a whole, reserved fields with 0. In those that the
 * program fills, reserved fields are 0.
 */

/**
 * sockstamp_version() - the version of the library
 *
 * Return: a string as "0.1.0", which is never freed.
 */
const char *sockstamp_version(void);

/**
 * DOC: sockstamp_clock - times, and the clocks that they are on
 *
 * What the kernel stamps is on CLOCK_REALTIME, what a network interface stamps on a clock of its
 * own (PHC). A time names its clock, and times of two clocks are neither compared nor subtracted:
 * an offset has to convert one first. An offset holds until CLOCK_REALTIME is stepped. Measure it
 * anew from time to time, or when a timerfd with TFD_TIMER_CANCEL_ON_SET tells of a step.
 */

/**
 * enum sockstamp_clock - which clock a time is on
 * @SOCKSTAMP_CLOCK_NONE: None: there is no such time.
 * @SOCKSTAMP_CLOCK_REALTIME: CLOCK_REALTIME.
 * @SOCKSTAMP_CLOCK_MONOTONIC: CLOCK_MONOTONIC.
 * @SOCKSTAMP_CLOCK_TAI: CLOCK_TAI.
 * @SOCKSTAMP_CLOCK_PHC: The clock of a network interface, whatever its owner sets it to.
 */
enum sockstamp_clock {
	SOCKSTAMP_CLOCK_NONE = 0,
	SOCKSTAMP_CLOCK_REALTIME = 1,
	SOCKSTAMP_CLOCK_MONOTONIC = 2,
	SOCKSTAMP_CLOCK_TAI = 3,
	SOCKSTAMP_CLOCK_PHC = 4,
};

/**
 * struct sockstamp_time - a time
 * @ns: Nanoseconds since the origin of the clock; 0 with SOCKSTAMP_CLOCK_NONE.
 * @clock: The clock.
 */
struct sockstamp_time {
	uint64_t ns;
	enum sockstamp_clock clock;
	uint32_t reserved;
};

/**
 * struct sockstamp_offset - how far one clock is ahead of another
 * @ns: What to add to a time on the clock @from for that on the clock @to.
 * @uncertainty_ns: The true offset was within plus or minus this.
 * @from: A clock.
 * @to: Another.
 */
struct sockstamp_offset {
	int64_t ns;
	uint64_t uncertainty_ns;
	enum sockstamp_clock from;
	enum sockstamp_clock to;
};

/**
 * sockstamp_offset_measure() - measures how far a clock is ahead of another
 * @from: SOCKSTAMP_CLOCK_REALTIME, SOCKSTAMP_CLOCK_MONOTONIC or SOCKSTAMP_CLOCK_TAI.
 * @to: One of these, too.
 * @offset: Where to put the offset.
 *
 * Takes some microseconds. That of a network interface's clock is for ptp4l(8) and phc2sys(8) to
 * know; fill a struct sockstamp_offset by hand.
 *
 * Return: 0. -EINVAL for another clock.
 */
int sockstamp_offset_measure(enum sockstamp_clock from, enum sockstamp_clock to,
			     struct sockstamp_offset *offset);

/**
 * sockstamp_time_convert() - takes a time to another clock
 * @time: The time, which is replaced.
 * @offset: The offset from its clock. Saturates at the ends of the clock.
 *
 * Return: 0. -EINVAL if the time is not on the clock that the offset is from: it is left as it was.
 */
int sockstamp_time_convert(struct sockstamp_time *time, const struct sockstamp_offset *offset);

/**
 * sockstamp_time_since() - subtracts two times of one clock
 * @later: A time.
 * @earlier: Another.
 * @ns: Where to put the nanoseconds between them, negative if @later is the earlier one.
 *
 * Return: 0. -EINVAL if they are on two clocks, or one is on none: @ns is left as it was.
 */
int sockstamp_time_since(const struct sockstamp_time *later, const struct sockstamp_time *earlier,
			 int64_t *ns);

/**
 * DOC: sockstamp_interface - what a network interface can stamp
 *
 * Capable does not mean enabled: hardware stamps come only once SIOCSHWTSTAMP has switched them on.
 */

/**
 * struct sockstamp_interface - what an interface can stamp
 * @stamps: SOCKSTAMP_TX_SOFTWARE, SOCKSTAMP_TX_HARDWARE, SOCKSTAMP_RX_SOFTWARE and
 * SOCKSTAMP_RX_HARDWARE, as far as it takes these stamps and gives them out.
 * @phc_index: n for /dev/ptpn, or -1 without a clock.
 */
struct sockstamp_interface {
	uint32_t stamps;
	int32_t phc_index;
};

/**
 * sockstamp_interface_query() - asks the driver of an interface
 * @name: Its name, in this network namespace.
 * @interface: Where to put the answer. A driver that does not know the question can stamp nothing.
 *
 * Return: 0. -EINVAL if no interface can have that name, -ENODEV if none has it.
 */
int sockstamp_interface_query(const char *name, struct sockstamp_interface *interface);

/**
 * DOC: sockstamp_options - which stamps a socket takes
 *
 * The bits are those of SO_TIMESTAMPING, by their names without SOF_TIMESTAMPING. A bit that takes
 * stamps brings the one that gives them out.
 *
 * What surprises: a stamp of TCP belongs to a byte, the last of its send call, and an ACK stamp
 * means that everything up to that byte has arrived. Of sends that share a packet the last one's
 * stamp is all that comes. Ids of TCP count bytes: from the next one written with
 * SOCKSTAMP_OPT_ID_TCP, from the oldest that is not acknowledged with SOCKSTAMP_OPT_ID alone. Ids
 * of datagrams count the sends that asked for a stamp. SCHED and SND come again on each device that
 * a packet crosses. The kernel begins to stamp received packets some milliseconds after the first
 * socket of the host has asked for it.
 */

/**
 * enum sockstamp_flag - what to stamp, and how
 * @SOCKSTAMP_TX_HARDWARE: When the network interface sends. The kernel's stamp does not come then,
 * unless SOCKSTAMP_OPT_TX_SWHW asks for it.
 * @SOCKSTAMP_TX_SOFTWARE: When the driver gives a message to the hardware.
 * @SOCKSTAMP_RX_HARDWARE: When the network interface receives.
 * @SOCKSTAMP_RX_SOFTWARE: When the kernel receives.
 * @SOCKSTAMP_SOFTWARE: Give out what the kernel took; by itself for sockets whose messages ask one
 * by one.
 * @SOCKSTAMP_RAW_HARDWARE: Give out what the network interface took.
 * @SOCKSTAMP_OPT_ID: Stamps have the id of their message. TCP has to be connected.
 * @SOCKSTAMP_TX_SCHED: When a message is about to enter the packet scheduler.
 * @SOCKSTAMP_TX_ACK: When the peer has acknowledged the last byte of a message; TCP.
 * @SOCKSTAMP_OPT_CMSG: Stamps have the interface, with IP_PKTINFO and without SOCKSTAMP_OPT_TSONLY.
 * @SOCKSTAMP_OPT_TSONLY: Stamps come without a copy of their packets, which nobody reads here and
 * which takes memory.
 * @SOCKSTAMP_OPT_STATS: Stamps of TCP have the state of the connection. Brings
 * SOCKSTAMP_OPT_TSONLY.
 * @SOCKSTAMP_OPT_PKTINFO: Received hardware stamps have the interface and the packet's length.
 * @SOCKSTAMP_OPT_TX_SWHW: Both the kernel's and the interface's stamp of a sent message.
 * @SOCKSTAMP_BIND_PHC: Hardware stamps are on a virtual clock of the interface that the socket is
 * bound to. Since Linux 5.14.
 * @SOCKSTAMP_OPT_ID_TCP: Ids of TCP count from the next byte written. Brings SOCKSTAMP_OPT_ID.
 * Since Linux 6.2.
 * @SOCKSTAMP_OPT_RX_FILTER: Received messages have only the stamps that this socket takes. Since
 * Linux 6.12.
 * @SOCKSTAMP_TX_COMPLETION: When the hardware says that it has sent; Bluetooth. Since Linux 6.15.
 * @SOCKSTAMP_OWN_ID: What sockstamp_options_probe() says where messages can have ids of their own.
 * Since Linux 6.13.
 * @SOCKSTAMP_WIDE: Times of 64 bits on every machine (SO_TIMESTAMPING_NEW).
 */
enum sockstamp_flag {
	SOCKSTAMP_TX_HARDWARE = 1 << 0,
	SOCKSTAMP_TX_SOFTWARE = 1 << 1,
	SOCKSTAMP_RX_HARDWARE = 1 << 2,
	SOCKSTAMP_RX_SOFTWARE = 1 << 3,
	SOCKSTAMP_SOFTWARE = 1 << 4,
	SOCKSTAMP_RAW_HARDWARE = 1 << 6,
	SOCKSTAMP_OPT_ID = 1 << 7,
	SOCKSTAMP_TX_SCHED = 1 << 8,
	SOCKSTAMP_TX_ACK = 1 << 9,
	SOCKSTAMP_OPT_CMSG = 1 << 10,
	SOCKSTAMP_OPT_TSONLY = 1 << 11,
	SOCKSTAMP_OPT_STATS = 1 << 12,
	SOCKSTAMP_OPT_PKTINFO = 1 << 13,
	SOCKSTAMP_OPT_TX_SWHW = 1 << 14,
	SOCKSTAMP_BIND_PHC = 1 << 15,
	SOCKSTAMP_OPT_ID_TCP = 1 << 16,
	SOCKSTAMP_OPT_RX_FILTER = 1 << 17,
	SOCKSTAMP_TX_COMPLETION = 1 << 18,
	SOCKSTAMP_OWN_ID = 1 << 29,
	SOCKSTAMP_WIDE = 1 << 30,
};

/**
 * sockstamp_options_probe() - asks what this kernel accepts
 * @flags: Where to put the bits of enum sockstamp_flag.
 *
 * Sends and stamps nothing. What the interfaces can do, sockstamp_interface_query() tells.
 *
 * Return: 0, or why the process may have no UDP socket.
 */
int sockstamp_options_probe(uint32_t *flags);

/**
 * sockstamp_options_set() - sets the options of a socket
 * @fd: The socket. What it had before is gone.
 * @flags: Bits of enum sockstamp_flag, 0 for none.
 * @phc_index: With SOCKSTAMP_BIND_PHC, n for /dev/ptpn; else 0.
 *
 * Return: 0. -EINVAL for a bit that this kernel lacks (probe before), and for ids on a TCP socket
 * that is not connected.
 */
int sockstamp_options_set(int fd, uint32_t flags, uint32_t phc_index);

/**
 * sockstamp_options_get() - reads the options of a socket
 * @fd: The socket.
 * @flags: Where to put the bits of enum sockstamp_flag.
 * @phc_index: Where to put the number of the virtual clock; may be NULL.
 *
 * Return: 0. -ENOTSOCK.
 */
int sockstamp_options_get(int fd, uint32_t *flags, uint32_t *phc_index);

/**
 * DOC: sockstamp_message - sends and receives with stamps
 *
 * A program that calls sendmsg(2) and recvmsg(2) by itself needs none of this to have stamps: the
 * options of its socket are enough.
 */

/**
 * enum sockstamp_request_flag - what a request says
 * @SOCKSTAMP_REQUEST_STAMPS: The message takes the stamps in stamps, none if that is 0, in the
 * place of the socket's.
 * @SOCKSTAMP_REQUEST_ID: The message's stamps have the id in id. The socket has SOCKSTAMP_OPT_ID,
 * and is not TCP.
 * @SOCKSTAMP_REQUEST_DONTWAIT: The call does not block.
 */
enum sockstamp_request_flag {
	SOCKSTAMP_REQUEST_STAMPS = 1 << 0,
	SOCKSTAMP_REQUEST_ID = 1 << 1,
	SOCKSTAMP_REQUEST_DONTWAIT = 1 << 2,
};

/**
 * struct sockstamp_request - what one message asks for
 * @flags: Bits of enum sockstamp_request_flag.
 * @stamps: SOCKSTAMP_TX_SCHED, SOCKSTAMP_TX_SOFTWARE, SOCKSTAMP_TX_HARDWARE, SOCKSTAMP_TX_ACK,
 * SOCKSTAMP_TX_COMPLETION. The socket has to give them out: SOCKSTAMP_SOFTWARE,
 * SOCKSTAMP_RAW_HARDWARE.
 * @id: The message's own id, which the kernel does not count.
 */
struct sockstamp_request {
	uint32_t flags;
	uint32_t stamps;
	uint32_t id;
	uint32_t reserved;
};

/**
 * sockstamp_send() - sends a message
 * @fd: The socket.
 * @parts: What to send.
 * @count: How many parts.
 * @to: Where to, of AF_INET, AF_INET6 or AF_PACKET; NULL to where the socket is connected.
 * @to_length: The length of @to.
 * @request: What the message asks for; NULL for what the socket asks for.
 *
 * Never raises SIGPIPE.
 *
 * Return: how many bytes were sent. As sendmsg(2), and -EAFNOSUPPORT for another family.
 */
int sockstamp_send(int fd, const struct iovec *parts, size_t count, const struct sockaddr *to,
		   socklen_t to_length, const struct sockstamp_request *request);

/**
 * union sockstamp_address - an address of IP
 * @any: To look at sa_family, which is AF_UNSPEC for no address.
 * @v4: With AF_INET.
 * @v6: With AF_INET6.
 */
union sockstamp_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/**
 * enum sockstamp_received_flag - what happened to a received message
 * @SOCKSTAMP_RECEIVED_CUT: The datagram was longer than the buffer; its rest is lost.
 * @SOCKSTAMP_RECEIVED_STAMP_LOST: Control messages were cut: a stamp that is missing may have been
 * there.
 */
enum sockstamp_received_flag {
	SOCKSTAMP_RECEIVED_CUT = 1 << 0,
	SOCKSTAMP_RECEIVED_STAMP_LOST = 1 << 1,
};

/**
 * struct sockstamp_received - a received message
 * @software: When the kernel received it; of a stream, the packet with the last byte.
 * @hardware: When the network interface received it.
 * @interface: The index of the interface, with SOCKSTAMP_OPT_PKTINFO and a hardware stamp; else 0.
 * @packet_length: The length of the packet at layer 2, with the same.
 * @flags: Bits of enum sockstamp_received_flag.
 * @from: Who sent it; none for streams.
 */
struct sockstamp_received {
	struct sockstamp_time software;
	struct sockstamp_time hardware;
	uint32_t interface;
	uint32_t packet_length;
	uint32_t flags;
	union sockstamp_address from;
};

/**
 * sockstamp_receive() - receives a message with its stamps
 * @fd: The socket. Blocks as it does.
 * @buffer: Where to put the message.
 * @size: How much there is room for.
 * @received: Where to put what is known of it.
 *
 * Return: how many bytes were received. As recvmsg(2).
 */
int sockstamp_receive(int fd, void *buffer, size_t size, struct sockstamp_received *received);

/**
 * DOC: sockstamp_queue - what the kernel tells of sent messages
 *
 * The kernel tells a program about its sent messages by the error queue of the socket, which holds
 * three kinds of entries. These functions read many in one system call, never block, and tell them
 * apart.
 *
 * Entries wake poll(2): a socket with a filled error queue has POLLERR, which nobody can leave out
 * of a poll. They count against the receive buffer, and what does not fit is dropped in silence:
 * ids that never come are the only sign. Drain often, and ask for SOCKSTAMP_OPT_TSONLY. A socket
 * has one error queue, so one part of a program reads it for all.
 */

/**
 * enum sockstamp_kind - where on its way a message was stamped
 * @SOCKSTAMP_KIND_SND: The driver gave it to the hardware or, with a time of SOCKSTAMP_CLOCK_PHC,
 * the hardware sent it.
 * @SOCKSTAMP_KIND_SCHED: It was about to enter the packet scheduler.
 * @SOCKSTAMP_KIND_ACK: The peer had acknowledged all bytes up to its last.
 * @SOCKSTAMP_KIND_COMPLETION: The hardware said that it had sent it.
 */
enum sockstamp_kind {
	SOCKSTAMP_KIND_SND = 0,
	SOCKSTAMP_KIND_SCHED = 1,
	SOCKSTAMP_KIND_ACK = 2,
	SOCKSTAMP_KIND_COMPLETION = 3,
};

/**
 * struct sockstamp_stamp - a stamp of a sent message
 * @time: When, on SOCKSTAMP_CLOCK_REALTIME or SOCKSTAMP_CLOCK_PHC.
 * @id: Which message, with SOCKSTAMP_OPT_ID; else 0.
 * @kind: Where.
 * @interface: The index of the interface that it left by, with SOCKSTAMP_OPT_CMSG; else 0.
 */
struct sockstamp_stamp {
	struct sockstamp_time time;
	uint32_t id;
	enum sockstamp_kind kind;
	uint32_t interface;
	uint32_t reserved;
};

/**
 * struct sockstamp_range - sends with MSG_ZEROCOPY whose buffers the kernel needs no longer
 * @first: The first of them; the kernel numbers those of a socket from 0, modulo 2^32.
 * @last: The last of them, smaller than the first where the numbers have wrapped.
 * @copied: 1 if the kernel had to copy after all, else 0.
 */
struct sockstamp_range {
	uint32_t first;
	uint32_t last;
	uint32_t copied;
};

/**
 * struct sockstamp_error - an error of the network, or an entry of another origin
 * @number: As in errno(3).
 * @info: With EMSGSIZE the MTU of the path; else ee_info of struct sock_extended_err.
 * @data: ee_data of struct sock_extended_err.
 * @origin: SO_EE_ORIGIN_LOCAL, SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6, or another of
 * <linux/errqueue.h>.
 * @type: The type of the ICMP message.
 * @code: The code of the ICMP message.
 * @offender: The host that says so, if one does.
 */
struct sockstamp_error {
	uint32_t number;
	uint32_t info;
	uint32_t data;
	uint8_t origin;
	uint8_t type;
	uint8_t code;
	uint8_t reserved;
	union sockstamp_address offender;
};

/**
 * enum sockstamp_report_type - what a report is about
 * @SOCKSTAMP_REPORT_STAMP: A sent message was stamped: stamp.
 * @SOCKSTAMP_REPORT_ZEROCOPY: Zerocopy sends are complete: zerocopy.
 * @SOCKSTAMP_REPORT_NETWORK: The network, or this host in its place, refused a message: error.
 * @SOCKSTAMP_REPORT_OTHER: An entry of another origin: error.
 */
enum sockstamp_report_type {
	SOCKSTAMP_REPORT_STAMP = 1,
	SOCKSTAMP_REPORT_ZEROCOPY = 2,
	SOCKSTAMP_REPORT_NETWORK = 3,
	SOCKSTAMP_REPORT_OTHER = 4,
};

/**
 * struct sockstamp_report - one entry of an error queue
 * @type: Which of the following it is.
 * @stamp: With SOCKSTAMP_REPORT_STAMP.
 * @zerocopy: With SOCKSTAMP_REPORT_ZEROCOPY.
 * @error: With SOCKSTAMP_REPORT_NETWORK and SOCKSTAMP_REPORT_OTHER.
 */
struct sockstamp_report {
	enum sockstamp_report_type type;
	uint32_t reserved;
	union {
		struct sockstamp_stamp stamp;
		struct sockstamp_range zerocopy;
		struct sockstamp_error error;
	};
};

/**
 * enum sockstamp_statistic - what a stamp of TCP says of its connection; TCP_NLA_* of <linux/tcp.h>
 * @SOCKSTAMP_TCP_BUSY: How long it was busy sending, in us.
 * @SOCKSTAMP_TCP_RWND_LIMITED: How long the peer's receive window held it, in us.
 * @SOCKSTAMP_TCP_SNDBUF_LIMITED: How long its own send buffer held it, in us.
 * @SOCKSTAMP_TCP_DATA_SEGS_OUT: Segments with data sent, again ones included.
 * @SOCKSTAMP_TCP_TOTAL_RETRANS: Segments sent again.
 * @SOCKSTAMP_TCP_PACING_RATE: Bytes per second that the kernel lets it send; UINT64_MAX for no
 * limit.
 * @SOCKSTAMP_TCP_DELIVERY_RATE: Bytes per second that were delivered lately.
 * @SOCKSTAMP_TCP_SND_CWND: The congestion window, in segments.
 * @SOCKSTAMP_TCP_REORDERING: By how many segments the network reorders.
 * @SOCKSTAMP_TCP_MIN_RTT: The shortest round trip lately, in us.
 * @SOCKSTAMP_TCP_RECUR_RETRANS: How often in a row the retransmission timer has fired.
 * @SOCKSTAMP_TCP_DELIVERY_RATE_APP_LMT: 1 if the delivery rate is what the program sent.
 * @SOCKSTAMP_TCP_SNDQ_SIZE: Bytes in the send queue.
 * @SOCKSTAMP_TCP_CA_STATE: TCP_CA_Open (0) to TCP_CA_Loss (4).
 * @SOCKSTAMP_TCP_SND_SSTHRESH: The slow start threshold, in segments.
 * @SOCKSTAMP_TCP_DELIVERED: Segments delivered.
 * @SOCKSTAMP_TCP_DELIVERED_CE: Segments delivered with the mark of congestion.
 * @SOCKSTAMP_TCP_BYTES_SENT: Bytes sent, again ones included.
 * @SOCKSTAMP_TCP_BYTES_RETRANS: Bytes sent again.
 * @SOCKSTAMP_TCP_SRTT: The smoothed round trip, in us.
 * @SOCKSTAMP_TCP_BYTES_NOTSENT: Bytes in the send queue that were not sent yet.
 * @SOCKSTAMP_TCP_EDT: When the packet was due to leave, in ns on CLOCK_MONOTONIC.
 * @SOCKSTAMP_TCP_TTL: The TTL or hop limit of the ACK.
 */
enum sockstamp_statistic {
	SOCKSTAMP_TCP_BUSY = 1,
	SOCKSTAMP_TCP_RWND_LIMITED = 2,
	SOCKSTAMP_TCP_SNDBUF_LIMITED = 3,
	SOCKSTAMP_TCP_DATA_SEGS_OUT = 4,
	SOCKSTAMP_TCP_TOTAL_RETRANS = 5,
	SOCKSTAMP_TCP_PACING_RATE = 6,
	SOCKSTAMP_TCP_DELIVERY_RATE = 7,
	SOCKSTAMP_TCP_SND_CWND = 8,
	SOCKSTAMP_TCP_REORDERING = 9,
	SOCKSTAMP_TCP_MIN_RTT = 10,
	SOCKSTAMP_TCP_RECUR_RETRANS = 11,
	SOCKSTAMP_TCP_DELIVERY_RATE_APP_LMT = 12,
	SOCKSTAMP_TCP_SNDQ_SIZE = 13,
	SOCKSTAMP_TCP_CA_STATE = 14,
	SOCKSTAMP_TCP_SND_SSTHRESH = 15,
	SOCKSTAMP_TCP_DELIVERED = 16,
	SOCKSTAMP_TCP_DELIVERED_CE = 17,
	SOCKSTAMP_TCP_BYTES_SENT = 18,
	SOCKSTAMP_TCP_BYTES_RETRANS = 19,
	SOCKSTAMP_TCP_SRTT = 22,
	SOCKSTAMP_TCP_BYTES_NOTSENT = 24,
	SOCKSTAMP_TCP_EDT = 25,
	SOCKSTAMP_TCP_TTL = 26,
};

/**
 * struct sockstamp_statistics - the state of a TCP connection when a stamp was taken
 * @present: Bit n is set if value[n] was given; 0 for reports that are no stamps.
 * @value: By enum sockstamp_statistic.
 */
struct sockstamp_statistics {
	uint64_t present;
	uint64_t value[32];
};

/**
 * struct sockstamp_queue_counters - what a queue has seen
 * @entries: Entries taken from error queues: all below, and those that were reported.
 * @cut: Entries that are lost because their control messages were cut.
 * @malformed: Entries that are lost because they could not be understood.
 * @without_time: Stamps that came without a time: the socket does not ask to have it
 * (SOCKSTAMP_SOFTWARE).
 */
struct sockstamp_queue_counters {
	uint64_t entries;
	uint64_t cut;
	uint64_t malformed;
	uint64_t without_time;
};

struct sockstamp_queue;

/**
 * sockstamp_queue_create() - makes a reader of error queues
 * @queue: Where to put it. It has 32 KiB, and serves any number of sockets.
 *
 * Return: 0.
 */
int sockstamp_queue_create(struct sockstamp_queue **queue);

/**
 * sockstamp_queue_drain() - takes entries out of the error queue of a socket
 * @queue: The reader.
 * @fd: The socket.
 * @reports: Where to put them.
 * @statistics: As many, for the state of the connection at each stamp; or NULL. See
 * SOCKSTAMP_OPT_STATS.
 * @capacity: How many there is room for.
 *
 * Never blocks. A system call takes 32 entries; there are as many as it takes.
 *
 * Return: how many reports were put there. Fewer than @capacity: the error queue is empty.
 */
int sockstamp_queue_drain(struct sockstamp_queue *queue, int fd, struct sockstamp_report *reports,
			  struct sockstamp_statistics *statistics, size_t capacity);

/**
 * sockstamp_queue_counters() - tells what a reader has seen
 * @queue: The reader.
 * @counters: Where to put the counts, of all sockets since it was made.
 *
 * Return: 0.
 */
int sockstamp_queue_counters(const struct sockstamp_queue *queue,
			     struct sockstamp_queue_counters *counters);

/**
 * sockstamp_queue_free() - frees a reader
 * @queue: The reader, or NULL. What is in the sockets' error queues stays there.
 */
void sockstamp_queue_free(struct sockstamp_queue *queue);

/**
 * sockstamp_report_parse() - reads the control messages of one entry
 * @control: The control messages, from a recvmsg(2) with MSG_ERRQUEUE of the program's own, or from
 * io_uring(7). It has looked for MSG_CTRUNC before.
 * @length: Their length.
 * @report: Where to put what they say.
 * @statistics: Where to put the state of the connection; or NULL.
 *
 * Return: 0. -EBADMSG if they are not those of an entry, -ENODATA for a stamp without a time.
 */
int sockstamp_report_parse(const void *control, size_t length, struct sockstamp_report *report,
			   struct sockstamp_statistics *statistics);

#ifdef __cplusplus
}
#endif

#endif /* SOCKSTAMP_H */
