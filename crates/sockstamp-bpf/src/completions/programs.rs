//! List the programs of `completions.bpf.c`.

use crate::facts::Hook::{Cgroup, Sockops, Walk};
use crate::facts::Tracepoint;
use crate::programs::{Program, program, tp};

/// The programs to load.
#[derive(Debug)]
pub struct Plan {
    /// Sends of TCP can be stamped without entries in error queues.
    pub(super) tcp_stamps: bool,
}

/// Every program. Those of a cgroup are attached while they are wanted, the others at the start.
#[rustfmt::skip]
pub const PROGRAMS: [Program<Plan>; 4] = [
    program("completions_error_report", tp(Tracepoint::InetSkErrorReport), |_| true,               "every entry in an error queue"),
    program("completions_areas",        Walk("bpf_map"),                   |_| true,               "none: once per BPF map, for each application"),
    program("completions_select",       Cgroup("cgroup/setsockopt"),       |plan| plan.tcp_stamps, "every setsockopt() of the host, for two seconds after a registration"),
    program("completions_sockops",      Sockops,                           |plan| plan.tcp_stamps, "stamps of selected sockets; the start and the end of each TCP connection of the host"),
];
