//! Waits that failed: how many, in what way, and what was seen of the reason.

use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::Protocol;
use sockstamp_model::wait::End;

use super::common::are_heard;
use super::evidence::{ONLY_LARGE, dropped, fragments, full_queue, link, only_large};
use super::neighbours::{neighbour, silent_neighbour};
use super::tasks::{idle_loop, slept, theirs, there};
use super::words::{programs, server, services};
use crate::diagnosis::finding::Finding;
use crate::diagnosis::slow::{Role, Slow};
use crate::diagnosis::tally::Account;
use crate::diagnosis::tree::Node;

/// A connection that nobody used for so long was idle.
const IDLE: u64 = 200_000_000;

/// So many answers show that a service is there.
const ANSWERED: u64 = 3;

pub(super) fn of_failures(finding: &Finding, account: &Account<'_>, how: End) -> String {
    let what = match finding.node.root() {
        Node::Connect => "connects",
        Node::Answer | Node::Rest | Node::Service => "requests",
        Node::Delivery => "sends",
        Node::Accept | Node::Greeting => "connections",
        _ => "waits",
    };
    let count = match finding.tried {
        Some(all) if all >= finding.count => format!("{} of {all} {what}", finding.count),
        _ => format!("{} {what}", finding.count),
    };
    let to = match finding.role {
        Role::Asks => format!("of {} to {}", programs(finding), services(finding)),
        Role::Serves => format!("at {}", server(finding)),
    };
    let pause = account
        .counted
        .iter()
        .filter_map(|counted| counted.wait.seen.pause)
        .min()
        .filter(|pause| *pause >= IDLE);
    let idle = match (how, pause) {
        (End::Reset | End::ClosedByPeer, Some(pause)) => {
            format!(", all idle for at least {} before", Nanos(pause))
        }
        (End::GivenUp | End::TimedOut, Some(pause)) if is_forgotten(finding, account) => {
            format!(", all idle for at least {} before", Nanos(pause))
        }
        _ => String::new(),
    };
    let after = match how {
        End::GivenUp | End::TimedOut | End::AskedAgain => format!(" after {}", finding.typical),
        _ if is_of_service(finding) => format!(" after {}", finding.typical),
        _ => String::new(),
    };
    let befell = match (finding.node.root(), how) {
        (Node::Delivery, End::GivenUp) => "were not acknowledged and were given up",
        (_, End::TurnedAway) => turned_away(finding, account),
        (_, End::Rejected) => rejected(finding),
        (Node::Delivery, End::ClosedByPeer) => "were not acknowledged when the peer closed",
        (Node::Connect, End::Refused) => "were refused",
        (Node::Delivery, End::Reset) => "were not acknowledged until a reset came",
        (Node::Service, End::GivenUp) => {
            "were read, and their connections closed without an answer"
        }
        (Node::Service, _) => "were read and not answered until their clients gave up",
        (Node::Greeting, End::GivenUp) => "got no greeting, which others got, and were given up",
        (Node::Greeting, End::ClosedByPeer) => "were closed by the peer before its greeting",
        (Node::Greeting, End::Reset) => "were reset before the greeting that others got",
        _ => failure(how),
    };
    let fate = match how {
        End::TurnedAway if are_reset(account) => {
            ": a firewall or a proxy on the way rejects them, or the service does, or its accept queue \
             is full (net.ipv4.tcp_abort_on_overflow)"
                .to_owned()
        }
        End::TurnedAway | End::Rejected => format!(": {}", finding.node.about().is),
        _ => fate(finding, account, how),
    };
    let neighbour = neighbour(account);
    format!("{count} {to} {befell}{after}{idle}{fate}{neighbour}")
}

/// Return true for new connections that resets ended: a service that closes them sends none, as
/// long as it has nothing to read.
fn are_reset(account: &Account<'_>) -> bool {
    let mut counted = account.counted.iter();
    counted.all(|counted| counted.wait.seen.is_reset)
}

/// Return true for requests on connections that were idle for a second and longer, of which nothing
/// arrived any more, while at least as many were answered on others.
fn is_forgotten(finding: &Finding, account: &Account<'_>) -> bool {
    const LONG: u64 = 1_000_000_000;
    let is_one = |wait: &Slow| {
        let was_idle = wait.seen.pause.is_some_and(|pause| pause >= LONG);
        was_idle && !wait.is_new && wait.is_unacknowledged() && !wait.seen.is_large
    };
    let mut waits = account.counted.iter().map(|counted| counted.wait);
    waits.all(is_one) && account.answered >= finding.count
}

/// Tell of datagrams of one socket: each was followed by the next without an answer, while the
/// service answers other sockets.
fn one_socket(account: &Account<'_>) -> Option<String> {
    /// Look-ups wait that long for their turn at most.
    const BETWEEN: u64 = 10_000_000;
    let mut waits: Vec<_> = account.counted.iter().map(|counted| counted.wait).collect();
    waits.sort_unstable_by_key(|wait| wait.begin);
    let first = waits.first()?;
    let is_of_it =
        |wait: &&Slow| wait.socket() == first.socket() && wait.flow.protocol == Protocol::Udp;
    let follow = |two: &[&Slow]| two[1].begin <= two[0].end.saturating_add(BETWEEN);
    let is_deaf = waits.len() >= 3 && waits.iter().all(is_of_it) && waits.windows(2).all(follow);
    let port = first.flow.local.port();
    (is_deaf && account.answered_to_any >= ANSWERED).then(|| {
        format!(
            ": all are of one socket (local port {port}), which got no answer at all, while others \
             did: a NAT, a load balancer or a firewall on the way sends it elsewhere (an old entry of \
             its connection table), or drops it; a new socket may get answers"
        )
    })
}

/// A program of this host has the request.
fn is_of_service(finding: &Finding) -> bool {
    finding.node.root() == Node::Service
}

/// Tell what tasks did of a service that did not answer. Threads beside an event loop sleep in
/// locks whenever they have no work.
fn of_service(finding: &Finding, account: &Account<'_>) -> String {
    let node = finding.node;
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let idle = idle_loop(account).trim_start_matches("; ");
    match idle.is_empty() || !seen.all(|seen| seen.may_push) {
        true => slept(account, node).unwrap_or_else(|| node.about().is.to_owned()),
        false => idle.to_owned(),
    }
}

/// Tell the end of connections that a service does not want.
fn turned_away(finding: &Finding, account: &Account<'_>) -> &'static str {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    match finding.role {
        Role::Serves if seen.all(|seen| seen.is_dismissed && seen.bytes == 0) => {
            "were answered with a fatal error at once"
        }
        Role::Serves => "were closed by it at once, without a read",
        Role::Asks if seen.clone().all(|seen| seen.is_reset) => {
            "were reset at once, before a word of either, while others were answered"
        }
        Role::Asks if seen.clone().all(|seen| seen.is_refused_login) => {
            "were ended by the peer at once, after its answer to their first question (too many \
             clients, a login that fails)"
        }
        Role::Asks if seen.all(|seen| seen.is_untaken) => {
            "were closed by the peer at once, after its first words or without any"
        }
        Role::Asks => "were closed by the peer at once, while it answers others",
    }
}

/// Tell the end of connections whose clients do not want the service.
const fn rejected(finding: &Finding) -> &'static str {
    match finding.role {
        Role::Serves => {
            "ended in the TLS handshake: after its part of it, the client sent an alert"
        }
        Role::Asks => "ended in the TLS handshake: after the peer's part of it, an alert was sent",
    }
}

/// Tell the end of questions that nobody answered.
fn fate(finding: &Finding, account: &Account<'_>, how: End) -> String {
    if let Some(neighbour) = silent_neighbour(account) {
        let is = finding.node.about().is;
        return format!(": {is}: {neighbour}");
    }
    if is_of_service(finding) {
        return format!(": {}", of_service(finding, account));
    }
    match (how, finding.node) {
        (_, node) if node.is_dropped_here() => {
            let dropped = dropped(account, node).map(|dropped| format!(": {dropped}"));
            format!(": {}{}", node.about().is, dropped.unwrap_or_default())
        }
        (_, Node::AnswerFragments) => {
            let fragments = fragments(account).unwrap_or_default();
            format!(": {}{fragments}", finding.node.about().is)
        }
        (_, Node::ConnectQueue) => {
            let queue = full_queue(account).unwrap_or_default();
            format!(": {}{queue}", finding.node.about().is)
        }
        (_, Node::ConnectLink | Node::AnswerLink | Node::DeliveryLink) => {
            link(account).map_or_else(String::new, |link| format!(": {link}"))
        }
        (_, Node::AnswerLoss | Node::DeliveryLoss) if only_large(account) => {
            format!(": {ONLY_LARGE}")
        }
        (End::GivenUp | End::AskedAgain, Node::AnswerPeer) if one_socket(account).is_some() => {
            one_socket(account).unwrap_or_default()
        }
        (End::GivenUp | End::TimedOut, Node::AnswerLoss) if is_forgotten(finding, account) => {
            ": they were sent again, and never acknowledged, while others were answered: a firewall or \
             NAT on the way may forget idle connections (keep-alive)"
                .to_owned()
        }
        (End::GivenUp | End::TimedOut, Node::AnswerLoss) => {
            ": they were sent again, and never acknowledged".to_owned()
        }
        (End::GivenUp, Node::AnswerPeer) if are_heard(account) => {
            let own = match are_alike(account) {
                true => ", as by a timeout of its own",
                false => "",
            };
            let program = there(account).unwrap_or_else(|| "its program".to_owned());
            let tasks = theirs(account).map_or_else(String::new, |tasks| format!("; {tasks}"));
            format!(
                "{own}: the host there acknowledged them: {program} did not answer in time, or the \
                 answer was lost{tasks}"
            )
        }
        (_, Node::AnswerUnix) => {
            let program = there(account).unwrap_or_else(|| "the service, on this host".to_owned());
            let tasks = theirs(account).map_or_else(String::new, |tasks| format!("; {tasks}"));
            format!(": by {program}{tasks}")
        }
        (End::GivenUp, Node::AnswerPeer) if are_alike(account) => {
            ", as by a timeout of its own".to_owned()
        }
        (End::Refused, Node::ConnectPath | Node::Connect) => came_through(finding, account),
        _ if are_rejected(account) => format!(": {}", Node::ConnectRejected.about().is),
        _ => String::new(),
    }
}

/// Return true for connects to services that answer some of them by ICMP.
fn are_rejected(account: &Account<'_>) -> bool {
    let mut counted = account.counted.iter();
    counted.all(|counted| counted.wait.seen.is_rejected)
}

/// Where a part of the connects is refused, or others are answered meanwhile, more may be so than
/// where all are.
fn came_through(finding: &Finding, account: &Account<'_>) -> String {
    match finding
        .tried
        .map_or(0, |all| all.saturating_sub(finding.count))
    {
        0 if account.answered >= ANSWERED => {
            ", and connections that it had were answered: a firewall or the service limits them, or \
             nothing listens there any more"
                .to_owned()
        }
        0 => ": nothing listens there, or a firewall rejects them".to_owned(),
        others => format!(
            ", and {others} came through: the service is down at times, a firewall rejects some, or \
             two hosts have the address"
        ),
    }
}

/// Return true for three waits or more that ended after the same time, but for a twentieth.
fn are_alike(account: &Account<'_>) -> bool {
    let times = account.times();
    let ends = times.first().zip(times.last());
    times.len() >= 3 && ends.is_some_and(|(least, most)| (most - least) * 20 <= *most)
}

/// Return what happened to waits that failed, for a sentence.
const fn failure(how: End) -> &'static str {
    match how {
        End::GivenUp => "got no answer and were given up",
        End::ClosedByPeer => "met a connection that the peer closed",
        End::Reset => "met a connection that was reset",
        End::Refused => "were refused: nothing listens there, or a firewall rejects them",
        End::Prohibited => "were told that the port is closed",
        End::Unreachable => "had no way there (unreachable)",
        End::Denied => {
            "were not let out by this host: a firewall or a policy forbids them, or a queue is full"
        }
        End::NoRoute => "were not sent: this host has no route there, or a policy that forbids it",
        End::NoPort => "were not sent: no free local port, all are in use or in TIME_WAIT",
        End::TimedOut => "were never answered (timed out)",
        End::AskedAgain => "got no answer and were asked again",
        End::TurnedAway => "met a service that does not want it",
        End::Rejected => "ended in the TLS handshake",
        End::Open | End::Data => "went on",
    }
}
