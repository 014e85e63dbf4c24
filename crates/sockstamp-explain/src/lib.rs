//! Find the stages that make slow messages slow, by the excess that they carry.
//!
//! A message is **slow** if its time exceeds the 99th percentile of its kind, and **normal**
//! between the 25th and the 75th. The **norm** of a stage or part is its mean over the normal ones.
//! The excess of a slow message over the norms is exactly the sum of the excesses of its stages and
//! parts, because means add up where medians do not. The share of each in the sum over all slow
//! messages is a fact, which is always told.
//!
//! What another recording would show is another matter. Messages of one flow, or of one moment, are
//! slow together: rows are no independent samples. The interval of a share comes from flows and
//! from stretches of time (`chance`), and has the shares of all components of a kind in 95 % of
//! other recordings. Where the data carry no claim, the first component is a suspect, with its
//! odds.
//!
//! A component is claimed to be the first cause if it carries much of the excess in another
//! recording, too, and if slow messages consist of it to another degree than normal ones. A stage
//! that is always the longest also has the longest tail: that alone is no cause.
//!
//! [`Slices`] and [`Comparison`] then find the messages that the first component makes slow, always
//! or at times, and [`Lives`] show some of them.
//!
//! [`timeline`] places the stages of a message in time. [`diagnosis`] needs no normal messages: it
//! says from slow ones where the time of a measurement is lost. [`advice`] has what to do about it.
//!
//! Nothing here does I/O. Pass messages to [`Times`], then to [`Excess`], and again to each of the
//! latter.

#![forbid(unsafe_code)]

pub mod advice;
mod cause;
mod chance;
mod clusters;
mod component;
pub mod diagnosis;
pub mod diff;
mod episode;
mod excess;
mod lives;
mod sample;
mod slices;
pub mod timeline;
mod times;

pub use cause::Cause;
pub use chance::Least;
pub use component::{Component, Kind};
pub use episode::Episode;
pub use excess::{Carried, Claim, Excess, Explanation};
pub use lives::Lives;
pub use sample::Sample;
pub use slices::{Addition, Comparison, Slice, Slices};
pub use timeline::Timeline;
pub use times::{Border, Limits, Span, Times};
