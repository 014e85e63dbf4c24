//! Deeds of this host's tasks meanwhile: of the program that serves or reads, or of the one that
//! is asked.

use std::collections::BTreeSet;

use sockstamp_model::name::Name;
use sockstamp_model::wait::End;

use crate::diagnosis::evidence::sleep::{Ran, Sleep, Slept};
use crate::diagnosis::evidence::there::There;
use crate::diagnosis::slow::Few;
use crate::diagnosis::tally::Account;
use crate::diagnosis::tree::Node;

/// Tasks of this host have the time.
pub(super) fn is_of_tasks(node: Node) -> bool {
    matches!(node.root(), Node::Service | Node::Read | Node::Accept)
}

/// The program that traces the one that is waited for.
pub(super) fn tracer<'a>(account: &'a Account<'_>) -> Option<&'a Name> {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    seen.find_map(|seen| seen.tracer.as_ref())
}

/// The program of a service, where all of these are of one on this host.
pub(super) fn there(account: &Account<'_>) -> Option<String> {
    let seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let all = seen.map(|seen| seen.there.as_ref());
    There::words(&all.collect::<Option<Vec<_>>>()?)
}

/// Name what tasks slept in, or did, where that was seen, in place of a list of what it may be.
pub(super) fn slept(account: &Account<'_>, node: Node) -> Option<String> {
    if let Some(accepts) = accepts(account).filter(|_| is_read(node)) {
        return Some(accepts);
    }
    let slept = match looked_at(account) {
        (Some(slept), Some(ran)) => format!("{slept}, while {ran}"),
        (Some(slept), None) => slept,
        (None, Some(ran)) => return ran_instead(node, &ran),
        (None, None) => return asleep_in(account, node),
    };
    match node {
        Node::ServiceAsleep | Node::ReadAsleep => Some(format!("its tasks sleep: {slept}")),
        Node::Accept => Some(format!(
            "{}; {} sleep: {slept}",
            node.about().is,
            whose_tasks(account)
        )),
        Node::ServiceUnknown | Node::ReadUnknown => {
            Some(format!("its tasks mostly sleep: {slept}"))
        }
        _ => None,
    }
}

/// Return true for a node whose tasks read, or answer what they have read.
fn is_read(node: Node) -> bool {
    matches!(node.root(), Node::Service | Node::Read)
}

/// The only task waits for connections, and so not for data of one.
fn accepts(account: &Account<'_>) -> Option<String> {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let slept = seen.find_map(|seen| seen.slept.as_ref())?;
    let Slept { looks, of, .. } = slept;
    (slept.sleep == Sleep::Accept).then(|| {
        format!(
            "its only task waits for new connections (accept), at {looks} of {of} looks: none reads \
             these"
        )
    })
}

/// Name the process of a listener: others may have listeners of the same port.
fn whose_tasks(account: &Account<'_>) -> String {
    let waits = || account.counted.iter().map(|counted| counted.wait);
    let mut slept = waits().filter_map(|wait| wait.seen.slept.as_ref());
    // Processes that listen may have started them.
    if slept.any(|slept| matches!(slept.sleep, Sleep::IdleClients(_))) {
        return "its workers".to_owned();
    }
    let open = waits().filter(|wait| wait.how == End::Open);
    let pids: BTreeSet<u32> = open.map(|wait| wait.pid).collect();
    match (pids.first(), pids.len()) {
        (Some(pid @ 1..), 1) => format!("the tasks of PID {pid}"),
        _ => "its tasks".to_owned(),
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

/// Name what tasks slept in, and which of them ran.
fn looked_at(account: &Account<'_>) -> (Option<String>, Option<String>) {
    let seen = || account.counted.iter().map(|counted| &counted.wait.seen);
    let slept = seen()
        .find_map(|seen| seen.slept.as_ref())
        .map(Slept::words);
    let ran = seen().find_map(|seen| seen.ran.as_ref()).map(Ran::words);
    (slept, ran)
}

/// Name what tasks of a service of this host did that others ask.
pub(super) fn of_theirs(account: &Account<'_>) -> String {
    match theirs(account) {
        Some(theirs) => format!(": {theirs}"),
        None => idle_loop(account).to_owned(),
    }
}

/// The same as a clause of its own.
pub(super) fn theirs(account: &Account<'_>) -> Option<String> {
    match looked_at(account) {
        (Some(slept), Some(ran)) => Some(format!("its tasks sleep: {slept}, while {ran}")),
        (Some(slept), None) => Some(format!("its tasks sleep: {slept}")),
        (None, ran) => ran,
    }
}

/// Tell of a service of this host that has fewer tasks than questions.
pub(super) fn few(account: &Account<'_>, node: Node) -> String {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    let is_asked = matches!(node, Node::AnswerUnix | Node::AnswerPeer);
    let Some(Few { workers, questions }) = seen.find_map(|seen| seen.few).filter(|_| is_asked)
    else {
        return String::new();
    };
    let answer = match workers {
        1 => "1 process of one task answers".to_owned(),
        workers => format!("{workers} processes of one task each answer"),
    };
    format!("; {answer}, and up to {questions} questions wait at once: too few workers")
}

/// Say of a service of this host that its tasks wait for clients alone.
pub(super) fn idle_loop(account: &Account<'_>) -> &'static str {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    match seen.all(|seen| seen.idle && seen.for_clients) {
        true => {
            "; its event loop has nothing to do and asks nobody: it waits for more of the question, for \
             another client or a timer of its own, or has forgotten the question"
        }
        false => "",
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
