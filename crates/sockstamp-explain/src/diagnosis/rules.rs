//! The table of rules. docs/diagnosis.md is generated from it.

use sockstamp_model::clock::Nanos;
use sockstamp_model::listener::ListenerSummary;
use sockstamp_model::part::Part;
use sockstamp_model::percent::share;
use sockstamp_model::service::Service;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::verdict::Verdict;

use super::figures::{Answers, Figures, Slowest, Sum};
use super::finding::{Cause, Finding};

/// A condition on a measurement, and the sentence to report if it holds.
#[derive(Debug)]
pub struct Rule {
    /// The name of the cause.
    pub name: &'static str,
    /// The condition under which the sentence is reported.
    pub condition: &'static str,
    /// The sentence, with letters for its figures.
    pub sentence: &'static str,
    /// Ways to confirm it.
    pub check: &'static str,
    /// Its usual cure.
    pub cure: &'static str,
    pub(super) find: fn(&Figures) -> Option<Finding>,
}

const MS: u64 = 1_000_000;

/// Report a wait only if it takes at least this part of its messages' time.
const LEAST_PERCENT: u128 = 30;
/// Report no fault because of one slow message among fast ones: the average must show the delay.
const LEAST_MEAN: Nanos = Nanos(MS);

/// All rules. The one whose cause took the most time is reported.
pub const RULES: &[Rule] = &[
    Rule {
        name: "refused",
        condition: "At least 20 % of the measured messages were refused.",
        sentence: "N % of the messages are refused, most as VERDICT: the figures cover only the others",
        check: "The verdict in [stages.md](stages.md); `sockstamp doctor`.",
        cure: "`evicted`: read faster, or from more tasks. `unmatched-read`: one reader per socket.",
        find: refused,
    },
    Rule {
        name: "packet scheduler",
        condition: "`tx.qdisc` is 5 ms on average, and 30 % of the time until messages leave.",
        sentence: "N % of the T until messages leave is the packet scheduler of DEVICE (tx.qdisc)",
        check: "`tc -s qdisc show dev DEVICE`: backlog, drops, rate.",
        cure: "fq_codel or cake; a shaper's rate below the uplink's; less bulk data on the same device.",
        find: |figures| stage(figures, Stage::TxQdisc, 5 * MS, qdisc),
    },
    Rule {
        name: "Nagle",
        condition: "`nagle` is 5 ms on average where it occurs, and 30 % of the time until messages leave.",
        sentence: "N % of the T until messages leave is Nagle's algorithm: small sends wait for the ACK of an earlier one",
        check: "`strace -e trace=network -p PID`: several small sends per request.",
        cure: "TCP_NODELAY, or one send per request.",
        find: |figures| {
            part(
                figures,
                Part::Nagle,
                5 * MS,
                "Nagle's algorithm: small sends wait for the ACK of an earlier one",
            )
        },
    },
    Rule {
        name: "cork",
        condition: "`cork` is 5 ms on average where it occurs, and 30 % of the time until messages leave.",
        sentence: "N % of the T until messages leave is held back by the program itself (TCP_CORK, MSG_MORE)",
        check: "`strace -e trace=setsockopt,sendto,sendmsg -p PID`.",
        cure: "Clear TCP_CORK, or send without MSG_MORE, at the end of a request.",
        find: |figures| {
            part(
                figures,
                Part::Cork,
                5 * MS,
                "held back by the program itself (TCP_CORK, MSG_MORE)",
            )
        },
    },
    Rule {
        name: "loss",
        condition: "At least 1 % of the segments sent, and at least 5, were sent again. SYNs, segments to a closed \
                    window, and those whose first one came are not among them; in recordings, they are.",
        sentence: "packets are lost: N of M segments were sent again",
        check: "`nstat -az TcpRetransSegs TcpExtTCPTimeouts TcpExtTCPDSACKRecv`; `ip -s link`; `tc -s qdisc`.",
        cure: "Depends on the place of the loss: a queue too short, a rate limit, a bad cable or radio link.",
        find: loss,
    },
    Rule {
        name: "inbound loss",
        condition: "`rx.hol` is 10 ms on average where it occurs, and 30 % of the time until data is read.",
        sentence: "N % of the T until data is read is the wait for missing segments: packets to this host are lost or reordered",
        check: "`nstat -az TcpExtTCPOFOQueue`; retransmits at the peer.",
        cure: "As for loss, at the peer or on the path.",
        find: |figures| {
            stage(figures, Stage::RxHol, 10 * MS, |_| {
                "the wait for missing segments: packets to this host are lost or reordered"
                    .to_owned()
            })
        },
    },
    Rule {
        name: "congestion window",
        condition: "`cwnd` or `retransmit` is 100 ms on average where it occurs, and 30 % of the time until messages leave.",
        sentence: "N % of the T until messages leave is a full congestion window: the path takes no more",
        check: "`ss -ti`: cwnd, rtt, minrtt, retrans.",
        cure: "More bandwidth, less data, or another congestion control on a path with loss (BBR).",
        find: |figures| {
            let words = "a full congestion window: the path takes no more";
            part(figures, Part::Cwnd, 100 * MS, words)
                .or_else(|| part(figures, Part::Retransmit, 100 * MS, words))
        },
    },
    Rule {
        name: "slow peer",
        condition: "`rwnd` is 20 ms on average where it occurs, and 30 % of the time until messages leave.",
        sentence: "N % of the T until messages leave is the peer's full receive window: its program reads too slowly, or its receive buffer is small",
        check: "`ss -ti`: rwnd_limited; at the peer `ss -tm`: a full receive queue.",
        cure: "A faster reader at the peer, or a larger receive buffer (net.ipv4.tcp_rmem) on a long path.",
        find: |figures| {
            part(
                figures,
                Part::Rwnd,
                20 * MS,
                "the peer's full receive window: its program reads too slowly, or its receive buffer is small",
            )
        },
    },
    Rule {
        name: "send buffer",
        condition: "`sndbuf` is 100 ms on average where it occurs, and 30 % of the time until messages leave.",
        sentence: "N % of the T until messages leave is the wait for room in the send buffer: the path or the peer takes data too slowly",
        check: "`ss -ti`: rwnd_limited, sndbuf_limited, delivery_rate.",
        cure: "That of the path or the peer; a larger buffer only if sndbuf_limited is large (net.ipv4.tcp_wmem).",
        find: |figures| {
            part(
                figures,
                Part::Sndbuf,
                100 * MS,
                "the wait for room in the send buffer: the path or the peer takes data too slowly",
            )
        },
    },
    Rule {
        name: "CPU",
        condition: "`rx.wakeup` is 2 ms on average, and 30 % of the time until data is read.",
        sentence: "N % of the T until data is read is the reader's wait for a CPU (rx.wakeup)",
        check: "`/proc/PID/schedstat`, `cpu.stat` of its cgroup (nr_throttled), `perf sched timehist`.",
        cure: "A higher CPU quota or weight, fewer neighbours, another CPU (taskset).",
        find: |figures| {
            stage(figures, Stage::RxWakeup, 2 * MS, |_| {
                "the reader's wait for a CPU (rx.wakeup)".to_owned()
            })
        },
    },
    Rule {
        name: "CPU quota",
        condition: "The quota of a cgroup was used up in 10 % of its periods, and in 5; `rx.wakeup`, `rx.app` or `app.service` is 2 ms on average; and `throttled`, if it is known, is 10 % of the three.",
        sentence: "the CPU quota of CGROUP was used up in N of M periods: its programs wait for the next one (N % of STAGE T)",
        check: "`cpu.stat` of the cgroup: nr_throttled; `cpu.max`, or `cpu.cfs_quota_us` (version 1).",
        cure: "A higher quota, or less work; if the cgroup is not the target's own, a quota for the whole target.",
        find: throttled,
    },
    Rule {
        name: "slow reader",
        condition: "`rx.app` is 10 ms on average, and 30 % of the time until data is read. Late accepts come before it: data waits for them, too.",
        sentence: "N % of the T until data is read is the program, which reads it late (rx.app, N % running, runnable or blocked)",
        check: "`ss -tm`: a receive queue that stays; `perf top -p PID`, `strace -p PID`.",
        cure: "Less work between reads, more tasks, or asynchronous work.",
        find: late_reads,
    },
    Rule {
        name: "receive path",
        condition: "`rx.stack` is 5 ms on average, and 30 % of the time until data is read.",
        sentence: "N % of the T until data is read is the kernel's receive path (rx.stack)",
        check: "`/proc/net/softnet_stat`: time_squeeze; `mpstat -P ALL`: %soft.",
        cure: "Spread interrupts (RSS, RPS); more CPUs for softirqs.",
        find: |figures| {
            stage(figures, Stage::RxStack, 5 * MS, |_| {
                "the kernel's receive path (rx.stack)".to_owned()
            })
        },
    },
    Rule {
        name: "dropped datagrams",
        condition: "At least 1 % of the datagrams that reached sockets, and at least 5, were dropped there.",
        sentence: "N datagrams were dropped at their socket: its receive buffer is too small or its reader too slow",
        check: "`nstat -az UdpRcvbufErrors`; `ss -um`.",
        cure: "A larger SO_RCVBUF (net.core.rmem_max), or a faster reader.",
        find: dropped,
    },
    Rule {
        name: "peer",
        condition: "`peer.answer` is 50 ms on average; the sentence names its larger part. It names a peer \
                    that took three quarters of that time. If at least nine tenths of the answers were recorded, \
                    as with a command, this is the share of all answers, and the average is the peer's own; \
                    otherwise it is the share of the recorded slow answers.",
        sentence: "PEER takes T to answer on average, of which the path is at least R (TCP)",
        check: "`sockstamp stat --by peer,port`; sockstamp at the peer.",
        cure: "That of the peer; for a long path: fewer round trips, or a closer peer.",
        find: peer,
    },
    Rule {
        name: "failed connects",
        condition: "At least 20 % of the connects were refused, timed out or failed otherwise.",
        sentence: "N of M connects failed, most as VERDICT",
        check: "The verdict in [stages.md](stages.md); `sockstamp trace`: the peer; there `ss -lnt`.",
        cure: "A service that listens; a firewall that lets it answer.",
        find: failed_connects,
    },
    Rule {
        name: "slow connects",
        condition: "`conn.handshake` is 100 ms on average.",
        sentence: "connects take T (conn.handshake); N SYNs were sent again",
        check: "`nstat -az TcpExtTCPSynRetrans`; at the peer `nstat -az TcpExtListenOverflows`, `ss -lnt`.",
        cure: "SYNs sent again: a longer accept queue at the peer, or a path that loses less. Otherwise: longer-lived connections.",
        find: slow_connects,
    },
    Rule {
        name: "full accept queue",
        condition: "At least 3 SYNs or ends of handshakes found the queue of a listener full. What it drops for \
                    other reasons does not count.",
        sentence: "the accept queue of LISTENER is full (Q of M at the end): N SYNs or ends of handshakes were dropped, \
                   each delays a client by 1 s or more",
        check: "`ss -lnt`: Recv-Q and Send-Q of the listener; `nstat -az TcpExtListenOverflows TcpExtListenDrops`.",
        cure: "More tasks that accept, or less work between accepts; a longer queue (listen(2), \
               net.core.somaxconn) for bursts.",
        find: listener_drops,
    },
    Rule {
        name: "late accepts",
        condition: "`conn.accept` is 10 ms on average.",
        sentence: "connections wait T to be accepted (conn.accept): the program accepts late",
        check: "`ss -lnt`: Recv-Q of the listener; `strace -e trace=accept,accept4 -p PID`.",
        cure: "Less work between accepts, or more tasks that accept; a longer queue only delays them.",
        find: late_accepts,
    },
];

/// Leave out sockets that the application closed itself: it may have raced several addresses.
fn failed_connects(figures: &Figures) -> Option<Finding> {
    let verdicts = [
        Verdict::ConnectRefused,
        Verdict::ConnectTimeout,
        Verdict::ConnectFailed,
    ];
    let connections = &figures.connections;
    let failed: u64 = verdicts
        .iter()
        .map(|&verdict| connections.failed(verdict))
        .sum();
    let all = failed + connections.opened;
    if failed == 0 || failed * 5 < all {
        return None;
    }
    let most = verdicts
        .into_iter()
        .max_by_key(|&verdict| connections.failed(verdict))?;
    Some(Finding {
        // The messages that would have followed are unknown: only refusals rank higher.
        ns: u128::MAX - 1,
        sentence: format!("{failed} of {all} connects failed, most as {most}"),
        cause: Cause::Other,
    })
}

fn slow_connects(figures: &Figures) -> Option<Finding> {
    let handshake = figures.stages[Stage::ConnHandshake];
    if handshake.mean() < Nanos(100 * MS) {
        return None;
    }
    let mean = handshake.mean();
    let sentence = match figures.connections.syns_again {
        0 => format!("connects take {mean} (conn.handshake)"),
        1 => format!("connects take {mean} (conn.handshake); 1 SYN was sent again"),
        again => format!("connects take {mean} (conn.handshake); {again} SYNs were sent again"),
    };
    Some(Finding {
        ns: handshake.ns,
        sentence,
        cause: Cause::Stage(Stage::ConnHandshake),
    })
}

fn late_accepts(figures: &Figures) -> Option<Finding> {
    let accept = figures.stages[Stage::ConnAccept];
    if accept.mean() < Nanos(10 * MS) {
        return None;
    }
    let mean = accept.mean();
    Some(Finding {
        ns: accept.ns,
        sentence: format!(
            "connections wait {mean} to be accepted (conn.accept): the program accepts late"
        ),
        cause: Cause::Stage(Stage::ConnAccept),
    })
}

/// Subtract waits for accept(): data that came before it waited for it first.
fn late_reads(figures: &Figures) -> Option<Finding> {
    let found = stage(figures, Stage::RxApp, 10 * MS, |figures| {
        let doing = most_of_reader(figures);
        format!("the program, which reads it late (rx.app{doing})")
    })?;
    let accepts = figures.stages[Stage::ConnAccept].ns;
    Some(Finding {
        ns: found.ns.saturating_sub(accepts),
        ..found
    })
}

/// A client sends a dropped SYN again after a second (TCP_TIMEOUT_INIT, include/net/tcp.h, v6.18).
fn listener_drops(figures: &Figures) -> Option<Finding> {
    let listener = figures.listener.as_ref()?;
    Some(Finding {
        ns: u128::from(listener.overflowed?) * 1_000 * u128::from(MS),
        sentence: full_queue(listener)?,
        cause: Cause::Other,
    })
}

/// Return the sentence about a listener whose queue was too short.
pub fn full_queue(listener: &ListenerSummary) -> Option<String> {
    let &ListenerSummary {
        local,
        queue,
        limit,
        overflowed,
        ..
    } = listener;
    let dropped = overflowed?;
    (dropped >= 3).then(|| {
        format!(
            "the accept queue of {local} is full ({queue} of {limit} at the end): {dropped} SYNs or ends of \
             handshakes were dropped, each delays a client by 1 s or more"
        )
    })
}

/// Form the finding of a cause that took `sum` of the `whole`, if that is enough of it.
fn finding(sum: Sum, whole: Sum, cause: Cause, what: &str) -> Option<Finding> {
    if whole.mean() < LEAST_MEAN || sum.ns * 100 < whole.ns * LEAST_PERCENT {
        return None;
    }
    let until = match cause {
        Cause::Stage(stage) if stage.direction() == Direction::Rx => "data is read",
        _ => "messages leave",
    };
    let (percent, mean) = (share(sum.ns, whole.ns), whole.mean());
    Some(Finding {
        ns: sum.ns,
        sentence: format!("{percent} of the {mean} until {until} is {what}"),
        cause,
    })
}

fn stage(
    figures: &Figures,
    stage: Stage,
    least: u64,
    what: fn(&Figures) -> String,
) -> Option<Finding> {
    let sum = figures.stages[stage];
    if sum.mean() < Nanos(least) {
        return None;
    }
    finding(
        sum,
        figures.whole(stage),
        Cause::Stage(stage),
        &what(figures),
    )
}

fn part(figures: &Figures, part: Part, least: u64, what: &str) -> Option<Finding> {
    let sum = figures.parts[part];
    if sum.mean() < Nanos(least) {
        return None;
    }
    finding(sum, figures.whole(part.stage()), Cause::Part(part), what)
}

/// Return what readers did before they read, if one part has at least half of the time.
fn most_of_reader(figures: &Figures) -> String {
    let whole = figures.stages[Stage::RxApp].ns;
    let known = [Part::Running, Part::Runnable, Part::Blocked];
    known
        .into_iter()
        .find(|part| figures.parts[*part].ns * 2 >= whole.max(1))
        .map_or_else(String::new, |part| {
            format!(", {} {part}", share(figures.parts[part].ns, whole))
        })
}

fn qdisc(figures: &Figures) -> String {
    match &figures.interface {
        Some(interface) => format!("the packet scheduler of {interface} (tx.qdisc)"),
        None => "the packet scheduler (tx.qdisc)".to_owned(),
    }
}

/// Rank refusals before any time of valid messages: the times of refused ones are unknown.
fn refused(figures: &Figures) -> Option<Finding> {
    let refused: u64 = figures.refused.iter().map(|(_, count)| count).sum();
    let all = refused + figures.sent.count + figures.read.count;
    let (most, _) = figures.refused.iter().max_by_key(|(_, count)| *count)?;
    if refused * 5 < all || refused < 5 {
        return None;
    }
    let percent = share(refused.into(), all.into());
    let why = match most {
        Verdict::Evicted => "the reader falls behind: ",
        Verdict::UnmatchedRead => "several tasks read one socket: ",
        _ => "",
    };
    Some(Finding {
        ns: u128::MAX,
        sentence: format!(
            "{why}{percent} of the messages are refused, most as {most}: the figures cover only the others"
        ),
        cause: Cause::Other,
    })
}

/// Sum the three stages that end with the task's work: a quota holds a task up before it reads or,
/// at the end of its system call, after it (v6.18). The quota stands for all of them, unless its
/// share is known and small.
fn throttled(figures: &Figures) -> Option<Finding> {
    let quota = figures.throttled.as_ref()?;
    if quota.throttled < 5 || quota.throttled * 10 < quota.periods {
        return None;
    }
    let parts = [
        Part::WakeupThrottled,
        Part::AppThrottled,
        Part::ServiceThrottled,
    ];
    let slow = parts.map(|part| {
        let stage = part.stage();
        (stage, figures.stages[stage], figures.parts[part].ns)
    });
    let (stage, most, held) = slow
        .into_iter()
        .max_by_key(|(_, stage, held)| (*held, stage.mean()))?;
    if most.mean() < Nanos(2 * MS) {
        return None;
    }
    let known: u128 = slow.iter().map(|(_, _, held)| held).sum();
    let ns: u128 = slow.iter().map(|(_, stage, _)| stage.ns).sum();
    if known > 0 && known * 10 < ns {
        return None;
    }
    let (cgroup, used, periods, time) =
        (&quota.cgroup, quota.throttled, quota.periods, most.mean());
    let of = match held {
        0 => String::new(),
        held => format!("{} of ", share(held, most.ns)),
    };
    Some(Finding {
        ns,
        sentence: format!(
            "the CPU quota of {cgroup} was used up in {used} of {periods} periods: its programs wait for the next one ({of}{stage} {time})"
        ),
        cause: Cause::Other,
    })
}

fn loss(figures: &Figures) -> Option<Finding> {
    let lossless = figures.lossless.unwrap_or(0);
    let again = figures.retransmits.saturating_sub(lossless);
    let segments = figures.least_segments();
    if again < 5 || again * 100 < segments {
        return None;
    }
    let waits = [Part::Retransmit, Part::Excess].map(|part| figures.parts[part].ns);
    let of = match figures.segments {
        Some(_) => format!("{again} of {segments} segments were sent again"),
        None => format!("{again} segments were sent again, of at least {segments}"),
    };
    Some(Finding {
        ns: waits.into_iter().sum(),
        sentence: match figures.lossless {
            Some(_) => format!("packets are lost: {of}"),
            None => format!("packets are lost, or acknowledged late: {of}"),
        },
        cause: Cause::Other,
    })
}

fn dropped(figures: &Figures) -> Option<Finding> {
    if figures.drops < 5 || figures.drops * 100 < figures.drops + figures.read.count {
        return None;
    }
    Some(Finding {
        ns: figures.read.ns,
        sentence: format!(
            "{} datagrams were dropped at their socket: its receive buffer is too small or its reader too slow",
            figures.drops
        ),
        cause: Cause::Other,
    })
}

fn peer(figures: &Figures) -> Option<Finding> {
    let all = Answers {
        whole: figures.stages[Stage::PeerAnswer],
        network: Sum {
            count: figures.stages[Stage::PeerAnswer].count,
            ns: figures.parts[Part::Network].ns,
        },
    };
    let slowest = figures.slowest_peer;
    let of_one = slowest.and_then(|slowest| Some((slowest.peer, slowest.answers?)));
    let Answers { whole, network } = of_one.map_or(all, |(_, answers)| answers);
    if whole.mean() < Nanos(50 * MS) {
        return None;
    }
    let (answered, way) = (whole.mean(), network.mean());
    let takes = match (of_one, slowest) {
        (Some((peer, _)), _) => format!("{} takes {answered} to answer on average", Service(peer)),
        (None, Some(Slowest { peer, .. })) => {
            format!(
                "peers take {answered} to answer on average, most of it {}",
                Service(peer)
            )
        }
        (None, None) => format!("peers take {answered} to answer on average"),
    };
    let sentence = if network.ns == 0 {
        takes
    } else if network.ns * 2 > whole.ns {
        let (of, to) = match of_one {
            Some((peer, _)) => (format!(" of {}", Service(peer)), ""),
            None => (String::new(), " to the peers"),
        };
        format!("answers{of} take {answered} on average, of which the path{to} is at least {way}")
    } else {
        format!("{takes}, of which the path is at least {way}")
    };
    Some(Finding {
        // The wait for an answer begins at the send; the request's own wait here is not the peer's.
        ns: whole.ns.saturating_sub(figures.sent.ns),
        sentence,
        cause: Cause::Other,
    })
}
