//! Test zerocopy sends and receives on real sockets: the cases of the kernel's own msg_zerocopy
//! test, and guarantees for applications. Every test compares received with sent bytes, while
//! buffers are reused.

mod common;
mod file_server;
mod ids;
mod kinds;
mod limits;
mod receive;
mod returned;
mod ring;
mod tcp;
mod udp;
