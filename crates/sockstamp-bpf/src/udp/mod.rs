//! UDP: the programs that sit in the target's cgroup, and the sockets that exist already.

use std::fs::File;
use std::os::fd::AsRawFd;

use libbpf_rs::{Link, ProgramMut};

use crate::error::{Error, Tried};
use crate::flow;
use crate::skeleton::sockstamp::SockstampProgs;

/// Attaches to the cgroup. Whatever a marked socket does is seen from its first packet on: the
/// tracepoints are in place already.
pub(crate) fn attach(programs: &SockstampProgs<'_>, cgroup: &File) -> Result<Vec<Link>, Error> {
    let mut links = Vec::new();
    for program in [
        &programs.on_cgroup_ingress,
        &programs.on_sendmsg4,
        &programs.on_sendmsg6,
        &programs.on_sock_create,
    ] {
        let link = program.attach_cgroup(cgroup.as_raw_fd());
        links.push(link.tried("attach to the cgroup")?);
    }
    Ok(links)
}

/// Marks the target's sockets that are there already. None is missed after the hook that marks new
/// ones is attached.
pub(crate) fn mark_existing(program: &ProgramMut<'_>) -> Result<(), Error> {
    flow::run_once(program, "look at the UDP sockets that exist")
}
