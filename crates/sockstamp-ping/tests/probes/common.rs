//! Probe targets in hosts of their own, and collect the results.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use sockstamp_model::clock::Nanos;
use sockstamp_ping::{
    Answer, Counters, End, Engine, Event, Events, Limits, Namespace, Next, Outcome, Protocol,
    Refusal, RxKind, Target, TargetId, TxKind,
};
use testbed::{Family, Host, PATIENCE};

pub const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// A few probes, quick ones.
pub fn target(host: &Host, address: IpAddr, protocol: Protocol, count: u64) -> Target {
    let mut target = Target::new(address, protocol);
    target.namespace = Namespace::named(host.netns_name());
    target.settings.count = Some(count);
    target.settings.interval = Duration::from_millis(10);
    target
}

/// All events of some targets.
#[derive(Debug, Default)]
pub struct Story {
    pub events: Vec<Event>,
    pub counters: Counters,
}

/// A story that is still told.
#[derive(Debug)]
pub struct Run {
    pub engine: Engine,
    events: Events,
    pub story: Story,
}

impl Run {
    pub fn start(targets: impl IntoIterator<Item = Target>) -> Self {
        let (mut engine, events) = Engine::start(Limits::default()).unwrap();
        for target in targets {
            engine.add(target).unwrap();
        }
        Self {
            engine,
            events,
            story: Story::default(),
        }
    }

    /// Listen until it has come that far.
    pub fn until(&mut self, is_there: impl Fn(&Story) -> bool) {
        let start = Instant::now();
        while !is_there(&self.story) {
            match self.events.next_within(PATIENCE) {
                Next::Event(event) => self.story.events.push(event),
                Next::Over => panic!("it ended after {} events", self.story.events.len()),
                Next::Timeout => panic!("nothing came after {} events", self.story.events.len()),
            }
            assert!(start.elapsed() < PATIENCE, "{:?}", self.story.events.last());
        }
    }

    /// Listen to the end.
    pub fn end(mut self) -> Story {
        self.engine.finish();
        let start = Instant::now();
        loop {
            match self.events.next_within(PATIENCE) {
                Next::Event(event) => self.story.events.push(event),
                Next::Over => break,
                Next::Timeout => panic!("nothing came after {} events", self.story.events.len()),
            }
            assert!(start.elapsed() < PATIENCE, "{:?}", self.story.events.last());
        }
        self.story.counters = self.engine.counters();
        self.story
    }
}

/// Probe the targets to their end.
pub fn probe(targets: impl IntoIterator<Item = Target>) -> Story {
    Run::start(targets).end()
}

impl Story {
    pub fn outcomes(&self) -> Vec<&Outcome> {
        let events = self.events.iter();
        events
            .filter_map(|event| match event {
                Event::Probe { outcome, .. } => Some(outcome),
                _ => None,
            })
            .collect()
    }

    pub fn answers(&self) -> Vec<Answer> {
        let outcomes = self.outcomes().into_iter();
        outcomes
            .filter_map(|outcome| match outcome {
                Outcome::Answered(answer) => Some(*answer),
                _ => None,
            })
            .collect()
    }

    pub fn ends(&self) -> Vec<(TargetId, &End)> {
        let events = self.events.iter();
        events
            .filter_map(|event| match event {
                Event::Ended { target, end } => Some((*target, end)),
                _ => None,
            })
            .collect()
    }

    pub fn refusals(&self) -> Vec<Refusal> {
        let outcomes = self.outcomes().into_iter();
        outcomes
            .filter_map(|outcome| match outcome {
                Outcome::Refused(refusal) => Some(*refusal),
                _ => None,
            })
            .collect()
    }

    pub fn count(&self, which: impl Fn(&Event) -> bool) -> u64 {
        self.events.iter().filter(|event| which(event)).count() as u64
    }

    /// Assert that all probes were answered, and return the answers.
    pub fn all_answered(&self, probes: u64) -> Vec<Answer> {
        let answers = self.answers();
        assert_eq!(
            answers.len() as u64,
            probes,
            "{:?} {:?}",
            self.outcomes(),
            self.counters
        );
        assert_eq!(self.outcomes().len() as u64, probes);
        answers
    }
}

/// Assert that the kernel stamped both ends.
pub fn assert_stamped(answer: &Answer) {
    let times = &answer.times;
    assert_eq!(
        (times.tx, times.rx, times.fallback),
        (TxKind::Software, RxKind::Software, None),
        "{answer:?}"
    );
    assert!(
        times.rtt > Nanos::ZERO && times.rtt < times.user_rtt,
        "{answer:?}"
    );
    let waits = times.waits;
    assert!(
        waits.send.is_some() && waits.qdisc.is_some() && waits.read.is_some(),
        "{answer:?}"
    );
}
