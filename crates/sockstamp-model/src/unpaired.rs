//! Why a message belongs to no single question or answer.

use std::fmt;
use std::ops::{Index, IndexMut};
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::UnknownName;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $description:literal;)*) => {
        /// Why a valid message has no `app.service` (sent) or `peer.answer` (read), although it may
        /// be an answer: order does not tell which question it belongs to.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum Unpaired {
            $($(#[$doc])* $variant,)*
        }

        impl Unpaired {
            /// Every reason, in the order of the discriminants, which the kernel side shares.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$variant),*];

            /// Their number.
            pub const COUNT: usize = [$($name),*].len();

            /// The names of the variants, from which the kernel side has its constants.
            pub(crate) const VARIANTS: [&'static str; Self::COUNT] = [$(stringify!($variant)),*];

            /// The name used in options, metrics and JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Describe it in one sentence.
            #[must_use]
            pub const fn description(self) -> &'static str {
                match self {
                    $(Self::$variant => $description,)*
                }
            }
        }
    };
}

reasons! {
    /// Several questions were in flight.
    Pipelined = "pipelined",
        "Several questions were in flight, or some were still unread.";
    /// Both ends send at a pace of their own.
    Stream = "stream",
        "The peer sends at a pace of its own: a stream, or an answer that still goes on.";
    /// It left the peer before the question reached it.
    Pushed = "pushed",
        "It came sooner after the question than by a round trip: the peer had sent it before.";
    /// The question was asked more than once.
    AskedAgain = "asked-again",
        "The question was asked again, and it is unknown which one was answered.";
    /// Many pairs of the flow have no single question.
    Multiplexed = "multiplexed",
        "So many pairs of the flow are without a single question that the others are not known.";
}

impl fmt::Display for Unpaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Unpaired {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::ALL
            .into_iter()
            .find(|reason| reason.name() == name)
            .ok_or_else(|| UnknownName {
                what: "reason",
                name: name.to_owned(),
            })
    }
}

impl Serialize for Unpaired {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
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
