//! Verdicts: whether a measured message is valid, or why it is refused.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::UnknownName;

macro_rules! verdicts {
    ($(
        $variant:ident = $name:literal, $description:literal;
    )*) => {
        /// The result of measuring a message.
        ///
        /// Every measured message ends with exactly one verdict, and every refusal is counted: a
        /// wrong number is worse than a missing one. The discriminants are shared with the kernel
        /// side.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum Verdict {
            $(#[doc = $description] $variant,)*
        }

        impl Verdict {
            /// Every verdict, in the order of the discriminants.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$variant),*];

            /// The number of verdicts.
            pub const COUNT: usize = [$($name),*].len();

            /// The names of the variants, from which the kernel side has its constants.
            pub(crate) const VARIANTS: [&'static str; Self::COUNT] = [$(stringify!($variant)),*];

            /// The name used in options, metrics and JSON, such as `"no-rx-stamp"`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Describe the verdict in one sentence.
            #[must_use]
            pub const fn description(self) -> &'static str {
                match self {
                    $(Self::$variant => $description,)*
                }
            }
        }
    };
}

verdicts! {
    Valid = "valid",
        "Every stage that this host can give was measured.";
    NoEntry = "no-entry",
        "The entry of the send call was not seen, so there is no stamp to start from.";
    AlreadySent = "already-sent",
        "The message was marked after its packet had left, so its scheduler and driver stamps never come.";
    AppStamp = "app-stamp",
        "The same packet carries the application's own SO_TIMESTAMPING id, which marking would change.";
    FastOpen = "fast-open",
        "The data was sent or received together with the SYN (TCP Fast Open).";
    InflightFull = "inflight-full",
        "More messages of the flow were in flight than there are slots for.";
    NoSched = "no-sched-stamp",
        "The stamp at the entry of the packet scheduler never came.";
    NoSnd = "no-snd-stamp",
        "The stamp at the hand-over to the driver never came, as with a driver that does not stamp.";
    Reset = "reset",
        "The connection was reset while the message was in flight.";
    Closed = "closed",
        "The socket was gone while the message was in flight.";
    StampOrder = "stamp-order",
        "The stamps are out of order.";
    NoRxStamp = "no-rx-stamp",
        "The packet carried no receive stamp.";
    ClockMismatch = "clock-mismatch",
        "A stamp was of another clock, or would have given a negative time.";
    ClockStep = "clock-step",
        "CLOCK_REALTIME was stepped between a stamp and its use.";
    Evicted = "evicted",
        "The record of an arrival was overwritten before the message was read.";
    UnmatchedRead = "unmatched-read",
        "The read does not continue where the last one ended, as with parallel readers of one socket.";
    UnseenRead = "unseen-read",
        "Bytes left the socket without a read call: by splice, TCP_ZEROCOPY_RECEIVE or a sockmap.";
    MapFull = "map-full",
        "There was no memory for the state of the socket.";
    LostEvent = "lost-event",
        "A hook did not fire for the message: the kernel reported no arrival, or no acknowledgement of its own.";
    Hol = "hol",
        "The message waited for a missing segment, and that wait could not be separated from the rest.";
    Adopted = "adopted",
        "The call was in progress, or its last byte had arrived, when the open connection was adopted.";
    Dropped = "dropped",
        "A packet of the message was dropped on its way out of this host.";
    Split = "split",
        "TCP split the packet that carries the stamps, and the departure of the message's last byte was not seen.";
    Window = "window",
        "The message, measured in windows, began before the programs were attached, or took longer than they stay.";
    ConnectRefused = "connect-refused",
        "The peer refused the connection: nothing listens on the port, or a firewall rejects it.";
    ConnectTimeout = "connect-timeout",
        "No SYN of the connection was answered until the kernel gave up.";
    ConnectFailed = "connect-failed",
        "The connection failed for another reason, such as an unreachable host.";
    ConnectAborted = "connect-aborted",
        "The application closed the socket before the connection was established.";
    Unaccepted = "unaccepted",
        "The connection was reset, or its listener closed, before the application accepted it.";
    UnseenAccept = "unseen-accept",
        "The application accepted the connection without asking for the peer's address, which no hook shows.";
}

impl Verdict {
    /// Return true if the message's stages may be used.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        matches!(self, Self::Valid)
    }

    /// Return true for the verdicts on a connection that has no handshake, or no accept.
    #[must_use]
    pub const fn is_of_connection(self) -> bool {
        self as u32 >= Self::ConnectRefused as u32
    }

    /// The verdict with this discriminant, `None` if there is none.
    #[must_use]
    pub fn from_index(index: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(index).ok()?).copied()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Verdict {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::ALL
            .into_iter()
            .find(|verdict| verdict.name() == name)
            .ok_or_else(|| UnknownName {
                what: "verdict",
                name: name.to_owned(),
            })
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discriminants_follow_the_order_of_all() {
        for (index, verdict) in (0..).zip(Verdict::ALL) {
            assert_eq!(verdict as u32, index);
            assert_eq!(Verdict::from_index(index), Some(verdict));
        }
        let count = u32::try_from(Verdict::COUNT).expect("a count of names");
        assert_eq!(Verdict::from_index(count), None);
    }

    #[test]
    fn names_round_trip_and_are_unique() {
        for verdict in Verdict::ALL {
            assert_eq!(verdict.name().parse(), Ok(verdict));
            assert_eq!(verdict.is_valid(), verdict.name() == "valid");
        }
        assert!("in-flight".parse::<Verdict>().is_err());
    }

    #[test]
    fn descriptions_are_one_sentence() {
        for verdict in Verdict::ALL {
            let description = verdict.description();
            assert!(
                description.ends_with('.') && !description.contains('\n'),
                "{description}"
            );
            assert!(
                !description.trim_end_matches('.').contains(". "),
                "{description}"
            );
        }
    }
}
