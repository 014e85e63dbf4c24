//! Stamps of sent and received messages: SO_TIMESTAMPING.

mod stamp;
mod statistics;

pub use stamp::{TxKind, TxStamp, TxTime};
pub use statistics::TcpStatistics;
