//! Control messages, from bytes and to bytes: those of `sockstamp-clock`, which makes no system
//! call.

pub use sockstamp_clock::control::{
    Arrival, Control, ExtendedError, Malformed, Messages, NoSpace, Origin, PacketInfo, Stamps,
    Writer, parse, socket_address, space,
};

pub(crate) use sockstamp_clock::control::{
    Address, SO_TIMESTAMPING, SO_TIMESTAMPING_NEW, SO_TXTIME,
};
#[cfg(test)]
pub(crate) use sockstamp_clock::control::{
    PACKET_TX_TIMESTAMP, SCM_TIMESTAMPING_OPT_STATS, SCM_TIMESTAMPING_PKTINFO, SCM_TS_OPT_ID,
};
