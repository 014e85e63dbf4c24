//! Recordings: messages in Parquet files, one row each.
//!
//! `docs/recordings.md` describes the columns. The crate writes files that stay readable whenever
//! the writer is killed, and reads files that others may have damaged or made up.
//!
//! | module | holds |
//! |---|---|
//! | [`schema`] | the columns, and the version of them |
//! | [`batch`] | messages as columns, in memory |
//! | [`writer`] | batches into a file |
//! | [`reader`] | messages out of a file |
//! | [`packets`] | packets beside messages: their columns, into a file and out of it |
//! | [`waits`] | waits beside messages, in the same way |
//! | [`recover`] | the end of a file that was cut off |
//! | [`pcapng`] | packets into a file for Wireshark |

#![forbid(unsafe_code)]

pub mod batch;
mod compact;
mod encode;
mod error;
mod fields;
mod footer;
mod lock;
mod messages;
mod opening;
pub mod packets;
mod pages;
pub mod pcapng;
mod place;
mod quiet;
pub mod reader;
pub mod recover;
mod rows;
pub mod schema;
mod stamps;
mod table;
mod unix_waits;
pub mod waits;
#[cfg(test)]
mod words;
pub mod writer;

pub use batch::Batch;
pub use error::Error;
pub use footer::GROUPS;
pub use packets::{PacketReader, Packets};
pub use reader::{Detail, Reader};
pub use rows::Rows;
pub use unix_waits::OfUnix;
pub use waits::{WaitReader, WaitRows, Waited};
pub use writer::FileWriter;

/// The file of a recording, while it is written.
pub type Writer = FileWriter<Batch>;
/// The file of its packets, while it is written.
pub type PacketWriter = FileWriter<Packets>;
/// The file of its waits, while it is written.
pub type WaitWriter = FileWriter<WaitRows>;
