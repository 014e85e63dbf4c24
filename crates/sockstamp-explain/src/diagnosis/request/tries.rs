//! A command that waits by itself between its tries: equal questions to one service, each answered
//! at once, and alike. Pauses that grow from one try to the next are a timer of its own for what it
//! did not get; others may be its pace.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;
use sockstamp_model::stage::Direction;

use crate::diagnosis::finding::Finding;
use crate::diagnosis::slow::{self, Key, Moment, Role, Socket};
use crate::diagnosis::tree::Node;
use crate::diagnosis::words::{counted, service};

/// Exchanges that are kept.
const MOST: usize = 1 << 12;

/// As few pauses show nothing.
const LEAST: usize = 3;

/// The exchanges of a command, by connection. All of its messages are known.
#[derive(Debug, Clone, Default)]
pub(in crate::diagnosis) struct Tries {
    sockets: BTreeMap<(Name, SocketAddr, Socket), Vec<Exchange>>,
    count: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Exchange {
    began: Moment,
    asked: Moment,
    sent: u64,
    /// The last read of its answer was over; 0 before the first one.
    read: Moment,
    got: u64,
}

/// A pause between two exchanges that are alike.
#[derive(Debug, Clone, Copy)]
struct Pause {
    time: u64,
    answer: u64,
    got: u64,
}

/// Differ by a sixteenth at most: numbers and dates vary.
const fn are_alike(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= one / 16
}

impl Tries {
    /// Take a message, in the order of sends.
    pub(in crate::diagnosis) fn see(&mut self, message: &Message) {
        if self.count >= MOST || message.is_connection() || message.serves() {
            return;
        }
        let stamps = &message.stamps;
        let socket = slow::socket(&message.flow);
        let key = Key::new(
            Node::Answer,
            message.comm.clone(),
            Role::Asks,
            &message.flow,
        );
        let key = (key.program, key.service, socket);
        match (message.direction, stamps.entry, stamps.queued, stamps.read) {
            (Direction::Tx, Some(entry), Some(queued), _) => {
                let exchanges = self.sockets.entry(key).or_default();
                if exchanges.last().is_none_or(|last| last.read > 0) {
                    self.count += 1;
                    exchanges.push(Exchange {
                        began: entry.as_nanos(),
                        ..Exchange::default()
                    });
                }
                if let Some(last) = exchanges.last_mut() {
                    last.asked = queued.as_nanos();
                    last.sent += message.bytes;
                }
            }
            (Direction::Rx, _, _, Some(read)) => {
                let exchanges = self.sockets.get_mut(&key);
                if let Some(last) = exchanges.and_then(|known| known.last_mut()) {
                    last.read = read.as_nanos();
                    last.got += message.bytes;
                }
            }
            _ => {}
        }
    }

    /// Return the pauses between equal exchanges of a program with a service.
    fn pauses(&self, slow: Nanos) -> BTreeMap<(&Name, SocketAddr), Vec<Pause>> {
        let mut services = BTreeMap::<_, Vec<Exchange>>::new();
        for ((program, service, _), exchanges) in &self.sockets {
            let all = services.entry((program, *service)).or_default();
            all.extend(exchanges.iter().filter(|one| one.read > 0).copied());
        }
        let pauses = services.into_iter().map(|(key, mut all)| {
            all.sort_unstable_by_key(|one| one.began);
            let pairs = all
                .windows(2)
                .filter_map(|pair| pause(pair[0], pair[1], slow));
            (key, pairs.collect())
        });
        pauses.collect()
    }

    /// Return what pauses have half of a command's time: findings of those that grow, notes of
    /// others.
    pub(in crate::diagnosis) fn told(
        &self,
        slow: Nanos,
        duration: Nanos,
    ) -> (Vec<Finding>, Vec<String>) {
        let (mut findings, mut notes) = (Vec::new(), Vec::new());
        for ((program, service), pauses) in self.pauses(slow) {
            let whole: u64 = pauses.iter().map(|pause| pause.time).sum();
            if pauses.len() < LEAST || whole.saturating_mul(2) < duration.0 || self.count >= MOST {
                continue;
            }
            let sentence = sentence(program, service, &pauses, duration);
            match do_grow(&pauses) {
                true => findings.push(finding(program, service, &pauses, whole, sentence)),
                false => notes.push(format!("{sentence}, or a pace of its own")),
            }
        }
        (findings, notes)
    }
}

fn pause(one: Exchange, next: Exchange, slow: Nanos) -> Option<Pause> {
    let time = next.began.saturating_sub(one.read);
    let answer = one.read.saturating_sub(one.asked);
    let is_try = time >= slow.0 && answer.saturating_mul(4) <= time;
    let are_equal = are_alike(one.sent, next.sent) && are_alike(one.got, next.got);
    (is_try && are_equal).then_some(Pause {
        time,
        answer,
        got: one.got,
    })
}

/// Return true if three quarters of four or more belong to runs of three or more, each half as long
/// again as the one before. Three pauses may be those of a person.
fn do_grow(pauses: &[Pause]) -> bool {
    let runs = pauses.chunk_by(|one, next| next.time * 2 >= one.time * 3);
    let grown: usize = runs.map(<[Pause]>::len).filter(|run| *run >= LEAST).sum();
    pauses.len() > LEAST && grown * 4 >= pauses.len() * 3
}

fn sentence(program: &Name, to: SocketAddr, pauses: &[Pause], duration: Nanos) -> String {
    let times = || pauses.iter().map(|pause| pause.time);
    let ends = times().min().zip(times().max());
    let (least, most) = ends.map_or((0, 0), |ends| ends);
    let whole = Nanos(times().sum());
    let answer = Nanos(pauses.iter().map(|pause| pause.answer).max().unwrap_or(0));
    let got = pauses.first().map_or(0, |pause| pause.got);
    let count = counted(pauses.len() as u64, "pause");
    format!(
        "{program} waits by itself between equal questions to {}: {count} of {} to {} are {whole} of \
         {duration}; each answer came within {answer}, all alike ({got} bytes): a timer between its \
         tries (a limit of requests: HTTP 429, Retry-After; a job that is not done)",
        service(to),
        Nanos(least),
        Nanos(most),
    )
}

fn finding(
    program: &Name,
    service: SocketAddr,
    pauses: &[Pause],
    whole: u64,
    sentence: String,
) -> Finding {
    let mut times: Vec<_> = pauses.iter().map(|pause| pause.time).collect();
    times.sort_unstable();
    let count = times.len() as u64;
    Finding {
        programs: vec![program.clone()],
        services: vec![service],
        typical: Nanos(times[times.len() / 2]),
        worst: Nanos(times.last().copied().unwrap_or(0)),
        ..Finding::of_counts(Node::Tries, Role::Asks, count, Nanos(whole), sentence)
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::flow::Opened;

    use super::*;
    use crate::diagnosis::tests::{MS, answer, at, flow, summary};
    use crate::diagnosis::{Case, Diagnosis, Scope};
    use sockstamp_model::fixture;

    /// A command that asks, is answered with so many bytes after 3 ms, and pauses so long.
    fn told(exchanges: &[(u64, u64)], is_command: bool) -> Diagnosis {
        let to = flow("10.0.0.1:50000", "10.0.0.2:80");
        let mut case = Case::new(Scope {
            is_command,
            ..Scope::default()
        });
        let mut now = 1_000;
        for &(bytes, pause) in exchanges {
            let mut asked = fixture::message(Direction::Tx);
            asked.flow = to;
            asked.comm = "curl".into();
            asked.opened = Some(Opened::Connected);
            asked.bytes = 90;
            (asked.stamps.entry, asked.stamps.queued) = (at(now), at(now));
            case.message(&asked);
            let mut got = answer(to, "curl", now + 3, 3);
            got.opened = Some(Opened::Connected);
            got.bytes = bytes;
            case.message(&got);
            now += 3 + pause;
        }
        case.diagnose(&summary())
    }

    const BACKOFF: [(u64, u64); 5] = [
        (120, 500),
        (120, 1_000),
        (120, 2_000),
        (121, 4_000),
        (120, 0),
    ];

    /// As a client of an API that answers 429.
    #[test]
    fn pauses_that_grow_between_equal_tries_are_the_programs_own() {
        let said = told(&BACKOFF, true).findings;
        assert!(
            said[0].sentence.starts_with(
                "curl waits by itself between equal questions to 10.0.0.2:80: 4 pauses of 500 ms to \
                 4.00 s are 7.50 s of"
            ),
            "{said:?}"
        );
        assert_eq!(said[0].lost, Nanos(7_500 * MS));
    }

    /// A pace of its own, pages of all lengths, a measurement of a program that goes on, and a pace
    /// that varies.
    #[test]
    fn a_pace_is_a_note_and_a_session_is_none() {
        let paced = told(&[(120, 1_000); 9], true);
        assert_eq!((paced.findings.len(), paced.notes.len()), (0, 1));
        let pages = [(120, 900), (4_000, 1_500), (700, 2_500), (90, 4_000)];
        let session = told(&pages, true);
        assert_eq!((session.findings.len(), session.notes.len()), (0, 0));
        let service = told(&BACKOFF, false);
        assert_eq!((service.findings.len(), service.notes.len()), (0, 0));
        let varied = [500, 900, 300, 1_400, 200, 1_900, 700, 600, 2_000, 100];
        let varied = told(&varied.map(|pause| (120, pause)), true);
        assert_eq!(varied.findings, []);
    }
}
