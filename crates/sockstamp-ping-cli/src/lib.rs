//! The subcommands of the prober: [`ping`], and [`fping`] for programs that run fping(8). Both have
//! their options here, start the engine of `sockstamp-ping`, and print what its events say.

#![forbid(unsafe_code)]
// Names that others chose must not reach a terminal as they are: `sockstamp_run::escape` has the
// ways out.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod fping;
pub mod ping;
