//! Why a message belongs to no single question or answer.

use std::ops::{Index, IndexMut};
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::named::named;
use crate::unknown_name::{UnknownName, find};

named! {
    /// Why a valid message has no `app.service` (sent) or `peer.answer` (read), although it may be
    /// an answer: order does not tell which question it belongs to.
    enum Unpaired {
        /// Several questions were in flight, or some were still unread.
        Pipelined = "pipelined";
        /// The peer sends at a pace of its own: a stream, or an answer that still goes on.
        Stream = "stream";
        /// It came sooner after the question than by a round trip: the peer had sent it before.
        Pushed = "pushed";
        /// The question was asked again, and it is unknown which one was answered.
        AskedAgain = "asked-again";
        /// So many pairs of the flow are without a single question that the others are not known.
        Multiplexed = "multiplexed";
    }
}

impl FromStr for Unpaired {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        find("reason", Self::ALL, Self::name, name)
    }
}

/// Messages by the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnpairedCounts([u64; Unpaired::COUNT]);

impl UnpairedCounts {
    /// Counts that hold `count(reason)` for every reason.
    pub fn from_fn(count: impl FnMut(Unpaired) -> u64) -> Self {
        Self(Unpaired::ALL.map(count))
    }

    /// Every reason with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Unpaired, u64)> {
        Unpaired::ALL.into_iter().zip(self.0)
    }

    /// Count messages; the count stays at its largest number.
    pub fn add(&mut self, reason: Unpaired, messages: u64) {
        self[reason] = self[reason].saturating_add(messages);
    }
}

impl Index<Unpaired> for UnpairedCounts {
    type Output = u64;

    fn index(&self, reason: Unpaired) -> &u64 {
        &self.0[reason as usize]
    }
}

impl IndexMut<Unpaired> for UnpairedCounts {
    fn index_mut(&mut self, reason: Unpaired) -> &mut u64 {
        &mut self.0[reason as usize]
    }
}

impl Serialize for UnpairedCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (index, reason) in (0..).zip(Unpaired::ALL) {
            assert_eq!(reason as u32, index);
            assert_eq!(reason.name().parse(), Ok(reason));
        }
        assert!("piplined".parse::<Unpaired>().is_err());
    }

    #[test]
    fn counts_are_by_reason() {
        let mut counts = UnpairedCounts::default();
        counts.add(Unpaired::Stream, 2);
        counts.add(Unpaired::Stream, u64::MAX);
        assert_eq!(counts[Unpaired::Stream], u64::MAX);
        assert_eq!(counts[Unpaired::Pipelined], 0);
        assert_eq!(
            serde_json::to_string(&counts).unwrap(),
            format!(
                r#"{{"pipelined":0,"stream":{},"pushed":0,"asked-again":0,"multiplexed":0}}"#,
                u64::MAX
            )
        );
    }
}
