//! The vocabulary of sockstamp as types: messages, stages, verdicts of measurements, clocks of
//! stamps, and histogram buckets of latencies.
//!
//! Nothing here does I/O or calls the kernel, so every rule of the model can be tested without
//! either.
//!
//! | module | holds |
//! |---|---|
//! | [`stage`] | the stages of a message's path and arrays indexed by them |
//! | [`part`] | the parts of a stage that are told apart, causes of waiting among them |
//! | [`verdict`] | why a measured message is valid, or was refused |
//! | [`clock`] | durations and points in time that cannot be mixed up |
//! | [`histogram`] | the bucket layout shared with the kernel side |
//! | [`flow`] | the connected socket a message went over |
//! | [`service`] | the address of a service, with its protocol where the port tells it |
//! | [`filter`] | which flows are meant, in the words of pcap-filter(7) |
//! | [`container`] | containers and services, by the paths of their cgroups |
//! | [`interface`] | the network interfaces by which messages leave |
//! | [`name`] | names that other users chose, escaped where they become text |
//! | [`message`] | the timeline of one message, and its JSON |
//! | [`group`] | messages summed by whose they are |
//! | [`summary`] | the timelines of many messages, and its JSON |
//! | [`line_limit`] | how many lines of a log a cause may have |
//! | [`percent`] | shares as text |
//! | [`student`] | Student's t, for intervals of estimates |
//! | [`wait`] | stretches in which a program cannot go on, also those that nothing ends |
//!
//! Durations and points in time are whole nanoseconds everywhere; only [`clock::Nanos`]'s `Display`
//! scales them for people.

#![forbid(unsafe_code)]

pub mod aggregate;
pub mod clock;
pub mod container;
pub mod descriptors;
pub mod filter;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixture;
pub mod flow;
pub mod group;
pub mod histogram;
pub mod interface;
pub mod line_limit;
pub mod listener;
pub mod lists;
pub mod message;
pub mod name;
mod named;
pub mod packet;
pub mod part;
pub mod percent;
pub mod service;
pub mod size;
pub mod stage;
pub mod student;
pub mod summary;
mod unknown_name;
pub mod unpaired;
pub mod verdict;
pub mod wait;

pub use sockstamp_clock::digits;

pub use clock::{ClockOffset, Delta, Monotonic, Nanos, Realtime, Tai, Timestamp};
pub use container::{Container, Runtime, container_of};
pub use filter::{Filter, FilterError};
pub use flow::{Flow, NetnsInode, Protocol, SocketCookie};
pub use group::{Dimension, GroupHistogram, GroupKey, GroupSummary, Grouping, Groups};
pub use histogram::Histogram;
pub use interface::{Interface, InterfaceSummary, Medium};
pub use message::{Interfaces, Message, Stamps};
pub use name::Name;
pub use packet::{Packet, PacketStage};
pub use part::{Part, PartMap, PartSummary};

pub use stage::{Direction, Stage, StageMap};
pub use summary::{DirectionSummary, Lost, StageSummary, Summary};
pub use unknown_name::UnknownName;
pub use verdict::Verdict;
