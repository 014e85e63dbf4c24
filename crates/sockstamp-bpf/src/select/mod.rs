//! The selection of sockets: tasks, and a filter.

pub(crate) mod filter;

use std::num::NonZeroU32;

use sockstamp_model::flow::NetnsInode;

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
    set_namespaces(&mut constants.setting_netns, &target.netns);
    constants.setting_interface = target.interface.map_or(0, NonZeroU32::get);
    if let Some(filter) = &target.filter {
        filter::set_filter!(&mut *constants, filter);
    }
}

/// Set the namespaces whose flows are selected. Of those without a slot, there are none: see
/// [`Target::MOST_NAMESPACES`].
pub(crate) fn set_namespaces(slots: &mut [u32], namespaces: &[NetnsInode]) {
    for (slot, netns) in slots.iter_mut().zip(namespaces) {
        *slot = netns.0;
    }
}
