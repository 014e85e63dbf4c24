//! Translate the host's names of containers, cgroups, network namespaces and interfaces to the
//! kernel's. Nothing on the host changes. Errors are sentences for the user who gave the name.

#![forbid(unsafe_code)]

pub mod accept_queue;
mod call;
pub mod cgroup;
pub mod clock;
pub mod connection;
pub mod container;
pub mod cut;
pub mod descriptors;
pub mod file_lock;
pub mod fragments;
pub mod link_address;
pub mod listener;
pub mod memory;
mod mounts;
pub mod neighbour;
mod netlink;
pub mod netns;
pub mod nic;
pub mod owner;
pub mod pipe;
pub mod places;
pub mod pressure;
pub mod queue;
pub mod quota;
pub mod sessions;
pub mod slept_for;
mod sock_diag;
pub mod syn_drops;
pub mod unix;
mod walk;
