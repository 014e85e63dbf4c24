//! Hosts, links and cgroups for known-answer tests and demos.
//!
//! A [`Host`] is a network namespace. A [`Link`] joins two of them: [`Link::veth`] with a plain
//! veth pair, [`Link::relay`] with a relay in user space that adds delay, jitter, loss, reordering,
//! duplication and a line rate, all from a seed, and that reports how late it was
//! ([`DirectionStatistics::lateness`]), so a test can distinguish a wrong result from a bad moment
//! of the machine. An [`Uplink`] is a container's path out through its host. A [`NicPair`] stamps
//! packets by a clock of its own. A [`Cgroup`] separates processes.
//!
//! The kernel's own `netem` would be the usual tool; it is a module that many kernels lack, and it
//! cannot report how well it kept its promise.
//!
//! Everything is removed on drop. The next process that uses this crate removes what a killed
//! process left behind ([`clean_up_leftovers`]). All of it needs root.
//!
//! ```no_run
//! use std::time::Duration;
//! use testbed::{Family, Host, Link, LinkConfig};
//!
//! # fn main() -> testbed::Result<()> {
//! let client = Host::new("client")?;
//! let server = Host::new("server")?;
//! let link = Link::relay(&client, &server, LinkConfig::default().delay(Duration::from_millis(5)))?;
//! println!("{}", client.run("ping", &["-c", "3", &link.address_b(Family::V4).to_string()])?);
//! # Ok(())
//! # }
//! ```

#![deny(unsafe_code)]

mod attempts;
mod cgroup;
mod cgroup_files;
mod error;
mod held_socket;
mod hog;
mod host;
mod leftovers;
mod link;
mod link_config;
mod middlebox;
mod nat;
mod nic_pair;
mod patience;
mod peer;
mod process;
mod relay;
mod stalls;
mod statistics;
#[expect(
    unsafe_code,
    reason = "the one place for system calls that have no safe wrapper"
)]
mod sys;
mod tcp_info;
mod tmux;
mod uplink;

pub use attempts::{Stolen, within_attempts};
pub use cgroup::Cgroup;
pub use error::{Error, Result};
pub use held_socket::HeldSocket;
pub use hog::{Hog, run_first_on};
pub use host::Host;
pub use leftovers::clean_up_leftovers;
pub use link::{Direction, Family, Link};
pub use link_config::LinkConfig;
pub use middlebox::Experiments;
pub use nic_pair::{NicPair, NicTruth};
pub use patience::PATIENCE;
pub use peer::{peer_program, set_max_pacing_rate, set_signature_key};
pub use process::Process;
pub use stalls::BareLoop;
pub use statistics::{DirectionStatistics, Lateness, RelayStatistics};
pub use tcp_info::TcpInfo;
pub use tmux::Tmux;
pub use uplink::{Uplink, UplinkHosts};
