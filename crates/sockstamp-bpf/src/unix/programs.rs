//! List the programs of `unix.bpf.c`.

use crate::facts::Hook::Walk;
use crate::facts::Tracepoint;
use crate::programs::{Program, program, tp};

/// Every program, in the order in which they are attached: arrivals are known before sends.
#[rustfmt::skip]
pub const PROGRAMS: [Program<()>; 4] = [
    program("on_unix_data", tp(Tracepoint::SkDataReady),    |()| true, "every arrival at any socket"),
    program("on_unix_read", tp(Tracepoint::SockRecvLength), |()| true, "every read of any socket"),
    program("on_unix_send", tp(Tracepoint::SockSendLength), |()| true, "every send of any socket"),
    program("tell_unix_flows", Walk("bpf_map_elem"),        |()| true, "none: once per connection, at each look"),
];
