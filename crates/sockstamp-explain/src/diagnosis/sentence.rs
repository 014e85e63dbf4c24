//! A finding in words: who waits for what, how long, unlike whom, and why.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;

use sockstamp_model::clock::Nanos;
use sockstamp_model::descriptors::Descriptors;
use sockstamp_model::name::Name;
use sockstamp_model::service::Service;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::End;

use super::asleep;
use super::backlog::Backlog;
use super::descent::{self, Deepest};
use super::finding::Finding;
use super::link::Link;
use super::neighbour::Neighbour;
use super::sleep::{Ran, Sleep, Slept};
use super::slow::{Role, Seen, Slow};
use super::tally::{Account, Tried};
use super::there::There;
use super::tree::Node;

/// Return the sentence of a finding.
pub(super) fn of(
    finding: &Finding,
    account: &Account<'_>,
    deepest: &Deepest,
    summary: &Summary,
) -> String {
    if let Some(how) = finding.failure {
        return of_failures(finding, account, how);
    }
    let subject = subject(finding, account);
    let figures = figures(finding, account);
    let unlike = unlike(finding);
    let cause = cause(finding, account, deepest, summary);
    format!("{subject}{figures}{unlike}: {cause}")
}

/// `1 request`, `3 requests`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// A service, or the port of one of this host.
pub(super) fn service(address: SocketAddr) -> String {
    match address.ip().is_unspecified() {
        true => format!(":{}", address.port()),
        false => Service(address).to_string(),
    }
}

/// Up to three names, else their number.
fn names<T: Display>(names: &[T], count: usize, noun: &str) -> String {
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    match names.split_last() {
        Some(_) if count > names.len() => format!("{count} {noun}"),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => format!("some {noun}"),
    }
}

fn few<T: Display>(all: &[T], noun: &str) -> String {
    names(&all[..all.len().min(3)], all.len(), noun)
}

fn services(finding: &Finding) -> String {
    let services: Vec<_> = finding.services.iter().copied().map(service).collect();
    few(&services, "services")
}

fn programs(finding: &Finding) -> String {
    let known: Vec<_> = finding
        .programs
        .iter()
        .filter(|name| !name.is_empty())
        .collect();
    match known.is_empty() {
        true => "a program".to_owned(),
        false => few(&known, "programs"),
    }
}

fn peers(finding: &Finding) -> String {
    names(&finding.peers, finding.peer_count, "peers")
}

/// A program, with its port where it serves.
fn server(finding: &Finding) -> String {
    format!("{} at {}", programs(finding), services(finding))
}

/// Who waits for what, how long.
fn subject(finding: &Finding, account: &Account<'_>) -> String {
    let time = finding.typical;
    let (asker, server) = (programs(finding), server(finding));
    let service = services(finding);
    let until = match finding.node {
        Node::DeliveryLoss
        | Node::DeliveryBack
        | Node::DeliveryOvertaken
        | Node::DeliveryUnheard
        | Node::DeliveryNeighbour
        | Node::DeliveryLink
        | Node::DeliveryFirewall
        | Node::DeliveryPath => "it is acknowledged",
        _ => "it leaves",
    };
    match (finding.node.root(), finding.role) {
        (Node::Answer, Role::Asks) if is_open(account) => {
            format!("{service} does not answer {asker} for {time}")
        }
        (Node::Accept, _) if now(account) > 1 => {
            let (waiting, age) = (now(account), oldest(account));
            format!("{waiting} connections wait to be accepted by {server}, the oldest for {age}")
        }
        (Node::Answer, Role::Asks) if finding.node == Node::AnswerChain => {
            format!("{asker} waits {time} for each name from {service}")
        }
        (Node::Connect, _) if is_chain(account) => {
            format!("{asker} takes {time} for each request to {service}, a new connection included")
        }
        (Node::Connect, _) => format!("{asker} waits {time} to connect to {service}"),
        (Node::Accept, _) => format!("connections wait {time} to be accepted by {server}"),
        (Node::Greeting, _) => format!("{service} greets {asker} {time} late"),
        (Node::Rest, _) => format!("answers of {service} take {asker} {time} to their last byte"),
        (Node::Request, Role::Asks) => {
            format!("{asker} pauses for {time} between parts of a request to {service}")
        }
        (Node::Request, _) => format!("requests take {time} to reach {server} whole"),
        (Node::Service, _) if is_part(account) => {
            format!("{server} loses {time} in each slow request, beside what others take")
        }
        (Node::Service, _) => format!("{server} takes {time} to answer requests"),
        (Node::Delivery, Role::Serves) => {
            format!(
                "data of {server} for {} waits {time} until {until}",
                peers(finding)
            )
        }
        (Node::Delivery, Role::Asks) => {
            format!("data of {asker} for {service} waits {time} until {until}")
        }
        (Node::Read, Role::Asks) if finding.node == Node::ReadMissing => {
            format!("data of {service} reaches {asker} {time} late")
        }
        (Node::Read, Role::Serves) => format!("{server} reads requests {time} late"),
        (Node::Read, Role::Asks) => format!("{asker} reads data of {service} {time} late"),
        _ if has_chains(account) => {
            format!("{service} takes {time} to answer {asker}, its connections included")
        }
        _ => format!("{service} takes {time} to answer {asker}"),
    }
}

/// All of them are parts of waits.
fn is_part(account: &Account<'_>) -> bool {
    account
        .counted
        .iter()
        .all(|counted| counted.wait.seen.is_part)
}

/// None of them has ended.
fn is_open(account: &Account<'_>) -> bool {
    let mut counted = account.counted.iter();
    counted.all(|counted| counted.wait.how == End::Open)
}

/// The tasks of the peer, which is on this host, show why.
fn hangs(account: &Account<'_>) -> bool {
    let mut counted = account.counted.iter();
    there(account).is_some() && counted.all(|counted| counted.wait.seen.held_up)
}

/// Return true if all that the waits sent was acknowledged.
fn are_heard(account: &Account<'_>) -> bool {
    let mut counted = account.counted.iter();
    counted.all(|counted| counted.wait.seen.heard)
}

fn open<'a>(account: &'a Account<'_>) -> impl Iterator<Item = &'a Seen> {
    let counted = account.counted.iter().map(|counted| counted.wait);
    counted
        .filter(|wait| wait.how == End::Open)
        .map(|wait| &wait.seen)
}

/// Return how many connections wait at the end.
fn now(account: &Account<'_>) -> u64 {
    open(account).map(|seen| u64::from(seen.members)).sum()
}

fn oldest(account: &Account<'_>) -> Nanos {
    Nanos(open(account).map(|seen| seen.age).max().unwrap_or(0))
}

/// Connections that were opened for one request each.
fn is_chain(account: &Account<'_>) -> bool {
    account
        .counted
        .iter()
        .all(|counted| counted.wait.seen.members > 1)
}

fn has_chains(account: &Account<'_>) -> bool {
    account
        .counted
        .iter()
        .any(|counted| counted.wait.seen.members > 1)
}

fn figures(finding: &Finding, account: &Account<'_>) -> String {
    let open = open(account).count() as u64;
    if finding.node.root() == Node::Accept && now(account) > 1 {
        return match finding.count.saturating_sub(open) {
            0 => String::new(),
            1 => format!(" (another one waited {} before)", finding.worst),
            others => format!(
                " ({others} others waited before, at most {})",
                finding.worst
            ),
        };
    }
    let mut figures = vec![match finding.tried {
        Some(all) if all >= finding.count => format!("{} of {all}", finding.count),
        _ => counted(finding.count, "wait"),
    }];
    if finding.count > 1 {
        figures.push(format!("at most {}", finding.worst));
    }
    if finding.count > 1 && are_at_once(finding, account) {
        let length: u64 = account.occasions().iter().sum();
        figures.push(format!("all within {}", Nanos(length)));
    }
    let is_older = oldest(account) > finding.worst;
    if open > 0 && open < finding.count || open > 1 {
        figures.push(format!("{open} still open, for {}", oldest(account)));
    } else if open == 1 && is_older {
        figures.push(format!("open for {}", oldest(account)));
    }
    format!(" ({})", figures.join(", "))
}

/// Waits that overlap are one occasion, also where one follows the other all the time.
fn are_at_once(finding: &Finding, account: &Account<'_>) -> bool {
    match account.occasions()[..] {
        [length] => length <= finding.worst.0.saturating_mul(2),
        _ => false,
    }
}

fn unlike(finding: &Finding) -> String {
    let Some(unlike) = &finding.unlike else {
        return String::new();
    };
    let named: Vec<_> = unlike.named.iter().copied().map(service).collect();
    let others = names(&named, unlike.count, "others");
    let verb = if unlike.count == 1 { "takes" } else { "take" };
    format!(", while {others} {verb} {}", unlike.mean)
}

/// Why, as deep as it was seen.
fn cause(finding: &Finding, account: &Account<'_>, deepest: &Deepest, summary: &Summary) -> String {
    if !deepest.several.is_empty() {
        let several = deepest.several.iter();
        let is = |node| slept(account, node).unwrap_or_else(|| node.about().is.to_owned());
        let several = several.map(|(node, percent)| format!("{percent} % {}", is(*node)));
        return format!("of that {}", several.collect::<Vec<_>>().join("; "));
    }
    let mut cause = match deepest.node {
        node if is_of_tasks(node) && tracer(account).is_some() => {
            let tracer = tracer(account).map_or_else(String::new, ToString::to_string);
            format!("it is traced by {tracer}, which stops its tasks at system calls or signals")
        }
        Node::AnswerPeer if is_here(finding) => {
            let there = there(account).unwrap_or_else(|| "the service, on this host".to_owned());
            format!("the work of {there}{}", of_theirs(account))
        }
        Node::AnswerPeer if is_open(account) && are_heard(account) && !hangs(account) => {
            let program = there(account).unwrap_or_else(|| "its program".to_owned());
            format!(
                "the host there acknowledges: {program} does not read or answer, or the answer is lost"
            )
        }
        Node::AnswerPeer if there(account).is_some() => {
            let there = there(account).unwrap_or_default();
            let tasks = of_theirs(account);
            format!("the work of {there}{tasks}; or the way there and back")
        }
        Node::Request if finding.role == Role::Asks => {
            "for a go-ahead that does not come (Expect: 100-continue), or for itself".to_owned()
        }
        node => slept(account, node).unwrap_or_else(|| node.about().is.to_owned()),
    };
    cause.extend(more(finding, account, deepest.node, summary));
    cause.push_str(by_clocks(account, deepest.node));
    match finding.percent {
        95.. => cause,
        percent => format!("{cause}; {percent} % of what is lost"),
    }
}

/// Tasks of this host have the time.
fn is_of_tasks(node: Node) -> bool {
    matches!(node.root(), Node::Service | Node::Read | Node::Accept)
}

/// The program that traces the one that is waited for.
fn tracer<'a>(account: &'a Account<'_>) -> Option<&'a Name> {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    seen.find_map(|seen| seen.tracer.as_ref())
}

/// The program of a service, where all of these are of one on this host.
fn there(account: &Account<'_>) -> Option<String> {
    let seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let all = seen.map(|seen| seen.there.as_ref());
    There::words(&all.collect::<Option<Vec<_>>>()?)
}

/// What tasks slept in, or did, where that was looked at, in place of a list of what it may be.
fn slept(account: &Account<'_>, node: Node) -> Option<String> {
    let slept = match looked_at(account) {
        (Some(slept), Some(ran)) => format!("{slept}, while {ran}"),
        (Some(slept), None) => slept,
        (None, Some(ran)) => return ran_instead(node, &ran),
        (None, None) => return asleep_in(account, node),
    };
    match node {
        Node::ServiceAsleep | Node::ReadAsleep => Some(format!("its tasks sleep: {slept}")),
        Node::Accept => Some(format!("{}; its tasks sleep: {slept}", node.about().is)),
        Node::ServiceUnknown | Node::ReadUnknown => {
            Some(format!("its tasks mostly sleep: {slept}"))
        }
        _ => None,
    }
}

/// All that tasks were seen to sleep in, where nothing tells which of them served.
fn asleep_in(account: &Account<'_>, node: Node) -> Option<String> {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let asleep = seen.find_map(|seen| (!seen.asleep_in.is_empty()).then_some(&seen.asleep_in))?;
    let words: Vec<_> = asleep.iter().map(Sleep::words).collect();
    let words = words.join(", or ");
    let is_asleep = matches!(node, Node::ServiceAsleep | Node::ReadAsleep);
    is_asleep.then(|| format!("its tasks sleep: {words}; which of them serves is not known"))
}

/// What tasks slept in, and which of them ran.
fn looked_at(account: &Account<'_>) -> (Option<String>, Option<String>) {
    let seen = || account.counted.iter().map(|counted| &counted.wait.seen);
    let slept = seen()
        .find_map(|seen| seen.slept.as_ref())
        .map(Slept::words);
    let ran = seen().find_map(|seen| seen.ran.as_ref()).map(Ran::words);
    (slept, ran)
}

/// What tasks of a service of this host did that others ask.
fn of_theirs(account: &Account<'_>) -> String {
    match looked_at(account) {
        (Some(slept), Some(ran)) => format!(": its tasks sleep: {slept}, while {ran}"),
        (Some(slept), None) => format!(": its tasks sleep: {slept}"),
        (None, Some(ran)) => format!(": {ran}"),
        (None, None) => String::new(),
    }
}

/// Other threads ran, and what those that serve slept in was not seen.
fn ran_instead(node: Node, ran: &str) -> Option<String> {
    match node {
        Node::ServiceAsleep | Node::ReadAsleep | Node::ServiceUnknown | Node::ReadUnknown => {
            Some(format!("meanwhile {ran}"))
        }
        Node::Accept => Some(format!("{}; meanwhile {ran}", node.about().is)),
        _ => None,
    }
}

/// Return true if the peers are surely on this host: nothing lies between.
fn is_here(finding: &Finding) -> bool {
    let mut services = finding.services.iter();
    services.all(|service| service.ip().is_loopback())
}

/// What else was seen, for nodes with evidence of their own.
fn more(finding: &Finding, account: &Account<'_>, node: Node, summary: &Summary) -> Option<String> {
    let seen = || account.counted.iter().map(|counted| &counted.wait.seen);
    match node {
        Node::AnswerPeer => {
            let path = seen()
                .filter_map(|seen| seen.rtt)
                .min()
                .filter(|rtt| *rtt > 100_000)?;
            Some(format!(", of which the path is at least {}", Nanos(path)))
        }
        Node::AnswerChain => questions(account),
        Node::RestPeer => {
            let most = seen().map(|seen| seen.members + 1).max()?;
            Some(format!(", up to {most} of an answer"))
        }
        Node::ConnectPath if is_chain(account) => Some(connects(account)),
        Node::AnswerLoss | Node::DeliveryLoss => {
            let again: u64 = seen().map(|seen| u64::from(seen.resent)).sum();
            let again = match again {
                0 => return None,
                1 => "1 segment was sent again".to_owned(),
                again => format!("{again} segments were sent again"),
            };
            Some(if only_large(account) {
                format!(": {again}, and {ONLY_LARGE}")
            } else if seen().any(|seen| seen.some_in_vain) {
                format!(": {again}, some of them in vain, as DSACKs say")
            } else {
                format!(": {again}")
            })
        }
        Node::AnswerBack | Node::AnswerOvertaken | Node::DeliveryBack | Node::DeliveryOvertaken => {
            let again: u64 = seen().map(|seen| u64::from(seen.resent)).sum();
            let again = (again > 0).then(|| counted(again, "segment"))?;
            Some(format!(
                ": {again} sent again, and DSACKs say of most that they had come"
            ))
        }
        Node::DeliveryWindow => {
            if let Some(unread) = unread(account) {
                return Some(format!(
                    "; {} kB from there wait to be read here: neither end reads",
                    unread / 1000
                ));
            }
            let others = seen().map(|seen| seen.others).max()?;
            (others > 0).then(|| format!("; {others} other connections have room"))
        }
        Node::ReadTurn => {
            let workers = seen().map(|seen| seen.workers).max()?;
            let workers = counted(workers as u64, "request");
            Some(format!(" (it has at most {workers} at a time)"))
        }
        Node::ServiceTurn => {
            let most = seen().map(|seen| seen.questions_at_once).max()?;
            Some(format!("; at most {} at once", counted(most, "question")))
        }
        Node::AnswerDevice => {
            let backlog = seen().find_map(|seen| seen.backlog.clone())?;
            let Backlog {
                device,
                bytes,
                time,
            } = backlog;
            Some(format!(
                ": {device} had {} KB queued at each look, which take it {time}",
                bytes / 1000
            ))
        }
        Node::ConnectNeighbour | Node::AnswerNeighbour | Node::DeliveryNeighbour => {
            Some(format!(": {}", silent_neighbour(account)?))
        }
        Node::ConnectLink | Node::AnswerLink | Node::DeliveryLink => {
            Some(format!(": {}", link(account)?))
        }
        Node::ConnectFirewall | Node::AnswerFirewall | Node::DeliveryFirewall => {
            Some(format!(": {}", barred(account)?))
        }
        Node::DeliveryDevice => {
            let device = seen().find_map(|seen| seen.device.clone())?;
            Some(format!(" of {device} (tx.qdisc)"))
        }
        Node::DeliveryRoom if seen().any(|seen| seen.buffer_set) => {
            Some("; the program set its size (SO_SNDBUF)".to_owned())
        }
        Node::DeliveryPacing => {
            let rate = seen().find_map(|seen| seen.paced)?;
            Some(format!(": the program allows {rate} bytes a second"))
        }
        Node::DeliveryRestart => {
            let pause = seen().filter_map(|seen| seen.pause).min()?;
            Some(format!(": pauses of at least {}", Nanos(pause)))
        }
        Node::Accept => no_descriptors(account),
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
        asked => {
            format!(
                " and asks {asked} questions, one after the other (TLS asks before the request)"
            )
        }
    };
    format!(
        ": each request opens a connection{handshakes}: {share} % of its time; connections that stay \
         open (keep-alive) save it"
    )
}

/// Why the table of stages names another limit.
fn by_clocks(account: &Account<'_>, node: Node) -> &'static str {
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

/// So many questions for one request are worth a word.
const MANY: u64 = 3;

/// How many questions a look-up takes, and how long each: of those that take several.
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

/// Name the descriptors of a program that has no room for more.
fn no_descriptors(account: &Account<'_>) -> Option<String> {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let Descriptors { open, limit } = seen.find_map(|seen| seen.descriptors)?;
    Some(format!(
        "; it had {open} descriptors open, and may have {limit}: without a free one accept() fails \
         (EMFILE)"
    ))
}

/// The next hop that does not answer, where it was seen.
fn silent_neighbour(account: &Account<'_>) -> Option<String> {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let Neighbour { address, device } = seen.find_map(|seen| seen.neighbour.clone())?;
    Some(format!("{address} on {device}"))
}

/// How many packets this host's own firewall dropped, where it did.
fn barred(account: &Account<'_>) -> Option<String> {
    let counted = account.counted.iter();
    let all: BTreeMap<_, _> = counted
        .map(|counted| (counted.wait.socket(), counted.wait.seen.barred))
        .collect();
    match all.values().sum() {
        0 => None,
        1 => Some("1 was dropped".to_owned()),
        all => Some(format!("{all} were dropped")),
    }
}

/// The link that went down, where that was seen.
fn link(account: &Account<'_>) -> Option<String> {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let Link { device, downs } = seen.find_map(|seen| seen.link.clone())?;
    Some(match downs {
        1 => format!("the link of {device} went down once"),
        downs => format!("the link of {device} went down {downs} times"),
    })
}

const ONLY_LARGE: &str =
    "only full-size segments vanish, while smaller ones arrive (MTU): nothing tells this host so";

/// Only what does not fit into one small segment was lost, again and again, while something else
/// came through.
fn only_large(account: &Account<'_>) -> bool {
    let is_loss = |node| matches!(node, Node::AnswerLoss | Node::DeliveryLoss);
    let lost = account.counted.iter().map(|counted| counted.wait);
    let mut lost = lost
        .filter(|wait| wait.parts.iter().any(|(node, _)| is_loss(node)))
        .map(|wait| &wait.seen)
        .peekable();
    let comes = |seen: &Seen| seen.heard_since || seen.others_arrive || account.answered >= OTHERS;
    lost.peek().is_some() && lost.all(|seen| seen.is_large && seen.resent > 0 && comes(seen))
}

/// As many answers to others show that what is small arrives.
const OTHERS: u64 = 3;

/// What became of questions that nobody answered.
fn fate(finding: &Finding, account: &Account<'_>, how: End) -> String {
    if let Some(neighbour) = silent_neighbour(account) {
        let is = finding.node.about().is;
        return format!(": {is}: {neighbour}");
    }
    match (how, finding.node) {
        (_, node @ (Node::ConnectFirewall | Node::AnswerFirewall | Node::DeliveryFirewall)) => {
            let dropped = barred(account).map(|dropped| format!(": {dropped}"));
            format!(": {}{}", node.about().is, dropped.unwrap_or_default())
        }
        (_, Node::ConnectLink | Node::AnswerLink | Node::DeliveryLink) => {
            link(account).map_or_else(String::new, |link| format!(": {link}"))
        }
        (_, Node::AnswerLoss | Node::DeliveryLoss) if only_large(account) => {
            format!(": {ONLY_LARGE}")
        }
        (End::GivenUp | End::TimedOut, Node::AnswerLoss) => {
            ": they were sent again, and never acknowledged".to_owned()
        }
        (End::GivenUp, Node::AnswerPeer) if are_heard(account) => {
            let own = match are_alike(account) {
                true => ", as by a timeout of its own",
                false => "",
            };
            format!(
                "{own}: the host there acknowledged them: its program did not answer in time, or \
                 the answer was lost"
            )
        }
        (End::GivenUp, Node::AnswerPeer) if are_alike(account) => {
            ", as by a timeout of its own".to_owned()
        }
        (End::Refused, Node::ConnectPath | Node::Connect) => came_through(finding),
        _ => String::new(),
    }
}

/// Where a part of the connects is refused, more may be so than where all are.
fn came_through(finding: &Finding) -> String {
    match finding
        .tried
        .map_or(0, |all| all.saturating_sub(finding.count))
    {
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

/// A connection that nobody used for so long was idle.
const IDLE: u64 = 200_000_000;

fn of_failures(finding: &Finding, account: &Account<'_>, how: End) -> String {
    let what = match finding.node.root() {
        Node::Connect => "connects",
        Node::Answer | Node::Rest => "requests",
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
        _ => String::new(),
    };
    let after = match how {
        End::GivenUp | End::TimedOut | End::AskedAgain => format!(" after {}", finding.typical),
        _ => String::new(),
    };
    let befell = match (finding.node.root(), how) {
        (Node::Delivery, End::GivenUp) => "were not acknowledged and were given up",
        (_, End::TurnedAway) => turned_away(finding, account),
        (Node::Delivery, End::ClosedByPeer) => "were not acknowledged when the peer closed",
        (Node::Connect, End::Refused) => "were refused",
        (Node::Delivery, End::Reset) => "were not acknowledged until a reset came",
        (Node::Greeting, End::GivenUp) => "got no greeting, which others got, and were given up",
        (Node::Greeting, End::ClosedByPeer) => "were closed by the peer before its greeting",
        (Node::Greeting, End::Reset) => "were reset before the greeting that others got",
        _ => failure(how),
    };
    let fate = match how {
        End::TurnedAway => format!(": {}", finding.node.about().is),
        _ => fate(finding, account, how),
    };
    format!("{count} {to} {befell}{after}{idle}{fate}")
}

/// What became of connections that a service does not want.
fn turned_away(finding: &Finding, account: &Account<'_>) -> &'static str {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    match finding.role {
        Role::Serves if seen.all(|seen| seen.is_dismissed && seen.bytes == 0) => {
            "were answered with a fatal error at once"
        }
        Role::Serves => "were closed by it at once, without a read",
        Role::Asks => "were closed by the peer at once, while it answers others",
    }
}

/// Return what happened to waits that failed, for a sentence.
pub(super) const fn failure(how: End) -> &'static str {
    match how {
        End::GivenUp => "got no answer and were given up",
        End::ClosedByPeer => "met a connection that the peer closed",
        End::Reset => "met a connection that was reset",
        End::Refused => "were refused: nothing listens there, or a firewall rejects them",
        End::Unreachable => "had no way there (unreachable)",
        End::Denied => {
            "were not let out by this host: a firewall or a policy forbids them, or a queue is full"
        }
        End::NoRoute => "were not sent: this host has no route there, or a policy that forbids it",
        End::NoPort => "were not sent: no free local port, all are in use or in TIME_WAIT",
        End::TimedOut => "were never answered (timed out)",
        End::AskedAgain => "got no answer and were asked again",
        End::TurnedAway => "met a service that does not want it",
        End::Open | End::Data => "went on",
    }
}
