//! Completions without system calls: the programs that write them into memory of the application,
//! and the service that applications register their sockets with. How it works:
//! docs/how-it-works.md.

mod application;
mod areas;
mod attachment;
mod client;
mod listener;
mod offer;
mod programs;
mod publisher;
mod server;
mod workers;

use sockstamp::completions::area::layout;

pub use listener::Listener;
pub use offer::Offer;
pub use programs::PROGRAMS;
pub use publisher::Publisher;
pub use server::{Limits, Server};

use crate::abi::raw;

/// The library reads the same memory without the header.
const _: () = {
    assert!(size_of::<raw::area>() == 8 * layout::AREA);
    assert!(core::mem::offset_of!(raw::area, ranges_written) == 8 * layout::RANGES_WRITTEN);
    assert!(core::mem::offset_of!(raw::area, stamps_written) == 8 * layout::STAMPS_WRITTEN);
    assert!(core::mem::offset_of!(raw::area, torn) == 8 * layout::TORN);
    assert!(core::mem::offset_of!(raw::area, selected) == 8 * layout::SELECTED);
    assert!(core::mem::offset_of!(raw::area, ranges) == 8 * layout::RANGES);
    assert!(core::mem::offset_of!(raw::area, stamps) == 8 * layout::STAMPS);
    assert!(raw::AREA_RANGES as usize == layout::RANGES_LENGTH);
    assert!(raw::AREA_STAMPS as usize == layout::STAMPS_LENGTH);
    assert!(size_of::<raw::area_range>() == 16 && size_of::<raw::area_stamp>() == 16);
};
