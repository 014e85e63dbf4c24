//! The callbacks of `kernel/series`, by the numbers that the running kernel has. No kernel of
//! kernel.org has any, so only builds with the feature `series` have programs for them.

use crate::plan::{Datagrams, Entry, Plan, Reads};
use crate::skeleton::Constants;

/// Set the constants of callbacks.
pub(crate) fn constants(constants: &mut Constants, plan: &Plan) {
    if let Some(Entry::Begin(callback)) = plan.entry {
        constants.setting_begin_callback = callback;
    }
    if let Some(Reads::Callbacks(callbacks)) = plan.rx {
        constants.setting_receive_bit = callbacks.bit;
        constants.setting_segment_callback = if plan.segments { callbacks.segment } else { 0 };
        constants.setting_ready_callback = callbacks.ready;
        constants.setting_read_callback = callbacks.read;
    }
    if let Ok(Datagrams::Callbacks { begin, others }) = plan.udp {
        constants.setting_packet_bit = others.packet_bit;
        constants.setting_datagram_callback = begin;
        constants.setting_end_callback = others.end;
        constants.setting_bound_callback = others.bound;
    }
}
