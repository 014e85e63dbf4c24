//! Findings that only the sums of a measurement show: no single wait has them.

use sockstamp_model::clock::Nanos;
use sockstamp_model::group::GroupSummary;
use sockstamp_model::listener::{HalfOpen, ListenerSummary};
use sockstamp_model::summary::Summary;
use sockstamp_model::verdict::Verdict;
use sockstamp_model::wait::End;

use crate::diagnosis::descent::deepest;
use crate::diagnosis::evidence::drop_reason;
use crate::diagnosis::finding::{Finding, Grade};
use crate::diagnosis::scope::Scope;
use crate::diagnosis::slow::{Key, Role, Slow};
use crate::diagnosis::source::{Kind, of_group as of_group_by_kind};
use crate::diagnosis::tally::failures;
use crate::diagnosis::tree::Node;

/// As many are no accident.
const LEAST: u64 = 3;

pub(in crate::diagnosis) fn findings(
    summary: &Summary,
    scope: Scope,
    waits: &[Slow],
) -> Vec<Finding> {
    let listeners = summary.listeners.iter();
    let listeners = listeners
        .flat_map(|one| [queue(one), flood(one), unrouted(one)])
        .flatten();
    let others = [
        dropped(summary),
        evicted(summary),
        connects(summary, scope, waits),
    ];
    listeners.chain(others.into_iter().flatten()).collect()
}

/// A client sends a dropped SYN again after a second (TCP_TIMEOUT_INIT, include/net/tcp.h, v6.18).
fn queue(listener: &ListenerSummary) -> Option<Finding> {
    let sentence = full_queue(listener)?;
    let count = listener.overflowed?;
    let mut found = Finding::of_counts(
        Node::AcceptQueue,
        Role::Serves,
        count,
        failures(count),
        sentence,
    );
    found.services.push(listener.local);
    Some(found)
}

/// Return the sentence about a listener whose queue was too short.
#[must_use]
pub fn full_queue(listener: &ListenerSummary) -> Option<String> {
    let &ListenerSummary {
        local,
        queue,
        limit,
        overflowed,
        ..
    } = listener;
    let dropped = overflowed?;
    (dropped >= LEAST).then(|| {
        format!(
            "the accept queue of {local} is full ({queue} of {limit} at the end): {dropped} SYNs or ends of \
             handshakes were dropped, each delays a client by 1 s or more"
        )
    })
}

/// The kernel counts SYNs that find too many half-open handshakes; their senders are seen at the
/// end.
fn flood(listener: &ListenerSummary) -> Option<Finding> {
    let HalfOpen {
        refused,
        count,
        addresses,
    } = listener.half_open?;
    if refused < LEAST {
        return None;
    }
    let from = match addresses {
        1 => "one address".to_owned(),
        addresses => format!("{addresses} addresses"),
    };
    let local = listener.local;
    let sentence = format!(
        "half-open handshakes fill the queue of {local}, {count} from {from} at the end: {}: \
         {refused} SYNs found no room and were dropped, or answered by SYN cookies",
        Node::AcceptHalfOpen.about().is
    );
    let lost = failures(refused);
    let node = Node::AcceptHalfOpen;
    let mut found = Finding::of_counts(node, Role::Serves, refused, lost, sentence);
    found.services.push(local);
    found.grade = Grade::Both;
    Some(found)
}

/// The kernel cannot answer SYNs from where no route leads back to.
fn unrouted(listener: &ListenerSummary) -> Option<Finding> {
    let (count, local) = (listener.unrouted, listener.local);
    if count < LEAST {
        return None;
    }
    let node = Node::AcceptUnrouted;
    let sentence = format!("{count} SYNs to {local} were dropped: {}", node.about().is);
    let mut found = Finding::of_counts(node, Role::Serves, count, failures(count), sentence);
    found.services.push(local);
    Some(found)
}

/// One in a hundred, and five.
fn dropped(summary: &Summary) -> Option<Finding> {
    let (drops, read) = (summary.rx.drops, summary.rx.total.count());
    if drops < 5 || drops * 100 < drops + read {
        return None;
    }
    let of = drops.saturating_add(read);
    let sentence = format!(
        "{drops} of {of} datagrams were dropped at their socket{}",
        why_dropped(summary)
    );
    let lost = failures(drops);
    Some(Finding::of_counts(
        Node::Dropped,
        Role::Serves,
        drops,
        lost,
        sentence,
    ))
}

/// The reason of a full receive buffer, which nearly all drops at sockets have.
const FULL_BUFFER: &str = "SOCKET_RCVBUFF";

/// Return what follows on the number of datagrams that sockets dropped: the reason of nine tenths
/// of them, or the number of each. Before Linux 6.11 the kernel tells no reason.
fn why_dropped(summary: &Summary) -> String {
    const NAMED: usize = 3;
    let counted = summary.rx.drop_reasons.iter();
    let mut reasons: Vec<(&str, u64)> =
        counted.map(|(reason, count)| (&**reason, *count)).collect();
    reasons.retain(|(_, count)| *count > 0);
    // Those of one number stay in the order of their names.
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let told = |named: usize| reasons[..named].iter().map(|(_, count)| count).sum::<u64>();
    let drops = summary.rx.drops.max(told(reasons.len()));
    let buffer = ": its receive buffer is too small or its reader too slow";
    match reasons.first() {
        None => return buffer.to_owned(),
        Some((reason, count)) if count * 10 >= drops * 9 => {
            return match *reason {
                FULL_BUFFER => buffer.to_owned(),
                reason => drop_reason::words(reason),
            };
        }
        Some(_) => {}
    }
    let of_each = |(reason, count): &(&str, u64)| match *reason {
        FULL_BUFFER => format!("{count} for want of room in its receive buffer"),
        reason => format!("{count}{}", drop_reason::words(reason)),
    };
    let named = reasons.len().min(NAMED);
    let mut each: Vec<_> = reasons[..named].iter().map(of_each).collect();
    match drops - told(named) {
        0 => {}
        rest => each.push(format!(
            "{rest} for another reason, or for none that is known"
        )),
    }
    format!(": {}", each.join(", "))
}

/// A reader so far behind that the places of its arrivals were needed again.
fn evicted(summary: &Summary) -> Option<Finding> {
    let count = summary.verdict(Verdict::Evicted);
    if count < 5 || count * 5 < count + summary.rx.total.count() {
        return None;
    }
    let sentence = format!(
        "the reader falls behind: {count} messages waited behind so many others that their times are not known (evicted)"
    );
    let lost = failures(count);
    Some(Finding::of_counts(
        Node::ReadUnknown,
        Role::Serves,
        count,
        lost,
        sentence,
    ))
}

/// Connects that failed, where no wait has shown to whom: a program may have reached another
/// address instead, so that only a measurement without success speaks.
fn connects(summary: &Summary, scope: Scope, waits: &[Slow]) -> Option<Finding> {
    let is_known = |wait: &Slow| {
        let Key { root, .. } = &wait.key;
        *root == Node::Connect && wait.how.is_failure()
    };
    let failed = |verdict: Verdict| summary.connections.failed(verdict);
    let verdicts = [
        (Verdict::ConnectRefused, End::Refused),
        (Verdict::ConnectTimeout, End::TimedOut),
        (Verdict::ConnectFailed, End::Unreachable),
    ];
    let all: u64 = verdicts.iter().map(|(verdict, _)| failed(*verdict)).sum();
    let least = if scope.is_command { 1 } else { LEAST };
    if waits.iter().any(is_known) || all < least || summary.connections.opened > 0 {
        return None;
    }
    let (most, how) = verdicts
        .into_iter()
        .max_by_key(|(verdict, _)| failed(*verdict))?;
    let sentence = format!("{all} of {all} connects failed, most as {most}");
    let mut found = Finding::of_counts(Node::Connect, Role::Asks, all, failures(all), sentence);
    found.failure = Some(how);
    Some(found)
}

/// Tell that figures cover only a part of the messages.
pub(in crate::diagnosis) fn notes(summary: &Summary) -> Option<String> {
    let refused: u64 = summary.refusals().map(|(_, count)| count).sum();
    let valid = summary.verdict(Verdict::Valid);
    let (most, _) = summary.refusals().max_by_key(|(_, count)| *count)?;
    (refused >= 5 && refused * 5 >= refused + valid)
        .then(|| format!("{refused} messages are not in the figures, most of them as {most}"))
}

/// Diagnose a group, of which only sums are known; also return the time that was lost.
#[must_use]
pub fn of_group(group: &GroupSummary, slow: Nanos) -> Option<(u128, String)> {
    let kinds = of_group_by_kind(group).into_iter();
    let lost = |kind: &Kind| {
        let free: u64 = kind
            .parts
            .iter()
            .filter(|(node, _)| node.is_free())
            .map(|(_, time)| time)
            .sum();
        let due = slow.0.saturating_add(free);
        u128::from(kind.mean.0.saturating_sub(due)) * u128::from(kind.count)
    };
    // One in ten lost as much as what counts as slow.
    let is_slow = |kind: &Kind| kind.count >= LEAST && kind.p90.0 >= slow.0 * 2;
    let (lost, worst) = kinds
        .filter(is_slow)
        .map(|kind| (lost(&kind), kind))
        .filter(|(lost, _)| *lost > 0)
        .max_by_key(|(lost, _)| *lost)?;
    Some((lost, sentence_of(&worst)))
}

fn sentence_of(kind: &Kind) -> String {
    let Kind {
        mean,
        median,
        p90,
        count,
        ..
    } = kind;
    let what = match kind.root {
        Node::Connect => "connects take",
        Node::Accept => "accepts come late by",
        Node::Answer => "answers take",
        Node::Read => "reads come late by",
        _ => "sends leave late by",
    };
    let deepest = deepest(&kind.parts, kind.root);
    let cause = match deepest.node {
        // Peers of a group may be on this host, in another one.
        Node::AnswerPeer => "the work of its peers, or the way there and back",
        node => node.about().is,
    };
    let share = match deepest.percent {
        95.. => String::new(),
        percent => format!("; {percent} % of it"),
    };
    format!("{what} {mean} on average (p50 {median}, p90 {p90}, {count} in all): {cause}{share}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_that_of_all_drops_from_nine_tenths_on() {
        let told = |drops: u64, reasons: &[(&str, u64)]| {
            let mut summary = Summary::default();
            summary.rx.drops = drops;
            let reasons = reasons
                .iter()
                .map(|(reason, count)| ((*reason).into(), *count));
            summary.rx.drop_reasons = reasons.collect();
            dropped(&summary).unwrap().sentence
        };
        let buffer = ": its receive buffer is too small or its reader too slow";
        assert!(told(10, &[]).ends_with(buffer));
        assert!(told(10, &[(FULL_BUFFER, 9), ("UDP_CSUM", 1)]).ends_with(buffer));
        assert!(told(10, &[("UDP_CSUM", 9), (FULL_BUFFER, 1)]).contains("for a wrong checksum"));
        let both = "10 of 10 datagrams were dropped at their socket: 5 for want of room in its \
                    receive buffer, 5 for a wrong checksum: somebody on the way corrupts them, as a \
                    device or its offload (ethtool -k) [UDP_CSUM]";
        assert_eq!(told(10, &[("UDP_CSUM", 5), (FULL_BUFFER, 5)]), both);
        let some = told(10, &[("SOCKET_FILTER", 4)]);
        let rest = "4 [SOCKET_FILTER], 6 for another reason, or for none that is known";
        assert!(some.ends_with(rest), "{some}");
    }
}
