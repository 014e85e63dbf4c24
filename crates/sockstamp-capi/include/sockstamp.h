/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * libsockstamp: timestamps and zerocopy of Linux sockets.
 *
 * The man pages of section 3 are generated from the comments below: a page for each "DOC:" and the
 * declarations after it. sockstamp(3) comes first. Bits and numbers that the kernel's headers name
 * too have the same value here.
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
 * libsockstamp reports when the kernel and the network interface sent, received and acknowledged
 * the messages of a socket, and sends and receives without copying. It works on any socket that the
 * program has, by its file descriptor, and needs no privilege.
 *
 * sockstamp_options(3) requests stamps, sockstamp_message(3) sends and receives messages with them,
 * sockstamp_queue(3) reads the stamps of sent messages, sockstamp_matcher(3) finds the message of a
 * stamp, and sockstamp_clock(3) relates the clocks. sockstamp_interface(3) reports what a network
 * interface can stamp. sockstamp_sender(3) and sockstamp_receiver(3) are for zerocopy. While
 * sockstamp-notifications(1) runs, sockstamp_completions(3) reads from memory what the queue has,
 * without a system call.
 *
 * Errors: a function that can fail returns an int, 0 or more on success and a negative errno(3)
 * otherwise; errno is not set. Besides the errors of each page, -EFAULT means that a pointer is
 * NULL but must not be, -EBADF that a file descriptor is negative, -EINVAL that an argument has no
 * meaning, and -ENOTRECOVERABLE a fault of the library, reported on stderr: the handles of that
 * call can only be freed. No function unwinds into C. If no memory is left for a handle, the
 * program is aborted.
 *
 * Handles are made by _create, which sets the pointer to NULL if it fails, and freed by _free,
 * which takes NULL. Only one thread at a time may use a handle; handles are independent of each
 * other. Nothing else allocates memory.
 *
 * The library fills structures as a whole, reserved fields with 0. In structures that the program
 * fills, reserved fields must be 0.
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
 * The kernel's stamps are on CLOCK_REALTIME, those of a network interface on a clock of its own
 * (PHC). A time names its clock, and times of two clocks are neither compared nor subtracted: an
 * offset must convert one first. An offset holds until CLOCK_REALTIME is stepped. Measure it again
 * from time to time, or when a timerfd with TFD_TIMER_CANCEL_ON_SET reports a step.
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
 * struct sockstamp_offset - the offset of one clock from another
 * @ns: The time on the clock @to minus that on the clock @from.
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
 * sockstamp_offset_measure() - measure the offset between two clocks
 * @from: SOCKSTAMP_CLOCK_REALTIME, SOCKSTAMP_CLOCK_MONOTONIC or SOCKSTAMP_CLOCK_TAI.
 * @to: One of the same.
 * @offset: Where to put the offset.
 *
 * Takes some microseconds. The offset of a network interface's clock is known to ptp4l(8) and
 * phc2sys(8): fill a struct sockstamp_offset by hand.
 *
 * Return: 0. -EINVAL for another clock.
 */
int sockstamp_offset_measure(enum sockstamp_clock from, enum sockstamp_clock to,
			     struct sockstamp_offset *offset);

/**
 * sockstamp_time_convert() - convert a time to another clock
 * @time: The time, which is replaced.
 * @offset: The offset from its clock. Saturates at the ends of the clock.
 *
 * Return: 0. -EINVAL if the time is not on the clock that the offset is from: it does not change.
 */
int sockstamp_time_convert(struct sockstamp_time *time, const struct sockstamp_offset *offset);

/**
 * sockstamp_time_since() - subtract two times of one clock
 * @later: A time.
 * @earlier: Another.
 * @ns: Where to put the nanoseconds between them, negative if @later is the earlier one.
 *
 * Return: 0. -EINVAL if they are on two clocks, or one is on none: @ns does not change.
 */
int sockstamp_time_since(const struct sockstamp_time *later, const struct sockstamp_time *earlier,
			 int64_t *ns);

/**
 * DOC: sockstamp_interface - the stamping features of a network interface
 *
 * Capable does not mean enabled: hardware stamps come only once SIOCSHWTSTAMP has switched them on.
 */

/**
 * struct sockstamp_interface - the stamping features of an interface
 * @stamps: SOCKSTAMP_TX_SOFTWARE, SOCKSTAMP_TX_HARDWARE, SOCKSTAMP_RX_SOFTWARE and
 * SOCKSTAMP_RX_HARDWARE, as far as it takes and delivers these stamps.
 * @phc_index: n for /dev/ptpn, or -1 without a clock.
 */
struct sockstamp_interface {
	uint32_t stamps;
	int32_t phc_index;
};

/**
 * sockstamp_interface_query() - query the driver of an interface
 * @name: Its name, in this network namespace.
 * @interface: Where to put the answer. A driver without this query can stamp nothing.
 *
 * Return: 0. -EINVAL if no interface can have that name, -ENODEV if none has it.
 */
int sockstamp_interface_query(const char *name, struct sockstamp_interface *interface);

/**
 * DOC: sockstamp_options - stamping options of a socket
 *
 * The bits are those of SO_TIMESTAMPING, by their names without SOF_TIMESTAMPING. A bit that takes
 * stamps also sets the bit that delivers them.
 *
 * Note: a stamp of TCP belongs to a byte, the last of its send call, and an ACK stamp means that
 * everything up to that byte has arrived. If several sends share a packet, only the stamp of the
 * last one comes. Ids of TCP count bytes: from the next one written with SOCKSTAMP_OPT_ID_TCP, from
 * the oldest that is not acknowledged with SOCKSTAMP_OPT_ID alone. Ids of datagrams count the sends
 * that requested a stamp. SCHED and SND come again on each device that a packet crosses. The kernel
 * begins to stamp received packets some milliseconds after the first socket of the host has
 * requested it.
 */

/**
 * enum sockstamp_flag - options of stamping
 * @SOCKSTAMP_TX_HARDWARE: When the network interface sends. The kernel's stamp does not come then,
 * unless SOCKSTAMP_OPT_TX_SWHW requests it.
 * @SOCKSTAMP_TX_SOFTWARE: When the driver gives a message to the hardware.
 * @SOCKSTAMP_RX_HARDWARE: When the network interface receives.
 * @SOCKSTAMP_RX_SOFTWARE: When the kernel receives.
 * @SOCKSTAMP_SOFTWARE: Report the kernel's stamps; by itself for sockets whose messages request
 * stamps one by one.
 * @SOCKSTAMP_RAW_HARDWARE: Report the network interface's stamps.
 * @SOCKSTAMP_OPT_ID: Stamps have the id of their message. TCP must be connected.
 * @SOCKSTAMP_TX_SCHED: When a message is about to enter the packet scheduler.
 * @SOCKSTAMP_TX_ACK: When the peer has acknowledged the last byte of a message; TCP.
 * @SOCKSTAMP_OPT_CMSG: Stamps have the interface, with IP_PKTINFO and without SOCKSTAMP_OPT_TSONLY.
 * @SOCKSTAMP_OPT_TSONLY: Stamps come without a copy of their packets, which this library does not
 * read and which takes memory.
 * @SOCKSTAMP_OPT_STATS: Stamps of TCP have the state of the connection. Also sets
 * SOCKSTAMP_OPT_TSONLY.
 * @SOCKSTAMP_OPT_PKTINFO: Received hardware stamps have the interface and the packet's length.
 * @SOCKSTAMP_OPT_TX_SWHW: Both the kernel's and the interface's stamp of a sent message.
 * @SOCKSTAMP_BIND_PHC: Hardware stamps are on a virtual clock of the interface that the socket is
 * bound to. Since Linux 5.14.
 * @SOCKSTAMP_OPT_ID_TCP: Ids of TCP count from the next byte written. Also sets SOCKSTAMP_OPT_ID.
 * Since Linux 6.2.
 * @SOCKSTAMP_OPT_RX_FILTER: Received messages have only the stamps that this socket takes. Since
 * Linux 6.12.
 * @SOCKSTAMP_TX_COMPLETION: When the hardware reports that it has sent; Bluetooth. Since Linux
 * 6.15.
 * @SOCKSTAMP_OWN_ID: Set by sockstamp_options_probe() if messages can have ids of their own. Since
 * Linux 6.13.
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
 * sockstamp_options_probe() - test what this kernel accepts
 * @flags: Where to put the bits of enum sockstamp_flag.
 *
 * Sends and stamps nothing. For interfaces see sockstamp_interface_query().
 *
 * Return: 0, or the reason why the process can create no UDP socket.
 */
int sockstamp_options_probe(uint32_t *flags);

/**
 * sockstamp_options_set() - set the options of a socket
 * @fd: The socket. Its former options are replaced.
 * @flags: Bits of enum sockstamp_flag, 0 for none.
 * @phc_index: With SOCKSTAMP_BIND_PHC, n for /dev/ptpn; otherwise 0.
 *
 * Return: 0. -EINVAL for a bit that this kernel lacks (probe before), and for ids on a TCP socket
 * that is not connected.
 */
int sockstamp_options_set(int fd, uint32_t flags, uint32_t phc_index);

/**
 * sockstamp_options_get() - read the options of a socket
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
 * A program that calls sendmsg(2) and recvmsg(2) itself does not need these functions to get
 * stamps: the options of its socket suffice.
 */

/**
 * enum sockstamp_request_flag - parts of a request
 * @SOCKSTAMP_REQUEST_STAMPS: The message takes the stamps in the field stamps, none if that is 0,
 * instead of the socket's.
 * @SOCKSTAMP_REQUEST_ID: The message's stamps have the id in the field id. The socket has
 * SOCKSTAMP_OPT_ID, and is not TCP.
 * @SOCKSTAMP_REQUEST_DONTWAIT: The call does not block.
 */
enum sockstamp_request_flag {
	SOCKSTAMP_REQUEST_STAMPS = 1 << 0,
	SOCKSTAMP_REQUEST_ID = 1 << 1,
	SOCKSTAMP_REQUEST_DONTWAIT = 1 << 2,
};

/**
 * struct sockstamp_request - the stamps requested for one message
 * @flags: Bits of enum sockstamp_request_flag.
 * @stamps: SOCKSTAMP_TX_SCHED, SOCKSTAMP_TX_SOFTWARE, SOCKSTAMP_TX_HARDWARE, SOCKSTAMP_TX_ACK,
 * SOCKSTAMP_TX_COMPLETION. The socket must deliver them: SOCKSTAMP_SOFTWARE,
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
 * sockstamp_send() - send a message
 * @fd: The socket.
 * @parts: The data.
 * @count: The number of parts.
 * @to: Where to, of AF_INET, AF_INET6 or AF_PACKET; NULL to where the socket is connected.
 * @to_length: The length of @to.
 * @request: The message's request; NULL for the socket's options.
 *
 * Never raises SIGPIPE.
 *
 * Return: the number of bytes sent. As sendmsg(2), and -EAFNOSUPPORT for another family.
 */
int sockstamp_send(int fd, const struct iovec *parts, size_t count, const struct sockaddr *to,
		   socklen_t to_length, const struct sockstamp_request *request);

/**
 * union sockstamp_address - an address of IP
 * @any: For sa_family, which is AF_UNSPEC if there is no address.
 * @v4: With AF_INET.
 * @v6: With AF_INET6.
 */
union sockstamp_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/**
 * enum sockstamp_received_flag - properties of a received message
 * @SOCKSTAMP_RECEIVED_CUT: The datagram was longer than the buffer; its rest is lost.
 * @SOCKSTAMP_RECEIVED_STAMP_LOST: Control messages were cut, or are none: a missing stamp may have
 * been among them.
 */
enum sockstamp_received_flag {
	SOCKSTAMP_RECEIVED_CUT = 1 << 0,
	SOCKSTAMP_RECEIVED_STAMP_LOST = 1 << 1,
};

/**
 * struct sockstamp_received - a received message
 * @software: When the kernel received it; for a stream, the packet with the last byte.
 * @hardware: When the network interface received it.
 * @interface: The index of the interface, with SOCKSTAMP_OPT_PKTINFO and a hardware stamp; else 0.
 * @packet_length: The length of the packet at layer 2, with the same.
 * @flags: Bits of enum sockstamp_received_flag.
 * @hop_limit: The TTL or hop limit that it came with, if the socket has IP_RECVTTL or
 * IPV6_RECVHOPLIMIT; else -1.
 * @from: The sender; none for streams.
 */
struct sockstamp_received {
	struct sockstamp_time software;
	struct sockstamp_time hardware;
	uint32_t interface;
	uint32_t packet_length;
	uint32_t flags;
	int32_t hop_limit;
	union sockstamp_address from;
};

/**
 * sockstamp_receive() - receive a message with its stamps
 * @fd: The socket. Blocks as the socket does.
 * @buffer: Where to put the message.
 * @size: Its size.
 * @received: Where to put its description.
 *
 * Return: the number of bytes received. As recvmsg(2).
 */
int sockstamp_receive(int fd, void *buffer, size_t size, struct sockstamp_received *received);

/**
 * sockstamp_received_parse() - parse the control messages of a received message
 * @control: The control messages, from the program's own recvmsg(2), which reports MSG_TRUNC,
 * MSG_CTRUNC and the sender.
 * @length: Their length.
 * @received: Where to put the result; from is none.
 *
 * Return: 0. Bytes that are no control message, or too few for its type, set
 * SOCKSTAMP_RECEIVED_STAMP_LOST; control messages of other types are passed over.
 */
int sockstamp_received_parse(const void *control, size_t length,
			     struct sockstamp_received *received);

/**
 * DOC: sockstamp_queue - the kernel's reports on sent messages
 *
 * The kernel reports on sent messages by the error queue of the socket, which holds three kinds of
 * entries. These functions read many entries in one system call, never block, and distinguish the
 * kinds.
 *
 * Entries wake poll(2): a socket with a filled error queue has POLLERR, which no poll can exclude.
 * They count against the receive buffer, and entries that do not fit are dropped silently: ids that
 * never come are the only sign. Drain often, and set SOCKSTAMP_OPT_TSONLY. A socket has one error
 * queue, so one part of a program reads it for all.
 */

/**
 * enum sockstamp_kind - where on its path a message was stamped
 * @SOCKSTAMP_KIND_SND: The driver gave it to the hardware or, with a time of SOCKSTAMP_CLOCK_PHC,
 * the hardware sent it.
 * @SOCKSTAMP_KIND_SCHED: It was about to enter the packet scheduler.
 * @SOCKSTAMP_KIND_ACK: The peer had acknowledged all bytes up to its last.
 * @SOCKSTAMP_KIND_COMPLETION: The hardware reported that it had sent it.
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
 * struct sockstamp_range - sends with MSG_ZEROCOPY whose buffers the kernel no longer needs
 * @first: The first of them; the kernel numbers those of a socket from 0, modulo 2^32.
 * @last: The last of them, smaller than the first if the numbers have wrapped.
 * @copied: 1 if the kernel had to copy after all, otherwise 0.
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
 * @offender: The host that reports the error, if there is one.
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
 * enum sockstamp_report_type - kinds of reports
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
 * @type: Which of the following members is valid.
 * @stamp: With SOCKSTAMP_REPORT_STAMP.
 * @zerocopy: With SOCKSTAMP_REPORT_ZEROCOPY.
 * @error: With SOCKSTAMP_REPORT_NETWORK and SOCKSTAMP_REPORT_OTHER.
 */
struct sockstamp_report {
	enum sockstamp_report_type type;
	uint32_t reserved;
	__extension__ union {
		struct sockstamp_stamp stamp;
		struct sockstamp_range zerocopy;
		struct sockstamp_error error;
	};
};

/**
 * enum sockstamp_statistic - the state of a connection in a stamp; TCP_NLA_* of <linux/tcp.h>
 * @SOCKSTAMP_TCP_BUSY: Time that it was busy sending, in us.
 * @SOCKSTAMP_TCP_RWND_LIMITED: Time that the peer's receive window limited it, in us.
 * @SOCKSTAMP_TCP_SNDBUF_LIMITED: Time that its own send buffer limited it, in us.
 * @SOCKSTAMP_TCP_DATA_SEGS_OUT: Segments with data sent, including retransmitted ones.
 * @SOCKSTAMP_TCP_TOTAL_RETRANS: Segments retransmitted.
 * @SOCKSTAMP_TCP_PACING_RATE: Bytes per second that the kernel allows it to send; UINT64_MAX for no
 * limit.
 * @SOCKSTAMP_TCP_DELIVERY_RATE: Bytes per second that were delivered lately.
 * @SOCKSTAMP_TCP_SND_CWND: The congestion window, in segments.
 * @SOCKSTAMP_TCP_REORDERING: Segments by which the network reorders.
 * @SOCKSTAMP_TCP_MIN_RTT: The shortest round trip lately, in us.
 * @SOCKSTAMP_TCP_RECUR_RETRANS: Consecutive retransmission timeouts.
 * @SOCKSTAMP_TCP_DELIVERY_RATE_APP_LMT: 1 if the program limits the delivery rate.
 * @SOCKSTAMP_TCP_SNDQ_SIZE: Bytes in the send queue.
 * @SOCKSTAMP_TCP_CA_STATE: TCP_CA_Open (0) to TCP_CA_Loss (4).
 * @SOCKSTAMP_TCP_SND_SSTHRESH: The slow start threshold, in segments.
 * @SOCKSTAMP_TCP_DELIVERED: Segments delivered.
 * @SOCKSTAMP_TCP_DELIVERED_CE: Segments delivered with the mark of congestion.
 * @SOCKSTAMP_TCP_BYTES_SENT: Bytes sent, including retransmitted ones.
 * @SOCKSTAMP_TCP_BYTES_RETRANS: Bytes retransmitted.
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
 * @present: Bit n is set if value[n] was reported; 0 for reports that are no stamps.
 * @value: By enum sockstamp_statistic.
 */
struct sockstamp_statistics {
	uint64_t present;
	uint64_t value[32];
};

/**
 * struct sockstamp_queue_counters - counters of a reader
 * @entries: Entries taken from error queues: the reported ones, and all below.
 * @cut: Entries that are lost because their control messages were cut.
 * @malformed: Entries that are lost because they could not be understood.
 * @without_time: Stamps that came without a time: the socket did not request its delivery
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
 * sockstamp_queue_create() - make a reader of error queues
 * @queue: Where to put it. It has 32 KiB, and serves any number of sockets.
 *
 * Return: 0.
 */
int sockstamp_queue_create(struct sockstamp_queue **queue);

/**
 * sockstamp_queue_drain() - take entries out of the error queue of a socket
 * @queue: The reader.
 * @fd: The socket.
 * @reports: Where to put the reports.
 * @statistics: As many, for the state of the connection at each stamp; or NULL. See
 * SOCKSTAMP_OPT_STATS.
 * @capacity: The number of elements there.
 *
 * Never blocks. Makes as many system calls as needed, each for up to 32 entries.
 *
 * Return: the number of reports put there. Fewer than @capacity: the error queue is empty.
 */
int sockstamp_queue_drain(struct sockstamp_queue *queue, int fd, struct sockstamp_report *reports,
			  struct sockstamp_statistics *statistics, size_t capacity);

/**
 * sockstamp_queue_counters() - return the counters of a reader
 * @queue: The reader.
 * @counters: Where to put the counts, of all sockets since it was made.
 *
 * Return: 0.
 */
int sockstamp_queue_counters(const struct sockstamp_queue *queue,
			     struct sockstamp_queue_counters *counters);

/**
 * sockstamp_queue_free() - free a reader
 * @queue: The reader, or NULL. Entries remain in the sockets' error queues.
 */
void sockstamp_queue_free(struct sockstamp_queue *queue);

/**
 * sockstamp_report_parse() - read the control messages of one entry
 * @control: The control messages, from the program's own recvmsg(2) with MSG_ERRQUEUE, or from
 * io_uring(7). The program has checked MSG_CTRUNC before.
 * @length: Their length.
 * @report: Where to put the report.
 * @statistics: Where to put the state of the connection; or NULL.
 *
 * Return: 0. -EBADMSG if they do not belong to an entry, -ENODATA for a stamp without a time.
 */
int sockstamp_report_parse(const void *control, size_t length, struct sockstamp_report *report,
			   struct sockstamp_statistics *statistics);

/**
 * DOC: sockstamp_batch - receive many messages per system call
 *
 * The messages are in memory of the batch, until the next call with it.
 */

/**
 * struct sockstamp_message - a message of a batch
 * @data: Its bytes.
 * @length: Their number.
 * @received: Its description.
 */
struct sockstamp_message {
	const void *data;
	size_t length;
	struct sockstamp_received received;
};

struct sockstamp_batch;

/**
 * sockstamp_batch_create() - make room for 32 messages
 * @batch: Where to put the handle.
 * @size: For datagrams of at most this many bytes.
 *
 * Return: 0. -EINVAL if @size is 0.
 */
int sockstamp_batch_create(struct sockstamp_batch **batch, size_t size);

/**
 * sockstamp_batch_receive() - receive the available messages
 * @batch: The batch.
 * @fd: The socket. Waits for the first message as the socket does, and for no other.
 * @messages: Where to put a pointer to them, valid until the next call with this batch.
 *
 * Return: the number of messages, 1 to 32. As recvmmsg(2).
 */
int sockstamp_batch_receive(struct sockstamp_batch *batch, int fd,
			    const struct sockstamp_message **messages);

/**
 * sockstamp_batch_free() - free a batch
 * @batch: The batch, or NULL.
 */
void sockstamp_batch_free(struct sockstamp_batch *batch);

/**
 * DOC: sockstamp_stamping - keeping receive stamps on
 *
 * The kernel stamps received packets only while a socket of the host requests it, and begins some
 * milliseconds after the request: the first messages of a program have no stamp. A handle of this
 * page holds such a request.
 */

struct sockstamp_stamping;

/**
 * sockstamp_stamping_create() - make the kernel stamp received packets until the handle is freed
 * @stamping: Where to put the handle.
 * @timeout_ms: The longest time to wait for the first stamp.
 *
 * Return: 1 if received packets are stamped now, 0 if not yet.
 */
int sockstamp_stamping_create(struct sockstamp_stamping **stamping, unsigned int timeout_ms);

/**
 * sockstamp_stamping_free() - release the handle
 * @stamping: The handle, or NULL.
 */
void sockstamp_stamping_free(struct sockstamp_stamping *stamping);

/**
 * DOC: sockstamp_matcher - matching of stamps to messages
 *
 * Report each send to a matcher right after the call, before the error queue is drained, and give
 * it each stamp. It remembers the last messages, up to its capacity. Stamps may come out of order,
 * twice, or not at all, ids wrap, and TCP gives one stamp for several messages. It is exact for the
 * last of them; for the earlier ones it is merged: a time by which they had passed.
 *
 * Several threads that send by one socket hold a lock over each send and its report. A failed send
 * of a datagram may have been counted by the kernel or not: make a new matcher then, and begin a
 * new count, by setting the options without SOCKSTAMP_OPT_ID and with it again.
 */

/**
 * enum sockstamp_transport - the unit of ids
 * @SOCKSTAMP_DATAGRAMS: Sends: UDP and all others.
 * @SOCKSTAMP_STREAM: Bytes: TCP.
 */
enum sockstamp_transport {
	SOCKSTAMP_DATAGRAMS = 1,
	SOCKSTAMP_STREAM = 2,
};

/**
 * enum sockstamp_coverage - the relation of a stamp to a message
 * @SOCKSTAMP_EXACT: The stamp is of this message.
 * @SOCKSTAMP_MERGED: The stamp is of a later byte of the same connection: the message passed at
 * this time, or before.
 */
enum sockstamp_coverage {
	SOCKSTAMP_EXACT = 1,
	SOCKSTAMP_MERGED = 2,
};

/**
 * struct sockstamp_match - a message of a stamp
 * @message: The value given to sockstamp_matcher_sent().
 * @coverage: Its relation to the message.
 */
struct sockstamp_match {
	uint64_t message;
	enum sockstamp_coverage coverage;
	uint32_t reserved;
};

/**
 * struct sockstamp_matcher_counters - counters of a matcher
 * @matched: Stamps matched to their own message.
 * @merged: Messages that got the stamp of a later one.
 * @duplicate: Stamps that their messages already had.
 * @past: Stamps of messages that were forgotten.
 * @unknown: Stamps of no known message.
 * @unfinished: Messages that were forgotten without all the stamps expected.
 */
struct sockstamp_matcher_counters {
	uint64_t matched;
	uint64_t merged;
	uint64_t duplicate;
	uint64_t past;
	uint64_t unknown;
	uint64_t unfinished;
};

struct sockstamp_matcher;

/**
 * sockstamp_matcher_create() - make a matcher for one socket
 * @matcher: Where to put it.
 * @transport: The unit of the socket's ids.
 * @outstanding: Bytes that were written to a stream and not acknowledged when SOCKSTAMP_OPT_ID was
 * set (SIOCOUTQ); 0 on a quiet connection, with SOCKSTAMP_OPT_ID_TCP, and for datagrams.
 * @capacity: The number of messages to remember.
 * @expected: Bits 1 << enum sockstamp_kind: the stamps that each message should get.
 *
 * Return: 0. -EINVAL.
 */
int sockstamp_matcher_create(struct sockstamp_matcher **matcher, enum sockstamp_transport transport,
			     uint32_t outstanding, size_t capacity, uint32_t expected);

/**
 * sockstamp_matcher_sent() - note a send with requested stamps
 * @matcher: The matcher.
 * @bytes: The result of the send call.
 * @message: A number or pointer to return with its stamps.
 * @forgotten: Where to put the message that was forgotten to make room; may be NULL.
 *
 * Not for datagrams with an id of their own.
 *
 * Return: 1 if a message was forgotten that lacked an expected stamp, else 0.
 */
int sockstamp_matcher_sent(struct sockstamp_matcher *matcher, size_t bytes, uint64_t message,
			   uint64_t *forgotten);

/**
 * sockstamp_matcher_sent_unstamped() - note bytes of a stream without a requested stamp
 * @matcher: The matcher.
 * @bytes: Their number.
 *
 * Neither the kernel nor the matcher counts datagrams without stamps.
 *
 * Return: 0.
 */
int sockstamp_matcher_sent_unstamped(struct sockstamp_matcher *matcher, size_t bytes);

/**
 * sockstamp_matcher_stamp() - find the messages of a stamp
 * @matcher: The matcher.
 * @stamp: The stamp.
 * @matches: Where to put a pointer to them, oldest first, valid until the next call with this
 * matcher.
 *
 * Return: the number of messages with this stamp, 0 if they already had it. -ESTALE if they were
 * forgotten, -ENOENT for no known message. Each result is counted.
 */
int sockstamp_matcher_stamp(struct sockstamp_matcher *matcher, const struct sockstamp_stamp *stamp,
			    const struct sockstamp_match **matches);

/**
 * sockstamp_matcher_unfinished() - return messages that lack an expected stamp
 * @matcher: The matcher.
 * @messages: Where to put them, oldest first; may be NULL if @capacity is 0.
 * @capacity: The number of elements there.
 *
 * Return: their number, which may exceed @capacity.
 */
int sockstamp_matcher_unfinished(const struct sockstamp_matcher *matcher, uint64_t *messages,
				 size_t capacity);

/**
 * sockstamp_matcher_counters() - return the counters of a matcher
 * @matcher: The matcher.
 * @counters: Where to put the counts.
 *
 * Return: 0.
 */
int sockstamp_matcher_counters(const struct sockstamp_matcher *matcher,
			       struct sockstamp_matcher_counters *counters);

/**
 * sockstamp_matcher_free() - free a matcher
 * @matcher: The matcher, or NULL.
 */
void sockstamp_matcher_free(struct sockstamp_matcher *matcher);

/**
 * DOC: sockstamp_completions - completions and stamps from memory
 *
 * While the service sockstamp-notifications(1) runs, it copies the entries of registered sockets'
 * error queues to memory that only their program can read: reading it costs no system call. The
 * error queue remains authoritative. It has the entries that the service missed, or that were
 * overwritten before they were read, and reports continue there if the service ends: read it too,
 * but rarely. While it is not empty, poll(2) reports POLLERR.
 */

/**
 * struct sockstamp_registration_state - the state of a registered socket
 * @lost: Reports that were overwritten before they were read.
 * @torn: Entries that left the error queue while the service read them.
 * @queued: Approximate number of entries in the error queue since
 * sockstamp_registration_queue_is_read().
 * @has_stamps: 1 if TCP sends are stamped without entries in the error queue, otherwise 0.
 */
struct sockstamp_registration_state {
	uint64_t lost;
	uint64_t torn;
	uint64_t queued;
	uint32_t has_stamps;
	uint32_t reserved;
};

struct sockstamp_completions;
struct sockstamp_registration;

/**
 * sockstamp_completions_create() - connect to the service
 * @completions: Where to put the connection; one is enough for a program.
 * @path: The path of the service's socket; NULL for the usual one.
 *
 * Return: 0. -ENOENT or -ECONNREFUSED if no service listens there, -EACCES, -ENOSPC if its limit of
 * programs is reached, -EPROTO if it has another version.
 */
int sockstamp_completions_create(struct sockstamp_completions **completions, const char *path);

/**
 * sockstamp_completions_register() - publish a socket's reports in memory from now on
 * @completions: The connection. May be freed before the registration.
 * @fd: The socket, of TCP or UDP.
 * @stamps: Not 0: on TCP and from Linux 6.15 on, each send is stamped without SO_TIMESTAMPING and
 * without an entry in the error queue, with ids as by SOCKSTAMP_OPT_ID_TCP.
 * @registration: Where to put the registration; it lasts until it is freed.
 *
 * Return: 0. -EBUSY if the socket is registered already, -EPROTONOSUPPORT for another kind of
 * socket, -ENOSPC, -EPROTO if the service has ended.
 */
int sockstamp_completions_register(const struct sockstamp_completions *completions, int fd,
				   int stamps, struct sockstamp_registration **registration);

/**
 * sockstamp_completions_free() - end a connection
 * @completions: The connection, or NULL.
 */
void sockstamp_completions_free(struct sockstamp_completions *completions);

/**
 * sockstamp_registration_read() - read reports since the last call
 * @registration: The registration.
 * @reports: Where to put a pointer to completed ranges and stamps, valid until the next call with
 * this registration.
 *
 * Reads memory only, and never waits. A range or a stamp may come again.
 *
 * Return: the number of reports.
 */
int sockstamp_registration_read(struct sockstamp_registration *registration,
				const struct sockstamp_report **reports);

/**
 * sockstamp_registration_state() - return the state of a registered socket
 * @registration: The registration.
 * @state: Where to put it.
 *
 * Return: 0.
 */
int sockstamp_registration_state(const struct sockstamp_registration *registration,
				 struct sockstamp_registration_state *state);

/**
 * sockstamp_registration_queue_is_read() - note that the error queue is about to be emptied
 * @registration: The registration.
 *
 * Return: 0.
 */
int sockstamp_registration_queue_is_read(struct sockstamp_registration *registration);

/**
 * sockstamp_registration_is_served() - test if the service runs
 * @registration: The registration.
 *
 * One system call.
 *
 * Return: 1 or 0. If 0, only the error queue has reports.
 */
int sockstamp_registration_is_served(const struct sockstamp_registration *registration);

/**
 * sockstamp_registration_free() - end a registration
 * @registration: The registration, or NULL.
 */
void sockstamp_registration_free(struct sockstamp_registration *registration);

/**
 * DOC: sockstamp_sender - send without copying
 *
 * A sender has buffers, and a buffer has one owner at a time. sockstamp_sender_acquire() gives it
 * to the program, which fills it. sockstamp_sender_submit() gives it to the kernel, which reads it
 * in place; the program must not write to it any more. When the kernel is done with it (for TCP,
 * when the peer has acknowledged its bytes), it can be acquired again. A buffer that is not the
 * program's cannot be submitted.
 *
 * The sender reads the error queue of the socket. sockstamp_sender_reports() returns other entries.
 * Nothing else may send with MSG_ZEROCOPY by the same socket.
 *
 * It pays from about 32 KiB per send, to receivers on another host, over devices that can gather.
 * Otherwise the kernel copies after all and reports it; stop_when_copied then ends such requests.
 * Memory in flight is locked: RLIMIT_MEMLOCK, net.core.optmem_max. Beyond these, sends are copied,
 * and counted as refused.
 */

/**
 * struct sockstamp_sender_options - options of a sender
 * @buffer_size: Bytes of each buffer.
 * @buffers: The number of buffers.
 * @threshold: Sends of fewer bytes are copied; 0 for SOCKSTAMP_THRESHOLD, which is 32768, and 1 for
 * no copies.
 * @stop_when_copied: After this many sends in a row that the kernel copied after all, copy at once;
 * 0 for never.
 */
struct sockstamp_sender_options {
	size_t buffer_size;
	uint32_t buffers;
	uint32_t threshold;
	uint32_t stop_when_copied;
	uint32_t reserved;
};

/* Pinning pages costs about as much as copying this many bytes. */
#define SOCKSTAMP_THRESHOLD 32768

/**
 * struct sockstamp_how - options of one buffer's send
 * @to: Where to; AF_UNSPEC for where the socket is connected.
 * @segment: Not 0: the buffer is sent as datagrams of this many bytes each (UDP_SEGMENT).
 * @more: Not 0: more follows (MSG_MORE).
 */
struct sockstamp_how {
	union sockstamp_address to;
	uint16_t segment;
	uint16_t more;
};

/**
 * enum sockstamp_zerocopy_support - a socket's ability to send without a copy
 * @SOCKSTAMP_ZEROCOPY_AVAILABLE: It can.
 * @SOCKSTAMP_ZEROCOPY_UNSUPPORTED: It cannot: everything is copied.
 * @SOCKSTAMP_ZEROCOPY_IN_USE: SO_ZEROCOPY was set before, so completions may be those of
 * other sends: everything is copied.
 */
enum sockstamp_zerocopy_support {
	SOCKSTAMP_ZEROCOPY_AVAILABLE = 1,
	SOCKSTAMP_ZEROCOPY_UNSUPPORTED = 2,
	SOCKSTAMP_ZEROCOPY_IN_USE = 3,
};

/**
 * struct sockstamp_sender_counters - counters of a sender
 * @lent: Send calls that the kernel accepted without a copy.
 * @completed: Of these, complete by now.
 * @completed_copied: Of these, copied after all.
 * @below_threshold: Send calls that were copied because they are short.
 * @not_asked: Send calls that were copied because the socket cannot do otherwise, or because recent
 * sends were all copied.
 * @refused: Send calls that were copied because the kernel had no memory for a send without a copy.
 * @repeated: Ids that were reported again.
 * @foreign: Ids that no send of this sender has: another sender uses MSG_ZEROCOPY on the same
 * socket. Later sends are copied.
 * @in_flight: Buffers that the kernel has now.
 * @reports_lost: Reports other than completions for which there was no room.
 */
struct sockstamp_sender_counters {
	uint64_t lent;
	uint64_t completed;
	uint64_t completed_copied;
	uint64_t below_threshold;
	uint64_t not_asked;
	uint64_t refused;
	uint64_t repeated;
	uint64_t foreign;
	uint64_t in_flight;
	uint64_t reports_lost;
};

struct sockstamp_sender;

/**
 * sockstamp_sender_create() - make a sender and its buffers
 * @sender: Where to put it.
 * @fd: The socket, of which the sender keeps a duplicate: the connection ends by shutdown(2), or
 * when both are closed.
 * @options: How it works.
 *
 * Return: 0. -ENOTSOCK, -EINVAL, -ENOMEM.
 */
int sockstamp_sender_create(struct sockstamp_sender **sender, int fd,
			    const struct sockstamp_sender_options *options);

/**
 * sockstamp_sender_support() - return the socket's ability to send without a copy
 * @sender: The sender.
 *
 * Return: one of enum sockstamp_zerocopy_support.
 */
int sockstamp_sender_support(const struct sockstamp_sender *sender);

/**
 * sockstamp_sender_use_memory() - read completions from memory from now on
 * @sender: The sender.
 * @completions: The connection to the service. May be freed before the sender.
 * @stamps: As for sockstamp_completions_register().
 *
 * If the service ends, the sender returns to the error queue.
 *
 * Return: 0. Errors as for sockstamp_completions_register(); then nothing has changed.
 */
int sockstamp_sender_use_memory(struct sockstamp_sender *sender,
				const struct sockstamp_completions *completions, int stamps);

/**
 * sockstamp_sender_acquire() - take a buffer to fill
 * @sender: The sender.
 * @timeout_ms: The longest wait for a buffer that the kernel has; -1 for no limit, 0 for no wait.
 * @buffer: Where to put the buffer, which begins a page and has buffer_size bytes of any content.
 *
 * Return: 0. -EAGAIN if the kernel returned none in that time, -ENOBUFS if the program has all
 * buffers.
 */
int sockstamp_sender_acquire(struct sockstamp_sender *sender, int timeout_ms, void **buffer);

/**
 * sockstamp_sender_submit() - send a buffer
 * @sender: The sender.
 * @buffer: A buffer that was acquired.
 * @length: Its number of bytes.
 * @how: Options; NULL to send to the connected peer.
 *
 * Blocks as the socket does. Unless it returns -EAGAIN, the buffer is no longer the program's.
 *
 * Return: 0 if everything is sent, or the number of bytes that a stream has not taken yet:
 * sockstamp_sender_flush() sends them before anything else. -EAGAIN if the socket has no room:
 * submit the buffer again, or release it. -EINVAL if the buffer is not the program's, -EMSGSIZE if
 * @length is more than it has. As sendmsg(2).
 */
int sockstamp_sender_submit(struct sockstamp_sender *sender, void *buffer, size_t length,
			    const struct sockstamp_how *how);

/**
 * sockstamp_sender_release() - return a buffer without sending it
 * @sender: The sender.
 * @buffer: A buffer that was acquired.
 *
 * Return: 0. -EINVAL if it is not the program's.
 */
int sockstamp_sender_release(struct sockstamp_sender *sender, void *buffer);

/**
 * sockstamp_sender_flush() - send bytes that a stream has not taken yet
 * @sender: The sender.
 *
 * Return: the number of bytes not taken yet. As sendmsg(2): the rest is then not sent.
 */
int sockstamp_sender_flush(struct sockstamp_sender *sender);

/**
 * sockstamp_sender_reports() - return reports other than completions
 * @sender: The sender.
 * @reports: Where to put stamps and errors of the network.
 * @capacity: The number of elements there.
 *
 * Reads the error queue first, and never blocks. With completions in memory it reads memory, and
 * the error queue every 10 ms. The sender keeps up to 256 reports.
 *
 * Return: the number of reports put there. Fewer than @capacity: there are no more.
 */
int sockstamp_sender_reports(struct sockstamp_sender *sender, struct sockstamp_report *reports,
			     size_t capacity);

/**
 * sockstamp_sender_wait_idle() - wait until the kernel has no buffer
 * @sender: The sender.
 * @timeout_ms: The longest wait; -1 for no limit.
 *
 * Return: the number of buffers it still has.
 */
int sockstamp_sender_wait_idle(struct sockstamp_sender *sender, int timeout_ms);

/**
 * sockstamp_sender_ask_again() - send without copies again, after stop_when_copied
 * @sender: The sender.
 *
 * Return: 0.
 */
int sockstamp_sender_ask_again(struct sockstamp_sender *sender);

/**
 * sockstamp_sender_counters() - return the counters of a sender
 * @sender: The sender.
 * @counters: Where to put the counts.
 *
 * Return: 0.
 */
int sockstamp_sender_counters(const struct sockstamp_sender *sender,
			      struct sockstamp_sender_counters *counters);

/**
 * sockstamp_sender_free() - free a sender and its buffers
 * @sender: The sender, or NULL.
 *
 * Buffers that the kernel still reads are never freed: call sockstamp_sender_wait_idle() before.
 */
void sockstamp_sender_free(struct sockstamp_sender *sender);

/**
 * DOC: sockstamp_receiver - receive from TCP without copying
 *
 * The kernel maps the pages in which payload arrived, if it can (TCP_ZEROCOPY_RECEIVE), and copies
 * otherwise. A page is mapped if payload fills it from its first byte to its last. For payload from
 * the network this needs an interface that splits headers from payload, and an MSS that is a
 * multiple of the page size. It is faster from some tens of kB on.
 */

/**
 * struct sockstamp_view - the next bytes of a stream: mapped ones, then copied ones
 * @mapped: Pages of the packets themselves, to be read only.
 * @mapped_length: Their number.
 * @copied: The following bytes, which could not be mapped.
 * @copied_length: Their number.
 */
struct sockstamp_view {
	const void *mapped;
	size_t mapped_length;
	const void *copied;
	size_t copied_length;
};

struct sockstamp_receiver;

/**
 * sockstamp_receiver_create() - make a receiver
 * @receiver: Where to put it.
 * @fd: The socket, of which the receiver keeps a duplicate.
 * @window: The number of bytes to map at a time, rounded up to whole pages.
 * @copy: The number of bytes to copy at a time, at least a page. If no more bytes wait, none are
 * mapped.
 *
 * Return: 0. -EINVAL if @window is 0, -ENODEV if it is not a TCP socket.
 */
int sockstamp_receiver_create(struct sockstamp_receiver **receiver, int fd, size_t window,
			      size_t copy);

/**
 * sockstamp_receiver_receive() - receive the available bytes
 * @receiver: The receiver.
 * @view: Where to put their place. Valid until the next call with this receiver.
 *
 * Never blocks.
 *
 * Return: the number of bytes, 0 at the end of the stream. -EAGAIN if nothing has arrived yet;
 * otherwise the error that ended the connection.
 */
int sockstamp_receiver_receive(struct sockstamp_receiver *receiver, struct sockstamp_view *view);

/**
 * sockstamp_receiver_release() - return the mapped pages to the kernel
 * @receiver: The receiver. Its view is valid no longer.
 *
 * Return: 0.
 */
int sockstamp_receiver_release(struct sockstamp_receiver *receiver);

/**
 * sockstamp_receiver_free() - free a receiver
 * @receiver: The receiver, or NULL. Its view is valid no longer.
 */
void sockstamp_receiver_free(struct sockstamp_receiver *receiver);

#ifdef __cplusplus
}
#endif

#endif /* SOCKSTAMP_H */
