//! Verdicts: whether a measured message is valid, or why it is refused.

use std::str::FromStr;

use crate::named::named;
use crate::unknown_name::{UnknownName, find};

named! {
    /// The result of measuring a message.
    ///
    /// Every measured message ends with exactly one verdict, and every refusal is counted: a wrong
    /// number is worse than a missing one.
    enum Verdict {
        /// Every stage that this host can give was measured.
        Valid = "valid";
        /// The entry of the send call was not seen, or its bytes could not be told from those of
        /// other tasks.
        NoEntry = "no-entry";
        /// The message was marked after its packet had left, so its scheduler and driver stamps
        /// never come.
        AlreadySent = "already-sent";
        /// The same packet carries the application's own SO_TIMESTAMPING id, which marking would
        /// change.
        AppStamp = "app-stamp";
        /// The data was sent or received together with the SYN (TCP Fast Open).
        FastOpen = "fast-open";
        /// More messages of the flow were in flight than there are slots for.
        InflightFull = "inflight-full";
        /// The stamp at the entry of the packet scheduler never came.
        NoSched = "no-sched-stamp";
        /// The stamp at the hand-over to the driver never came, as with a driver that does not
        /// stamp.
        NoSnd = "no-snd-stamp";
        /// The connection was reset while the message was in flight.
        Reset = "reset";
        /// The socket was gone while the message was in flight.
        Closed = "closed";
        /// The stamps are out of order.
        StampOrder = "stamp-order";
        /// The packet carried no receive stamp.
        NoRxStamp = "no-rx-stamp";
        /// A stamp was of another clock, or would have given a negative time.
        ClockMismatch = "clock-mismatch";
        /// CLOCK_REALTIME was stepped between a stamp and its use.
        ClockStep = "clock-step";
        /// The record of an arrival was overwritten before the message was read.
        Evicted = "evicted";
        /// The read does not continue where the last one ended, as with parallel readers of one
        /// socket.
        UnmatchedRead = "unmatched-read";
        /// Bytes left the socket without a read call: by splice, TCP_ZEROCOPY_RECEIVE or a sockmap.
        UnseenRead = "unseen-read";
        /// There was no memory for the state of the socket.
        MapFull = "map-full";
        /// A hook did not fire for the message: the kernel reported no arrival, or no
        /// acknowledgement of its own.
        LostEvent = "lost-event";
        /// The message waited for a missing segment, and that wait could not be separated from the
        /// rest.
        Hol = "hol";
        /// The call was in progress, or its last byte had arrived, when the open connection was
        /// adopted.
        Adopted = "adopted";
        /// A packet of the message was dropped on its way out of this host.
        Dropped = "dropped";
        /// TCP split the packet that carries the stamps, and the departure of the message's last
        /// byte was not seen.
        Split = "split";
        /// The message, measured in windows, began before the programs were attached, or took
        /// longer than they stay.
        Window = "window";
        /// The peer refused the connection: nothing listens on the port, or a firewall rejects it.
        ConnectRefused = "connect-refused";
        /// No SYN of the connection was answered until the kernel gave up.
        ConnectTimeout = "connect-timeout";
        /// The connection failed for another reason, such as an unreachable host.
        ConnectFailed = "connect-failed";
        /// The application closed the socket before the connection was established.
        ConnectAborted = "connect-aborted";
        /// The connection was reset, or its listener closed, before the application accepted it.
        Unaccepted = "unaccepted";
        /// The application accepted the connection without asking for the peer's address, which no
        /// hook shows.
        UnseenAccept = "unseen-accept";
    }
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
}

impl FromStr for Verdict {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        find("verdict", Self::ALL, Self::name, name)
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
