//! Test stamps of real sockets, like the kernel's own tests (txtimestamp and rxtimestamp in
//! tools/testing/selftests/net): each protocol and IP version with each stamp, with and without
//! packets, requested by socket and by message.

mod asynchronous;
mod common;
mod delay;
mod examples;
mod ids;
mod nic;
mod receive;
mod ring;
mod stamped;
mod tcp;
mod transmit;
