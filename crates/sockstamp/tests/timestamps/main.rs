//! Stamps of real sockets. What is tested follows the kernel's own tests of the same (txtimestamp and rxtimestamp in
//! tools/testing/selftests/net): each protocol and IP version with each stamp, with and without packets, asked for by
//! the socket and by the message.

mod asynchronous;
mod common;
mod delay;
mod receive;
mod ring;
mod tcp;
mod transmit;
