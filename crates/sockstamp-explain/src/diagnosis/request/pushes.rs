//! More that comes after an answer, with pauses: the rest of it, or what is pushed between
//! questions, as to a chat, or by a stream beside them on one connection.
//!
//! A program that waits for the rest of an answer asks again once it has it, at once or after a
//! pause of its own. One that is pushed to asks when it likes, whatever came since its last answer.

use std::collections::BTreeMap;

use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::stage::{Direction, Stage};

use crate::diagnosis::slow::{self, Key, Moment, Slow, Socket};
use crate::diagnosis::tree::Node;

/// Questions that are kept.
const MOST: usize = 1 << 12;

/// As few show nothing.
const LEAST: usize = 3;

/// Questions that came a while after what their programs had read last, by connection. Those of
/// connections on which the peer has paused are all known.
#[derive(Debug, Clone, Default)]
pub(in crate::diagnosis) struct Questions {
    sockets: BTreeMap<Socket, Vec<Question>>,
    count: usize,
}

#[derive(Debug, Clone, Copy)]
struct Question {
    /// The last read before it was over.
    read: Moment,
    asked: Moment,
}

/// Return the pause before a question, and when it was asked.
fn question(message: &Message) -> Option<(Nanos, Moment)> {
    let is_question = message.direction == Direction::Tx && !message.serves();
    let pause = message.stages[Stage::AppService].filter(|_| is_question)?;
    Some((pause, message.stamps.entry?.as_nanos()))
}

/// Rests of answers by connection, on which they follow each other.
type Rests<'a> = BTreeMap<Socket, Vec<&'a Slow>>;

fn by_socket<'a>(rests: &[&'a Slow]) -> Rests<'a> {
    let mut sockets = Rests::new();
    for rest in rests {
        sockets.entry(rest.socket()).or_default().push(rest);
    }
    for rests in sockets.values_mut() {
        rests.sort_unstable_by_key(|rest| rest.begin);
    }
    sockets
}

impl Question {
    const fn pause(self) -> u64 {
        self.asked - self.read
    }
}

impl Questions {
    /// Return true for such a question.
    pub(in crate::diagnosis) fn are_of(message: &Message, slow: Nanos) -> bool {
        question(message).is_some_and(|(pause, _)| pause >= slow)
    }

    /// Take a message: a question that came at once after a read is none of these.
    pub(in crate::diagnosis) fn see(&mut self, message: &Message, slow: Nanos) {
        let Some((pause, asked)) = question(message) else {
            return;
        };
        if pause >= slow && self.count < MOST {
            let questions = self.sockets.entry(slow::socket(&message.flow)).or_default();
            questions.push(Question {
                read: asked.saturating_sub(pause.0),
                asked,
            });
            self.count += 1;
        }
    }

    fn of(&self, wait: &Slow) -> &[Question] {
        self.sockets.get(&wait.socket()).map_or(&[], Vec::as_slice)
    }

    /// Return the pause between what came in this wait and the next question, 0 if that came at
    /// once; `None` where no later question is known.
    fn pause_after(&self, wait: &Slow, goes_on: bool, slow: Nanos) -> Option<u64> {
        let mut later = self.of(wait).iter().filter(|one| one.asked > wait.end);
        let until = wait.end.saturating_add(slow.0);
        let next = later.clone().find(|one| one.read <= until);
        match next {
            Some(next) => Some(next.asked - wait.end),
            None => (goes_on || later.next().is_some()).then_some(0),
        }
    }

    /// Return true if the time of a service's next question does not show that its programs wait
    /// for these rests of answers, the only ones of its answers.
    fn are_pushes(&self, rests: &[&Slow], slow: Nanos) -> bool {
        let sockets = by_socket(rests);
        let pause = |rest: &&Slow| {
            let last = sockets[&rest.socket()].last();
            let goes_on = last.is_some_and(|last| last.begin > rest.end);
            let pause = self.pause_after(rest, goes_on, slow)?;
            Some((rest.time(), pause))
        };
        let known: Vec<_> = rests.iter().filter_map(pause).collect();
        let paused: Vec<_> = known.iter().filter(|(_, pause)| *pause > 0).collect();
        if paused.len() * 2 <= known.len() || self.count == MOST {
            return false;
        }
        let since_answer = paused.iter().map(|(rest, pause)| rest + pause).collect();
        let pauses = paused.iter().map(|(_, pause)| *pause).collect();
        let times = rests.iter().map(|rest| rest.time()).collect();
        are_around(self.usual_pause(&sockets, slow), since_answer)
            || (!are_alike(pauses) && !are_alike(times))
    }

    /// Return the pause between answers that are whole at once and the next questions, if it mostly
    /// is the same.
    fn usual_pause(&self, rests: &Rests<'_>, slow: Nanos) -> Option<u64> {
        let usual = rests.iter().flat_map(|(socket, rests)| {
            let questions = self.sockets.get(socket).map_or(&[][..], Vec::as_slice);
            let is_after_rest = move |one: &&Question| {
                let begin = rests.partition_point(|rest| rest.end + slow.0 < one.read);
                let next = rests.get(begin);
                next.is_some_and(|rest| one.read.abs_diff(rest.end) <= slow.0)
            };
            let whole = questions.iter().filter(move |one| !is_after_rest(one));
            whole.map(|one| one.pause())
        });
        let mut usual: Vec<_> = usual.collect();
        usual.sort_unstable();
        let middle = usual.get(usual.len() / 2).copied();
        middle.filter(|_| are_alike(usual))
    }
}

/// Mark as `open` what may be pushed on connections that ask, too.
pub(in crate::diagnosis) fn mark(
    waits: &[Slow],
    open: &mut [bool],
    questions: &Questions,
    slow: Nanos,
) {
    let mut keys = BTreeMap::<&Key, Vec<usize>>::new();
    for (of, wait) in waits.iter().enumerate() {
        if wait.key.root == Node::Rest && wait.is_mostly(Node::RestPeer) {
            keys.entry(&wait.key).or_default().push(of);
        }
    }
    for found in keys.into_values() {
        let rests: Vec<_> = found.iter().map(|&of| &waits[of]).collect();
        if questions.are_pushes(&rests, slow) {
            found.into_iter().for_each(|of| open[of] = true);
        }
    }
}

/// Three quarters of these lie within a tenth.
fn are_alike(mut times: Vec<u64>) -> bool {
    times.sort_unstable();
    let alike = |(from, &time): (usize, &u64)| {
        let longer = times[from..].iter();
        longer
            .take_while(|other| **other <= time + time / 10)
            .count()
    };
    let most = times.iter().enumerate().map(alike).max().unwrap_or(0);
    times.len() >= LEAST && most * 4 >= times.len() * 3
}

/// Three quarters of these are as long as the usual one.
fn are_around(usual: Option<u64>, times: Vec<u64>) -> bool {
    let Some(usual) = usual.filter(|_| times.len() >= LEAST) else {
        return false;
    };
    let near = times
        .iter()
        .filter(|time| time.abs_diff(usual) <= usual / 10);
    near.count() * 4 >= times.len() * 3
}
