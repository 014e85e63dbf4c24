//! Divide a message's time into stages and parts.

use std::fmt;

use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::part::Part;
use sockstamp_model::stage::{Direction, Stage};

/// The time that is explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Of sent messages, until they left the host.
    Sent,
    /// Of received messages, until they were read.
    Read,
    /// From a question to its answer, on the side that asks.
    Answer,
    /// Of whole lives, from the send call to the read call.
    Life,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Sent, Self::Read, Self::Answer, Self::Life];

    /// The messages, as a noun.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sends",
            Self::Read => "reads",
            Self::Answer => "answers",
            Self::Life => "lives",
        }
    }

    fn has(self, stage: Stage) -> bool {
        match self {
            Self::Sent => {
                stage.direction() == Direction::Tx && stage.has_share() && !stage.is_between_hosts()
            }
            Self::Read => stage.direction() == Direction::Rx && stage.has_share(),
            Self::Answer => stage == Stage::PeerAnswer,
            Self::Life => stage.has_share(),
        }
    }

    /// Iterate over its stages, in the order of a message's way.
    fn stages(self) -> impl Iterator<Item = Stage> {
        let all: &[Stage] = match self {
            Self::Life => &Stage::WAY,
            Self::Sent | Self::Read | Self::Answer => &Stage::ALL,
        };
        all.iter().copied().filter(move |stage| self.has(*stage))
    }

    /// Return the stages and parts that add up to the time; a stage with parts is these.
    #[must_use]
    pub fn components(self) -> Vec<Component> {
        let mut components = Vec::new();
        for stage in self.stages() {
            let before = components.len();
            components.extend(Part::of(stage).map(|part| Component {
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
        if !message.verdict.is_valid() || message.is_life() != (self == Self::Life) {
            return None;
        }
        let mut stages = message.stages.present().filter(|(stage, _)| self.has(*stage));
        let (_, &first) = stages.next()?;
        Some(stages.fold(first, |sum, (_, &stage)| sum + stage))
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
