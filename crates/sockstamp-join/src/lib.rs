//! Join the messages that two hosts recorded: the send of one with the read of the other.
//!
//! TCP's sequence numbers show which read took the last byte of a send; the numbers that hosts in
//! step give to datagrams show which datagram was read. The offset between the hosts' clocks comes
//! from the same messages: [`Clocks`] describes the method and its guarantees. A [`Life`] has the
//! stages of both hosts, and between them `net.forward`, from the last stamp of the sender to the
//! first of the reader.
//!
//! Nothing here does I/O. Pass messages to [`Join::add`] as they are read from recordings, each as
//! a [`Half`] of a life, the host with older messages first. A half waits for its other end only as
//! long as the clocks of the hosts may be apart.
//!
//! | module | holds |
//! |---|---|
//! | [`join`] | messages in, lives out |
//! | [`half`] | a message as one host saw it |
//! | `pairs` | the read that belongs to a send |
//! | `datagrams` | the same of UDP |
//! | `waiting` | pairs until that offset is known |
//! | [`clocks`] | the offset between the clocks over time |
//! | `region` | the offsets that observations leave possible |
//! | [`life`] | a message as both hosts saw it |
//! | [`nat`] | connections whose addresses are others at the other end |
//! | [`sides`] | the clocks of both hosts as types |
//! | [`unmatched`] | why a message has no life |

#![forbid(unsafe_code)]

pub mod clocks;
mod datagrams;
pub mod half;
pub mod join;
pub mod life;
pub mod nat;
mod pairs;
mod region;
pub mod sides;
#[cfg(test)]
mod tests;
pub mod unmatched;
mod waiting;

pub use clocks::{Clocks, Estimate, Interval, Quality};
pub use half::{Half, Maker};
pub use join::{Clamped, Join, Settings, Trust};
pub use life::{End, Life};
pub use nat::{Nat, Translations};
pub use region::Line;
pub use sides::Host;
pub use unmatched::{Reason, Unmatched};
