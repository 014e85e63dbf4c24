//! From the names that a host has for its containers, cgroups, network namespaces and interfaces to
//! what the kernel knows. Nothing on the host is changed, and no command line is needed: errors are
//! sentences for the user that named the thing.

#![forbid(unsafe_code)]

pub mod cgroup;
pub mod connection;
pub mod container;
pub mod listener;
pub mod netns;
pub mod quota;
mod sock_diag;
