//! The selection of sockets: tasks, and a filter.

pub(crate) mod filter;

use std::num::NonZeroU32;

use crate::options::Target;
use crate::plan::Plan;
use crate::skeleton::Constants;

/// Set the constants of the target.
pub(crate) fn constants(constants: &mut Constants, plan: &Plan, target: &Target) {
    constants.setting_bit = plan.uses_bit();
    constants.setting_by_pid = plan.by_process;
    constants.setting_spare_own = plan.spare_own;
    constants.setting_pids = !target.pids.is_empty();
    constants.setting_comms = !target.comms.is_empty();
    constants.setting_netns = target.netns.map_or(0, |netns| netns.0);
    constants.setting_interface = target.interface.map_or(0, NonZeroU32::get);
    if let Some(filter) = &target.filter {
        filter::set_filter!(&mut *constants, filter);
    }
}
