//! Divide a message's time into stages and parts.

use std::fmt;

use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::part::Part;
use sockstamp_model::stage::{Direction, Stage};

use crate::timeline::{READ, SENT};

/// The time that is explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The time of sent messages until they left the host.
    Sent,
    /// The time of received messages until they were read.
    Read,
    /// The time from a question to its answer, on the asking side.
    Answer,
    /// The time of opened connections until they were established.
    Connect,
    /// The time of accepted connections since they were established.
    Accept,
    /// The time of whole lives, from the send call to the read call.
    Life,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Sent,
        Self::Read,
        Self::Answer,
        Self::Connect,
        Self::Accept,
        Self::Life,
    ];

    /// The messages, as a noun.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sends",
            Self::Read => "reads",
            Self::Answer => "answers",
            Self::Connect => "connects",
            Self::Accept => "accepts",
            Self::Life => "lives",
        }
    }

    /// Return the stages of the path of such a message, in their order in time.
    const fn way(self) -> &'static [Stage] {
        match self {
            Self::Sent => &SENT,
            Self::Read => &READ,
            Self::Answer => &[Stage::PeerAnswer],
            Self::Connect => &[Stage::ConnHandshake],
            Self::Accept => &[Stage::ConnAccept],
            Self::Life => &Stage::WAY,
        }
    }

    fn has(self, stage: Stage) -> bool {
        match self {
            Self::Sent => {
                stage.direction() == Direction::Tx && stage.has_share() && !stage.is_between_hosts()
            }
            Self::Read => stage.direction() == Direction::Rx && stage.has_share(),
            Self::Answer => stage == Stage::PeerAnswer,
            Self::Connect => stage == Stage::ConnHandshake,
            Self::Accept => stage == Stage::ConnAccept,
            Self::Life => stage.has_share(),
        }
    }

    /// Iterate over its stages, in their order in time.
    fn stages(self) -> impl Iterator<Item = Stage> {
        self.way()
            .iter()
            .copied()
            .filter(move |stage| self.has(*stage))
    }

    /// Return the stages and parts that add up to the time, in their order in time. A stage with
    /// parts is replaced by these, except `rx.wakeup` and `rx.app`, whose parts are known for some
    /// messages only.
    #[must_use]
    pub fn components(self) -> Vec<Component> {
        let mut components = Vec::new();
        for stage in self.stages() {
            let before = components.len();
            let parts =
                Part::of(stage).filter(|_| !matches!(stage, Stage::RxWakeup | Stage::RxApp));
            components.extend(parts.map(|part| Component {
                stage,
                part: Some(part),
            }));
            if components.len() == before {
                components.push(Component { stage, part: None });
            }
        }
        components
    }

    /// Return the time of a message; `None` if it has none of this kind, or is refused.
    #[must_use]
    pub fn time(self, message: &Message) -> Option<Nanos> {
        message.verdict.is_valid().then(|| self.duration(message))?
    }

    /// Return true for a connection of this kind that did not come to be.
    #[must_use]
    pub fn has_failed(self, message: &Message) -> bool {
        let is_of_connections = matches!(self, Self::Connect | Self::Accept);
        is_of_connections && !message.verdict.is_valid() && self.duration(message).is_some()
    }

    fn duration(self, message: &Message) -> Option<Nanos> {
        if message.is_life() != (self == Self::Life) {
            return None;
        }
        let mut stages = self.stages().filter_map(|stage| message.stages[stage]);
        let first = stages.next()?;
        Some(stages.fold(first, |sum, stage| sum + stage))
    }
}

/// A part of a stage, or a stage without parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Component {
    /// The stage.
    pub stage: Stage,
    /// Its part, if it has any.
    pub part: Option<Part>,
}

impl Component {
    /// Return its duration in a message; zero where it is absent.
    #[must_use]
    pub fn of(self, message: &Message) -> Nanos {
        let duration = match self.part {
            Some(part) => message.parts[part],
            None => message.stages[self.stage],
        };
        duration.unwrap_or(Nanos::ZERO)
    }
}

/// Print `tx.queue cwnd`, or `rx.app`.
impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Some(part) => write!(f, "{} {part}", self.stage),
            None => self.stage.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_in_the_order_of_time_and_none_is_missing() {
        for kind in Kind::ALL {
            let mut stages: Vec<_> = kind
                .components()
                .iter()
                .map(|component| component.stage)
                .collect();
            stages.dedup();
            let all = Stage::ALL.into_iter().filter(|stage| kind.has(*stage));
            assert_eq!(stages.len(), all.count(), "{kind:?}");
        }
        let read: Vec<_> = Kind::Read
            .components()
            .iter()
            .map(|component| component.stage)
            .collect();
        assert_eq!(read, READ);
    }
}
