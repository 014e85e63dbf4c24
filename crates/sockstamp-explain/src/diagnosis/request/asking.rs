//! Questions that are sent in parts: one pause, a pace of their program, or a timer of its own.

use std::collections::{BTreeMap, BTreeSet};

use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::stage::Direction;

use crate::diagnosis::slow::{self, Key, Moment, Parts, Role, Slow, Socket};
use crate::diagnosis::tree::Node;
use crate::diagnosis::words::service;

/// Gaps that are kept.
const MOST: usize = 1 << 12;

/// The gaps between the sends of each connection. Only a command's messages are all known.
#[derive(Debug, Clone, Default)]
pub(in crate::diagnosis) struct Sends {
    sockets: BTreeMap<Socket, Sent>,
    gaps: usize,
}

#[derive(Debug, Clone, Default)]
struct Sent {
    /// The last send was over.
    until: Moment,
    gaps: Vec<(Moment, Moment)>,
}

impl Sends {
    /// Take a message, in the order of their sends; gaps that are shorter than `slow` are none.
    pub(in crate::diagnosis) fn see(&mut self, message: &Message, slow: Nanos) {
        let stamps = &message.stamps;
        let (Some(begin), Some(end)) = (stamps.entry, stamps.queued) else {
            return;
        };
        if message.direction != Direction::Tx || message.is_connection() || self.gaps >= MOST {
            return;
        }
        let sent = self.sockets.entry(slow::socket(&message.flow)).or_default();
        let gap = (sent.until, begin.as_nanos());
        if sent.until > 0 && gap.1.saturating_sub(gap.0) >= slow.0 {
            sent.gaps.push(gap);
            self.gaps += 1;
        }
        sent.until = sent.until.max(end.as_nanos());
    }

    /// Return the longest gap within a wait; `None` where nothing is known of its sends, or where
    /// there were more gaps than are kept.
    fn longest(&self, wait: &Slow) -> Option<(Moment, Moment)> {
        if self.gaps == MOST {
            return None;
        }
        let sent = self.sockets.get(&wait.socket())?;
        let inside = |(begin, end): &(Moment, Moment)| *begin >= wait.begin && *end <= wait.end;
        let gaps = sent.gaps.iter().copied().filter(inside);
        let longest = gaps.max_by_key(|(begin, end)| end - begin);
        Some(longest.unwrap_or((wait.begin, wait.begin)))
    }
}

/// Have questions that are sent in parts last as long as their only pause, which has half of their
/// time. Others are sent at the pace of their program: take them out, and return notes of them.
pub(in crate::diagnosis) fn pauses(waits: &mut Vec<Slow>, sends: &Sends) -> Vec<String> {
    let mut paced = BTreeMap::<Key, Vec<u64>>::new();
    waits.retain_mut(|wait| {
        if !is_sent_in_parts(wait) {
            return true;
        }
        let Some((begin, end)) = sends.longest(wait) else {
            return true;
        };
        if (end - begin) * 2 < wait.time() {
            paced.entry(wait.key.clone()).or_default().push(wait.time());
            return false;
        }
        wait.parts = Parts::divide(end - begin, [], Node::Request);
        (wait.begin, wait.end) = (begin, end);
        true
    });
    let notes = paced.iter().map(|(key, times)| pace(key, times));
    notes.collect()
}

/// Leave out questions that are sent in parts, unless each is on a connection of its own and all
/// of a program's last the same, but for a twentieth: a slow asker waits for itself, and a timer
/// of its own tells of one that has waited for the peer.
pub(in crate::diagnosis) fn keep_alike(waits: &mut Vec<Slow>) {
    let mut asked = BTreeMap::<Key, Vec<(Socket, u64)>>::new();
    let cut = begun_before(waits);
    let is_known =
        |wait: &Slow| is_sent_in_parts(wait) && !cut.contains(&(wait.socket(), wait.begin));
    for wait in waits.iter().filter(|wait| is_known(wait)) {
        let of = asked.entry(wait.key.clone()).or_default();
        of.push((wait.socket(), wait.time()));
    }
    asked.retain(|_, asked| are_alike(asked));
    let is_kept = |wait: &Slow| is_known(wait) && asked.contains_key(&wait.key);
    waits.retain(|wait| !is_sent_in_parts(wait) || is_kept(wait));
}

/// Return the first question of each connection that is older than the measurement, by its begin:
/// only a part of it may have been seen.
fn begun_before(waits: &[Slow]) -> BTreeSet<(Socket, Moment)> {
    let mut firsts = BTreeMap::<Socket, Moment>::new();
    for wait in waits
        .iter()
        .filter(|wait| is_sent_in_parts(wait) && !wait.is_new)
    {
        let first = firsts.entry(wait.socket()).or_insert(wait.begin);
        *first = wait.begin.min(*first);
    }
    firsts.into_iter().collect()
}

fn are_alike(asked: &[(Socket, u64)]) -> bool {
    const LEAST: usize = 3;
    let sockets: BTreeSet<_> = asked.iter().map(|(socket, _)| socket).collect();
    let times = || asked.iter().map(|(_, time)| time);
    let ends = times().min().zip(times().max());
    let is_even = ends.is_some_and(|(least, most)| (most - least) * 20 <= *most);
    is_even && asked.len() >= LEAST && sockets.len() == asked.len()
}

fn is_sent_in_parts(wait: &Slow) -> bool {
    wait.key.root == Node::Request && wait.key.role == Role::Asks
}

fn pace(key: &Key, times: &[u64]) -> String {
    let (program, service) = (&key.program, service(key.service));
    let longest = Nanos(times.iter().copied().max().unwrap_or(0));
    let requests = match times.len() {
        1 => format!("a request to {service} for {longest}"),
        count => format!("{count} requests to {service} for up to {longest} each"),
    };
    format!(
        "{program} sends parts of {requests}: it reads, waits for more to send, or has a rate of its \
         own"
    )
}

#[cfg(test)]
mod tests {
    use sockstamp_model::flow::Opened;
    use sockstamp_model::part::Part;
    use sockstamp_model::wait::{End, Kind, Waits};

    use super::*;
    use crate::diagnosis::source::of_wait;
    use crate::diagnosis::tests::{at, flow, sent, summary, wait};
    use crate::diagnosis::{Case, Diagnosis, Scope};

    /// A request of 2 s, of which parts are sent at these times.
    fn told(parts: &[u64]) -> Diagnosis {
        let to = flow("10.0.0.1:50000", "10.0.0.2:80");
        let mut case = Case::new(Scope {
            is_command: true,
            ..Scope::default()
        });
        for &begin in parts {
            let mut message = sent(to, begin, Part::Copy, 0);
            message.comm = "curl".into();
            message.stamps.queued = at(begin);
            case.message(&message);
        }
        let mut asking = wait(Kind::Request, End::Data, 1_000, 2_000);
        asking.flow = to;
        asking.opened = Some(Opened::Connected);
        case.waits(&Waits {
            list: vec![asking],
            ..Waits::default()
        });
        case.diagnose(&summary())
    }

    /// Requests that last so long, of a program that nobody waits for, on so many connections.
    fn unasked_of(times: &[u64], connections: u16) -> Waits {
        let asked = times.iter().zip(0_u16..).map(|(&time, of)| {
            let begin = u64::from(of) * 2_000;
            let mut asking = wait(Kind::Request, End::Data, begin, time);
            let port = 50_000 + of % connections;
            asking.flow = flow(&format!("10.0.0.1:{port}"), "10.0.0.2:80");
            asking.opened = Some(Opened::Connected);
            asking
        });
        Waits {
            list: asked.collect(),
            ..Waits::default()
        }
    }

    fn diagnosed(waits: Waits) -> Diagnosis {
        let mut case = Case::new(Scope::default());
        case.waits(&waits);
        case.diagnose(&summary())
    }

    fn unasked(times: &[u64], connections: u16) -> Diagnosis {
        diagnosed(unasked_of(times, connections))
    }

    /// As of curl, which waits a second for `100 Continue`. Others send at a pace of their own.
    #[test]
    fn a_timer_in_the_middle_of_each_request_is_a_finding() {
        let timed = unasked(&[1_001, 1_000, 1_004, 1_002], 4);
        let sentence = &timed.findings[0].sentence;
        assert!(
            sentence.contains("pauses for 1.00 s") && sentence.contains("100-continue"),
            "{sentence}"
        );
        // One began before the measurement, and ended in it.
        let mut asked = unasked_of(&[24, 1_001, 1_000, 1_004], 4);
        asked.older.push(asked.list[0].flow.cookie);
        assert_eq!(diagnosed(asked).findings.len(), 1);
        // A program that keeps its connection uploads at a pace of its own.
        let mut kept = unasked_of(&[24, 1_001, 1_000, 1_004, 1_002, 1_003], 5);
        kept.older.push(kept.list[0].flow.cookie);
        assert_eq!(diagnosed(kept).findings.len(), 1);
        let mut kept = unasked_of(&[24, 1_001, 1_000, 500, 600], 3);
        kept.older.push(kept.list[0].flow.cookie);
        assert_eq!(diagnosed(kept).findings, []);
        for (times, connections) in [
            (&[1_001, 1_700, 1_004, 1_002][..], 4),
            (&[1_001, 1_000], 4),
            (&[1_001, 1_000, 1_004, 1_002], 3),
        ] {
            assert_eq!(unasked(times, connections).findings, []);
        }
    }

    #[test]
    fn one_pause_is_a_finding_and_a_pace_is_none() {
        let paused = told(&[1_000, 2_500, 3_000]);
        let sentence = &paused.findings[0].sentence;
        assert!(sentence.contains("pauses for 1.50 s"), "{sentence}");
        let steps: Vec<_> = (0..=20).map(|of| 1_000 + of * 100).collect();
        let paced = told(&steps);
        assert_eq!(paced.findings, []);
        assert!(
            paced.notes[0].contains("sends parts of a request"),
            "{paced:?}"
        );
    }

    #[test]
    fn requests_at_a_pace_are_one_note() {
        let mut waits: Vec<_> = [2_000, 3_000, 1_000]
            .map(|time| of_wait(&wait(Kind::Request, End::Data, 1_000, time)))
            .into();
        waits.iter_mut().for_each(|wait| wait.key.role = Role::Asks);
        let mut sends = Sends::default();
        sends.sockets.insert(waits[0].socket(), Sent::default());
        let known = pauses(&mut waits.clone(), &sends);
        assert_eq!(known.len(), 1);
        assert!(
            known[0].contains("sends parts of 3 requests")
                && known[0].contains("up to 3.00 s each"),
            "{known:?}"
        );
        // Gaps may have found no room.
        sends.gaps = MOST;
        assert_eq!(pauses(&mut waits, &sends), [""; 0]);
        assert_eq!(waits.len(), 3);
    }
}
