//! The C interface of the library `sockstamp`, declared and documented in `include/sockstamp.h`.
//!
//! `exports` has the functions of the header. They convert C's arguments into Rust types
//! (`boundary`), and leave the work to one module per group of the header. The structures are
//! generated from the header.

#![deny(unsafe_code)]

mod address;
mod batch;
#[expect(
    unsafe_code,
    reason = "what C passes is pointers; they are dereferenced here and nowhere else"
)]
mod boundary;
#[expect(unsafe_code, reason = "to be lent to the kernel is a promise")]
mod buffer;
mod clock;
mod completions;
#[expect(
    unsafe_code,
    reason = "a name that C can link to is one that nobody else may have"
)]
mod exports;
mod header;
mod interface;
#[cfg(test)]
mod layout;
mod matcher;
mod message;
mod options;
mod queue;
mod receiver;
mod report;
mod sender;
#[cfg(test)]
#[expect(
    unsafe_code,
    improper_ctypes,
    reason = "declarations of C are unsafe, and know nothing of what is behind a handle"
)]
mod signatures;
mod stamping;
