//! The wall time of a command, divided into its waits for peers and the rest.
//!
//! A wait ends when data can be read, when a send gets room, when a connection is established or
//! fails, or when it is given up. It begins with connect(2), with the request (stage
//! `peer.answer`), or, if a reader slept without a request, with the flow's last message. A request
//! may be made in parts (100-continue): whether the command waited for a sign of the peer between
//! them, or for more to ask, nobody sees. If waits overlap, the time belongs to the wait that ends
//! first: it let the command continue. While one of its tasks was on a CPU, or waited for one, the
//! command did not wait.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;
use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::flow::{NetnsInode, SocketCookie, canonical};
use sockstamp_model::message::Message;
use sockstamp_model::part::Part;
use sockstamp_model::service::Service;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::verdict::Verdict;
use sockstamp_model::wait::{self, End};
use sockstamp_print::paragraph;
use sockstamp_run::command::Spent;

use crate::measure::Observer;

/// Most waits that are kept: 40 MB.
const MOST_WAITS: usize = 1 << 20;

/// Owners that are named; the waits for all others are summed.
const NAMED: usize = 3;

/// Reason for a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// For data.
    Waiting,
    /// For a sign of the peer, or for more to ask, between two parts of a question.
    Asking,
    /// For room in the send buffer, or, in close(), for an acknowledgement.
    Sending,
    /// For a connection to be established.
    Connecting,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting for",
            Self::Asking => "between parts of a question to",
            Self::Sending => "sending to",
            Self::Connecting => "connecting to",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wait {
    begin: Timestamp<Monotonic>,
    end: Timestamp<Monotonic>,
    kind: Kind,
    peer: SocketAddr,
    asked: Asked,
}

/// The end of a wait's question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// There was none: a reader slept, or a send had no room.
    Nothing,
    Answered,
    Unanswered,
}

/// Collects the waits of a command while it runs.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    waits: Vec<Wait>,
    /// The last moment at which each flow did something.
    last: BTreeMap<(NetnsInode, SocketCookie), Timestamp<Monotonic>>,
    /// Waits that are not in `waits`, since there is no room or their messages were not measured.
    left_out: u64,
}

/// The result for one command.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(crate) struct WallTime {
    wall_ns: Nanos,
    /// Time in no wait.
    own_ns: Nanos,
    /// Parts of the own time, where they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    own: Option<Own>,
    waits: Vec<Waited>,
    /// Messages whose waits are unknown: not measured, refused, or one too many.
    left_out: u64,
}

/// The parts of the command's own time.
#[derive(Debug, Clone, Copy, Serialize, PartialEq, Eq)]
struct Own {
    /// On a CPU.
    running_ns: Nanos,
    /// Waiting for a CPU.
    runnable_ns: Nanos,
    /// Neither: a timer, a disk, a lock, a child elsewhere.
    asleep_ns: Nanos,
}

impl Own {
    fn divide(own: Nanos, spent: &Spent) -> Self {
        let running_ns = spent.all.min(own);
        let runnable_ns = spent.delayed.min(own.saturating_sub(running_ns));
        Self {
            running_ns,
            runnable_ns,
            asleep_ns: own.saturating_sub(running_ns + runnable_ns),
        }
    }

    /// Return those of a hundredth and more in words.
    fn parts(&self) -> String {
        let parts = [
            (self.running_ns, "on a CPU"),
            (self.runnable_ns, "waiting for one"),
            (self.asleep_ns, "asleep"),
        ];
        let least = self.running_ns + self.runnable_ns + self.asleep_ns;
        let parts = parts.into_iter().filter(|(ns, _)| ns.0 > least.0 / 100);
        let parts: Vec<_> = parts.map(|(ns, what)| format!("{ns} {what}")).collect();
        parts.join(", ")
    }
}

/// The time of all waits for a peer.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(crate) struct Waited {
    kind: Kind,
    peer: SocketAddr,
    ns: Nanos,
    /// Questions (connects) in that time.
    questions: u64,
    /// Questions without an answer.
    unanswered: u64,
}

impl Waited {
    fn of(kind: Kind, peer: SocketAddr) -> Self {
        Self {
            kind,
            peer,
            ns: Nanos(0),
            questions: 0,
            unanswered: 0,
        }
    }

    fn add(&mut self, wait: &Wait, ns: Nanos) {
        self.ns = self.ns + ns;
        self.questions += u64::from(wait.asked != Asked::Nothing);
        self.unanswered += u64::from(wait.asked == Asked::Unanswered);
    }

    /// `, 10 questions, no answer`
    fn questions(&self) -> String {
        let noun = match self.kind {
            Kind::Connecting => "connects",
            Kind::Waiting | Kind::Asking | Kind::Sending => "questions",
        };
        let asked = match self.questions {
            0 | 1 => String::new(),
            count => format!(", {count} {noun}"),
        };
        let failed = match (self.kind, self.unanswered) {
            (_, 0) => String::new(),
            (Kind::Connecting, count) if count == self.questions => ", in vain".to_owned(),
            (_, count) if count == self.questions => ", no answer".to_owned(),
            (Kind::Connecting, count) => format!(", {count} in vain"),
            (_, count) => format!(", {count} unanswered"),
        };
        asked + &failed
    }
}

impl Observer for Waits {
    fn message(&mut self, message: &Message) {
        if message.is_connection() {
            if let Some(wait) = connecting(message) {
                self.keep(wait);
            }
            return;
        }
        let flow = (message.flow.netns, message.flow.cookie);
        let last = self.last.get(&flow).copied();
        if message.verdict != Verdict::Valid {
            self.left_out += u64::from(message.weight);
        } else {
            self.left_out += u64::from(message.weight) - 1;
            if let Some(wait) = wait_of(message, last) {
                self.keep(wait);
            }
        }
        let stamps = &message.stamps;
        let seen = stamps.read.max(stamps.queued).max(stamps.entry);
        self.last.extend(seen.max(last).map(|seen| (flow, seen)));
    }

    fn round_is_over(&mut self) -> bool {
        true
    }

    fn waits(&mut self, waits: &wait::Waits) {
        for wait in waits.list.iter().filter_map(unanswered) {
            self.keep(wait);
        }
    }
}

impl Waits {
    fn keep(&mut self, wait: Wait) {
        if self.waits.len() < MOST_WAITS {
            self.waits.push(wait);
        } else {
            self.left_out += 1;
        }
    }

    /// Divide the time between these two moments, in which the command spent so much of CPUs.
    pub(crate) fn divide(
        &self,
        begin: Timestamp<Monotonic>,
        end: Timestamp<Monotonic>,
        spent: Option<&Spent>,
    ) -> WallTime {
        let wall = end.since(begin).unwrap_or_default();
        let inside = self.waits.iter().filter_map(|&wait| {
            let wait = Wait {
                begin: wait.begin.max(begin),
                end: wait.end.min(end),
                ..wait
            };
            (wait.begin < wait.end).then_some(wait)
        });
        let mut sums: BTreeMap<(Kind, SocketAddr), Waited> = BTreeMap::new();
        for (wait, ns) in alone(inside.collect()) {
            sums.entry((wait.kind, wait.peer))
                .or_insert_with(|| Waited::of(wait.kind, wait.peer))
                .add(&wait, ns);
        }
        let mut waits: Vec<_> = sums.into_values().collect();
        let busy = spent.map_or(Nanos(0), Spent::least);
        let waited = shrink(&mut waits, wall.saturating_sub(busy));
        waits.sort_by_key(|waited| std::cmp::Reverse(waited.ns));
        let own_ns = wall.saturating_sub(waited);
        WallTime {
            wall_ns: wall,
            own_ns,
            own: spent.map(|spent| Own::divide(own_ns, spent)),
            waits,
            left_out: self.left_out,
        }
    }
}

/// Leave waits no more time than this, each in proportion; return their sum.
fn shrink(waits: &mut [Waited], most: Nanos) -> Nanos {
    let all: Nanos = waits.iter().map(|waited| waited.ns).sum();
    if all <= most {
        return all;
    }
    for waited in &mut *waits {
        let share = u128::from(waited.ns.0) * u128::from(most.0) / u128::from(all.0);
        waited.ns = Nanos(u64::try_from(share).unwrap_or(u64::MAX));
    }
    waits.iter().map(|waited| waited.ns).sum()
}

/// Return a wait that no message shows. Connections are messages, too.
fn unanswered(wait: &wait::Wait) -> Option<Wait> {
    let kind = match wait.kind {
        wait::Kind::Answer | wait::Kind::Greeting | wait::Kind::Rest => Kind::Waiting,
        wait::Kind::Room | wait::Kind::Acknowledgement => Kind::Sending,
        wait::Kind::Request if !wait.is_served() => Kind::Asking,
        _ => return None,
    };
    let asked = match (kind, wait.end) {
        // A message has its question.
        (Kind::Waiting, _) if wait.kind == wait::Kind::Rest => Asked::Nothing,
        (Kind::Waiting, End::Data) => Asked::Answered,
        (Kind::Waiting, _) => Asked::Unanswered,
        _ => Asked::Nothing,
    };
    Some(Wait {
        begin: wait.since,
        end: later(wait.since, wait.lasted),
        kind,
        peer: canonical(wait.flow.remote),
        asked,
    })
}

/// Return the wait for a connection to be established, or to fail.
fn connecting(connection: &Message) -> Option<Wait> {
    let end = connection.stamps.queued?;
    Some(Wait {
        begin: connection.stamps.entry?,
        end,
        kind: Kind::Connecting,
        peer: canonical(connection.flow.remote),
        asked: match connection.verdict {
            Verdict::Valid => Asked::Answered,
            _ => Asked::Unanswered,
        },
    })
}

/// Return the wait before a message, if there was one.
fn wait_of(message: &Message, last: Option<Timestamp<Monotonic>>) -> Option<Wait> {
    let stamps = &message.stamps;
    let (kind, begin, end, asked) = match message.direction {
        Direction::Rx => {
            let ready = stamps.ready?;
            let asked = message.stages[Stage::PeerAnswer].map(|answer| earlier(ready, answer));
            let slept = message.stages[Stage::RxWakeup].and(last);
            let answered = asked.map_or(Asked::Nothing, |_| Asked::Answered);
            (Kind::Waiting, asked.or(slept)?, ready, answered)
        }
        Direction::Tx => {
            let begin = stamps.entry?;
            let full = message.parts[Part::Sndbuf]?;
            (Kind::Sending, begin, later(begin, full), Asked::Nothing)
        }
    };
    Some(Wait {
        begin,
        end,
        kind,
        peer: canonical(message.flow.remote),
        asked,
    })
}

/// Give each wait the time that no wait which ends earlier has.
fn alone(mut waits: Vec<Wait>) -> Vec<(Wait, Nanos)> {
    waits.sort_by_key(|wait| (wait.end, wait.begin));
    // Disjoint, in order, and none ends after the examined wait.
    let mut covered: Vec<(Timestamp<Monotonic>, Timestamp<Monotonic>)> = Vec::new();
    let alone = waits.into_iter().map(|wait| {
        let mut begin = wait.begin;
        let mut free_until = wait.end;
        let mut free = Nanos(0);
        while let Some(&(from, to)) = covered.last().filter(|(_, to)| *to >= begin) {
            free = free + free_until.since(to).unwrap_or_default();
            free_until = from.max(begin);
            begin = begin.min(from);
            covered.pop();
            if from < wait.begin {
                break;
            }
        }
        free = free + free_until.since(wait.begin).unwrap_or_default();
        covered.push((begin, wait.end));
        (wait, free)
    });
    alone.collect()
}

fn later(time: Timestamp<Monotonic>, by: Nanos) -> Timestamp<Monotonic> {
    Timestamp::from_nanos(time.as_nanos().saturating_add(by.0))
}

fn earlier(time: Timestamp<Monotonic>, by: Nanos) -> Timestamp<Monotonic> {
    Timestamp::from_nanos(time.as_nanos().saturating_sub(by.0))
}

impl WallTime {
    /// `3.05 s own (3.00 s on a CPU, 50.0 ms asleep)`
    fn own_time(&self) -> String {
        let own = format!("{} own", self.own_ns);
        if self.left_out > 0 {
            let count = self.left_out;
            return format!("{own} (with the waits of {count} messages that were not measured)");
        }
        let parts = self.own.map_or_else(String::new, |own| own.parts());
        match parts.is_empty() {
            true => own,
            false => format!("{own} ({parts})"),
        }
    }
}

/// ` 635 ms: 602 ms waiting for 10.88.1.2:53 (DNS), 33.0 ms own`, on as many lines as that takes.
impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (named, others) = self.waits.split_at(self.waits.len().min(NAMED));
        let mut items: Vec<_> = named
            .iter()
            .map(|waited| {
                let Waited { kind, peer, ns, .. } = waited;
                format!("{ns} {kind} {}{}", Service(*peer), waited.questions())
            })
            .collect();
        if !others.is_empty() {
            let ns: Nanos = others.iter().map(|waited| waited.ns).sum();
            items.push(format!("{ns} for {} others", others.len()));
        }
        // A line may end between its parts.
        items.extend(self.own_time().split(", ").map(str::to_owned));
        f.write_str(&paragraph::wrapped(
            &format!(" {}:", self.wall_ns),
            items,
            ",",
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Timestamp<Monotonic> {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    fn wait(begin: u64, end: u64, peer: u16) -> Wait {
        Wait {
            begin: at(begin),
            end: at(end),
            kind: Kind::Waiting,
            peer: SocketAddr::from(([10, 0, 0, 1], peer)),
            asked: Asked::Nothing,
        }
    }

    fn divided(waits: &[Wait], end: u64) -> String {
        let waits = Waits {
            waits: waits.to_vec(),
            ..Waits::default()
        };
        let text = waits.divide(at(0), at(end), None).to_string();
        assert!(
            text.lines()
                .all(|line| line.chars().count() <= paragraph::WIDTH),
            "{text}"
        );
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn waits_one_after_another_are_summed_by_peer_and_the_rest_is_the_commands_own() {
        let waits = [wait(10, 20, 53), wait(30, 60, 80), wait(70, 75, 53)];
        assert_eq!(
            divided(&waits, 100),
            "100 ms: 30.0 ms waiting for 10.0.0.1:80, 15.0 ms waiting for 10.0.0.1:53 (DNS), 55.0 ms own"
        );
    }

    #[test]
    fn time_of_several_waits_is_that_of_the_first_to_end() {
        let waits = [wait(0, 40, 80), wait(10, 20, 81), wait(5, 30, 82)];
        assert_eq!(
            divided(&waits, 50),
            "50.0 ms: 15.0 ms waiting for 10.0.0.1:80, 15.0 ms waiting for 10.0.0.1:82, \
             10.0 ms waiting for 10.0.0.1:81, 10.0 ms own"
        );
    }

    #[test]
    fn waits_outside_of_the_commands_life_do_not_count() {
        let waits = [wait(90, 140, 80)];
        assert_eq!(
            divided(&waits, 100),
            "100 ms: 10.0 ms waiting for 10.0.0.1:80, 90.0 ms own"
        );
    }

    #[test]
    fn the_fourth_peer_is_not_named() {
        let waits: Vec<_> = (0..5_u16)
            .map(|peer| wait(10 * u64::from(peer), 10 * u64::from(peer) + 9, 80 + peer))
            .collect();
        assert!(divided(&waits, 50).ends_with(", 18.0 ms for 2 others, 5.00 ms own"));
    }

    #[test]
    fn what_was_spent_on_a_cpu_was_not_waited_for() {
        let waits = Waits {
            waits: vec![wait(0, 90, 80)],
            ..Waits::default()
        };
        let millis = |millis| Nanos::from_millis(millis);
        let spent = Spent {
            all: millis(70),
            first: millis(60),
            delayed: millis(5),
            held: millis(5),
            cpus: 2,
        };
        let time = waits.divide(at(0), at(100), Some(&spent));
        assert_eq!(time.own_ns, millis(60));
        let text = time.to_string();
        let words: Vec<_> = text.split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "100 ms: 40.0 ms waiting for 10.0.0.1:80, 60.0 ms own (60.0 ms on a CPU)"
        );
    }

    #[test]
    fn questions_are_counted_and_those_without_an_answer_are_told() {
        let asked = |begin, end, asked| Wait {
            asked,
            ..wait(begin, end, 53)
        };
        let one = [
            asked(0, 10, Asked::Answered),
            asked(20, 30, Asked::Answered),
        ];
        assert!(divided(&one, 40).contains(":53 (DNS), 2 questions, "));
        let lost = [asked(0, 10, Asked::Unanswered)];
        assert!(divided(&lost, 40).contains(":53 (DNS), no answer, "));
        let some = [one[0], one[1], asked(30, 40, Asked::Unanswered)];
        assert!(divided(&some, 40).contains(":53 (DNS), 3 questions, 1 unanswered, "));
    }

    proptest! {
        /// Against a count of each millisecond.
        #[test]
        fn each_moment_has_the_first_of_its_waits_to_end(
            spans in prop::collection::vec((0_u64..60, 1_u64..30), 0..12),
        ) {
            let waits: Vec<_> = spans
                .iter()
                .zip(1..)
                .map(|(&(begin, length), peer)| wait(begin, begin + length, peer))
                .collect();
            let mut expected = BTreeMap::new();
            for moment in 0..90 {
                let under_way = waits
                    .iter()
                    .filter(|wait| wait.begin <= at(moment) && at(moment) < wait.end);
                let first = under_way.min_by_key(|wait| (wait.end, wait.begin, wait.peer));
                if let Some(first) = first {
                    *expected.entry(first.end).or_insert(0) += 1;
                }
            }
            let mut found = BTreeMap::new();
            for (wait, free) in alone(waits) {
                *found.entry(wait.end).or_insert(0) += free.0 / 1_000_000;
            }
            found.retain(|_, millis| *millis > 0);
            prop_assert_eq!(found, expected);
        }
    }
}
