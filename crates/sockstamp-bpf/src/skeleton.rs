//! Include the code that libbpf-cargo generates from the C programs.

#![allow(
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    missing_docs,
    missing_debug_implementations,
    unused_qualifications,
    unreachable_pub,
    dead_code,
    reason = "generated"
)]

pub(crate) mod sockstamp {
    include!(concat!(env!("OUT_DIR"), "/sockstamp.skel.rs"));
}

pub(crate) mod completions {
    include!(concat!(env!("OUT_DIR"), "/completions.skel.rs"));
}

pub(crate) mod packets {
    include!(concat!(env!("OUT_DIR"), "/packets.skel.rs"));
}

pub(crate) mod probe {
    include!(concat!(env!("OUT_DIR"), "/probe.skel.rs"));
}

pub(crate) mod stuck {
    include!(concat!(env!("OUT_DIR"), "/stuck.skel.rs"));
}

pub(crate) mod symbols {
    include!(concat!(env!("OUT_DIR"), "/symbols.skel.rs"));
}

pub(crate) mod unix {
    include!(concat!(env!("OUT_DIR"), "/unix.skel.rs"));
}

/// The constants of the measuring programs.
pub(crate) type Constants = sockstamp::types::rodata;
