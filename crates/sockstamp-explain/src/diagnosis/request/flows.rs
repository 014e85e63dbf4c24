//! What the waits of one connection show together: chains, pauses, and subscriptions.

use std::collections::{BTreeMap, BTreeSet};

use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::{NetnsInode, Protocol, SocketCookie};
use sockstamp_model::wait::{End, Sending};

use super::{openings, pieces};
use crate::diagnosis::host::cpu::union;
use crate::diagnosis::host::lossy::TIMEOUT;
use crate::diagnosis::scope::Scope;
use crate::diagnosis::slow::{Key, Moment, Slow, Socket};
use crate::diagnosis::tree::Node;

/// As many pauses, which have not ended, are no single answer's.
const PUSHES: u32 = 2;

type Flow = (NetnsInode, SocketCookie, u16);

fn by_flow(waits: &[Slow]) -> BTreeMap<Flow, Vec<usize>> {
    let mut flows = BTreeMap::<Flow, Vec<usize>>::new();
    for (of, wait) in waits.iter().enumerate() {
        let flow = &wait.flow;
        let key = (flow.netns, flow.cookie, flow.local.port());
        flows.entry(key).or_default().push(of);
    }
    for found in flows.values_mut() {
        found.sort_by_key(|&of| waits[of].begin);
    }
    flows
}

/// Join what belongs together in each connection, in a measurement that ended then. `rtt`: a wait's
/// least round trip.
pub(in crate::diagnosis) fn join(
    waits: &mut Vec<Slow>,
    scope: Scope,
    end: Option<Moment>,
    sending: &BTreeMap<Socket, Sending>,
    rtt: impl Fn(&Slow) -> u64,
) {
    let slow = scope.slow;
    let flows = by_flow(waits);
    let asks_once = |wait: &Slow| {
        let sending = sending.get(&wait.socket());
        sending.is_some_and(|sending| sending.sends <= 1)
    };
    let mut joined = openings::join(waits, flows.values(), slow);
    for found in flows.values() {
        let first = found.first().map(|&first| &waits[first]);
        let clocks = first.and_then(|first| sending.get(&first.socket()));
        let rtt = first.map_or(0, &rtt);
        restart(waits, found, clocks, rtt);
        let first = found.first().map(|&first| &waits[first]);
        // All that comes to one question is one answer, however late it is read.
        let gap = match first.is_some_and(asks_once) {
            true => Nanos(u64::MAX),
            false => slow,
        };
        joined.extend(pieces::join(waits, found, gap, rtt));
    }
    let asks_again = |wait: &Slow| {
        let sending = sending.get(&wait.socket());
        sending.is_some_and(|sending| sending.sends > 1)
    };
    // Who asks again was not sent more until the end.
    let may_go_on = |wait: &Slow| {
        let pause = wait.time() / u64::from(wait.seen.members.max(1));
        let until = wait.end.saturating_add(pause * 3);
        wait.seen.members >= PUSHES && end.is_some_and(|end| until >= end) && !asks_again(wait)
    };
    // A command's user waits for all that it gets.
    let streams = match scope.is_command {
        true => Vec::new(),
        false => streams(waits, &joined, may_go_on),
    };
    mark_streams(waits, &streams);
    joined.extend(streams);
    joined.sort_unstable();
    for of in joined.into_iter().rev() {
        waits.swap_remove(of);
    }
}

/// Note the questions of connections that are pushed to since.
fn mark_streams(waits: &mut [Slow], streams: &[usize]) {
    let streamed: BTreeSet<_> = streams.iter().map(|&of| waits[of].socket()).collect();
    for wait in waits
        .iter_mut()
        .filter(|wait| wait.key.root == Node::Answer)
    {
        wait.seen.is_streamed = streamed.contains(&wait.socket());
    }
}

/// Return the places of pauses that may be those of a stream: the only ones on a connection, which
/// was there before, is one of few, or may go on.
fn streams(waits: &[Slow], joined: &[usize], may_go_on: impl Fn(&Slow) -> bool) -> Vec<usize> {
    const LEAST: usize = 3;
    let joined: BTreeSet<_> = joined.iter().collect();
    let mut alone = BTreeMap::<Key, Vec<usize>>::new();
    let mut streams = Vec::new();
    for found in by_flow(waits).values() {
        let rests = found.iter().copied();
        let mut rests =
            rests.filter(|of| waits[*of].parts.of(Node::RestPeer) > 0 && !joined.contains(of));
        let (Some(only), None) = (rests.next(), rests.next()) else {
            continue;
        };
        match waits[only].is_new && !may_go_on(&waits[only]) {
            true => alone.entry(waits[only].key.clone()).or_default().push(only),
            false => streams.push(only),
        }
    }
    let few = alone.into_values().filter(|found| found.len() < LEAST);
    streams.extend(few.flatten());
    streams
}

/// Round trips of a full window after which slow start is over: from ten segments, each doubles the
/// window, and no buffer holds more than it has then.
const ROUNDS: u64 = 12;

/// A connection's slow start.
#[derive(Debug, Clone, Copy)]
struct Start {
    node: Node,
    /// The pause before it.
    pause: Option<u64>,
    /// Time of a full window until it is over.
    left: u64,
    /// Sends into a full window have ended by then: messages that are queued together wait
    /// for the same time.
    covered: Moment,
    /// When it was over.
    over: Option<Moment>,
}

impl Start {
    /// `rtt`: the smallest round trip, 0 where that is not known.
    const fn new(node: Node, pause: Option<u64>, rtt: u64) -> Self {
        let left = match rtt {
            0 => u64::MAX,
            rtt => rtt.saturating_mul(ROUNDS),
        };
        Self {
            node,
            pause,
            left,
            covered: 0,
            over: None,
        }
    }

    /// Return the time of a full window that a wait, which begins no earlier than those before it,
    /// has in slow start.
    fn take(&mut self, wait: &Slow) -> u64 {
        let slow = wait.parts.of(Node::DeliveryCongestion);
        if slow == 0 {
            return 0;
        }
        let begin = self.covered.max(wait.begin);
        let more = slow.min(wait.end.saturating_sub(begin));
        if self.over.is_none() && more > self.left {
            self.over = Some(begin.saturating_add(self.left));
        }
        self.left = self.left.saturating_sub(more);
        self.covered = self.covered.max(wait.end);
        match self.over {
            Some(over) => slow.min(over.saturating_sub(wait.begin)),
            None => slow,
        }
    }
}

/// Give the time of a full window to slow start, while that lasts: after a pause of the connection,
/// or from its beginning, if that was seen. A loss ends it.
fn restart(waits: &mut [Slow], found: &[usize], sending: Option<&Sending>, rtt: u64) {
    let sent = |of: &&usize| waits[**of].key.root == Node::Delivery;
    let sent: Vec<_> = found.iter().filter(sent).copied().collect();
    let mut end = None;
    let mut pauses = Vec::new();
    for &of in &sent {
        let pause = end.map(|end| waits[of].begin.saturating_sub(end));
        pauses.push(pause.filter(|pause| *pause > TIMEOUT));
        end = end.max(Some(waits[of].end));
    }
    if has_sent_between(waits, &sent, sending) {
        pauses.fill(None);
    }
    let first = sent.first().map(|&of| &waits[of]);
    let mut start = match first {
        Some(first) if first.is_new => Some(Start::new(Node::DeliveryStart, None, rtt)),
        // Where it pauses, it did before.
        _ if pauses.iter().any(Option::is_some) => {
            Some(Start::new(Node::DeliveryRestart, None, rtt))
        }
        _ => None,
    };
    for (of, pause) in sent.into_iter().zip(pauses) {
        let wait = &mut waits[of];
        if pause.is_some() {
            start = Some(Start::new(Node::DeliveryRestart, pause, rtt));
        }
        let Some(now) = &mut start else { continue };
        let slow = now.take(wait);
        if slow > 0 {
            wait.seen.pause = now.pause;
            wait.parts.shift(Node::DeliveryCongestion, now.node, slow);
        }
        if wait.seen.resent > 0 {
            start = None;
        }
    }
}

/// Return true if a connection sent twice as much as these waits: what it sent quickly lies between
/// them, so that nothing shows its pauses.
fn has_sent_between(waits: &[Slow], sent: &[usize], sending: Option<&Sending>) -> bool {
    let Some(sending) = sending.filter(|sending| sending.connection.segment > 0) else {
        return false;
    };
    let bytes = sent.iter().map(|&of| &waits[of]);
    let bytes: u64 = bytes
        .map(|wait| wait.seen.bytes.saturating_mul(u64::from(wait.weight)))
        .sum();
    let segments = bytes.div_ceil(u64::from(sending.connection.segment)) + sent.len() as u64;
    u64::from(sending.sends) > segments.saturating_mul(2)
}

/// Return for each wait whether its connection always has a question open: it may be a worker or a
/// subscriber, which nobody waits for.
pub(in crate::diagnosis) fn always_open(waits: &[Slow]) -> Vec<bool> {
    let on_demand = openings::on_demand(waits);
    let is_on_demand = |found: &[usize]| {
        let mut found = found.iter().map(|&of| &waits[of]);
        found.any(|wait| wait.is_new && on_demand.contains(&wait.key))
    };
    let mut open = vec![false; waits.len()];
    let mut alone = Vec::new();
    let mut always = BTreeSet::new();
    for found in by_flow(waits).values() {
        for root in [Node::Answer, Node::Service] {
            let of_root = found.iter().copied();
            let of_root: Vec<_> = of_root
                .filter(|&of| waits[of].key.root == root && !waits[of].is_failure())
                .filter(|&of| !waits[of].is_unacknowledged() && !waits[of].asks_name())
                .filter(|&of| waits[of].seen.questions == 0)
                .collect();
            if is_always(waits, &of_root) && !is_on_demand(&of_root) {
                if let [first, _, ..] = of_root[..] {
                    always.insert(&waits[first].key);
                }
                of_root.into_iter().for_each(|of| open[of] = true);
            } else if let [only] = of_root[..] {
                alone.push(only);
            }
        }
    }
    // One alone is like those of the same service that are known better.
    for only in alone {
        open[only] |= always.contains(&waits[only].key) && !is_on_demand(&[only]);
    }
    open
}

/// Connections of a service that mostly wait, for times of all lengths, while it answers others at
/// once: they take work from a queue, or poll for news. Those that wait seldom are held together.
/// `quick`: its other answers, by key.
pub(in crate::diagnosis) fn irregular(
    waits: &[Slow],
    open: &mut [bool],
    sending: &BTreeMap<Socket, Sending>,
    quick: &BTreeMap<Key, u64>,
) {
    const LEAST: usize = 3;
    let mut seldom = BTreeMap::<&Key, Vec<Vec<usize>>>::new();
    let mut mark = |key: &Key, connections: &[Vec<usize>]| {
        let count = connections.iter().map(Vec::len).sum::<usize>();
        let all = connections.iter().flatten();
        let answered = all.filter(|&&of| waits[of].how != End::Open).count();
        let is_quick = quick
            .get(key)
            .is_some_and(|quick| *quick >= answered as u64);
        if count >= LEAST && is_quick && is_irregular(waits, connections, sending) {
            connections.iter().flatten().for_each(|&of| open[of] = true);
        }
    };
    for found in by_flow(waits).values() {
        for root in [Node::Answer, Node::Service] {
            let of_root = found
                .iter()
                .copied()
                .filter(|&of| waits[of].key.root == root && !waits[of].is_failure());
            let of_root: Vec<_> = of_root.collect();
            let Some(&first) = of_root.first() else {
                continue;
            };
            let asked = sending.get(&waits[first].socket()).map(|one| match root {
                Node::Service => one.receives,
                _ => one.sends,
            });
            let slow = of_root.len() as u64;
            // Workers ask a few other things for each job.
            if asked.is_none_or(|asked| slow * 3 < u64::from(asked)) {
                continue;
            }
            match of_root.len() < LEAST {
                true => seldom.entry(&waits[first].key).or_default().push(of_root),
                false => mark(&waits[first].key, &[of_root]),
            }
        }
    }
    for (key, connections) in seldom {
        mark(key, &connections);
    }
}

/// Open for half of the time that their connections were seen, and one three times as long as
/// another.
fn is_irregular(
    waits: &[Slow],
    connections: &[Vec<usize>],
    sending: &BTreeMap<Socket, Sending>,
) -> bool {
    let times = || connections.iter().flatten().map(|&of| waits[of].time());
    let (least, most) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let whole = |found: &Vec<usize>| {
        let begin = found.iter().map(|&of| waits[of].begin).min().unwrap_or(0);
        let end = found.iter().map(|&of| waits[of].end).max().unwrap_or(0);
        let seen = found
            .first()
            .and_then(|&of| sending.get(&waits[of].socket()));
        // One wait alone is open for all of its own time.
        let seen = seen
            .filter(|_| found.len() == 1)
            .map_or(0, |one| one.seen_for.0);
        end.saturating_sub(begin).max(seen)
    };
    let whole: u64 = connections.iter().map(whole).sum();
    times().sum::<u64>() * 2 >= whole && least.saturating_mul(3) <= most
}

/// Nine tenths of the time from the first to the last; one alone, if nothing shows its connection
/// before.
fn is_always(waits: &[Slow], found: &[usize]) -> bool {
    let (Some(&first), Some(&last)) = (found.first(), found.last()) else {
        return false;
    };
    if first == last {
        let wait = &waits[first];
        let may_be_older = !wait.is_unix() && !is_for_one(wait) && !has_paused(wait);
        return wait.seen.is_streamed || may_be_older;
    }
    let open: u64 = found.iter().map(|&of| waits[of].time()).sum();
    let whole = waits[last].end.saturating_sub(waits[first].begin);
    let is_open = |part: u128, of: u128| u128::from(open) * of >= u128::from(whole) * part;
    is_open(9, 10) || (is_open(3, 4) && asks_again_at_once(waits, found))
}

/// The next one mostly begins within a tenth of the time that one takes, also where some between
/// them are not known: who confirms what is pushed looks like that.
fn asks_again_at_once(waits: &[Slow], found: &[usize]) -> bool {
    const LEAST: usize = 4;
    let pairs = found.windows(2).filter_map(|pair| match *pair {
        [one, next] => Some(waits[next].begin.saturating_sub(waits[one].end)),
        _ => None,
    });
    let gap = median(pairs.collect());
    let time = median(found.iter().map(|&of| waits[of].time()).collect());
    found.len() >= LEAST && gap.saturating_mul(10) <= time
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

/// Take back what looks like a subscription at a service whose process works on its requests: it
/// asks others all the while, more than one after the other for each request, and has more requests
/// than questions. Who passes news on has one question for them, or one for each.
pub(in crate::diagnosis) fn work(waits: &[Slow], open: &mut [bool]) {
    let mut processes = BTreeMap::<u32, [Vec<usize>; 2]>::new();
    for (of, wait) in waits.iter().enumerate().filter(|(_, wait)| wait.pid != 0) {
        let [requests, questions] = processes.entry(wait.pid).or_default();
        match wait.key.root {
            // News that a proxy passes on are no work.
            _ if wait.seen.for_news => {}
            Node::Service if open[of] => requests.push(of),
            Node::Answer if !wait.how.is_failure() => questions.push(of),
            _ => {}
        }
    }
    let times = |of: &[usize]| of.iter().map(|&of| waits[of].time()).collect::<Vec<_>>();
    for [requests, questions] in processes.values() {
        let (all, asked) = (times(requests), times(questions));
        let (sum, asking) = (all.iter().sum::<u64>(), asked.iter().sum::<u64>());
        let spans = requests.iter().map(|&of| (waits[of].begin, waits[of].end));
        let busy = asking.saturating_mul(5) >= union(spans.collect()).saturating_mul(4);
        let one_after_the_other = median(asked).saturating_mul(2) <= median(all);
        if !requests.is_empty() && busy && one_after_the_other && asking <= sum / 2 {
            requests.iter().for_each(|&of| open[of] = false);
        }
    }
}

/// The socket was made for this question: a new connection, or one of UDP that got an answer.
fn is_for_one(wait: &Slow) -> bool {
    wait.is_new || (wait.flow.protocol == Protocol::Udp && wait.how == End::Data)
}

/// The last answer had come a while before the question, on a connection where most are answered.
fn has_paused(wait: &Slow) -> bool {
    const PAUSE: u64 = 10_000_000;
    wait.seen.is_answered && wait.seen.pause.is_some_and(|pause| pause >= PAUSE)
}

/// Requests that processes have open themselves: somebody waits for what they wait for. A
/// connection that always has one open is pushed to.
pub(in crate::diagnosis) struct Served(BTreeMap<u32, Vec<(u64, u64)>>);

impl Served {
    pub(in crate::diagnosis) fn new(waits: &[Slow], open: &[bool]) -> Self {
        let mut served = BTreeMap::<u32, Vec<(u64, u64)>>::new();
        let waits = waits.iter().zip(open).filter(|(_, open)| !**open);
        let is_request = |wait: &Slow| wait.key.root == Node::Service && !wait.may_be_no_request();
        let requests = waits.filter(|(wait, _)| is_request(wait));
        for (wait, _) in requests.filter(|(wait, _)| wait.pid != 0) {
            let spans = served.entry(wait.pid).or_default();
            spans.push((wait.begin, wait.end));
        }
        Self(served)
    }

    /// Return true if the process asked, and was answered, while it had such a request; a connect
    /// is made for a question.
    pub(in crate::diagnosis) fn waits_for(&self, wait: &Slow) -> bool {
        let asks = matches!(wait.key.root, Node::Answer | Node::Rest | Node::Connect);
        let spans = self.0.get(&wait.pid).filter(|_| asks);
        let is_inside = |(begin, end): &(u64, u64)| *begin <= wait.begin && wait.end <= *end;
        spans.is_some_and(|spans| spans.iter().any(is_inside))
    }

    /// Return the services that are mostly asked for such requests: the questions to them are no
    /// subscriptions, whichever of them one was for.
    pub(in crate::diagnosis) fn asked(&self, waits: &[Slow]) -> BTreeSet<Key> {
        let mut asked = BTreeMap::<&Key, (usize, usize)>::new();
        for wait in waits.iter().filter(|wait| wait.key.root == Node::Answer) {
            let (inside, all) = asked.entry(&wait.key).or_default();
            *inside += usize::from(self.waits_for(wait));
            *all += 1;
        }
        let mostly = asked
            .into_iter()
            .filter(|(_, (inside, all))| inside * 2 >= *all);
        mostly.map(|(key, _)| key.clone()).collect()
    }
}
