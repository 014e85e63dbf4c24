//! From an account to a finding: the figures, then the words.

pub(super) mod alone;
mod asleep;
mod sentence;
pub(super) mod sums;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use sockstamp_model::clock::Nanos;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::{End, Wait};

use super::connection::pace;
use super::contrast::{self, NAMED};
use super::descent::{Deepest, deepest};
use super::finding::{Finding, Grade, Why};
use super::slow::{Role, Seen, Slow};
use super::source::of_wait;
use super::source::unix::is_stand_in;
use super::tally::{Account, Tried};
use super::tree::Node;
use super::words::counted;
use super::worth::OCCASIONS;

/// Return the note of waits that are rare, and have half of the time of all.
pub(super) fn rare(account: &Account<'_>, summary: &Summary) -> Option<String> {
    let Finding { sentence, .. } = finding(account, &[], summary)?;
    Some(format!(
        "{sentence}; seldom, and half of the time of all such waits"
    ))
}

/// Return the note of a finding that may be a fault or not.
pub(super) fn doubted(account: &Account<'_>, finding: &Finding) -> String {
    let Finding { sentence, .. } = finding;
    if pace::is_readers_own(account, finding) {
        let alone = match account
            .counted
            .iter()
            .all(|counted| counted.wait.seen.is_alone)
        {
            true => ", and nobody else waits for it",
            false => "",
        };
        return format!("{sentence}; it sets the pace itself{alone}");
    }
    if pace::keeps_a_tick(account, finding) {
        return format!("{sentence}; it reads at a tick of its own, as games do");
    }
    if account.failure == Some(End::GivenUp) {
        return format!("{sentence}; it may have cancelled them, as who asks two services at once");
    }
    if pace::reads_when_it_likes(account, finding) || pace::lags(account, finding) {
        return format!("{sentence}; it may read at a pace of its own, as players do");
    }
    sentence.clone()
}

/// Return the note of connections that programs open seldom.
pub(super) fn seldom_opened(finding: &Finding, percent: u64) -> String {
    let Finding { sentence, .. } = finding;
    format!(
        "{sentence}; that is {percent} % of the time of such connections, from the first to the last"
    )
}

/// Return true for requests that were given up sooner than programs lose patience: a few times what
/// is slow. Who asks several services at once has an answer of one of them, so that a third of all
/// that it `asked` was answered.
pub(super) fn may_be_cancelled(account: &Account<'_>, slow: Nanos, asked: Option<Tried>) -> bool {
    const SOON: u64 = 10;
    let longest = account.times().last().copied().unwrap_or(0);
    let is_given_up = account.failure == Some(End::GivenUp);
    let fails = |asked: Tried| asked.count.saturating_sub(asked.failed) * 3 < asked.count;
    let is_given_up = is_given_up && !asked.is_some_and(fails);
    is_given_up && account.root() == Some(Node::Answer) && longest < slow.0.saturating_mul(SOON)
}

/// Return true for waits that are several questions each: single ones are counted apart.
const fn is_of_several(node: Node) -> bool {
    matches!(
        node,
        Node::AnswerChain | Node::AnswerTrips | Node::AnswerSteps
    )
}

/// Return true for a service of whose tasks nothing was seen but that they wait for any event, or
/// for each other.
pub(super) fn is_vague(account: &Account<'_>, finding: &Finding) -> bool {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let is_idle = |seen: &Seen| {
        let slept = seen.slept.as_ref().map(|slept| &slept.sleep);
        slept.is_none_or(|sleep| sleep.is_idle() || sleep.is_own_lock())
            && seen.ran.is_none()
            && seen.asleep_in.is_empty()
    };
    let is_asleep = matches!(finding.node, Node::ServiceAsleep | Node::ServiceUnknown);
    is_asleep && finding.failure.is_none() && seen.all(is_idle)
}

/// Form the finding of an account.
pub(super) fn finding(
    account: &Account<'_>,
    siblings: &[(SocketAddr, Nanos, u64)],
    summary: &Summary,
) -> Option<Finding> {
    let root = account.root()?;
    let parts = account.parts();
    let deepest = deepest(&parts, root);
    let times = account.times();
    let paths = account.paths();
    let peers = match paths.is_empty() {
        true => account.peers(),
        false => Vec::new(),
    };
    let carriers = contrast::carriers(peers.iter().map(|(_, lost)| *lost));
    let role = account.counted.first()?.wait.key.role;
    let typical = Nanos(times[times.len() / 2]);
    let mut finding = Finding {
        programs: account.programs.iter().cloned().collect(),
        role,
        services: account
            .services
            .iter()
            .filter(|service| !is_stand_in(service))
            .copied()
            .collect(),
        paths: paths.into_iter().collect(),
        peers: peers
            .iter()
            .take(carriers.min(NAMED))
            .map(|(peer, _)| *peer)
            .collect(),
        peer_count: carriers,
        node: deepest.node,
        percent: deepest.percent,
        failure: account.failure,
        count: account.counted.len() as u64,
        tried: account
            .tried
            .filter(|_| !is_of_several(deepest.node))
            .map(|tried| tried.count),
        occasions: account.occasions().len(),
        lost: Nanos(account.lost()),
        typical,
        worst: Nanos(times.last().copied()?),
        parts: parts.iter().collect(),
        unlike: match (role, account.failure) {
            // Names are asked of nobody else.
            (Role::Asks, None) if !is_of_several(deepest.node) => {
                contrast::unlike(typical, siblings)
            }
            _ => None,
        },
        grade: grade(account, &deepest),
        sentence: String::new(),
        next: String::new(),
        why: Why::of(deepest.node),
    };
    finding.next = next(&finding, account);
    finding.sentence = sentence::of(&finding, account, &deepest, summary);
    Some(finding)
}

fn grade(account: &Account<'_>, deepest: &Deepest) -> Grade {
    if account.failure.is_some() {
        return Grade::Is;
    }
    match deepest.node {
        node if node.parent().is_none() && !deepest.several.is_empty() => Grade::CauseNotKnown,
        Node::AnswerPeer | Node::RestPeer | Node::ConnectAgain | Node::DeliveryUnheard => {
            Grade::Both
        }
        node if node.is_rest() => Grade::CauseNotKnown,
        _ if deepest.percent < 95 => Grade::MostOf,
        _ => Grade::Is,
    }
}

/// Return the deepest node that a wait shows by itself, and what to do about it.
#[must_use]
pub fn why(wait: &Wait) -> (Node, Why) {
    let mut parts = of_wait(wait).parts;
    // One SYN without an answer is no path.
    let path = parts.of(Node::ConnectPath);
    if wait.is_open() {
        parts.shift(Node::ConnectPath, Node::ConnectLate, path);
    }
    let root = parts.iter().next().map(|(node, _)| node.root());
    let node = root.map_or(Node::Answer, |root| deepest(&parts, root).node);
    (node, Why::of(node))
}

/// Return true if only a rate was seen, and not who set it: TCP itself, or the program.
pub(super) fn is_own_rate(account: &Account<'_>, finding: &Finding) -> bool {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    finding.node == Node::DeliveryPacing && seen.all(|seen| seen.paced.is_none())
}

/// Return the command that tells more, with the peer, or the service of this host, in its place.
fn next(finding: &Finding, account: &Account<'_>) -> String {
    let next = finding.node.about().next;
    if finding.node == Node::AnswerUnix {
        let pid = account.server().map(|pid| pid.to_string());
        return next.replace("PID", pid.as_deref().unwrap_or("PID"));
    }
    match finding.peers.first() {
        Some(peer) => next.replace("PEER", &peer.to_string()),
        None => next.replace("PEER", "ADDRESS"),
    }
}

/// A note is about connections that have a question open for one part in so many of the time.
const SELDOM: u64 = 20;

/// Return the time for which connections have a question open on average, and their number.
fn open_on_each(waits: &[&Slow]) -> (Nanos, u64) {
    let connections: BTreeSet<_> = waits.iter().map(|wait| wait.socket()).collect();
    let connections = connections.len() as u64;
    let open: u64 = waits.iter().map(|wait| wait.time()).sum();
    (Nanos(open / connections.max(1)), connections)
}

/// Return true for connections that have a question open now and then: who asks so waits for no
/// news, and may have had a slow answer, or not.
pub(super) fn are_seldom(waits: &[&Slow], duration: Nanos) -> bool {
    open_on_each(waits).0.0.saturating_mul(SELDOM) < duration.0
}

/// Return a note that counts such waits of programs and services, if there are some, or a long one.
pub(super) fn seldom(waits: &[&Slow]) -> Option<String> {
    const LONG: u64 = 1_000_000_000;
    let longest = waits.iter().map(|wait| wait.time()).max()?;
    let first = waits.iter().min_by_key(|wait| &wait.key)?;
    let (first, place) = (&first.key, first.place());
    let services: BTreeSet<_> = waits.iter().map(|wait| wait.key.service).collect();
    let programs: BTreeSet<_> = waits.iter().map(|wait| &wait.key.program).collect();
    let others = |all: usize, what| match all - 1 {
        0 => String::new(),
        others => format!(" and {}", counted(others as u64, what)),
    };
    let (are, at_most) = match waits.len() {
        1 => ("is", "of"),
        _ => ("are", "at most"),
    };
    (waits.len() >= OCCASIONS || longest >= LONG).then(|| {
        format!(
            "{} of {}{} at {}{}, {at_most} {}, {are} too seldom to tell news from slow answers",
            counted(waits.len() as u64, "slow wait"),
            first.program,
            others(programs.len(), "other program"),
            place,
            others(services.len(), "other service"),
            Nanos(longest)
        )
    })
}

/// Return a note about connections that mostly have a question open, if there are some, of a
/// measurement of this length.
pub(super) fn note(waits: &[&Slow], duration: Nanos) -> Option<String> {
    let first = waits.first()?;
    let long = waits
        .iter()
        .map(|wait| wait.time().max(wait.seen.age))
        .max()?;
    let key = &first.key;
    let (open, flows) = open_on_each(waits);
    let connections = counted(flows, "connection");
    let of_each = if flows > 1 { " each on average" } else { "" };
    let service = first.place();
    let program = &key.program;
    let times = format!(
        "{open} of {duration} on {connections}{of_each}, at most {} at a time",
        Nanos(long)
    );
    Some(match key.role {
        Role::Asks if key.root == Node::Rest => format!(
            "{service} sends more to {program} after its answers, with pauses: {times}: news (a chat, \
             a stream beside the questions), or answers in pieces (peer.rest)"
        ),
        Role::Asks if key.root == Node::Greeting => format!(
            "{service} sends its first words to {program} late: {times}: a sign of life, or news, or a \
             greeting that older connections alone waited for"
        ),
        Role::Asks if are_even(waits) && are_of_the_way(waits) => format!(
            "{program} waits for {service} for {times}: it asks again at once, and each answer takes \
             little more than a round trip: fewer questions, or several at once, would save them"
        ),
        Role::Asks if are_even(waits) => format!(
            "{program} waits for {service} for {times}: it asks again at once, and each answer takes \
             about as long: a pool of connections that is full, a loop, or the service is slow"
        ),
        Role::Asks => format!(
            "{program} waits for {service} for {times}: for work or news (a queue, a subscription, a \
             long poll), or the service is slow"
        ),
        Role::Serves => format!(
            "{program} at {service} has a request open for {times}: it pushes (a queue, a \
             subscription, a long poll), or is slow"
        ),
    })
    .map(|note| note + &asleep(waits))
}

/// Name the sleep of the service's tasks meanwhile, where that was seen.
fn asleep(waits: &[&Slow]) -> String {
    let mut slept = waits.iter().filter_map(|wait| wait.seen.slept.as_ref());
    match slept.find(|slept| !slept.sleep.is_idle()) {
        Some(slept) => format!("; tasks of the service sleep meanwhile: {}", slept.words()),
        None => String::new(),
    }
}

/// Return true if the smallest round trips are four fifths of it.
fn are_of_the_way(waits: &[&Slow]) -> bool {
    let way: u64 = waits
        .iter()
        .map(|wait| wait.parts.of(Node::AnswerPath))
        .sum();
    let whole: u64 = waits.iter().map(|wait| wait.time()).sum();
    way.saturating_mul(5) >= whole.saturating_mul(4)
}

/// Return true if nine of ten took half as long again as the shortest at most: news come at any
/// time.
fn are_even(waits: &[&Slow]) -> bool {
    const LEAST: usize = 6;
    let mut times: Vec<_> = waits.iter().map(|wait| wait.time()).collect();
    times.sort_unstable();
    let (tenth, most) = (times.len() / 10, times.len() * 9 / 10);
    times.len() >= LEAST && times[most.min(times.len() - 1)] * 2 <= times[tenth] * 3
}

#[cfg(test)]
mod tests {
    use sockstamp_model::wait::{End, Evidence, Kind};

    use super::*;
    use crate::diagnosis::tests::wait;

    #[test]
    fn a_wait_alone_has_the_deepest_node_that_it_shows() {
        let mut connect = wait(Kind::Connect, End::Open, 0, 3_000);
        assert_eq!(why(&connect).0, Node::ConnectLate);
        connect.evidence = Evidence {
            syns: Some(3),
            ..Evidence::default()
        };
        let (node, about) = why(&connect);
        assert_eq!(node, Node::ConnectAgain);
        assert!(about.check.contains("TcpExtTCPSynRetrans"));
        assert_eq!(
            why(&wait(Kind::Room, End::Open, 0, 20)).0,
            Node::DeliveryRoom
        );
    }
}
