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
//! | [`recover`] | the end of a file that was cut off |
//! | [`pcapng`] | packets into a file for Wireshark |

#![forbid(unsafe_code)]

pub mod batch;
mod error;
pub mod pcapng;
mod quiet;
pub mod reader;
pub mod recover;
pub mod schema;
mod stamps;
pub mod writer;

pub use batch::Batch;
pub use error::Error;
pub use reader::Reader;
pub use writer::Writer;
