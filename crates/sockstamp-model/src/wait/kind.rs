//! What a program waits for, and how that ends.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! names {
    ($(#[$doc:meta])* $type:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $name:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum $type {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $type {
            /// Every one, in the order of the discriminants, which the kernel side shares.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The names of the variants, from which the kernel side has its constants.
            pub(crate) const VARIANTS: [&'static str; Self::ALL.len()] =
                [$(stringify!($variant)),*];

            /// The name used in options, metrics and JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The one with this discriminant, `None` if there is none.
            #[must_use]
            pub fn from_index(index: u32) -> Option<Self> {
                Self::ALL.get(usize::try_from(index).ok()?).copied()
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    };
}

names! {
    /// The thing that a program waits for.
    Kind {
        /// connect() → established, or failed.
        Connect = "connect";
        /// Established → accept(), on a listener.
        Accept = "accept";
        /// Established → the first byte, where the peer speaks first.
        Greeting = "greeting";
        /// A question's first byte → the first byte of its answer, on the side that asks.
        Answer = "answer";
        /// The first byte of an answer → its last, on the side that asks.
        Rest = "rest";
        /// A request's first byte → its last, on an accepted connection.
        Request = "request";
        /// A request's last byte → the answer's first, on an accepted connection.
        Service = "service";
        /// A send that finds no room → room.
        Room = "room";
        /// Data that was sent → its acknowledgement, where nothing else of the flow goes on.
        Acknowledgement = "acknowledgement";
        /// Bytes that can be read → the read.
        Read = "read";
    }
}

names! {
    /// How a wait ended.
    End {
        /// Not yet.
        Open = "open";
        /// What was waited for came.
        Data = "data";
        /// The same was asked once more.
        AskedAgain = "asked-again";
        /// The program waits no longer: it closed, exited, or asked somebody else.
        GivenUp = "given-up";
        /// The peer closed the connection (FIN).
        ClosedByPeer = "closed-by-peer";
        /// The connection was reset.
        Reset = "reset";
        /// A connection was refused.
        Refused = "refused";
        /// No way there: no route, no neighbour, or a router said so.
        Unreachable = "unreachable";
        /// This host would not: a firewall, no free port, no route, no permission.
        Denied = "denied";
        /// The kernel's own timers gave up.
        TimedOut = "timed-out";
    }
}

impl End {
    /// Return true if what was waited for never came. A question that was asked again goes on.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::Open | Self::Data | Self::AskedAgain)
    }
}
