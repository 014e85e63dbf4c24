//! Print for the subcommands of sockstamp: messages, waits, groups and findings as lines, tables
//! and JSON, the words for them, and where all that goes.
//!
//! | module | has |
//! |---|---|
//! | [`text`], [`groups`], [`csv`] | the summary of a measurement |
//! | [`line`](mod@line) | a message on one line |
//! | [`waits`], [`open_waits`], [`listing`], [`peers`] | waits that have ended, that go on, all of these, and programs that are waited for |
//! | [`findings`], [`counters`], [`silence`], [`lost_packets`] | what was found, what was counted beside, and why nothing was |
//! | [`listeners`], [`interfaces`] | listeners of a target, and interfaces by their names |
//! | [`words`] | every word of the output and what it means |
//! | [`output`], [`destination`], [`colour`], [`progress`], [`wrong_use`] | formats, files and streams, colours, the progress of a long read, options that do not fit together |
//! | [`row`], [`columns`], [`bar`], [`numbers`], [`paragraph`] | the pieces of a table and of a page of text |

#![forbid(unsafe_code)]
// Names that others chose must not reach a terminal as they are: `sockstamp_run::escape` has the
// ways out.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod bar;
mod coalescing;
pub mod colour;
pub mod columns;
pub mod counters;
pub mod csv;
pub mod destination;
mod directions;
pub mod findings;
pub mod groups;
mod headline;
pub mod interfaces;
pub mod line;
pub mod listeners;
pub mod listing;
pub mod lost_packets;
pub mod numbers;
pub mod open_waits;
pub mod output;
pub mod paragraph;
pub mod peers;
pub mod progress;
pub mod row;
pub mod silence;
mod stages;
pub mod text;
pub mod waits;
pub mod words;
pub mod wrong_use;
