/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel types that the programs read, and of each only the fields that they read. CO-RE
 * relocates every access by name against the running kernel's BTF, so sizes and offsets here mean
 * nothing; a field that the running kernel lacks fails at load unless bpf_core_field_exists() asked.
 */
#ifndef SOCKSTAMP_VMLINUX_H
#define SOCKSTAMP_VMLINUX_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __s64 ktime_t;
typedef _Bool bool;

enum { false, true };

/* include/uapi/linux/bpf.h: ABI, the same on every kernel that has them. */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_CGROUP_ARRAY = 8,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
};

enum {
	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_F_CLONE = 1U << 9,
	BPF_F_MMAPABLE = 1U << 10,
	BPF_F_INNER_MAP = 1U << 12,
};

struct bpf_spin_lock {
	__u32 val;
};

enum {
	BPF_SK_STORAGE_GET_F_CREATE = 1U << 0,
};

/* include/net/dropreason-core.h, v5.17; its values change. User space reads their names. */
enum skb_drop_reason {
	SKB_DROP_REASON_NETFILTER_DROP = 8,
};

enum {
	BPF_RB_NO_WAKEUP = 1U << 0,
	BPF_RB_FORCE_WAKEUP = 1U << 1,
};

enum {
	BPF_RB_AVAIL_DATA = 0,
};

enum {
	BPF_RINGBUF_HDR_SZ = 8,
};

enum {
	BPF_SOCK_OPS_TCP_CONNECT_CB = 3,
	BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4,
	BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5,
	BPF_SOCK_OPS_STATE_CB = 10,
	BPF_SOCK_OPS_TCP_LISTEN_CB = 11,
	BPF_SOCK_OPS_PARSE_HDR_OPT_CB = 13, /* v5.10 */
	BPF_SOCK_OPS_HDR_OPT_LEN_CB = 14,
	BPF_SOCK_OPS_WRITE_HDR_OPT_CB = 15,
	BPF_SOCK_OPS_TSTAMP_SCHED_CB = 16, /* v6.15 */
	BPF_SOCK_OPS_TSTAMP_SND_SW_CB = 17,
	BPF_SOCK_OPS_TSTAMP_SND_HW_CB = 18,
	BPF_SOCK_OPS_TSTAMP_ACK_CB = 19,
	BPF_SOCK_OPS_TSTAMP_SENDMSG_CB = 20,
};

enum {
	TCP_BPF_SOCK_OPS_CB_FLAGS = 1008, /* v6.9 */
	SK_BPF_CB_FLAGS = 1009, /* v6.15 */
	SK_BPF_CB_TX_TIMESTAMPING = 1 << 0,
};

enum {
	BPF_SOCK_OPS_STATE_CB_FLAG = 1 << 2,
	BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG = 1 << 4, /* v5.10 */
	BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG = 1 << 5,
	BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG = 1 << 6,
	BPF_WRITE_HDR_TCP_CURRENT_MSS = 1, /* args[0] of BPF_SOCK_OPS_HDR_OPT_LEN_CB */
};

/* include/uapi/linux/bpf.h: the state of bpf_for(), on the program's stack. */
struct bpf_iter_num {
	__u64 __opaque[1];
} __attribute__((aligned(8)));

/* A view of a packet's bytes, on the program's stack. */
struct bpf_dynptr {
	__u64 __opaque[2];
} __attribute__((aligned(8)));

/* The program context of SEC("sockops"): its layout is ABI, so it is not relocated. */
struct bpf_sock;
struct bpf_sock_ops {
	__u32 op;
	union {
		__u32 args[4];
		__u32 reply;
		__u32 replylong[4];
	};
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 is_fullsock;
	__u32 snd_cwnd;
	__u32 srtt_us;
	__u32 bpf_sock_ops_cb_flags;
	__u32 state;
	__u32 rtt_min;
	__u32 snd_ssthresh;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 mss_cache;
	__u32 ecn_flags;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 packets_out;
	__u32 retrans_out;
	__u32 total_retrans;
	__u32 segs_in;
	__u32 data_segs_in;
	__u32 segs_out;
	__u32 data_segs_out;
	__u32 lost_out;
	__u32 sacked_out;
	__u32 sk_txhash;
	__u64 bytes_received;
	__u64 bytes_acked;
	union {
		struct bpf_sock *sk;
		__u64 : 64;
	} __attribute__((aligned(8)));
	union {
		void *skb_data;
		__u64 : 64;
	} __attribute__((aligned(8)));
	union {
		void *skb_data_end;
		__u64 : 64;
	} __attribute__((aligned(8)));
	__u32 skb_len;
	__u32 skb_tcp_flags;
	__u64 skb_hwtstamp;
};

/* The same of SEC("cgroup/sock_create"), SEC("cgroup/sock_release"), SEC("cgroup_skb/ingress") and SEC("cgroup/sendmsg4"). */
struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 mark;
	__u32 priority;
	__u32 src_ip4;
	__u32 src_ip6[4];
	__u32 src_port; /* host order */
};

struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	union {
		void *flow_keys;
		__u64 : 64;
	} __attribute__((aligned(8)));
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	union {
		struct bpf_sock *sk;
		__u64 : 64;
	} __attribute__((aligned(8)));
};

struct bpf_sockopt {
	union {
		struct bpf_sock *sk;
		__u64 : 64;
	} __attribute__((aligned(8)));
	union {
		void *optval;
		__u64 : 64;
	} __attribute__((aligned(8)));
	union {
		void *optval_end;
		__u64 : 64;
	} __attribute__((aligned(8)));
	__s32 level;
	__s32 optname;
	__s32 optlen;
	__s32 retval;
};

struct bpf_sock_addr {
	__u32 user_family;
	__u32 user_ip4;
	__u32 user_ip6[4];
	__u32 user_port;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 msg_src_ip4;
	__u32 msg_src_ip6[4];
	union {
		struct bpf_sock *sk;
		__u64 : 64;
	} __attribute__((aligned(8)));
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	s64 counter;
} atomic64_t;

struct ns_common {
	unsigned int inum;
};

struct netns_ipv4 {
	unsigned int sysctl_tcp_notsent_lowat;
};

struct net {
	struct ns_common ns;
	u64 net_cookie;
	struct netns_ipv4 ipv4;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		__u8 u6_addr8[16];
		__be32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	unsigned long skc_flags;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
};

struct device {
	struct device *parent;
};

struct rtnl_link_ops {
	const char *kind;
};

struct Qdisc {
	void *enqueue;
};

struct netdev_queue {
	struct Qdisc *qdisc;
};

struct net_device {
	struct netdev_queue *_tx;
	unsigned int flags;
	int ifindex;
	char name[16];
	struct device dev;
	const struct rtnl_link_ops *rtnl_link_ops;
	possible_net_t nd_net;
};

struct dst_entry {
	struct net_device *dev;
};

struct list_head {
	struct list_head *next;
	struct list_head *prev;
};

struct rb_node {
	struct rb_node *rb_right;
	struct rb_node *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct sk_buff___before_6_11 {
	__u8 mono_delivery_time : 1;
};

struct sk_buff {
	struct sk_buff *next;
	struct sk_buff *prev;
	struct net_device *dev;
	struct list_head tcp_tsorted_anchor;
	ktime_t tstamp;
	u64 skb_mstamp_ns;
	char cb[48];
	unsigned int len;
	unsigned int data_len;
	unsigned int truesize;
	__u8 tstamp_type : 2; /* v6.11 */
	__u8 encapsulation : 1;
	struct sock *sk;
	__u32 hash;
	unsigned int end;
	unsigned char *head;
	unsigned char *data;
	__be16 protocol;
	__u16 inner_transport_header;
	__u16 transport_header;
	__u16 network_header;
	int skb_iif;
};

struct spinlock {
	char state[4]; /* of the lock that it begins with, without PREEMPT_RT */
};

struct sk_buff_head {
	struct sk_buff *next;
	struct sk_buff *prev;
	__u32 qlen;
	struct spinlock lock;
};

struct neighbour {
	struct sk_buff_head arp_queue;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[]; /* v6.1 */
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct bpf_map {
	u32 id;
	char name[16];
	atomic64_t refcnt;
};

struct bpf_local_storage_map {
	struct bpf_map map;
};

struct bpf_local_storage_data {
	struct bpf_local_storage_map *smap;
	u8 data[];
};

struct bpf_local_storage_elem {
	struct hlist_node snode;
	struct bpf_local_storage_data sdata;
};

struct bpf_local_storage {
	struct hlist_head list;
};

struct upid {
	int nr;
};

struct pid {
	struct upid numbers[1];
};

typedef struct refcount_struct {
	struct {
		int counter;
	} refs;
} refcount_t;

struct socket {
	unsigned long flags;
	struct sock *sk;
};

struct inode {
	unsigned long i_ino;
};

struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
};

struct wait_queue_head {
	struct list_head head;
};

struct wait_queue_entry {
	void *private;
	void *func;
	struct list_head entry;
};

struct socket_wq {
	struct wait_queue_head wait;
};

struct poll_wqueues {
	struct task_struct *polling_task;
};

struct poll_table_entry {
	unsigned int key;
	struct wait_queue_entry wait;
};

struct eventpoll {
	struct wait_queue_head wq;
};

struct epoll_event {
	unsigned int events;
};

struct epitem {
	struct eventpoll *ep;
	struct epoll_event event;
};

struct eppoll_entry {
	struct epitem *base;
	struct wait_queue_entry wait;
};

typedef struct {
	int counter;
} atomic_t;

struct io_ring_ctx {
	unsigned int flags;
	atomic_t cq_wait_nr;
};

struct io_uring_task {
	struct task_struct *task;
};

/* v6.1; tctx since v6.13 */
struct io_kiocb___before_6_13 {
	struct task_struct *task;
};

struct io_kiocb {
	struct io_ring_ctx *ctx;
	struct io_uring_task *tctx; /* v6.13 */
};

typedef struct {
	int owned;
} socket_lock_t;

struct sock {
	struct sock_common __sk_common;
	socket_lock_t sk_lock;
	struct sk_buff_head sk_error_queue;
	struct sk_buff_head sk_receive_queue;
	struct dst_entry *sk_dst_cache;
	struct socket_wq *sk_wq;
	u16 sk_protocol;
	u16 sk_type;
	unsigned long sk_lingertime;
	int sk_err;
	u8 sk_shutdown;
	u32 sk_ack_backlog;
	u32 sk_max_ack_backlog;
	int sk_write_pending;
	struct socket *sk_socket;
	struct pid *sk_peer_pid;
	void *sk_user_data;
	struct sock_cgroup_data sk_cgrp_data;
	struct bpf_local_storage *sk_bpf_storage;
	int sk_wmem_queued;
	refcount_t sk_wmem_alloc;
	int sk_sndbuf;
	long sk_sndtimeo;
	unsigned long sk_tsq_flags;
	struct sk_buff_head sk_write_queue;
	struct rb_root tcp_rtx_queue;
	u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	u8 sk_userlocks : 4;
	u8 sk_pacing_shift;
	u8 sk_bpf_cb_flags; /* v6.15 */
};

struct sockaddr_un {
	char sun_path[108];
};

struct unix_address {
	int len;
	struct sockaddr_un name[];
};

struct unix_sock {
	struct sock sk;
	struct unix_address *addr;
	struct sock *peer;
	struct socket_wq peer_wq;
};

union flowi_uli {
	__be16 ports;
};

struct flowi4 {
	__be32 daddr;
	union flowi_uli uli;
};

struct flowi6 {
	struct in6_addr daddr;
	union flowi_uli uli;
};

struct flowi {
	union {
		struct flowi4 ip4;
		struct flowi6 ip6;
	} u;
};

struct inet_cork_full {
	struct flowi fl;
};

struct inet_sock {
	struct sock sk;
	__be16 inet_sport;
	unsigned long inet_flags; /* v6.6 */
	struct inet_cork_full cork;
};

struct llist_node {
	struct llist_node *next;
};

struct llist_head {
	struct llist_node *first;
};

struct udp_prod_queue {
	struct llist_head ll_root;
};

struct udp_sock {
	struct inet_sock inet;
	int pending;
	struct udp_prod_queue *udp_prod_queue; /* v6.18 */
	struct sk_buff_head reader_queue;
};

struct request_sock {
	struct sock *sk;
};

struct request_sock_queue {
	struct request_sock *rskq_accept_head;
};

struct inet_connection_sock {
	struct sock icsk_inet;
	struct request_sock_queue icsk_accept_queue;
	void *icsk_ulp_ops;
	__u8 icsk_ca_state : 5;
	__u8 icsk_retransmits;
	__u8 icsk_backoff;
	__u8 icsk_probes_out;
	struct {
		__u32 lrcvtime;
	} icsk_ack;
};

struct minmax_sample {
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_options_received {
	u16 saw_tstamp : 1;
	u16 wscale_ok : 1;
	u32 rcv_tsecr;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	struct rb_root out_of_order_queue;
	struct sk_buff *ooo_last_skb;
	u32 rcv_ooopack;
	u32 write_seq;
	u32 snd_nxt;
	u32 snd_una;
	u32 copied_seq;
	u32 rcv_nxt;
	u64 bytes_received;
	u64 bytes_acked;
	u64 tcp_clock_cache;
	u8 bpf_sock_ops_cb_flags;
	u16 tcp_header_len;
	u32 segs_in;
	u32 data_segs_in;
	u32 segs_out;
	u64 tcp_wstamp_ns;
	u32 total_retrans;
	struct tcp_options_received rx_opt;
	u8 tcp_usec_ts : 1; /* v6.7 */
	u32 data_segs_out;
	u32 rcv_wup;
	u32 rcv_wnd;
	u32 snd_wnd;
	u32 snd_cwnd;
	u32 snd_sml;
	u32 mss_cache;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 srtt_us;
	u32 snd_ssthresh;
	u32 dsack_dups;
	u32 reord_seen;
	u32 chrono_start;
	u32 chrono_stat[3];
	u8 chrono_type : 2;
	u32 lsndtime;
	u32 rcv_tstamp;
	u32 notsent_lowat;
	u8 nonagle : 4;
	u8 repair : 1;
	struct minmax rtt_min;
	u32 snd_wl1;
	u32 retrans_stamp;
	u64 first_tx_mstamp;
	u64 delivered_mstamp;
	struct list_head tsorted_sent_queue;
	u8 syn_data : 1;
	u8 syn_data_acked : 1;
	bool is_mptcp;
	struct request_sock *fastopen_rsk;
	struct tcp_ao_info *ao_info; /* with CONFIG_TCP_AO, since v6.7 */
};

struct mptcp_sock {
	struct sock *first; /* of a listener: the subflow that listens */
};

struct tcphdr {
	__be32 seq;
	__u16 doff : 4;
};

struct tcp_skb_cb {
	__u32 seq;
	__u32 end_seq;
	u16 tcp_gso_segs;
	__u16 tcp_flags; /* a byte before v6.15 */
	__u8 sacked;
	__u8 txstamp_ack : 2; /* two bits since v6.15 */
	__u8 eor : 1;
	__u32 ack_seq;
};

struct sock_extended_err {
	__u8 ee_origin;
	__u8 ee_code;
	__u32 ee_info;
	__u32 ee_data;
};

/* Over skb->cb of an entry of the error queue: SKB_EXT_ERR(), include/linux/errqueue.h. */
struct sock_exterr_skb {
	struct sock_extended_err ee;
};

struct skb_shared_hwtstamps {
	ktime_t hwtstamp;
};

/* struct bio_vec before v6.10: only where it is. */
struct skb_frag {
	unsigned long netmem;
	unsigned int len;
	unsigned int offset;
};

struct skb_shared_info {
	__u8 flags;
	__u8 nr_frags;
	__u8 tx_flags;
	unsigned short gso_size;
	unsigned short gso_segs;
	struct skb_shared_hwtstamps hwtstamps;
	u32 tskey;
	struct skb_frag frags[1];
};

struct bpf_sockopt_kern {
	struct sock *sk;
};

struct bpf_sock_ops_kern {
	struct sock *sk;
	struct sk_buff *skb;
	u8 remaining_opt_len; /* v5.10 */
};

struct bpf_sock_addr_kern {
	struct sock *sk;
};

struct page;

struct iovec {
	void *iov_base;
};

struct iov_iter {
	u8 iter_type;
	unsigned long iov_offset;
	const struct iovec *__iov; /* v6.4 */
	void *ubuf; /* v6.0 */
	unsigned long count;
};

struct msghdr {
	struct iov_iter msg_iter;
	unsigned int msg_flags;
};

struct timespec64 {
	s64 tv_sec;
};

struct sched_info {
	unsigned long pcount;
	unsigned long long run_delay;
	unsigned long long last_arrival;
	unsigned long long last_queued;
};

/* The tasks of one cgroup on one CPU. */
struct cfs_rq {
	int runtime_enabled; /* CONFIG_CFS_BANDWIDTH */
	__u64 throttled_clock_self; /* CONFIG_CFS_BANDWIDTH, v6.6 */
	__u64 throttled_clock_self_time;
};

struct sched_entity {
	__u64 sum_exec_runtime;
	__u64 prev_sum_exec_runtime;
	struct cfs_rq *cfs_rq; /* CONFIG_FAIR_GROUP_SCHED */
};

struct user_namespace {
	struct user_namespace *parent;
};

struct cred {
	struct {
		u64 val;
	} cap_permitted; /* two halves, the lower first, before v6.3 */
	struct user_namespace *user_ns;
};

struct nsproxy {
	struct net *net_ns;
};

struct pt_regs {
	unsigned long orig_ax; /* x86 */
	int syscallno; /* arm64 */
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int on_cpu; /* CONFIG_SMP */
	int prio;
	struct sched_entity se;
	int pid;
	int tgid;
	struct sched_info sched_info; /* CONFIG_SCHED_INFO */
	struct task_struct *group_leader;
	unsigned long nvcsw;
	u64 start_time;
	char comm[16];
	struct nsproxy *nsproxy;
	const struct cred *cred;
};

/* on_cpu of newer kernels, seen in Debian's 7.2: a byte, where 6.18 has an int. */
struct task_struct___byte {
	unsigned char on_cpu;
};

struct scm_timestamping_internal {
	ktime_t ts[3];
};

struct scm_timestamping_internal___before_7_2 {
	struct timespec64___whole {
		s64 tv_sec;
		long tv_nsec;
	} ts[3];
};

struct perf_sample_data {
	u64 time;
};

struct bpf_perf_event_data_kern {
	struct perf_sample_data *data;
};

struct file;

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id;
	u64 seq_num;
};

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	void *key;
	void *value;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u32 fd;
	struct file *file;
};

struct bpf_iter__bpf_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
};

/* Of v6.1: only whether it is there. */
struct bpf_iter__cgroup {
	struct bpf_iter_meta *meta;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

struct bpf_iter__udp {
	struct bpf_iter_meta *meta;
	struct udp_sock *udp_sk;
};

#pragma clang attribute pop

#endif
