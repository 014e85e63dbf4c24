//! UDP: the sockets that exist already.

use libbpf_rs::ProgramMut;

use crate::error::Error;
use crate::flow;

/// Marks the target's sockets that are there already. None is missed after the hook that marks new
/// ones is attached.
pub(crate) fn mark_existing(program: &ProgramMut<'_>) -> Result<(), Error> {
    flow::run_once(program, "look at the UDP sockets that exist")
}
