//! A prober whose round-trip times are the kernel's.
//!
//! A user-space pinger adds its own wait for a CPU to the network's time. This crate measures a
//! round trip from the kernel's stamp of the probe to its stamp of the answer, and reports the
//! prober's own time separately.
//!
//! ```no_run
//! use std::net::Ipv4Addr;
//! use sockstamp_ping::{Engine, Event, Limits, Outcome, Protocol, Target};
//!
//! # fn main() -> sockstamp_ping::Result<()> {
//! let (mut engine, events) = Engine::start(Limits::default())?;
//! let mut target = Target::new(Ipv4Addr::LOCALHOST.into(), Protocol::Icmp);
//! target.settings.count = Some(3);
//! engine.add(target)?;
//! engine.finish();
//! for event in events {
//!     if let Event::Probe { seq, outcome: Outcome::Answered(answer), .. } = event {
//!         println!("{seq}: {} (ours: {})", answer.times.rtt, answer.times.prober_delay());
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What holds
//!
//! - **Each probe has one [`Outcome`]**, by [`Event::Probe`], however late: answered, lost,
//!   refused, not sent. Later packets for it are [`Event::Late`] or [`Event::Duplicate`].
//! - **Each target ends once**, by [`Event::Ended`], after its last outcome.
//! - **A round trip is never computed from two clocks.** If a kernel stamp is missing on either
//!   side, or CLOCK_REALTIME was stepped between the two, it is user space's, and
//!   [`Times::fallback`] says why.
//! - **Sends are paced.** The phases of targets are spread over the interval; probes that could not
//!   be sent in time are skipped and counted ([`Counters::skipped`]), never followed by a burst.
//! - **Memory is bounded**: at most [`MAX_IN_FLIGHT`] probes per target are remembered, and at most
//!   [`Limits::events`] events wait. Overflows are counted.
//! - **One thread per network namespace**, unless [`Settings::thread`] asks for more. It enters the
//!   namespace, makes its sockets there and ends there.

#![forbid(unsafe_code)]

mod added;
mod clocks;
mod counters;
mod engine;
mod error;
mod event;
mod flights;
mod lane;
mod limits;
mod namespace;
mod pacing;
mod packet;
mod sockets;
mod target;
mod times;
mod worker;

pub use added::Added;
pub use counters::Counters;
pub use engine::{Engine, Events, Next, Waker};
pub use error::{Error, Result};
pub use event::{
    Answer, AnswerKind, End, Event, Fallback, Outcome, Refusal, RefusalKind, RxKind, Stray,
    TargetId, Times, TxKind, Waits,
};
pub use limits::Limits;
pub use namespace::Namespace;
#[cfg(fuzzing)]
pub use packet::fuzzing;
pub use sockets::Sockets;
pub use target::{MAX_IN_FLIGHT, MAX_PAYLOAD, ONE_PATH_PAYLOAD, Protocol, Settings, Target};
