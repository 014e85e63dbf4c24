//! Print the output of subcommands.

pub(crate) mod bar;
pub(crate) mod coalescing;
pub(crate) mod colour;
pub(crate) mod counters;
pub(crate) mod csv;
pub(crate) mod destination;
mod directions;
pub(crate) mod findings;
pub(crate) mod groups;
mod headline;
pub(crate) mod interfaces;
pub(crate) mod line;
pub(crate) mod listeners;
pub(crate) mod lost_packets;
pub(crate) mod numbers;
pub(crate) mod open_waits;
pub(crate) mod output;
pub(crate) mod paragraph;
pub(crate) mod peers;
pub(crate) mod progress;
pub(crate) mod row;
pub(crate) mod silence;
mod stages;
pub(crate) mod text;
pub(crate) mod waits;
pub(crate) mod wall_time;
pub mod words;
