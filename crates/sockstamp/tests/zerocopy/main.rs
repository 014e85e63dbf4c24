//! Zerocopy sends and receives on real sockets: the cases of the kernel's own msg_zerocopy test, and what an
//! application relies on. Every test compares what the peer got with what was sent, while buffers are used again.

mod common;
mod file_server;
mod ids;
mod kinds;
mod limits;
mod receive;
mod ring;
mod tcp;
mod udp;
