//! Questions of a command that are sent in parts: one pause, or a pace of its own.

use std::collections::BTreeMap;

use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::stage::Direction;

use super::sentence::service;
use super::slow::{self, Moment, Parts, Role, Slow, Socket};
use super::tree::Node;

/// Gaps that are kept.
const MOST: usize = 1 << 12;

/// The gaps between the sends of each connection. Only a command's messages are all known.
#[derive(Debug, Clone, Default)]
pub(super) struct Sends {
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
    pub(super) fn see(&mut self, message: &Message, slow: Nanos) {
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

    /// Return the longest gap within a wait; `None` where nothing is known of its sends.
    fn longest(&self, wait: &Slow) -> Option<(Moment, Moment)> {
        let sent = self.sockets.get(&wait.socket())?;
        let inside = |(begin, end): &(Moment, Moment)| *begin >= wait.begin && *end <= wait.end;
        let gaps = sent.gaps.iter().copied().filter(inside);
        let longest = gaps.max_by_key(|(begin, end)| end - begin);
        Some(longest.unwrap_or((wait.begin, wait.begin)))
    }
}

/// Have questions that are sent in parts last as long as their only pause, which has half of their
/// time. Others are sent at the pace of their program: take them out, and return notes of them.
pub(super) fn pauses(waits: &mut Vec<Slow>, sends: &Sends) -> Vec<String> {
    let mut notes = Vec::new();
    waits.retain_mut(|wait| {
        if wait.key.root != Node::Request || wait.key.role != Role::Asks {
            return true;
        }
        let Some((begin, end)) = sends.longest(wait) else {
            return true;
        };
        if (end - begin) * 2 < wait.time() {
            notes.push(paced(wait));
            return false;
        }
        wait.parts = Parts::divide(end - begin, [], Node::Request);
        (wait.begin, wait.end) = (begin, end);
        true
    });
    notes
}

fn paced(wait: &Slow) -> String {
    let (program, time) = (&wait.key.program, Nanos(wait.time()));
    let service = service(wait.key.service);
    format!(
        "{program} sends parts of a request to {service} for {time}: it reads, waits for more to \
         send, or has a rate of its own"
    )
}

#[cfg(test)]
mod tests {
    use sockstamp_model::flow::Opened;
    use sockstamp_model::part::Part;
    use sockstamp_model::wait::{End, Kind, Waits};

    use super::super::tests::{at, flow, sent, summary, wait};
    use super::super::{Case, Diagnosis, Scope};

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
}
