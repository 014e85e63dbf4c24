//! More that comes after an answer, with pauses: the rest of it, or what is pushed between
//! questions, as to a chat, or by a stream beside them on one connection.
//!
//! A program that waits for the rest of an answer asks again once it has it, at once or after a
//! pause of its own. One that is pushed to asks when it likes, whatever came since its last answer.

use std::collections::BTreeMap;

use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::wait::{End, Sending};

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
    /// once; `None` where no later question is known. `next`: when the next wait of its connection
    /// began. Where most questions of its connection are known, or nothing is of those in a longer
    /// pause, more came meanwhile that was no rest.
    fn pause_after(
        &self,
        wait: &Slow,
        next: Option<Moment>,
        asked: u64,
        slow: Nanos,
    ) -> Option<u64> {
        let questions = self.of(wait);
        let mut later = questions.iter().filter(|one| one.asked > wait.end);
        let until = wait.end.saturating_add(slow.0);
        let of_rest = later.clone().find(|one| one.read <= until);
        let are_most = asked > 0 && questions.len() as u64 * 2 >= asked;
        match (of_rest, later.next()) {
            (Some(question), _) => Some(question.asked - wait.end),
            (None, Some(question)) if are_most => Some(question.pause()),
            (None, Some(_)) => Some(0),
            (None, None) => {
                let pause = next?.saturating_sub(wait.end);
                Some(if pause <= slow.0 * 2 { 0 } else { pause })
            }
        }
    }

    /// Return true if the time of a service's next question does not show that its programs wait
    /// for these rests of answers, the only ones of its answers.
    fn are_pushes(
        &self,
        rests: &[&Slow],
        beside: &Rests<'_>,
        sending: &BTreeMap<Socket, Sending>,
        slow: Nanos,
        end: Option<Moment>,
    ) -> bool {
        let sockets = by_socket(rests);
        let pause = |rest: &&Slow| {
            let mut later = beside[&rest.socket()].iter();
            let next = later.find(|wait| wait.begin >= rest.end);
            let asked = sending.get(&rest.socket());
            let asked = asked.map_or(0, |one| u64::from(one.sends));
            let pause = self.pause_after(rest, next.map(|wait| wait.begin), asked, slow)?;
            Some((rest.time(), pause))
        };
        let known: Vec<_> = rests.iter().filter_map(pause).collect();
        let paused: Vec<_> = known.iter().filter(|(_, pause)| *pause > 0).collect();
        let unasked = rests.iter().filter(|rest| pause(rest).is_none());
        let silent = unasked.filter(|rest| is_silent(rest, end)).count();
        if (paused.len() + silent) * 2 <= known.len() + silent || self.count == MOST {
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

/// Mark as `open` what may be pushed on connections that ask, too, and note what looks like answers
/// of a service that pushes so.
pub(in crate::diagnosis) fn mark(
    waits: &mut [Slow],
    open: &mut [bool],
    questions: &Questions,
    slow: Nanos,
    sending: &BTreeMap<Socket, Sending>,
    end: Option<Moment>,
) {
    let mut keys = BTreeMap::<&Key, Vec<usize>>::new();
    for (of, wait) in waits.iter().enumerate() {
        if wait.key.root == Node::Rest && wait.is_mostly(Node::RestPeer) {
            keys.entry(&wait.key).or_default().push(of);
        }
    }
    let mut pushing = Vec::new();
    for (key, found) in keys {
        let rests: Vec<_> = found.iter().map(|&of| &waits[of]).collect();
        let beside = beside(waits, &rests);
        let are_pushes = questions.are_pushes(&rests, &beside, sending, slow, end);
        if !are_pushes && !are_few(&rests) {
            continue;
        }
        let answers = Key {
            root: Node::Answer,
            ..key.clone()
        };
        if are_pushes && are_long_beside(waits, &rests, &answers) {
            pushing.push(answers);
        }
        found.into_iter().for_each(|of| open[of] = true);
    }
    let is_pushed = |wait: &Slow| wait.how == End::Data && pushing.contains(&wait.key);
    for (wait, open) in waits.iter_mut().zip(open) {
        if is_pushed(wait) {
            *open = true;
            wait.seen.for_news = true;
        }
    }
}

/// Return true if nothing was asked for as long after the rest of an answer as it took, until the
/// measurement ended, on a connection that was there before: its program does not ask again once it
/// has the whole.
fn is_silent(rest: &Slow, end: Option<Moment>) -> bool {
    let until = rest.end.saturating_add(rest.time());
    !rest.is_new && end.is_some_and(|end| until <= end)
}

/// Return true if these have a third of the time of slow answers: short pauses within those are
/// none between news.
fn are_long_beside(waits: &[Slow], rests: &[&Slow], answers: &Key) -> bool {
    let answers = waits.iter().filter(|wait| wait.key == *answers);
    let waited: u64 = answers.map(Slow::time).sum();
    let more: u64 = rests.iter().map(|rest| rest.time()).sum();
    more.saturating_mul(3) >= waited
}

/// Return true for less than can be told apart, on connections that were there before.
fn are_few(rests: &[&Slow]) -> bool {
    rests.len() < LEAST && rests.iter().all(|rest| !rest.is_new)
}

/// Return the answers and their rests on connections with these rests, in order.
fn beside<'a>(waits: &'a [Slow], rests: &[&'a Slow]) -> Rests<'a> {
    let mut sockets = by_socket(rests);
    for answer in waits.iter().filter(|wait| wait.key.root == Node::Answer) {
        if let Some(found) = sockets.get_mut(&answer.socket()) {
            found.push(answer);
        }
    }
    for found in sockets.values_mut() {
        found.sort_unstable_by_key(|wait| wait.begin);
    }
    sockets
}

/// Three quarters of these lie within a tenth.
pub(super) fn are_alike(mut times: Vec<u64>) -> bool {
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
