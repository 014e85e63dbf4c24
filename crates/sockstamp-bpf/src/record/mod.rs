//! Records of messages, on their way to user space.

use nix::unistd::{SysconfVar, sysconf};

use crate::error::{Error, Tried};
use crate::options::Options;
use crate::skeleton::Constants;
use crate::skeleton::sockstamp::OpenSockstampMaps;

/// Set the constants of records.
pub(crate) fn constants(constants: &mut Constants, options: &Options) {
    constants.setting_record = options.record;
    constants.setting_slow_ns = options.slow.map_or(0, |least| least.0);
    constants.setting_notable = options.notable;
    constants.setting_ring_wakeup = u64::from(options.ring_bytes / 4);
}

/// Set the size of the ring buffer.
pub(crate) fn size_maps(maps: &mut OpenSockstampMaps<'_>, options: &Options) -> Result<(), Error> {
    let bytes = if options.record {
        options.ring_bytes
    } else {
        page_size()
    };
    maps.records
        .set_max_entries(bytes)
        .tried("size the ring buffer")
}

/// Return the smallest size of a ring buffer.
pub(crate) fn page_size() -> u32 {
    sysconf(SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|size| u32::try_from(size).ok())
        .unwrap_or(4096)
}
