//! The kernel's reasons for drops, in words.

/// Packets of a connection that were dropped for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::diagnosis) struct Drops {
    /// The kernel's name of it.
    pub(in crate::diagnosis) reason: Box<str>,
    pub(in crate::diagnosis) packets: u64,
    /// The packets are SYNs to the same service whose senders' address had been changed (NAT).
    pub(in crate::diagnosis) are_translated: bool,
}

/// Dropped by netfilter.
pub(in crate::diagnosis) const FIREWALL: &str = "NETFILTER_DROP";

/// Dropped by a listener without room.
pub(in crate::diagnosis) const FULL_LISTENER: &str = "TCP_LISTEN_OVERFLOW";

/// Beginnings of names of drops that somebody has asked for by a rule.
const RULES: [&str; 7] = [
    FIREWALL,
    "BPF_CGROUP",
    "TC_INGRESS",
    "TC_EGRESS",
    "XDP",
    "SECURITY_HOOK",
    "XFRM_POLICY",
];

/// Return true for a drop that a rule may mean.
pub(in crate::diagnosis) fn is_by_rule(reason: &str) -> bool {
    RULES.iter().any(|rule| reason.starts_with(rule))
}

/// By the beginnings of names: what a reason means, and what to look at (`enum skb_drop_reason`,
/// include/net/dropreason-core.h, v6.18). Any other has its name alone.
const REASONS: [(&[&str], &str); 23] = [
    (
        &["TCP_CSUM", "UDP_CSUM", "IP_CSUM", "SKB_CSUM"],
        "for a wrong checksum: somebody on the way corrupts them, as a device or its offload \
         (ethtool -k)",
    ),
    (
        &["IP_RPFILTER"],
        "by the reverse path filter: the route back to their sender leads through another device \
         (net.ipv4.conf.*.rp_filter)",
    ),
    (
        &["PROTO_MEM"],
        "for want of memory of the protocol (net.ipv4.tcp_mem, udp_mem), or of room in the \
         socket's receive buffer",
    ),
    (
        &["TCP_OFO_QUEUE_PRUNE"],
        "behind missing ones, for want of room in the socket's receive buffer \
         (net.ipv4.tcp_rmem, tcp_mem)",
    ),
    (
        &["SOCKET_BACKLOG"],
        "while the socket's task was at work on it, and its receive buffer was full",
    ),
    (
        &[FULL_LISTENER],
        "by the listener, whose accept queue is full (ss -lnt)",
    ),
    (&[FIREWALL], "by netfilter (nft list ruleset)"),
    (&["XFRM_POLICY"], "by a policy of IPsec (ip xfrm policy)"),
    (
        &["TCP_AUTH", "TCP_MD5", "TCP_AO"],
        "for their signature (TCP-MD5, TCP-AO), which one end has and the other expects otherwise",
    ),
    (
        &["TCP_RFC7323_TW_PAWS"],
        "for time stamps older than those of the connection before, as of several hosts behind \
         one address (NAT)",
    ),
    (
        &["BPF_CGROUP"],
        "by a BPF program of a cgroup (bpftool cgroup tree)",
    ),
    (
        &["TC_INGRESS", "TC_EGRESS"],
        "by a filter of a device (tc filter show)",
    ),
    (&["XDP"], "by an XDP program (bpftool net)"),
    (&["SECURITY_HOOK"], "by a security module (dmesg)"),
    (
        &["QDISC", "FQ_", "CAKE", "DUALPI2"],
        "by the packet scheduler of a device of this host (tc -s qdisc)",
    ),
    (
        &["CPU_BACKLOG"],
        "in the full queue of a CPU (net.core.netdev_max_backlog)",
    ),
    (
        &["FULL_RING"],
        "at the full queue of a virtual device, whose reader is too slow (ip -s link)",
    ),
    (&["NOMEM", "PFMEMALLOC"], "for want of memory of this host"),
    (&["PKT_TOO_BIG"], "as longer than the next link takes (MTU)"),
    (
        &["IP_OUTNOROUTES", "IP_INNOROUTES", "IP_INADDRERRORS"],
        "for want of a route (ip route get)",
    ),
    (
        &["IP_INHDR"],
        "as a router, for their time to live (TTL), which ends here, or for their IP header",
    ),
    (
        &["NEIGH"],
        "for want of the next hop's link address (ip neigh)",
    ),
    (
        &["DEV_READY", "NO_TX_TARGET"],
        "by a device that is down, or has no way to go on (ip link)",
    ),
];

/// Return what follows on the number of packets that were dropped for a reason.
pub(in crate::diagnosis) fn words(reason: &str) -> String {
    let begins = |names: &[&str]| names.iter().any(|name| reason.starts_with(name));
    let known = REASONS.iter().find(|(names, _)| begins(names));
    match known {
        Some((_, words)) => format!(" {words} [{reason}]"),
        None => format!(" [{reason}]"),
    }
}
