//! Control messages of Linux, from bytes and to bytes.

pub use sockstamp_clock::control::{
    Arrival, Control, ExtendedError, Malformed, Messages, NoSpace, Origin, PacketInfo, Stamps,
    Writer, parse, socket_address, space,
};
