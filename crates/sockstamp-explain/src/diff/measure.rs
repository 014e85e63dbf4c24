//! The durations of messages that are compared.

use std::fmt;
use std::str::FromStr;

use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::stage::{Direction, Stage};

/// A duration that messages have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// The time until sent messages left the host.
    Sent,
    /// The time until received messages were read.
    Read,
    /// The time of whole lives, from the send call to the read call.
    Life,
    /// A stage.
    Stage(Stage),
}

impl Measure {
    /// Every duration.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Sent, Self::Read, Self::Life]
            .into_iter()
            .chain(Stage::ALL.map(Self::Stage))
    }

    /// The name, such as `tx.sent` or `rx.app`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent => "tx.sent",
            Self::Read => "rx.total",
            Self::Life => "life",
            Self::Stage(stage) => stage.name(),
        }
    }

    /// Return the whole time that it is a part of; itself, if it is none.
    pub(super) const fn whole(self) -> Self {
        match self {
            Self::Stage(Stage::TxCopy | Stage::TxQueue | Stage::TxQdisc | Stage::TxNic) => {
                Self::Sent
            }
            Self::Stage(
                Stage::RxNic | Stage::RxStack | Stage::RxHol | Stage::RxWakeup | Stage::RxApp,
            ) => Self::Read,
            whole => whole,
        }
    }

    /// Return true for a time that somebody waits for as a whole.
    pub(super) const fn is_whole(self) -> bool {
        match self {
            Self::Sent | Self::Read | Self::Life => true,
            Self::Stage(stage) => matches!(
                stage,
                Stage::PeerAnswer
                    | Stage::PeerRest
                    | Stage::ClientRequest
                    | Stage::ConnHandshake
                    | Stage::ConnAccept
            ),
        }
    }

    /// Return false for the time until an acknowledgement, which delays nobody by itself, and for
    /// that in which a client asks for nothing.
    pub(super) const fn is_waited_for(self) -> bool {
        !matches!(
            self,
            Self::Stage(Stage::TxNetwork | Stage::NetBack | Stage::ClientPause)
        )
    }

    /// Return those that a message has. A connection is no message: it has stages alone.
    pub(super) fn of(message: &Message) -> impl Iterator<Item = (Self, Nanos)> {
        let whole = match message.direction {
            _ if message.is_connection() => None,
            _ if message.is_life() => Some(Self::Life),
            Direction::Tx => Some(Self::Sent),
            Direction::Rx => Some(Self::Read),
        };
        let stages = message.stages.present();
        (whole.into_iter())
            .map(|whole| (whole, message.time()))
            .chain(stages.map(|(stage, duration)| (Self::Stage(stage), *duration)))
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::all().find(|measure| measure.name() == name);
        found.ok_or_else(|| format!("{name:?} is not a stage, nor tx.sent, rx.total or life"))
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::fixture;

    use super::*;

    #[test]
    fn a_connection_is_no_message_of_no_time() {
        for (direction, stage) in [
            (Direction::Tx, Stage::ConnHandshake),
            (Direction::Rx, Stage::ConnAccept),
        ] {
            let mut connection = fixture::message(direction);
            connection.stages[stage] = Some(Nanos(3));
            let measures: Vec<_> = Measure::of(&connection).collect();
            assert_eq!(measures, [(Measure::Stage(stage), Nanos(3))]);
        }
        let mut sent = fixture::message(Direction::Tx);
        sent.stages[Stage::TxQdisc] = Some(Nanos(3));
        let measures: Vec<_> = Measure::of(&sent).collect();
        assert_eq!(measures[0], (Measure::Sent, Nanos(3)));
    }
}
