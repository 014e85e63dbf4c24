//! Control messages, from bytes and to bytes; no system call is made here.
//!
//! Control messages (cmsg(3)) accompany the payload of a message. [`parse`] decodes the output of
//! recvmsg(2), and a [`Writer`] encodes the input of sendmsg(2). Nothing is trusted: impossible
//! bytes are an error of their own message ([`Malformed`]), never a panic.

mod address;
mod bytes;
mod extended_error;
mod reader;
mod writer;

pub use address::{Address, socket_address};
pub use extended_error::{ExtendedError, Origin};
pub use reader::{
    Arrival, Control, Malformed, Messages, PACKET_TX_TIMESTAMP, PacketInfo,
    SCM_TIMESTAMPING_OPT_STATS, SCM_TIMESTAMPING_PKTINFO, SCM_TS_OPT_ID, SO_TIMESTAMPING,
    SO_TIMESTAMPING_NEW, SO_TXTIME, Stamps, parse,
};
pub use writer::{NoSpace, Writer, space};
