//! The surroundings of a session in sockstamp's long-running programs.
//!
//! | module | has |
//! |---|---|
//! | [`target`] | the target as users name it, and its numbers in the kernel |
//! | [`command`] | the user's command, in a cgroup of its own |
//! | [`life`] | the loop of a measurement, and what ends it: its command, its duration, a signal |
//! | [`session`] | a session without capabilities while it runs, and what it leaves alone |
//! | [`signals`] | signals as something to wait for together with the rest |
//! | [`stall`] | the end of a program whose output nobody reads |
//! | [`capabilities`] | those of threads beside the one that measures |
//! | [`containers`] | the containers of messages |
//! | [`process_names`] | the names of processes |
//! | [`directory`] | directories that nobody else can change |
//! | [`max_cost`] | the part of a core that measuring may cost |
//! | [`sample`] | the messages that are measured |
//! | [`duration`], [`utc`] | times as users write them, and as files are named by them |
//! | [`escape`] | the ways out for text that others may have chosen |
//!
//! Options of a command line and files of settings are unknown here.

#![forbid(unsafe_code)]
// Names that others chose must not reach a terminal as they are: `escape` has the ways out.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod capabilities;
pub mod command;
pub mod containers;
pub mod directory;
pub mod duration;
pub mod escape;
pub mod life;
pub mod max_cost;
pub mod process_names;
pub mod sample;
pub mod session;
pub mod signals;
pub mod stall;
pub mod target;
pub mod utc;
pub mod wording;
