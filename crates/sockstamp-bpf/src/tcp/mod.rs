//! TCP, which is measured in C alone.

use crate::error::{Error, Tried};
use crate::options::Options;
use crate::plan::{Entry, Plan};
use crate::skeleton::Constants;
use crate::skeleton::sockstamp::OpenSockstampMaps;

/// Set the constants of connections.
pub(crate) fn constants(constants: &mut Constants, plan: &Plan, options: &Options) {
    constants.setting_by_packets = plan.looks_at_packets();
    constants.setting_half_closed = plan.half_closed;
    constants.setting_causes = plan.causes;
    constants.setting_adopt = plan.existing;
    constants.setting_tag = options.tag;
    constants.setting_hol = options.hol as u32;
    constants.setting_entry = plan.entry.is_some();
    constants.setting_entry_callback = plan.entry == Some(Entry::Callback);
}

/// Make the map of peers small where there are no tags.
pub(crate) fn size_maps(maps: &mut OpenSockstampMaps<'_>, options: &Options) -> Result<(), Error> {
    if options.tag {
        return Ok(());
    }
    maps.tag_peers
        .set_max_entries(1)
        .tried("size the map of peers")
}
