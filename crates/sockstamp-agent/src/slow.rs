//! The last slow messages, for the page.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;
use sockstamp_explain::diagnosis;
use sockstamp_explain::timeline::{Placed, Timeline};
use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::canonical;
use sockstamp_model::message::Message;
use sockstamp_run::escape::to_json;

use crate::owners::Owner;

/// Messages that are kept: some kilobytes each.
const KEPT: usize = 100;

/// The last messages that were slower than a limit.
#[derive(Debug, Default)]
pub(crate) struct Slow {
    limit: Option<Nanos>,
    kept: VecDeque<Message>,
}

impl Slow {
    /// Keep messages that are slower from now on; none without a limit.
    pub(crate) fn set(&mut self, limit: Option<Duration>) {
        self.limit = limit.map(Nanos::from);
        self.kept
            .retain(|message| self.limit.is_some_and(|limit| message.is_slow(limit)));
    }

    pub(crate) fn push(&mut self, message: &Message, owner: &Owner) {
        let limit = owner.slow(self.limit);
        if limit.is_some_and(|limit| message.is_slow(limit)) {
            self.kept.truncate(KEPT - 1);
            self.kept.push_front(message.clone());
        }
    }

    /// Return them as JSON, the newest first; `null` if none are wanted.
    pub(crate) fn json(&self) -> serde_json::Result<String> {
        let messages = self.kept.iter().map(Shown::of);
        to_json(&self.limit.map(|_| messages.collect::<Vec<_>>()))
    }
}

/// A message as the page draws it: its time in nanoseconds, its end in milliseconds since 1970.
#[derive(Debug, Serialize)]
struct Shown {
    end_ms: u64,
    direction: &'static str,
    protocol: String,
    comm: String,
    pid: u32,
    local: String,
    remote: String,
    bytes: u64,
    time_ns: u64,
    /// The cause of its longest wait, by its own evidence.
    cause: Option<&'static str>,
    stages: Vec<Bar>,
}

/// A stage: when it began after the first one, its length, and its parts.
#[derive(Debug, Serialize)]
struct Bar {
    name: &'static str,
    after_ns: u64,
    ns: u64,
    parts: Vec<(&'static str, u64)>,
}

impl Shown {
    fn of(message: &Message) -> Self {
        let timeline = Timeline::of(message);
        let placed: Vec<_> = timeline.between.iter().chain(&timeline.way).collect();
        let begin = placed.iter().map(|placed| placed.span.begin).min();
        let begin = begin.unwrap_or_default();
        let [local, remote] = [message.flow.local, message.flow.remote].map(canonical);
        Self {
            end_ms: message.time.as_nanos() / 1_000_000,
            direction: message.label(),
            protocol: message.flow.protocol.to_string(),
            comm: message.comm.to_string(),
            pid: message.pid,
            local: local.to_string(),
            remote: remote.to_string(),
            bytes: message.bytes,
            time_ns: message.slow_time().0,
            cause: diagnosis::of_one(message).map(|node| node.about().is),
            stages: placed.iter().map(|placed| Bar::of(placed, begin)).collect(),
        }
    }
}

impl Bar {
    fn of(placed: &Placed, begin: u64) -> Self {
        let parts = placed.parts.iter();
        Self {
            name: placed.stage.name(),
            after_ns: placed.span.begin - begin,
            ns: placed.span.duration().0,
            parts: parts
                .map(|(part, span)| (part.name(), span.duration().0))
                .collect(),
        }
    }
}
