//! The tree of a wait. docs/diagnosis.md is generated from it.
//!
//! Children add up to their parent, and the rest is a child, too. Time goes to a child by evidence
//! of that wait alone.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! tree {
    ($($variant:ident in $parent:expr, $name:literal = $words:expr;)*) => {
        /// A node of the tree: what the time of a wait went to.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Node {
            $(#[doc = $name] $variant,)*
        }

        impl Node {
            /// Every node, each before its children.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The node that it is a part of; `None` for what is waited for.
            #[must_use]
            pub const fn parent(self) -> Option<Self> {
                use Node::*;
                match self {
                    $(Self::$variant => $parent,)*
                }
            }

            /// What is known of it.
            #[must_use]
            pub const fn about(self) -> About {
                match self {
                    $(Self::$variant => About::of($name, $words),)*
                }
            }
        }
    };
}

/// The words of nodes, whatever they are parts of.
struct Words {
    is: &'static str,
    proof: &'static str,
    alike: &'static str,
    check: &'static str,
    cure: &'static str,
    next: &'static str,
}

/// What is known of a node, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Its name in JSON.
    pub name: &'static str,
    /// What a sentence calls it.
    pub is: &'static str,
    /// The evidence of a wait that gives it time.
    pub proof: &'static str,
    /// What looks the same from this host.
    pub alike: &'static str,
    /// Ways to confirm it.
    pub check: &'static str,
    /// Its usual cure.
    pub cure: &'static str,
    /// The command that tells more.
    pub next: &'static str,
}

impl About {
    const fn of(name: &'static str, words: Words) -> Self {
        let Words {
            is,
            proof,
            alike,
            check,
            cure,
            next,
        } = words;
        Self {
            name,
            is,
            proof,
            alike,
            check,
            cure,
            next,
        }
    }
}

/// A link of this host that loses what goes either way.
const LINK_DOWN: Words = Words {
    is: "packets were lost while a link of this host was down",
    proof: "Something was sent again, and the device by which the way there begins lost its carrier during the measurement.",
    alike: "Loss elsewhere on the same way.",
    check: "`ip -s -s link show DEVICE`; `/sys/class/net/DEVICE/carrier_down_count`; `dmesg`.",
    cure: "The cable, the switch's port, the driver; a bond of two links.",
    next: "stat --by peer --sort tx.network",
};

/// This host's own firewall, seen by either end.
const FIREWALL: Words = Words {
    is: "this host's own firewall (netfilter) drops their packets",
    proof: "The kernel's own reason of drops of packets of this connection, in either direction and any network namespace of this host (NETFILTER_DROP, Linux 6.11; not behind NAT).",
    alike: "A rule that drops, one that limits a rate or a number of connections, and a full table of connections (conntrack).",
    check: "`nft list ruleset`, or `iptables -vnL`: counters of DROP, in that namespace (`ip netns exec`); `dmesg`: nf_conntrack: table full.",
    cure: "A rule that accepts them; a higher limit or net.netfilter.nf_conntrack_max.",
    next: "trace --slow 200ms",
};

/// Drops by the kernel of this host.
const DROPPED: Words = Words {
    is: "the kernel of this host drops their packets",
    proof: "The kernel's own reason of drops of packets of this connection, in either direction and any network namespace of this host (kfree_skb, Linux 6.11; not behind NAT), at the time of such waits, and at least half as many as segments were sent again or waits missed something.",
    alike: "Other losses of the same connection at the same time.",
    check: "`nstat -az`; `ip -s -s link`; `dropwatch -l kas`, or `perf trace -e skb:kfree_skb`.",
    cure: "That of the reason, which the sentence names.",
    next: "trace --slow 200ms",
};

/// A next hop without a link address.
const NEIGHBOUR: Words = Words {
    is: "the next hop does not answer to its address (ARP, neighbour discovery)",
    proof: "The kernel asked for the link address of the next hop on the way there, and has no answer (INCOMPLETE, FAILED).",
    alike: "A host that is off, an address that nobody has, and a link or VLAN that loses the questions.",
    check: "`ip neigh show`; `ip route get PEER`; `tcpdump -n arp or icmp6`.",
    cure: "That of the host or link; the right address or route.",
    next: "trace --slow 200ms",
};

/// A next hop whose link address is known late.
const RESOLVING: Words = Words {
    is: "packets wait for the link address of the next hop (ARP, neighbour discovery)",
    proof: "Packets were in the kernel's queue of the next hop until the answer came (neigh_update), at the time of such waits (`neighbour` of `tx.queue` or `conn.handshake`).",
    alike: "A next hop that is busy, or answers late; questions or answers that were lost: the kernel asks again each second.",
    check: "`tcpdump -ne arp or icmp6`; `ip -s neigh show`; `sockstamp ping PEER`: tx.neighbour.",
    cure: "That of the next hop or the link; for a next hop that is known, an entry that is set (`ip neigh replace ... nud permanent`).",
    next: "trace --slow 10ms",
};

/// A way there on which packets overtake each other.
const OVERTAKEN: Words = Words {
    is: "packets overtake each other, or are late, on the way there, and are sent again in vain",
    proof: "DSACKs say that what was sent again had arrived, while TCP saw packets out of order.",
    alike: "A path that is late by more than the timeout.",
    check: "`nstat -az TcpExtTCPDSACKRecv TcpExtTCPSACKReorder`; `ss -ti`: reord_seen.",
    cure: "One path for each connection (no balancing by packet); a link that delays alike.",
    next: "stat --by peer --sort tx.network",
};

tree! {
    Connect in None, "connect" = Words {
        is: "the connection takes that long to open",
        proof: "connect(), or the first SYN, until the connection is established or has failed.",
        alike: "Nothing: both ends of it are events of this socket.",
        check: "The verdicts of `sockstamp stat`; `sockstamp trace`: the peer; there `ss -lnt`.",
        cure: "A service that listens, a firewall that lets it answer; otherwise that of the part below it.",
        next: "stat --by peer,port --sort conn.handshake",
    };
    ConnectAgain in Some(Connect), "connect.again" = Words {
        is: "SYNs are sent again: they or their answers are lost, or the accept queue of the peer is full (conn.handshake, syn-again)",
        proof: "The last SYN left after the first (`syn-again`), by whole steps of its timer; or its answer came that late: the peer has such a timer, too.",
        alike: "A lost SYN, a lost SYN-ACK, a firewall on the way or at the peer that drops either, a path that drops SYNs with ECN, and a full accept queue at a remote peer.",
        check: "`nstat -az TcpExtTCPSynRetrans`; at the peer `nstat -az TcpExtListenOverflows`, `ss -lnt`; firewalls here, there and between: `nft list ruleset`, or `iptables -vnL`.",
        cure: "A longer accept queue or more accepting tasks at the peer; a rule that lets them pass; a path that loses less.",
        next: "trace --slow 500ms",
    };
    ConnectQueue in Some(Connect), "connect.queue" = Words {
        is: "the accept queue of the service, on this host, is full",
        proof: "The last SYN left after the first (`syn-again`), and meanwhile the listener of the service, in whatever network namespace of this host, had as many connections as may wait.",
        alike: "A SYN that was lost while the queue was full, and a service with several listeners of one port, of which another one got the SYN.",
        check: "`ss -lnt` in that namespace (`ip netns exec`): Recv-Q above Send-Q; `nstat -az TcpExtListenOverflows`.",
        cure: "A program that accepts: one that is stopped, or busy, does not. More tasks that accept; a longer queue (listen(2), net.core.somaxconn) for bursts.",
        next: "stat --by port --sort conn.accept",
    };
    ConnectRejected in Some(Connect), "connect.rejected" = Words {
        is: "a firewall on the way or at the host rejects them by ICMP",
        proof: "An ICMP message ended a connect to the same service at once after a SYN: that the port is closed, of which a host tells by a segment (RST); or that there is no way to a host that answers others meanwhile.",
        alike: "A router that has lost its way to the host, between two of its answers.",
        check: "`tcpdump -n icmp`: who sends them; the firewalls there: `nft list ruleset`, or `iptables -vnL`: reject. Most SYNs get no message (net.ipv4.icmp_ratelimit).",
        cure: "A rule that accepts them; another address or port.",
        next: "trace --slow 500ms",
    };
    ConnectLate in Some(Connect), "connect.late" = Words {
        is: "the answer to the SYN comes late: a queue on the path, or a busy peer",
        proof: "From the last SYN to its answer, beyond the smallest round trip of that address.",
        alike: "A queue on the way there or back, and a host that is busy; while there is no answer, a SYN that is lost or dropped by a firewall, until it is sent again.",
        check: "`ss -ti`: rtt, minrtt; `sockstamp ping PEER`.",
        cure: "That of the path or the peer.",
        next: "ping PEER",
    };
    ConnectLink in Some(Connect), "connect.link" = LINK_DOWN;
    ConnectFirewall in Some(Connect), "connect.firewall" = FIREWALL;
    ConnectDropped in Some(Connect), "connect.dropped" = DROPPED;
    ConnectNeighbour in Some(Connect), "connect.neighbour" = NEIGHBOUR;
    ConnectResolving in Some(Connect), "connect.resolving" = RESOLVING;
    ConnectPath in Some(Connect), "connect.path" = Words {
        is: "handshakes: each new connection costs round trips (conn.handshake)",
        proof: "From the last SYN to its answer, up to the smallest round trip of that address.",
        alike: "Nothing up to the smallest round trip; beyond it a queue on the path or a busy peer.",
        check: "`ss -ti`: minrtt; `sockstamp stat --by peer,port`: `conn.handshake` count.",
        cure: "Connections that stay open (keep-alive, a pool), or a closer peer.",
        next: "stat --by peer,port --sort conn.handshake",
    };
    Accept in None, "accept" = Words {
        is: "the program accepts late (conn.accept)",
        proof: "The connection was established, and no accept() had taken it (`conn.accept`).",
        alike: "A program that polls its listener rarely, and one whose tasks are busy. One without a free descriptor has as many open as it may.",
        check: "`ss -lnt`: Recv-Q of the listener; `strace -e trace=accept,accept4 -p PID`; `ls /proc/PID/fd | wc -l` against `/proc/PID/limits`.",
        cure: "Less work between accepts, or more tasks that accept; a higher LimitNOFILE.",
        next: "trace --slow 10ms",
    };
    AcceptQueue in Some(Accept), "accept.queue" = Words {
        is: "the accept queue is full",
        proof: "The listener itself counted SYNs or ends of handshakes that it had no room for.",
        alike: "Nothing while the queue stands at its limit.",
        check: "`ss -lnt`: Recv-Q and Send-Q of the listener; `nstat -az TcpExtListenOverflows TcpExtListenDrops`.",
        cure: "More tasks that accept, or less work between accepts; a longer queue (listen(2), net.core.somaxconn) for bursts.",
        next: "stat --by port --sort conn.accept",
    };
    AcceptHalfOpen in Some(Accept), "accept.half_open" = Words {
        is: "a flood of SYNs, or the answers to them are lost",
        proof: "SYNs found as many half-open handshakes as may be, by the kernel's count; or, without SYN cookies, the listener dropped SYNs though no queue was full, and had three quarters of net.ipv4.tcp_max_syn_backlog in the end: the rest is for peers that the kernel knows. Those of the listener and their addresses are looked at in the end.",
        alike: "A flood of SYNs from false addresses, and clients whom the answers do not reach.",
        check: "`nstat -az TcpExtTCPReqQFullDrop TcpExtTCPReqQFullDoCookies TcpExtListenDrops`; `ss -nt state syn-recv`.",
        cure: "SYN cookies (net.ipv4.tcp_syncookies=1); a filter before the service; a way back for the answers.",
        next: "stat --by port --sort conn.accept",
    };
    AcceptUnrouted in Some(Accept), "accept.unrouted" = Words {
        is: "this host has no route back to their senders",
        proof: "The listener dropped SYNs though no queue was full (ListenDrops without ListenOverflows and TCPReqQFullDrop), and the kernel of its network namespace had no route for as many packets of its own (OutNoRoutes).",
        alike: "A route that is gone or unreachable, a rule for it (ip rule), and another table of routes (VRF).",
        check: "`ip route get CLIENT`; `nstat -az IpOutNoRoutes Ip6OutNoRoutes TcpExtListenDrops`; `tcpdump 'tcp[tcpflags] & tcp-syn != 0'`: the clients.",
        cure: "A route back to the clients, as a default route.",
        next: "stat --by port --sort conn.accept",
    };
    AcceptFirewall in Some(Accept), "accept.firewall" = Words {
        is: "this host's own firewall (netfilter) drops first SYNs of clients that it lets in later",
        proof: "The kernel's own reason of drops of SYNs (NETFILTER_DROP, Linux 6.11; not behind NAT), and the same connections were opened later; or none of a connection came through, while the service answers another one of that address.",
        alike: "A rule that limits the rate of new connections, or the connections of each address, and a table of connections (conntrack) that is full at times.",
        check: "`nft list ruleset`, or `iptables -vnL`: counters of DROP, limit, meter, hashlimit, connlimit; `dmesg`: nf_conntrack: table full.",
        cure: "A higher limit, a refusal in its place (reject), or net.netfilter.nf_conntrack_max.",
        next: "stat --by port --sort conn.accept",
    };
    AcceptDropped in Some(Accept), "accept.dropped" = Words {
        is: "the kernel of this host drops SYNs of clients",
        proof: "The kernel's own reason of drops of SYNs to a service of this host (kfree_skb, Linux 6.11; not behind NAT), no rule of a firewall, a filter or a policy among them; clients sent them again, and their connections were not opened.",
        alike: "A host that sends from an address that is not its own (rp_filter).",
        check: "`nstat -az`; `ip -s -s link`; `dropwatch -l kas`, or `perf trace -e skb:kfree_skb`.",
        cure: "That of the reason, which the sentence names.",
        next: "stat --by port --sort conn.accept",
    };
    AcceptAway in Some(Accept), "accept.away" = Words {
        is: "the service has as many connections as it may, or does not want these clients",
        proof: "It closed an accepted connection first, and had read none of its bytes: within a second, while others of the port are served, or with a question unread; or its first answer was a fatal error (PostgreSQL). At the client: the peer closed a new connection within a second, before anything was asked or with a reset right after its first bytes, while it answers others; those of a service that speaks first (FTP, SSH, SMTP, POP3, IMAP, MySQL, VNC), and then says no more, need no others; nor do those whose question it has not taken.",
        alike: "A limit of connections, a list of addresses or a rate limit of the program's own, a login that fails (PostgreSQL), and a service that fails at once.",
        check: "Its log; its limit (memcached -c, max_connections, maxclients, maxconn, worker_connections) against `ss -Hnt state established sport = :PORT | wc -l`.",
        cure: "A higher limit; fewer connections: a pool, idle ones closed; otherwise that of the program's log.",
        next: "stat --by peer,port --sort conn.accept",
    };
    AcceptRejected in Some(Accept), "accept.rejected" = Words {
        is: "clients do not accept the certificate, or the version or ciphers, that the service shows",
        proof: "A handshake of TLS whose beginning was seen: the service sent its part, and all that the client sent then was as short as an alert alone, before the connection ended. No other record of that place is.",
        alike: "A certificate that has expired, is of another name or of nobody whom the client trusts; a version, a cipher or a protocol (ALPN) that the client does not have; and a client that changes its mind. The alert itself may be encrypted.",
        check: "`openssl s_client -connect HOST:PORT -servername NAME -verify_return_error`; the logs of both.",
        cure: "A certificate of the right name, with its whole chain; the authority's certificate at the clients.",
        next: "stat --by peer,port --sort conn.accept",
    };
    Greeting in None, "greeting" = Words {
        is: "the peer speaks first, and is silent until then",
        proof: "Established, and no first byte; on a connection that has ended only where others to the port got one.",
        alike: "A greeting that is lost, and a peer that has nothing to say.",
        check: "`sockstamp trace` of a new connection; at the peer `ss -lnt`.",
        cure: "That of the peer: DNS look-ups of its clients, a full accept queue, too few workers.",
        next: "trace --slow 10ms",
    };
    Answer in None, "answer" = Words {
        is: "the wait for its answers",
        proof: "A question's last byte was queued, and the first byte of its answer could be read later.",
        alike: "A subscription or a long poll: a flow that always has a question open is a note.",
        check: "`sockstamp stat --by peer,port --sort peer.answer`.",
        cure: "That of the part below it.",
        next: "stat --by peer,port --sort peer.answer",
    };
    AnswerLoss in Some(Answer), "answer.loss" = Words {
        is: "questions are lost on the way there and sent again",
        proof: "Segments of the question were sent again, and no DSACK took them back.",
        alike: "A peer whose network card or host stood still.",
        check: "`ss -ti`: retrans, rto; `nstat -az TcpRetransSegs TcpExtTCPDSACKRecv`.",
        cure: "Depends on the place of the loss: a queue too short, a rate limit, a bad link.",
        next: "stat --by peer --sort tx.network",
    };
    AnswerBack in Some(Answer), "answer.back" = Words {
        is: "answers or acknowledgements are lost, or late, on the way back",
        proof: "Segments of the question were sent again, and DSACKs say that the first ones had arrived.",
        alike: "Loss on the way back, and a way back that is late by more than the timeout.",
        check: "`nstat -az TcpRetransSegs TcpExtTCPDSACKRecv`; at the peer `ss -ti`: retrans.",
        cure: "Depends on the place of the loss: a queue too short, a rate limit, a bad link.",
        next: "stat --by peer --sort tx.network",
    };
    AnswerOvertaken in Some(Answer), "answer.overtaken" = OVERTAKEN;
    AnswerLink in Some(Answer), "answer.link" = LINK_DOWN;
    AnswerFirewall in Some(Answer), "answer.firewall" = FIREWALL;
    AnswerDropped in Some(Answer), "answer.dropped" = DROPPED;
    AnswerNeighbour in Some(Answer), "answer.neighbour" = NEIGHBOUR;
    AnswerPath in Some(Answer), "answer.path" = Words {
        is: "the path: round trips",
        proof: "Up to the smallest round trip of that address.",
        alike: "Nothing: no answer can come sooner.",
        check: "`ss -ti`: minrtt; `sockstamp ping PEER`.",
        cure: "Fewer round trips (connections that stay open, several questions at once), or a closer peer.",
        next: "ping PEER",
    };
    AnswerDevice in Some(Answer), "answer.device" = Words {
        is: "the queue of a device of this host, on the way there, which other programs fill",
        proof: "Looks at the packet schedulers of every namespace meanwhile; the route there leads by this device.",
        alike: "Nothing: what waits there waits for as long as the device needs for it.",
        check: "`tc -s qdisc show dev DEVICE`: backlog, drops, rate.",
        cure: "fq_codel or cake; a shaper's rate below the uplink's; less bulk data on the same device.",
        next: "stat --host-path",
    };
    AnswerQueue in Some(Answer), "answer.queue" = Words {
        is: "a queue on the path, beyond this host, which a transfer of this host fills",
        proof: "Another connection of the same namespace has bytes on the way to the same host at the last look, and its smoothed round trip was well above the smallest of that address; the wait is as long as that.",
        alike: "A peer that is slow beside the transfer; a queue that others fill.",
        check: "`ss -ti`: rtt and minrtt of the transfer; `sockstamp ping PEER` with and without it.",
        cure: "A rate for the transfer below that of the path, or fair queues where the path is slow (fq_codel, cake).",
        next: "stat --by peer,port --sort tx.network",
    };
    AnswerHeld in Some(Answer), "answer.held" = Words {
        is: "answers wait behind missing segments: packets to this host are lost or reordered",
        proof: "Segments of the answer were here, behind a missing one.",
        alike: "Loss and reordering on the way here.",
        check: "`nstat -az TcpExtTCPOFOQueue`; retransmits at the peer.",
        cure: "As for loss, at the peer or on the path.",
        next: "stat --by peer --sort rx.hol",
    };
    AnswerChain in Some(Answer), "answer.chain" = Words {
        is: "it asks several questions one after the other",
        proof: "Questions of one process to a name server, three at least, each sent within the slow time after the answer to the one before.",
        alike: "A list of domains that is searched (search, ndots), one question after the other for each kind of address, and a program that looks up several names.",
        check: "`cat /etc/resolv.conf`: search, ndots; `tcpdump -n port 53`: names and NXDomain.",
        cure: "Full names that end with a dot, or `options ndots:1`; a shorter list; a cache on this host.",
        next: "stat --by peer,port --sort peer.answer",
    };
    AnswerTrips in Some(Answer), "answer.trips" = Words {
        is: "it asks one question after the other, and each takes a round trip",
        proof: "Ten questions on one connection or more, each sent at once after the answer to the one before, and a pause after them; three quarters of the time of such a series are as many of the smallest round trip, and such series have half of the time.",
        alike: "A program that reads a list one by one on purpose. One that asks again without a pause may fetch news as they come: that is a note.",
        check: "`ss -ti`: minrtt, beside the times of answers; `sockstamp trace`: what follows each answer.",
        cure: "One question for all of it (a join, MGET, a batch), several at once (pipelining), a cache, or a service that is nearer.",
        next: "stat --by peer,port --sort peer.answer",
    };
    AnswerSteps in Some(Answer), "answer.steps" = Words {
        is: "each step of a transfer waits for a message of the other end, once in a round trip: a window of the programs' own (HTTP/2, SSH), or a question for each piece",
        proof: "Ten exchanges of a connection or more, each of which begins at once after the one before and takes the smallest round trip, in which nothing else comes; in each as much is moved as ten segments carry, and more.",
        alike: "A program that fetches pieces one by one on purpose.",
        check: "`ss -ti`: minrtt, app_limited, delivery_rate; the window of the protocol against rate × round trip.",
        cure: "A larger window (HTTP/2: SETTINGS_INITIAL_WINDOW_SIZE and that of the connection), larger pieces, or several at once.",
        next: "stat --by peer,port",
    };
    AnswerTurn in Some(Answer), "answer.turn" = Words {
        is: "its tasks wait for their turn: more of them ask than there are connections (a pool that is full)",
        proof: "Three questions in four are sent on a connection at once when the answer to the one before was read, by another task than the one that asked and read that.",
        alike: "A service that is slow keeps each connection for longer: both tell how many are enough.",
        check: "The size of the pool against the number of tasks; `ss -tnp`: connections to the service.",
        cure: "A larger pool, or a service that answers sooner.",
        next: "stat --by peer,port --sort peer.answer",
    };
    AnswerFragments in Some(Answer), "answer.fragments" = Words {
        is: "answers come in fragments, and some of these are lost on the way here",
        proof: "Questions over UDP without an answer, and datagrams in this network namespace that lack a fragment (`/proc/PID/net/sockstat`: FRAG), half as many as those questions at least.",
        alike: "Fragments of others in the same namespace.",
        check: "`nstat -az IpReasmFails IpReasmTimeout`; `tcpdump -n 'ip[6:2] & 0x3fff != 0'`; firewalls on the way.",
        cure: "A firewall that lets fragments pass; smaller answers (names: EDNS of 1232 bytes, then TCP).",
        next: "stat --by peer,port --sort peer.answer",
    };
    AnswerUnix in Some(Answer), "answer.unix" = Words {
        is: "the work of the service, on this host",
        proof: "A task of the target sent a question on a Unix socket, and the first byte of the answer came later (sock_send_length, sk_data_ready): no network lies between.",
        alike: "A service that works, waits for another one or for its turn, or has no worker that is free.",
        check: "`sockstamp stat -p PID` of the service: what it waits for itself; `ss -xp`: bytes that it has not read.",
        cure: "That of the service.",
        next: "stat -p PID",
    };
    AnswerPeer in Some(Answer), "answer.peer" = Words {
        is: "beyond this host: the peer's work, or the way there and back",
        proof: "The rest: the question had left this host, and nothing came.",
        alike: "A slow peer, a queue on the path, and an answer that was lost, unless the peer is measured, too.",
        check: "`sockstamp stat --by peer,port`; sockstamp at the peer, or `stat -p PID` of its program where that is on this host.",
        cure: "That of the peer; for a long path fewer round trips or a closer peer.",
        next: "stat --by peer,port --sort peer.answer",
    };
    Rest in None, "rest" = Words {
        is: "the rest of the answer comes slowly",
        proof: "The first byte of an answer was here, and its last came later.",
        alike: "A sender that pauses and a path that is full, unless the round trip is at its smallest.",
        check: "`sockstamp trace`: gaps between the reads of one answer.",
        cure: "That of the sender or the path.",
        next: "trace --slow 10ms",
    };
    RestHeld in Some(Rest), "rest.held" = Words {
        is: "it waits behind missing segments: packets to this host are lost or reordered",
        proof: "Segments of the rest were here, behind a missing one.",
        alike: "Loss and reordering on the way here.",
        check: "`nstat -az TcpExtTCPOFOQueue`; retransmits at the peer.",
        cure: "As for loss, at the peer or on the path.",
        next: "stat --by peer --sort rx.hol",
    };
    RestDropped in Some(Rest), "rest.dropped" = DROPPED;
    RestPeer in Some(Rest), "rest.peer" = Words {
        is: "the peer sends it in pieces, with pauses between them (peer.rest)",
        proof: "All that had come of an answer was read, and the reader waited longer than a round trip for more of it.",
        alike: "A peer that works between the pieces, a queue or loss on the way here, and a stream: one such stretch on a connection that was there before counts for nothing.",
        check: "`sockstamp trace`: `peer.rest`; at the peer `ss -ti`, `strace -p PID`.",
        cure: "That of the peer, or of the path.",
        next: "stat --by peer,port --sort peer.rest",
    };
    RestClose in Some(Rest), "rest.close" = Words {
        is: "the peer has sent all of it and closes late, if that alone tells the end (no length: HTTP/1.0, Connection: close)",
        proof: "All that had come of an answer was read, a task slept for this socket alone, and the next thing to come was the peer's close, without data.",
        alike: "A subscription without news that the peer ends, and a client that reads on after an answer whose length it knows.",
        check: "`sockstamp pcap`: the time from the last data to the FIN; `curl -v`: Content-Length, Transfer-Encoding.",
        cure: "A length of the answer (Content-Length, chunks), or a peer that closes at once: after it, not after its other work.",
        next: "trace --slow 10ms",
    };
    Request in None, "request" = Words {
        is: "requests come in slowly",
        proof: "The first byte of a request was here, and its last came later.",
        alike: "A client that pauses and a path that is full or loses.",
        check: "`sockstamp trace`: gaps between the reads of one request.",
        cure: "That of the client or the path.",
        next: "trace --slow 10ms",
    };
    Service in None, "service" = Words {
        is: "the program takes that long to answer",
        proof: "A request was read whole, and the first byte of its answer was sent later (`app.service`), or never: until the client closed, a reset, the program's own close or the end.",
        alike: "A program that pushes: a flow that always has a request open, of a program that answers others meanwhile, is a note. Bytes that are never answered may be none to ask (a log, a confirmation): a note, unless no task watches the connection, tasks are kept by something, or clients give up while others are answered.",
        check: "`sockstamp trace`: `app.service`; `perf top -p PID`, `strace -p PID`.",
        cure: "That of the part below it.",
        next: "trace --slow 10ms",
    };
    ServiceRunning in Some(Service), "service.running" = Words {
        is: "its tasks are busy on the CPU",
        proof: "The tasks that read were on a CPU.",
        alike: "Own work and the kernel's work for it.",
        check: "`perf top -p PID`.",
        cure: "Less work per answer, or more tasks.",
        next: "explain",
    };
    ServiceRunnable in Some(Service), "service.runnable" = Words {
        is: "its tasks wait for a CPU",
        proof: "The tasks were ready, by the scheduler's own clock, and others ran.",
        alike: "Nothing: the scheduler counts it.",
        check: "`/proc/PID/schedstat`, `perf sched timehist`.",
        cure: "Fewer neighbours, a higher CPU weight, another CPU (taskset).",
        next: "explain",
    };
    ServiceThrottled in Some(Service), "service.throttled" = Words {
        is: "its own CPU quota is used up (throttled)",
        proof: "The scheduler's clock of the answering task's own cgroups stood still meanwhile.",
        alike: "Nothing: a quota of other cgroups never speaks.",
        check: "`cpu.stat` of the cgroup: nr_throttled; `cpu.max`, or `cpu.cfs_quota_us` (version 1).",
        cure: "A higher quota, or less work.",
        next: "stat --by cgroup --sort app.service",
    };
    ServiceAsks in Some(Service), "service.asks" = Words {
        is: "it waits for answers of others itself",
        proof: "Questions of this process were sent after the request came, and answered before its answer.",
        alike: "Questions of another request of the same process.",
        check: "`sockstamp stat -p PID --by peer,port --sort peer.answer`.",
        cure: "That of the service that is asked.",
        next: "stat --by peer,port --sort peer.answer",
    };
    ServiceTurn in Some(Service), "service.turn" = Words {
        is: "requests queue inside it: it never asks others for more at once (a pool of connections, or of workers), and has more requests than that",
        proof: "Requests of this process open at an instant, and its questions of them: as many as ever, and fewer than requests.",
        alike: "Requests beyond those that ask, which wait for something else.",
        check: "The size of its pool of connections; `sockstamp stat -p PID --by peer,port`.",
        cure: "A larger pool, if the service that is asked bears it; otherwise that of the service.",
        next: "stat --by peer,port --sort peer.answer",
    };
    ServiceAsleep in Some(Service), "service.asleep" = Words {
        is: "its tasks sleep: a lock, a disk, a timer, a pipe, a child, a service behind a Unix socket, or too few workers",
        proof: "No task that served was on a CPU, ready, or asking others. Other threads of the process, as those of a garbage collector, are not in it.",
        alike: "A lock, a disk, a timer, a full pipe, a service behind a Unix socket, a worker that is kept by an idle client.",
        check: "`strace -p PID`, `/proc/PID/stack`.",
        cure: "Asynchronous work, or more tasks; otherwise that of the lock or the disk.",
        next: "explain",
    };
    ServiceUnknown in Some(Service), "service.unknown" = Words {
        is: "cause not known: own work, a lock, a disk, or another service",
        proof: "The rest: the state of its tasks was not seen.",
        alike: "Everything that the program can do.",
        check: "`perf top -p PID`, `strace -p PID`; `sockstamp explain`.",
        cure: "Less work per answer; otherwise that of the service, lock or disk that it waits for.",
        next: "explain",
    };
    Delivery in None, "delivery" = Words {
        is: "data waits until it leaves",
        proof: "A send call began, and its last byte was handed to a driver later (`tx sent`).",
        alike: "Nothing: both ends are events of this socket.",
        check: "`ss -ti`: cwnd, rwnd_limited, sndbuf_limited, notsent.",
        cure: "That of the part below it.",
        next: "stat --by peer --sort tx.queue",
    };
    DeliveryCall in Some(Delivery), "delivery.call" = Words {
        is: "the send call itself takes the time (tx.copy)",
        proof: "Before its last byte was queued, without a wait for room.",
        alike: "Copying, page faults, reclaim, a disk under sendfile(2), a wait for a CPU.",
        check: "`perf top -p PID`: copies, page faults; `/proc/PID/schedstat`.",
        cure: "Smaller sends; a CPU and memory for the sending task.",
        next: "explain",
    };
    DeliveryRoom in Some(Delivery), "delivery.room" = Words {
        is: "the send buffer is full (sndbuf): the path or the peer takes data too slowly, or the buffer is small",
        proof: "The send waited for room in the send buffer.",
        alike: "Whatever keeps the bytes before it; it has the time if that was seen.",
        check: "`ss -tim`: sndbuf_limited, rwnd_limited, delivery_rate.",
        cure: "A larger buffer only if sndbuf_limited is large (SO_SNDBUF, net.ipv4.tcp_wmem).",
        next: "stat --by peer --sort tx.copy",
    };
    DeliveryWindow in Some(Delivery), "delivery.window" = Words {
        is: "the peer's full receive window (rwnd): its program reads too slowly, or its receive buffer is small",
        proof: "TCP held data back for the window that the peer announced (`rwnd`).",
        alike: "A slow reader and a small buffer on a long path.",
        check: "`ss -ti`: rwnd_limited; at the peer `ss -tm`: a full receive queue.",
        cure: "A faster reader at the peer, or a larger receive buffer there (net.ipv4.tcp_rmem).",
        next: "stat --by peer --sort tx.queue",
    };
    DeliveryUnscaled in Some(Delivery), "delivery.unscaled" = Words {
        is: "the peer's window, which is 64 KB at most: the ends did not agree on scaled windows (wscale), so that a round trip carries no more",
        proof: "TCP held data back for the peer's window (`rwnd`), the connection has no scaled windows (`wscale_ok`), and half of such a window or more was open when it was looked at: the reader keeps up.",
        alike: "Nothing: the option is exchanged with the SYNs. Either end, or a firewall between them, may have left it out.",
        check: "`ss -ti`: no wscale, rwnd_limited; `tcpdump 'tcp[tcpflags] & tcp-syn != 0'`: wscale in both SYNs; `sysctl net.ipv4.tcp_window_scaling` at both ends.",
        cure: "net.ipv4.tcp_window_scaling=1 at both ends; a firewall that lets the option pass.",
        next: "stat --by peer --sort tx.queue",
    };
    DeliveryLoss in Some(Delivery), "delivery.loss" = Words {
        is: "packets are lost on the way there and sent again",
        proof: "The message was sent again, or a window was full while the connection recovered from a loss; no DSACK took it back.",
        alike: "Strong reordering, until a DSACK comes.",
        check: "`nstat -az TcpRetransSegs TcpExtTCPTimeouts TcpExtTCPDSACKRecv`; `ip -s link`; `tc -s qdisc`.",
        cure: "Depends on the place of the loss: a queue too short, a rate limit, a bad cable or radio link.",
        next: "stat --by peer --sort tx.network",
    };
    DeliveryBack in Some(Delivery), "delivery.back" = Words {
        is: "answers or acknowledgements are lost, or late, on the way back",
        proof: "Segments were sent again, and DSACKs say that the first ones had arrived.",
        alike: "Loss on the way back, and a way back that is late by more than the timeout.",
        check: "`nstat -az TcpRetransSegs TcpExtTCPDSACKRecv`; at the peer `ss -ti`: retrans.",
        cure: "Depends on the place of the loss: a queue too short, a rate limit, a bad link.",
        next: "stat --by peer --sort tx.network",
    };
    DeliveryOvertaken in Some(Delivery), "delivery.overtaken" = OVERTAKEN;
    DeliveryLink in Some(Delivery), "delivery.link" = LINK_DOWN;
    DeliveryFirewall in Some(Delivery), "delivery.firewall" = FIREWALL;
    DeliveryDropped in Some(Delivery), "delivery.dropped" = DROPPED;
    DeliveryNeighbour in Some(Delivery), "delivery.neighbour" = NEIGHBOUR;
    DeliveryResolving in Some(Delivery), "delivery.resolving" = RESOLVING;
    DeliveryUnheard in Some(Delivery), "delivery.unheard" = Words {
        is: "nothing acknowledges it",
        proof: "Data had left, and no acknowledgement came for a round trip and 200 ms.",
        alike: "Loss on the way there, of the acknowledgement, and a peer that is gone.",
        check: "`ss -ti`: unacked, backoff; `sockstamp ping PEER`.",
        cure: "That of the path or the peer.",
        next: "trace --slow 200ms",
    };
    DeliveryRestart in Some(Delivery), "delivery.restart" = Words {
        is: "slow start: after each pause TCP begins with a small congestion window again (cwnd)",
        proof: "`cwnd` while the round trip was at its smallest, after a pause of this connection longer than its timeout.",
        alike: "A window that was small before, too.",
        check: "`ss -ti`: cwnd; `sysctl net.ipv4.tcp_slow_start_after_idle`.",
        cure: "net.ipv4.tcp_slow_start_after_idle=0, or data without such pauses.",
        next: "trace --slow 10ms",
    };
    DeliveryCongestion in Some(Delivery), "delivery.congestion" = Words {
        is: "a full congestion window (cwnd), although the path has no queue",
        proof: "`cwnd` while the round trip was at its smallest. With a grown round trip the path is full: no finding.",
        alike: "Slow start of a new connection, a window low since a loss before.",
        check: "`ss -ti`: cwnd, ssthresh, rtt, minrtt, retrans.",
        cure: "Connections that stay open; a path that loses less; another congestion control.",
        next: "trace --slow 10ms",
    };
    DeliveryPacing in Some(Delivery), "delivery.pacing" = Words {
        is: "pacing: TCP sends at a rate that it is held to, on a path without a queue",
        proof: "`pacing` while the round trip was at its smallest.",
        alike: "A rate set by the program or a route (SO_MAX_PACING_RATE), and the congestion control's own (BBR).",
        check: "`ss -ti`: pacing_rate, delivery_rate, app_limited; `tc qdisc show`: maxrate of fq.",
        cure: "A higher SO_MAX_PACING_RATE or maxrate, if one is set.",
        next: "trace --slow 10ms",
    };
    DeliveryDevice in Some(Delivery), "delivery.device" = Words {
        is: "the packet scheduler",
        proof: "It waited in the queue of this host's own device (`tx.qdisc`), or for that (`tsq`).",
        alike: "Its own bytes and those of others in the same queue.",
        check: "`tc -s qdisc show dev DEVICE`: backlog, drops, rate.",
        cure: "fq_codel or cake; a shaper's rate below the uplink's; less bulk data on the same device.",
        next: "stat --by interface --sort tx.qdisc",
    };
    DeliveryNagle in Some(Delivery), "delivery.nagle" = Words {
        is: "Nagle's algorithm: small sends wait for the ACK of an earlier one",
        proof: "A small packet waited for the acknowledgement of an earlier one (`nagle`).",
        alike: "Nothing: the kernel's own test of the socket is repeated.",
        check: "`strace -e trace=network -p PID`: several small sends per request.",
        cure: "TCP_NODELAY, or one send per request.",
        next: "trace --slow 10ms",
    };
    DeliveryCork in Some(Delivery), "delivery.cork" = Words {
        is: "held back by the program itself (TCP_CORK, MSG_MORE)",
        proof: "The socket was corked, or the send said that more follows (`cork`).",
        alike: "Nothing: the socket's own flag is read.",
        check: "`strace -e trace=setsockopt,sendto,sendmsg -p PID`.",
        cure: "Clear TCP_CORK, or send without MSG_MORE, at the end of a request.",
        next: "trace --slow 10ms",
    };
    DeliveryFull in Some(Delivery), "delivery.full" = Words {
        is: "the path is full: this is its bandwidth",
        proof: "Room, a window or pacing while the round trip was well above its smallest. Never lost: backups and slow phones are no findings.",
        alike: "A queue of others on the same path.",
        check: "`ss -ti`: rtt compared with minrtt, delivery_rate.",
        cure: "More bandwidth, or less data.",
        next: "stat --by peer --sort tx.network",
    };
    DeliveryStart in Some(Delivery), "delivery.start" = Words {
        is: "slow start of a new connection",
        proof: "`cwnd` of the first data of a connection. Never lost: no connection starts faster.",
        alike: "Nothing.",
        check: "`ss -ti`: cwnd, ssthresh.",
        cure: "Connections that stay open.",
        next: "trace --slow 10ms",
    };
    DeliveryPath in Some(Delivery), "delivery.path" = Words {
        is: "the way there and back",
        proof: "The acknowledgement of a message that was sent again, once it had left for the last time.",
        alike: "A delayed acknowledgement.",
        check: "`ss -ti`: rtt, minrtt.",
        cure: "A shorter path.",
        next: "ping PEER",
    };
    DeliveryOther in Some(Delivery), "delivery.other" = Words {
        is: "cause not known (tx.queue, other)",
        proof: "The rest: a wait in TCP's queue without a cause that can be seen.",
        alike: "Work in softirqs, TSO deferral, a lock of the socket.",
        check: "`perf top -p PID`; `/proc/net/softnet_stat`: time_squeeze; `mpstat -P ALL`: %soft.",
        cure: "Fewer and larger sends; more CPU for the sending task and for softirqs.",
        next: "explain",
    };
    Read in None, "read" = Words {
        is: "data that is here is read late",
        proof: "The last byte could be read, and a read call took it later (`rx total`).",
        alike: "A program that has no use for the data yet: only reads of requests and first reads of answers count.",
        check: "`ss -tm`: a receive queue that stays.",
        cure: "That of the part below it.",
        next: "stat --by comm,port --sort rx.app",
    };
    ReadMissing in Some(Read), "read.missing" = Words {
        is: "the wait for missing segments: packets to this host are lost or reordered (rx.hol)",
        proof: "The bytes were here, behind a missing segment.",
        alike: "Loss and reordering on the way here.",
        check: "`nstat -az TcpExtTCPOFOQueue`; retransmits at the peer.",
        cure: "As for loss, at the peer or on the path.",
        next: "stat --by peer --sort rx.hol",
    };
    ReadDropped in Some(Read), "read.dropped" = DROPPED;
    ReadStack in Some(Read), "read.stack" = Words {
        is: "the kernel's receive path (rx.stack)",
        proof: "From the packet's stamp to the socket being readable.",
        alike: "Busy softirqs, and a task that holds the socket's lock.",
        check: "`/proc/net/softnet_stat`: time_squeeze; `mpstat -P ALL`: %soft.",
        cure: "Spread interrupts (RSS, RPS); more CPUs for softirqs.",
        next: "explain",
    };
    ReadRunnable in Some(Read), "read.runnable" = Words {
        is: "it waits for a CPU (runqueue of rx.wakeup, runnable of rx.app)",
        proof: "The reader was ready, by the scheduler's own clock, and others ran.",
        alike: "Nothing: the scheduler counts it.",
        check: "`/proc/PID/schedstat`, `perf sched timehist`.",
        cure: "Fewer neighbours, a higher CPU weight, another CPU (taskset).",
        next: "explain",
    };
    ReadThrottled in Some(Read), "read.throttled" = Words {
        is: "its own CPU quota is used up (throttled)",
        proof: "The scheduler's clock of the reader's own cgroups stood still meanwhile.",
        alike: "Nothing: a quota of other cgroups never speaks.",
        check: "`cpu.stat` of the cgroup: nr_throttled; `cpu.max`, or `cpu.cfs_quota_us` (version 1).",
        cure: "A higher quota, or less work.",
        next: "stat --by cgroup --sort rx.app",
    };
    ReadRunning in Some(Read), "read.running" = Words {
        is: "it is busy with other work on the CPU (rx.app, running)",
        proof: "The task that read was on a CPU meanwhile.",
        alike: "Own work and the kernel's work for it.",
        check: "`perf top -p PID`: the work before the read.",
        cure: "Less work between reads, or a task of its own for it.",
        next: "explain",
    };
    ReadAsleep in Some(Read), "read.asleep" = Words {
        is: "its task sleeps: a lock, a disk, a timer, a pipe, or another service (rx.app, blocked)",
        proof: "The task that read slept meanwhile.",
        alike: "A lock, a disk, a timer, another service, a full pipe.",
        check: "`strace -p PID`, `/proc/PID/stack`.",
        cure: "Asynchronous work, or more tasks; otherwise that of the lock, the disk or the service.",
        next: "explain",
    };
    ReadTurn in Some(Read), "read.turn" = Words {
        is: "its workers are all busy with other requests",
        proof: "As many requests of this service were read and not answered at that moment as ever were.",
        alike: "Whatever keeps those requests is said of them.",
        check: "The number of its workers (threads, processes); `sockstamp stat --by port --sort app.service`.",
        cure: "More workers, or that of what they do for so long.",
        next: "stat --by port --sort app.service",
    };
    ReadUnknown in Some(Read), "read.unknown" = Words {
        is: "cause not known (rx.app, unknown)",
        proof: "The rest: the state of the reader was not seen.",
        alike: "Everything that the program can do.",
        check: "`ss -tm`; `perf top -p PID`, `strace -p PID`.",
        cure: "Less work between reads, more tasks, or asynchronous work.",
        next: "explain",
    };
    Tries in None, "tries" = Words {
        is: "the program waits by itself between its tries",
        proof: "Equal questions of a command to one service, each answered at once and alike, with pauses that grow from one to the next; the pauses have half of its time.",
        alike: "A program that polls less and less often by choice.",
        check: "Its log; `curl -v` of the same question: 429, 503, Retry-After.",
        cure: "That of what the answers say: a limit of requests, a job that is not done.",
        next: "trace",
    };
    Dropped in None, "dropped" = Words {
        is: "datagrams are dropped at their socket",
        proof: "The socket's own count of drops (`sk_drops`).",
        alike: "A receive buffer that is too small and a reader that is too slow.",
        check: "`nstat -az UdpRcvbufErrors`; `ss -um`.",
        cure: "A larger SO_RCVBUF (net.core.rmem_max), or a faster reader.",
        next: "stat --by comm,port",
    };
}

impl Node {
    /// Return the thing that is waited for.
    #[must_use]
    pub const fn root(self) -> Self {
        let mut node = self;
        while let Some(parent) = node.parent() {
            node = parent;
        }
        node
    }

    /// The nodes that it consists of.
    pub fn children(self) -> impl Iterator<Item = Self> {
        Self::ALL
            .into_iter()
            .filter(move |node| node.parent() == Some(self))
    }

    /// Return true if a round trip belongs to it however fast the rest is.
    #[must_use]
    pub const fn has_round_trip(self) -> bool {
        matches!(self.root(), Self::Connect | Self::Answer | Self::Greeting)
    }

    /// Return true for the part of the path, which is the first that is not lost.
    #[must_use]
    pub const fn is_path(self) -> bool {
        matches!(
            self,
            Self::AnswerPath | Self::ConnectPath | Self::DeliveryPath
        )
    }

    /// Return true for what the kernel of this host drops, its firewall included.
    #[must_use]
    pub const fn is_dropped_here(self) -> bool {
        matches!(
            self,
            Self::ConnectFirewall
                | Self::AnswerFirewall
                | Self::DeliveryFirewall
                | Self::ConnectDropped
                | Self::AnswerDropped
                | Self::RestDropped
                | Self::DeliveryDropped
                | Self::ReadDropped
        )
    }

    /// Return true for time that nobody can lose.
    #[must_use]
    pub const fn is_free(self) -> bool {
        matches!(self, Self::DeliveryFull | Self::DeliveryStart)
    }

    /// Return true if another cause than the named one looks the same from this host.
    #[must_use]
    pub const fn is_rest(self) -> bool {
        matches!(
            self,
            Self::AnswerPeer
                | Self::RestPeer
                | Self::ServiceUnknown
                | Self::DeliveryOther
                | Self::ReadUnknown
        )
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.about().name)
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.about().name)
    }
}
