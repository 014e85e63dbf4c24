//! List the programs of `packets.bpf.c`.

use crate::facts::Hook::{Cgroup, Walk};
use crate::facts::Tracepoint;
use crate::programs::{Program, program, tp};

/// The programs to load.
#[derive(Debug)]
pub struct Plan {
    /// Packets are recorded at every stage.
    pub(super) all_stages: bool,
    /// Packets are recorded when they are queued at their socket.
    pub(super) sees_sockets: bool,
}

/// Every program, in the order in which they are attached. The hooks of packets come last: what
/// they need to know of sockets is noted by the others.
#[rustfmt::skip]
pub const PROGRAMS: [Program<Plan>; 9] = [
    program("packets_socket_made", Cgroup("cgroup/sock_create"), |_| true,                  "every socket made in the target's cgroup"),
    program("packets_bound4",      Cgroup("cgroup/post_bind4"),  |_| true,                  "every bind() in the target's cgroup"),
    program("packets_bound6",      Cgroup("cgroup/post_bind6"),  |_| true,                  "every bind() in the target's cgroup"),
    program("packets_arrived",     Cgroup("cgroup_skb/ingress"), |plan| plan.sees_sockets,  "every packet that arrives at a socket of the target's cgroup"),
    program("packets_queued",      tp(Tracepoint::NetDevQueue),     |plan| plan.all_stages, "every packet that an interface sends"),
    program("packets_started",     tp(Tracepoint::NetDevStartXmit), |_| true,               "every packet that an interface sends"),
    program("packets_received",    tp(Tracepoint::NetifReceiveSkb), |_| true,               "every packet that an interface receives"),
    program("packets_taken",       tp(Tracepoint::TcpProbe),        |plan| plan.all_stages, "every segment that TCP takes"),
    program("packets_held",        Walk("task_file"),            |_| true,                  "none: once per open file, at the start"),
];
