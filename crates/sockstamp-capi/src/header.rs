//! The structures and constants of sockstamp.h, as bindgen has them.

#![expect(non_camel_case_types, reason = "the names are those of C")]
#![expect(
    dead_code,
    reason = "generated; some flags go from C to the kernel by their bit alone"
)]

use libc::{sockaddr, sockaddr_in, sockaddr_in6};

include!(concat!(env!("OUT_DIR"), "/types.rs"));
