//! A finding in words: who waits for what, how long, unlike whom, and why.

mod common;
mod evidence;
mod failures;
mod neighbours;
mod tasks;
mod words;

use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::Protocol;
use sockstamp_model::stage::Stage;
use sockstamp_model::summary::Summary;

use crate::diagnosis::descent::Deepest;
use crate::diagnosis::finding::Finding;
use crate::diagnosis::slow::Role;
use crate::diagnosis::tally::Account;
use crate::diagnosis::tree::Node;
use crate::diagnosis::words::{counted, service};
use common::{
    are_at_once, are_heard, are_same, has_chains, is_chain, is_of_unknown_age, is_open, is_part,
    now, oldest, open, open_of_unknown_age, short_way,
};
use evidence::{by_clocks, more};
use failures::of_failures;
use neighbours::neighbour;
use tasks::{idle_loop, is_of_tasks, of_theirs, slept, there, tracer};
use words::{names, peers, programs, server, services};

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
    let neighbour = neighbour(account);
    format!("{subject}{figures}{unlike}: {cause}{neighbour}")
}

/// Name the waiter, its wait and the time.
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
        | Node::DeliveryDropped
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
        (Node::Answer, Role::Asks) if finding.node == Node::AnswerTrips => {
            format!("{asker} waits {time} for each series of questions to {service}")
        }
        (Node::Answer, Role::Asks) if finding.node == Node::AnswerSteps => {
            format!("transfers between {asker} and {service} take {time} step by step")
        }
        (Node::Connect, _) if is_chain(account) => {
            format!("{asker} takes {time} for each request to {service}, a new connection included")
        }
        (Node::Connect, _) => format!("{asker} waits {time} to connect to {service}"),
        (Node::Accept, _) => format!("connections wait {time} to be accepted by {server}"),
        (Node::Greeting, _) => format!("{service} greets {asker} {time} late"),
        (Node::Rest, _) if finding.node == Node::RestClose => {
            format!("{asker} waits {time} for the end of answers of {service}")
        }
        (Node::Rest, _) => format!("answers of {service} take {asker} {time} to their last byte"),
        (Node::Request, Role::Asks) => {
            format!("{asker} pauses for {time} between parts of a request to {service}")
        }
        (Node::Request, _) => format!("requests take {time} to reach {server} whole"),
        (Node::Service, _) if is_open(account) => {
            format!("{server} does not answer requests for {time}")
        }
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
        (Node::Read, role) if is_of_unknown_age(account) => {
            let (reader, data) = match role {
                Role::Serves => (server, "requests".to_owned()),
                Role::Asks => (asker, format!("data of {service}")),
            };
            format!(
                "{reader} has not read {data} for at least {}",
                oldest(account)
            )
        }
        (Node::Read, Role::Serves) => format!("{server} reads requests {time} late"),
        (Node::Read, Role::Asks) => format!("{asker} reads data of {service} {time} late"),
        _ if has_chains(account) => {
            format!("{service} takes {time} to answer {asker}, its connections included")
        }
        _ => format!("{service} takes {time} to answer {asker}"),
    }
}

/// The tasks of the peer, which is on this host, show why.
fn hangs(account: &Account<'_>) -> bool {
    let mut counted = account.counted.iter();
    there(account).is_some() && counted.all(|counted| counted.wait.seen.held_up)
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
    let is_bound = open_of_unknown_age(account);
    if finding.count > 1 && !is_bound {
        figures.push(format!("at most {}", finding.worst));
    }
    if finding.count > 1 && are_at_once(finding, account) {
        let length: u64 = account.occasions().iter().sum();
        figures.push(format!("all within {}", Nanos(length)));
    }
    let is_older = oldest(account) > finding.worst && !is_of_unknown_age(account);
    let least = if is_bound { "at least " } else { "" };
    if open > 0 && open < finding.count || open > 1 {
        figures.push(format!("{open} still open, for {least}{}", oldest(account)));
    } else if open == 1 && is_older {
        figures.push(format!("open for {least}{}", oldest(account)));
    }
    format!(" ({})", figures.join(", "))
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
        Node::AnswerUnix => {
            let there = there(account).unwrap_or_else(|| "the service, on this host".to_owned());
            format!("the work of {there}{}", of_theirs(account))
        }
        Node::AnswerPeer if is_here(finding) => {
            let there = there(account).unwrap_or_else(|| "the service, on this host".to_owned());
            format!("the work of {there}{}", of_theirs(account))
        }
        Node::AnswerPeer if is_open(account) && are_heard(account) && !hangs(account) => {
            let program = there(account).unwrap_or_else(|| "its program".to_owned());
            format!(
                "the host there acknowledges: {program} does not read or answer, or the answer is \
                 lost{}",
                idle_loop(account)
            )
        }
        Node::AnswerPeer if there(account).is_some() => {
            let there = there(account).unwrap_or_default();
            let tasks = of_theirs(account);
            format!("the work of {there}{tasks}; or the way there and back")
        }
        Node::AnswerPeer if short_way(finding, account).is_some() => peers_work(finding, account),
        Node::AnswerPeer if acknowledged(finding, account, summary).is_some() => {
            let within = acknowledged(finding, account, summary).unwrap_or_default();
            format!(
                "beyond this host: the peer's work{}: all that was sent is acknowledged within {within} \
                 (tx.network)",
                or_lost(finding)
            )
        }
        Node::ServiceAsleep if slept(account, deepest.node).is_none() && are_same(account) => {
            "its tasks sleep for the same time each, but for a twentieth: a timer of its own (a delay \
             or a timeout that is set), or of a child or a service that it waits for"
                .to_owned()
        }
        Node::Request if finding.role == Role::Asks => {
            "for a go-ahead that does not come (Expect: 100-continue), or for itself".to_owned()
        }
        node => slept(account, node).unwrap_or_else(|| node.about().is.to_owned()),
    };
    cause.extend(more(finding, account, deepest.node, summary));
    cause.push_str(&tasks::few(account, deepest.node));
    cause.push_str(by_clocks(account, deepest.node));
    match finding.percent {
        95.. => cause,
        percent => format!("{cause}; {percent} % of what is lost"),
    }
}

/// Tell of a peer that is near.
fn peers_work(finding: &Finding, account: &Account<'_>) -> String {
    let (lost, way) = (
        or_lost(finding),
        short_way(finding, account).unwrap_or_default(),
    );
    format!("beyond this host: the peer's work{lost}: a round trip takes {way} (ss -ti: rtt)")
}

/// Answers that are lost on the way back, which the peer sends again after 200 ms at the earliest
/// (TCP_RTO_MIN, include/net/tcp.h, v6.18), make few of them late.
const fn or_lost(finding: &Finding) -> &'static str {
    const TIMEOUT: u64 = 200_000_000;
    let is_usual = match finding.tried {
        Some(tried) => finding.count * 2 > tried,
        None => true,
    };
    match is_usual || finding.typical.0 < TIMEOUT {
        true => "",
        false => ", or answers that are lost on the way back",
    }
}

/// Return the longest time until anything that the target sent over TCP was acknowledged, if that
/// is a third of such a wait at most: its question has been at the peer for the rest of it. Each
/// send was measured, those of the waits among them.
fn acknowledged(finding: &Finding, account: &Account<'_>, summary: &Summary) -> Option<Nanos> {
    let mut waits = account.counted.iter().map(|counted| counted.wait);
    let sends = &summary.tx;
    let all = sends.stages[Stage::TxNetwork].as_ref()?;
    let are_known = sends.messages >= finding.count && all.count() >= sends.messages;
    let are_known = are_known && sends.retransmits == 0;
    let are_streams = waits.all(|wait| wait.flow.protocol == Protocol::Tcp);
    let longest = all
        .max()
        .filter(|_| are_known && are_streams && !is_open(account))?;
    (longest.0.saturating_mul(3) <= finding.typical.0).then_some(longest)
}

/// Return true if the peers are surely on this host: nothing lies between.
fn is_here(finding: &Finding) -> bool {
    let mut services = finding.services.iter();
    services.all(|service| service.ip().is_loopback())
}
