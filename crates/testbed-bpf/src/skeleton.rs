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

pub(crate) mod filter {
    include!(concat!(env!("OUT_DIR"), "/filter.skel.rs"));
}

pub(crate) mod floor {
    include!(concat!(env!("OUT_DIR"), "/floor.skel.rs"));
}

pub(crate) mod naive {
    include!(concat!(env!("OUT_DIR"), "/naive.skel.rs"));
}

pub(crate) mod points {
    include!(concat!(env!("OUT_DIR"), "/points.skel.rs"));
}

pub(crate) mod redirect {
    include!(concat!(env!("OUT_DIR"), "/redirect.skel.rs"));
}

pub(crate) mod sample {
    include!(concat!(env!("OUT_DIR"), "/sample.skel.rs"));
}

pub(crate) mod sink {
    include!(concat!(env!("OUT_DIR"), "/sink.skel.rs"));
}

pub(crate) mod stranger {
    include!(concat!(env!("OUT_DIR"), "/stranger.skel.rs"));
}
