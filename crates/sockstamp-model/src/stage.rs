//! The stages of a message's path.

use std::fmt;
use std::ops::{Index, IndexMut};
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::named::named;
use crate::unknown_name::{UnknownName, find};

/// The direction of a message, seen from this host's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Sent: one send call.
    Tx,
    /// Received: one read call.
    Rx,
}

impl Direction {
    /// Both directions, TX first.
    pub const ALL: [Self; 2] = [Self::Tx, Self::Rx];

    /// `"tx"` or `"rx"`, as in options, metrics and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tx => "tx",
            Self::Rx => "rx",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Direction {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        find("direction", Self::ALL, Self::name, name)
    }
}

impl Serialize for Direction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The owner of a stage: a message, or what lies between two of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Message,
    BetweenMessages,
    Connection,
    BetweenHosts,
}

macro_rules! stages {
    ($(
        $(#[$doc:meta])*
        $variant:ident = $name:literal, $direction:ident, $owner:ident, $description:literal;
    )*) => {
        named! {
            /// A stretch of a message's path, between two stamps.
            ///
            /// The value of a stage is the difference of its two stamps, never a time since the
            /// start, so that the stages of a message add up to its total. [`Stage::ALL`] has the
            /// order of a message's path, on one host.
            enum Stage undescribed {
                $($(#[$doc])* $variant = $name;)*
            }
        }

        impl Stage {
            /// The direction whose messages have this stage.
            ///
            /// [`AppService`](Self::AppService) lies between a read and a send of the same socket.
            /// It counts as [`Direction::Tx`], because it is only known once the send call that
            /// ends it is made; so do [`ClientPause`](Self::ClientPause) and
            /// [`ClientRequest`](Self::ClientRequest), which lie before that read. In the same way
            /// [`PeerAnswer`](Self::PeerAnswer) and [`PeerRest`](Self::PeerRest) count as
            /// [`Direction::Rx`]. Opening a connection counts as [`Direction::Tx`], accepting one
            /// as [`Direction::Rx`]. A whole life is a message that was sent, with stages of both
            /// hosts.
            #[must_use]
            pub const fn direction(self) -> Direction {
                match self {
                    $(Self::$variant => Direction::$direction,)*
                }
            }

            const fn owner(self) -> Owner {
                match self {
                    $(Self::$variant => Owner::$owner,)*
                }
            }

            /// Return the begin and the end of the stage, in one line of plain text.
            #[must_use]
            pub const fn description(self) -> &'static str {
                match self {
                    $(Self::$variant => $description,)*
                }
            }
        }
    };
}

// Stages between hosts come last: one host measures those before them.
stages! {
    /// Send call enters TCP or UDP → its last byte is queued.
    TxCopy = "tx.copy", Tx, Message,
        "from the entry of the send call into TCP or UDP to the queueing of its last byte";
    /// Queued → enters the packet scheduler.
    TxQueue = "tx.queue", Tx, Message,
        "from there to the entry of the packet scheduler";
    /// Enters the packet scheduler → handed to the driver.
    TxQdisc = "tx.qdisc", Tx, Message,
        "from there to the hand-over to the driver";
    /// Handed to the driver → sent by the NIC, where the NIC stamps.
    TxNic = "tx.nic", Tx, Message,
        "from there to the NIC's transmission";
    /// Last of the send stamps → acknowledgement of the last byte.
    TxNetwork = "tx.network", Tx, Message,
        "from transmission to the acknowledgement of the last byte";
    /// Received by the NIC → stamped by the kernel, where the NIC stamps.
    RxNic = "rx.nic", Rx, Message,
        "from reception by the NIC to the kernel's stamp";
    /// Stamped by the kernel → the socket can be read.
    RxStack = "rx.stack", Rx, Message,
        "from the kernel's stamp to the socket being readable";
    /// Arrived → the segment missing before it arrived.
    RxHol = "rx.hol", Rx, Message,
        "from arrival to the arrival of the missing segment before it";
    /// Readable → the waiting reader runs. Only messages whose reader was waiting have it.
    RxWakeup = "rx.wakeup", Rx, Message,
        "from readable to the reader running, if it was waiting for the data";
    /// Readable while no task waits, or the waiting reader runs → the read call.
    RxApp = "rx.app", Rx, Message,
        "from readable, or the waiting reader running, to the read call";
    /// Last read → next send on the same socket.
    AppService = "app.service", Tx, BetweenMessages,
        "from the last read to the next send on the same socket";
    /// Last send → the first byte that answers it can be read, on the side that asks.
    PeerAnswer = "peer.answer", Rx, BetweenMessages,
        "on the asking side, from the last send being queued to its answer being readable";
    /// Last read → more of the same answer can be read, on the side that asks.
    PeerRest = "peer.rest", Rx, BetweenMessages,
        "on the asking side, from the read of all that came of an answer to more of it being readable";
    /// Last send → the first byte of the next request can be read, on the side that answers.
    ClientPause = "client.pause", Tx, BetweenMessages,
        "on the accepting side, from the last send of an answer being queued to the next request's first byte being readable";
    /// The first byte of a request can be read → its last one can, on the side that answers.
    ClientRequest = "client.request", Tx, BetweenMessages,
        "on the accepting side, from the first byte of a request being readable to its last one, where they come apart";
    /// connect() → the connection is established, on the side that opens it.
    ConnHandshake = "conn.handshake", Tx, Connection,
        "on the connecting side, from connect() to the connection being established";
    /// The connection is established → accept() returns it, on the side that listens.
    ConnAccept = "conn.accept", Rx, Connection,
        "on the listening side, from the connection being established to its accept()";
    /// Last stamp of the sender → first stamp of the reader's host. Only whole lives have it, which
    /// `sockstamp join` makes of the recordings of both hosts.
    NetForward = "net.forward", Tx, BetweenHosts,
        "in whole lives, from the sender's last stamp to the first of the reader's host";
    /// Readable on the reader's host → acknowledgement of the last byte. Only whole lives have it.
    NetBack = "net.back", Tx, BetweenHosts,
        "in whole lives, from readable on the reader's host to the acknowledgement of the last byte";
}

impl Stage {
    /// The number of stages that one host measures: the first ones.
    pub const OF_ONE_HOST: usize = {
        let mut count = 0;
        while count < Self::COUNT && !Self::ALL[count].is_between_hosts() {
            count += 1;
        }
        count
    };

    /// The stages of a message's path from the send call to the read call, in their order.
    pub const WAY: [Self; 10] = [
        Self::TxCopy,
        Self::TxQueue,
        Self::TxQdisc,
        Self::TxNic,
        Self::NetForward,
        Self::RxNic,
        Self::RxHol,
        Self::RxStack,
        Self::RxWakeup,
        Self::RxApp,
    ];

    /// Return true for a stage before or between messages, which is not part of any one's total.
    #[must_use]
    pub const fn is_between_messages(self) -> bool {
        matches!(self.owner(), Owner::BetweenMessages | Owner::Connection)
    }

    /// Return true for a stage of a connection, which no message has.
    #[must_use]
    pub const fn is_of_connection(self) -> bool {
        matches!(self.owner(), Owner::Connection)
    }

    /// Return true for a stage between two hosts, which only whole lives have.
    #[must_use]
    pub const fn is_between_hosts(self) -> bool {
        matches!(self.owner(), Owner::BetweenHosts)
    }

    /// Return true for a stage of the time that a message is judged by: until it left the host, or
    /// until it was read. An acknowledgement delays no task by itself; where one was waited for,
    /// the wait is in `tx.queue`.
    #[must_use]
    pub const fn has_share(self) -> bool {
        !self.is_between_messages() && !matches!(self, Self::TxNetwork | Self::NetBack)
    }

    /// The names of the variants of those that one host measures.
    pub(crate) fn variants() -> &'static [&'static str] {
        &Self::VARIANTS[..Self::OF_ONE_HOST]
    }
}

impl FromStr for Stage {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        find("stage", Self::ALL, Self::name, name)
    }
}

/// One `T` for every stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageMap<T>([T; Stage::COUNT]);

impl<T> StageMap<T> {
    /// A map that holds `value(stage)` for every stage.
    pub fn from_fn(mut value: impl FnMut(Stage) -> T) -> Self {
        Self(Stage::ALL.map(&mut value))
    }

    /// Every stage with its value, in the order of [`Stage::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Stage, &T)> {
        Stage::ALL.into_iter().zip(&self.0)
    }

    /// Iterate like [`iter`](Self::iter), with mutable values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Stage, &mut T)> {
        Stage::ALL.into_iter().zip(&mut self.0)
    }

    /// A map that holds `f(value)` for every stage.
    pub fn map<U>(self, f: impl FnMut(T) -> U) -> StageMap<U> {
        StageMap(self.0.map(f))
    }
}

impl<T> StageMap<Option<T>> {
    /// The stages that have a value, in the order of [`Stage::ALL`].
    pub fn present(&self) -> impl Iterator<Item = (Stage, &T)> {
        self.iter()
            .filter_map(|(stage, value)| Some((stage, value.as_ref()?)))
    }
}

impl<T> Index<Stage> for StageMap<T> {
    type Output = T;

    fn index(&self, stage: Stage) -> &T {
        &self.0[stage as usize]
    }
}

impl<T> IndexMut<Stage> for StageMap<T> {
    fn index_mut(&mut self, stage: Stage) -> &mut T {
        &mut self.0[stage as usize]
    }
}

/// A JSON object of the stages that have a value; absent ones are left out.
impl<T: Serialize> Serialize for StageMap<Option<T>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.present())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discriminants_follow_the_order_of_all() {
        for (index, stage) in (0..).zip(Stage::ALL) {
            assert_eq!(stage as u32, index);
            assert_eq!(Stage::from_index(index), Some(stage));
        }
        let count = u32::try_from(Stage::ALL.len()).unwrap();
        assert_eq!(Stage::from_index(count), None);
    }

    #[test]
    fn names_round_trip_and_start_with_their_direction() {
        for stage in Stage::ALL {
            assert_eq!(stage.name().parse(), Ok(stage));
            if !stage.is_between_messages() && !stage.is_between_hosts() {
                assert!(stage.name().starts_with(stage.direction().name()));
            }
        }
        assert_eq!(
            "tx.cpoy".parse::<Stage>().unwrap_err().to_string(),
            r#"no stage is named "tx.cpoy""#
        );
        for direction in Direction::ALL {
            assert_eq!(direction.name().parse(), Ok(direction));
        }
    }

    #[test]
    fn maps_are_indexed_by_stage() {
        let mut map = StageMap::<Option<u64>>::default();
        map[Stage::RxHol] = Some(7);
        assert_eq!(map.present().collect::<Vec<_>>(), [(Stage::RxHol, &7)]);
        assert_eq!(map[Stage::TxCopy], None);
        assert_eq!(
            StageMap::from_fn(|stage| stage).map(|stage| stage as usize)[Stage::RxHol],
            7
        );
        assert_eq!(serde_json::to_string(&map).unwrap(), r#"{"rx.hol":7}"#);
    }
}
