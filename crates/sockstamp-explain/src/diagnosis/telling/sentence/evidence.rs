//! Further evidence of a wait, for nodes that have some of their own.

use std::collections::BTreeMap;

use sockstamp_model::clock::Nanos;
use sockstamp_model::descriptors::Descriptors;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::End;

use super::common::{is_chain, short_way};
use super::neighbours::{next_hop, silent_neighbour};
use super::tasks::{theirs, there};
use crate::diagnosis::descent;
use crate::diagnosis::evidence::backlog::Backlog;
use crate::diagnosis::evidence::drop_reason::words;
use crate::diagnosis::evidence::full_queue::FullQueue;
use crate::diagnosis::evidence::link::Link;
use crate::diagnosis::evidence::sleep::{Sleep, Slept};
use crate::diagnosis::finding::Finding;
use crate::diagnosis::slow::{Seen, Slow};
use crate::diagnosis::tally::{Account, Tried};
use crate::diagnosis::telling::asleep;
use crate::diagnosis::tree::Node;
use crate::diagnosis::words::{counted, service};

/// So many questions for one request are worth a word.
const MANY: u64 = 3;

pub(super) const ONLY_LARGE: &str =
    "only full-size segments vanish, while smaller ones arrive (MTU): nothing tells this host so";

/// As many answers to others show that what is small arrives.
const OTHERS: u64 = 3;

/// The pauses are as long as the kernel delays an ACK at least.
const DELAYED: &str = "; most pauses are as long as this host delays an ACK (40 ms): the peer may hold the \
     rest back until then (Nagle's algorithm, without TCP_NODELAY)";

/// Linux sends a SYN again without ECN (net.ipv4.tcp_ecn_fallback).
const SECOND: &str = "; each comes through with its second SYN: the first one may have carried what a path or a \
     firewall drops (ECN, net.ipv4.tcp_ecn=1, which the second has not), or a firewall lets only SYNs \
     pass that are sent again";

/// Tell other evidence, for nodes with evidence of their own.
pub(super) fn more(
    finding: &Finding,
    account: &Account<'_>,
    node: Node,
    summary: &Summary,
) -> Option<String> {
    of_answer(finding, account, node)
        .or_else(|| of_loss(account, node))
        .or_else(|| of_connect(finding, account, node))
        .or_else(|| of_delivery(account, node))
        .or_else(|| of_next_hop(account, node))
        .or_else(|| of_program(finding, account, node, summary))
}

fn seen<'a>(account: &Account<'a>) -> impl Iterator<Item = &'a Seen> {
    account.counted.iter().map(|counted| &counted.wait.seen)
}

fn of_answer(finding: &Finding, account: &Account<'_>, node: Node) -> Option<String> {
    match node {
        Node::AnswerPeer if short_way(finding, account).is_some() => None,
        Node::AnswerPeer => {
            let path = seen(account)
                .filter_map(|seen| seen.rtt)
                .min()
                .filter(|rtt| *rtt > 100_000)?;
            Some(format!(", of which the path is at least {}", Nanos(path)))
        }
        Node::AnswerChain => questions(account),
        Node::AnswerTrips => trips(account),
        Node::AnswerSteps => steps(account),
        Node::AnswerTurn => Some(turns(account)),
        Node::AnswerQueue => {
            let queued = seen(account)
                .filter_map(|seen| seen.queued)
                .max()
                .map(Nanos)?;
            let rtt = seen(account).filter_map(|seen| seen.rtt).min().map(Nanos)?;
            Some(format!(
                ": its data is acknowledged after {queued}, where a round trip takes {rtt} at least; or \
                 the peer's work"
            ))
        }
        Node::AnswerFragments => fragments(account),
        Node::AnswerDevice => {
            let Backlog {
                device,
                bytes,
                time,
                ..
            } = seen(account).find_map(|seen| seen.backlog.clone())?;
            Some(format!(
                ": {device} had {} KB queued at most looks, which take it {time}",
                bytes / 1000
            ))
        }
        Node::RestPeer => {
            let most = seen(account).map(|seen| seen.members + 1).max()?;
            let delayed = if are_of_delayed_acks(account) {
                DELAYED
            } else {
                ""
            };
            Some(format!(", up to {most} of an answer{delayed}"))
        }
        _ => None,
    }
}

fn of_loss(account: &Account<'_>, node: Node) -> Option<String> {
    let again: u64 = seen(account).map(|seen| u64::from(seen.resent)).sum();
    let segments = (again > 0).then(|| counted(again, "segment"))?;
    match node {
        Node::AnswerLoss | Node::DeliveryLoss => {
            let verb = if again == 1 { "was" } else { "were" };
            let more = if only_large(account) {
                format!(", and {ONLY_LARGE}")
            } else if seen(account).any(|seen| seen.some_in_vain) {
                ", some of them in vain, as DSACKs say".to_owned()
            } else {
                String::new()
            };
            Some(format!(": {segments} {verb} sent again{more}"))
        }
        Node::AnswerBack | Node::AnswerOvertaken | Node::DeliveryBack | Node::DeliveryOvertaken => {
            Some(format!(
                ": {segments} sent again, and DSACKs say of most that they had come"
            ))
        }
        _ => None,
    }
}

fn of_connect(finding: &Finding, account: &Account<'_>, node: Node) -> Option<String> {
    match node {
        Node::ConnectQueue => full_queue(account),
        Node::ConnectAgain if are_second(finding, account) => Some(SECOND.to_owned()),
        Node::ConnectPath if is_chain(account) => Some(connects(account)),
        _ => None,
    }
}

fn of_delivery(account: &Account<'_>, node: Node) -> Option<String> {
    match node {
        Node::DeliveryWindow => {
            if let Some(unread) = unread(account) {
                return Some(format!(
                    "; {} kB from there wait to be read here: neither end reads",
                    unread / 1000
                ));
            }
            let others = seen(account).map(|seen| seen.others).max()?;
            (others > 0).then(|| format!("; {others} other connections have room"))
        }
        Node::DeliveryDevice => {
            let device = seen(account).find_map(|seen| seen.device.clone())?;
            Some(format!(" of {device} (tx.qdisc)"))
        }
        Node::DeliveryRoom if seen(account).any(|seen| seen.buffer_set) => {
            Some("; the program set its size (SO_SNDBUF)".to_owned())
        }
        Node::DeliveryPacing => {
            let rate = seen(account).find_map(|seen| seen.paced)?;
            Some(format!(": the program allows {rate} bytes a second"))
        }
        Node::DeliveryRestart => {
            let pause = seen(account).filter_map(|seen| seen.pause).min()?;
            Some(format!(": pauses of at least {}", Nanos(pause)))
        }
        _ => None,
    }
}

fn of_next_hop(account: &Account<'_>, node: Node) -> Option<String> {
    let told = match node {
        Node::ConnectNeighbour | Node::AnswerNeighbour | Node::DeliveryNeighbour => {
            silent_neighbour(account)?
        }
        Node::ConnectResolving | Node::DeliveryResolving => next_hop(account)?,
        Node::ConnectLink | Node::AnswerLink | Node::DeliveryLink => link(account)?,
        node if node.is_dropped_here() => dropped(account, node)?,
        _ => return None,
    };
    Some(format!(": {told}"))
}

fn of_program(
    finding: &Finding,
    account: &Account<'_>,
    node: Node,
    summary: &Summary,
) -> Option<String> {
    match node {
        Node::Accept => no_descriptors(account),
        Node::ReadTurn => {
            let workers = seen(account).map(|seen| seen.workers).max()?;
            let workers = counted(workers as u64, "request");
            Some(format!(" (it has at most {workers} at a time)"))
        }
        Node::ServiceTurn => own_questions(account),
        Node::ServiceAsks => asked(finding, account),
        Node::ServiceAsleep => asleep::disks(account),
        Node::ReadAsleep => asleep::disks(account).or_else(|| asleep::standstill(account)),
        Node::ReadUnknown => asleep::standstill(account),
        Node::ServiceThrottled | Node::ReadThrottled => {
            let quota = summary.throttled.as_ref()?;
            Some(format!(
                ": the CPU quota of {} was used up in {} of {} periods",
                quota.cgroup, quota.throttled, quota.periods
            ))
        }
        _ => None,
    }
}

/// The questions at once of a service whose requests wait inside.
fn own_questions(account: &Account<'_>) -> Option<String> {
    let most = seen(account).map(|seen| seen.questions_at_once).max()?;
    let asked = seen(account).find_map(|seen| seen.asked);
    let asked = asked.map_or_else(String::new, |(peer, time)| {
        format!(
            ", to {}, whose slow answers take {}",
            service(peer),
            Nanos(time)
        )
    });
    Some(format!(
        "; at most {} at once{asked}",
        counted(most, "question")
    ))
}

/// The accept queue that was full, and what the program does that should accept.
pub(super) fn full_queue(account: &Account<'_>) -> Option<String> {
    let seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let looks = seen.filter_map(|seen| seen.full_queue);
    let FullQueue { queue, limit, .. } = looks.max_by_key(|look| look.queue)?;
    let queue = match queue > limit {
        true => format!(" (Recv-Q {queue}, Send-Q {limit}, ss -lnt)"),
        false => format!(" at times ({queue} of {limit} at a look, after drops; ss -lnt)"),
    };
    let who = there(account).map_or_else(String::new, |there| {
        let tasks = theirs(account).map_or_else(String::new, |tasks| format!(": {tasks}"));
        format!("; {there}, does not accept in time{tasks}")
    });
    Some(format!("{queue}{who}"))
}

/// Return true if all of several connects took one step of the timer, which is 1 s
/// (TCP_TIMEOUT_INIT, include/net/tcp.h, v6.18): chance loses no first SYN and spares each second.
fn are_second(finding: &Finding, account: &Account<'_>) -> bool {
    const LEAST: u64 = 5;
    const STEP: std::ops::Range<u64> = 1_000_000_000..2_000_000_000;
    let ended = account.counted.iter().map(|counted| counted.wait);
    let ended: Vec<_> = ended.filter(|wait| wait.how == End::Data).collect();
    let tried = finding.tried.unwrap_or(0);
    let is_each = ended.len() as u64 >= LEAST && finding.count >= tried;
    is_each && ended.iter().all(|wait| STEP.contains(&wait.time()))
}

/// Cost of the connections that requests open.
fn connects(account: &Account<'_>) -> String {
    let waits = || account.counted.iter().map(|counted| counted.wait);
    let (all, opening) = waits().fold((0, 0), |(all, opening), wait| {
        (all + wait.time(), opening + wait.parts.of(Node::Connect))
    });
    let share = descent::share(opening, all);
    let mut questions: Vec<_> = waits().map(|wait| wait.seen.members - 1).collect();
    questions.sort_unstable();
    let handshakes = match questions[questions.len() / 2] {
        0 | 1 => String::new(),
        // Each version of TLS has three at most, with the request.
        asked => {
            let why = if asked <= 3 {
                " (TLS does, before the request)"
            } else {
                ""
            };
            format!(" and asks {asked} questions, one after the other{why}")
        }
    };
    format!(
        ": each request opens a connection{handshakes}: {share} % of its time; connections that stay \
         open (keep-alive) save it"
    )
}

/// Return true if four pauses of five within answers last 40 ms (TCP_DELACK_MIN, include/net/tcp.h,
/// v6.18), and what a round trip and timers add.
fn are_of_delayed_acks(account: &Account<'_>) -> bool {
    const DELAY: std::ops::RangeInclusive<u64> = 39_000_000..=48_000_000;
    let pauses = account.counted.iter().map(|counted| {
        let wait = counted.wait;
        wait.time() / u64::from(wait.seen.members.max(1))
    });
    let delayed = pauses.filter(|pause| DELAY.contains(pause)).count();
    delayed >= 3 && delayed * 5 >= account.counted.len() * 4
}

/// Count the questions of look-ups that take several, and tell the time of each.
fn questions(account: &Account<'_>) -> Option<String> {
    let waits = account.counted.iter().map(|counted| counted.wait);
    let chains: Vec<_> = waits.filter(|wait| wait.seen.questions > 0).collect();
    let mut counts: Vec<_> = chains.iter().map(|wait| wait.seen.questions).collect();
    let each = |wait: &&Slow| wait.time() / u64::from(wait.seen.questions);
    let mut times: Vec<_> = chains.iter().map(each).collect();
    counts.sort_unstable();
    times.sort_unstable();
    let count = counts.get(counts.len() / 2)?;
    let each = Nanos(times[times.len() / 2]);
    Some(format!(": {count} questions, of {each} each"))
}

/// Questions of a series, and their round trip.
fn trips(account: &Account<'_>) -> Option<String> {
    let questions = questions(account)?;
    let chains = account.counted.iter().map(|counted| counted.wait);
    let chains = chains.filter(|wait| wait.seen.questions > 0);
    let rtt = chains.filter_map(|wait| wait.seen.rtt).min()?;
    Some(format!(
        "{questions}; a round trip takes {} at least: fewer questions, or several at once, save them",
        Nanos(rtt)
    ))
}

/// Return what transfers move in a round trip.
fn steps(account: &Account<'_>) -> Option<String> {
    let waits = || account.counted.iter().map(|counted| counted.wait);
    let (bytes, time) = waits().fold((0, 0), |(bytes, time), wait| {
        (
            bytes + u128::from(wait.seen.bytes),
            time + u128::from(wait.time()),
        )
    });
    let rtt = waits().filter_map(|wait| wait.seen.rtt).min()?;
    let a_second = (bytes * 1_000_000).checked_div(time)?;
    let each = (bytes * u128::from(rtt)).checked_div(time * 1000)?;
    Some(format!(
        ": {each} kB in each round trip, which takes {} at least, {a_second} kB a second",
        Nanos(rtt)
    ))
}

/// Connections for which tasks wait.
fn turns(account: &Account<'_>) -> String {
    let connections = counted(account.connections() as u64, "connection");
    format!("; {connections} always have a question, each of another task than the one before")
}

/// Datagrams of which fragments are missing.
pub(super) fn fragments(account: &Account<'_>) -> Option<String> {
    let seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let missing = seen.map(|seen| seen.fragments).max()?;
    Some(format!(
        ": {} of which some are missing at the end (/proc/net/sockstat: FRAG)",
        match missing {
            1 => "the fragments of 1 datagram".to_owned(),
            missing => format!("those of {missing} datagrams"),
        }
    ))
}

/// Why the table of stages names another limit.
pub(super) fn by_clocks(account: &Account<'_>, node: Node) -> &'static str {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let is_limit = matches!(node, Node::DeliveryWindow | Node::DeliveryRoom);
    match is_limit && seen.any(|seen| seen.by_clocks) {
        true => {
            "; by TCP's own clocks (ss -ti: rwnd_limited, sndbuf_limited): what the table has as cwnd or \
             pacing waits behind that"
        }
        false => "",
    }
}

/// Return what an end that waits for the peer's window has not read itself, and has no window for.
fn unread(account: &Account<'_>) -> Option<u64> {
    let seen = account.counted.iter().map(|counted| &counted.wait.seen);
    seen.filter_map(|seen| seen.unread).max()
}

/// For whose data tasks of a service sleep, and how many questions of one after the other that is.
fn asked(finding: &Finding, account: &Account<'_>) -> Option<String> {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let slept = seen.find_map(|seen| seen.slept.as_ref())?;
    let Slept {
        sleep, looks, of, ..
    } = slept;
    let Sleep::Peer(_) = sleep else { return None };
    let words = slept.words();
    let mean = account.asked.as_ref().and_then(Tried::mean);
    let asleep = finding.typical.0 / *of as u64 * *looks as u64;
    let each = mean.and_then(|mean| Some((asleep.checked_div(mean.0)?, mean)));
    // Answers that were taken for others are too few.
    let all = account.asked.map_or(0, |asked| asked.count);
    let are_enough = |count: u64| count.saturating_mul(finding.count) <= all.saturating_mul(2);
    Some(
        match each.filter(|(count, _)| *count >= MANY && are_enough(*count)) {
            Some((count, mean)) => format!(
                ": its tasks sleep {words}; an answer of it takes {mean} on average, so that these are \
             some {count} questions one after the other"
            ),
            None => format!(": its tasks sleep {words}"),
        },
    )
}

/// Name the descriptors of a program that has no room for more.
fn no_descriptors(account: &Account<'_>) -> Option<String> {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let Descriptors { open, limit } = seen.find_map(|seen| seen.descriptors)?;
    Some(format!(
        "; it had {open} descriptors open, and may have {limit}: without a free one accept() fails \
         (EMFILE)"
    ))
}

/// Count the packets that the kernel of this host dropped, where it did, and say why.
pub(super) fn dropped(account: &Account<'_>, node: Node) -> Option<String> {
    let counted = account.counted.iter().map(|counted| counted.wait);
    let mut sockets = BTreeMap::new();
    for wait in counted.filter(|wait| wait.parts.of(node) > 0) {
        if let Some(drops) = &wait.seen.dropped {
            sockets.insert(wait.socket(), drops);
        }
    }
    let most = sockets.values().max_by_key(|drops| drops.packets)?;
    if most.are_translated {
        return Some(format!(
            "{} SYNs to it were dropped after the address of their sender had been changed (NAT): \
             that may have no free port (conntrack -S, iptables -t nat -vnL)",
            most.packets
        ));
    }
    let reason = &most.reason;
    let for_it = sockets.values().filter(|drops| drops.reason == *reason);
    let packets = for_it.map(|drops| drops.packets).sum();
    let why = match node {
        Node::ConnectFirewall | Node::AnswerFirewall | Node::DeliveryFirewall => String::new(),
        _ => words(reason),
    };
    Some(match packets {
        1 => format!("1 was dropped{why}"),
        all => format!("{all} were dropped{why}"),
    })
}

/// The link that went down, where that was seen.
pub(super) fn link(account: &Account<'_>) -> Option<String> {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let Link { device, downs, .. } = seen.find_map(|seen| seen.link.clone())?;
    Some(match downs {
        1 => format!("the link of {device} went down once"),
        downs => format!("the link of {device} went down {downs} times"),
    })
}

/// Only what does not fit into one small segment was lost, again and again, while something else
/// came through.
pub(super) fn only_large(account: &Account<'_>) -> bool {
    let is_loss = |node| matches!(node, Node::AnswerLoss | Node::DeliveryLoss);
    let lost = account.counted.iter().map(|counted| counted.wait);
    let mut lost = lost
        .filter(|wait| wait.parts.iter().any(|(node, _)| is_loss(node)))
        .map(|wait| &wait.seen)
        .peekable();
    let comes = |seen: &Seen| seen.heard_since || seen.others_arrive || account.answered >= OTHERS;
    let vanishes = |seen: &Seen| seen.is_large && !seen.large_arrive && seen.resent > 0;
    lost.peek().is_some() && lost.all(|seen| vanishes(seen) && comes(seen))
}
