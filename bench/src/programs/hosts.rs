//! The hosts of client and server: one for both, or two that a link joins.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use testbed::{Cgroup, Family, Host, Link, LinkConfig};

use crate::paired::to_float;

/// Each way.
const DELAY: Duration = Duration::from_micros(100);
/// The hosts are ours alone: no port is taken.
const PORT: u16 = 7000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Many requests at a time, so that both CPUs are busy.
    Loopback,
    /// One request at a time, over a link that delays it: nothing is saturated.
    Link,
}

impl Place {
    pub(crate) const ALL: [Self; 2] = [Self::Loopback, Self::Link];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Loopback => "lo",
            Self::Link => "link",
        }
    }
}

/// Client, server and the tool share a cgroup, which accounts their CPU time. The fields are
/// dropped in this order.
pub(crate) struct Hosts {
    pub(crate) group: Cgroup,
    link: Option<Link>,
    client: Host,
    server: Option<Host>,
}

impl Hosts {
    pub(crate) fn new(place: Place) -> Result<Self> {
        let group = Cgroup::new("programs")?;
        let client = Host::new("client")?;
        let (link, server) = match place {
            Place::Loopback => (None, None),
            Place::Link => {
                let server = Host::new("server")?;
                let config = LinkConfig::default().delay(DELAY);
                (Some(Link::relay(&client, &server, config)?), Some(server))
            }
        };
        Ok(Self {
            group,
            link,
            client,
            server,
        })
    }

    pub(crate) fn client(&self) -> &Host {
        &self.client
    }

    pub(crate) fn server(&self) -> &Host {
        self.server.as_ref().unwrap_or(&self.client)
    }

    /// The interface of the server's packets.
    pub(crate) fn interface(&self) -> &str {
        self.link.as_ref().map_or("lo", Link::interface_b)
    }

    /// The address of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let ip = self
            .link
            .as_ref()
            .map_or(loopback, |link| link.address_b(Family::V4));
        SocketAddr::new(ip, PORT)
    }

    /// CPU seconds of all that ran in the cgroup (cgroup-v2.rst, `cpu.stat`).
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        let path = self.group.path().join("cpu.stat");
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let microseconds = text
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "));
        let microseconds = microseconds.and_then(|number| number.trim().parse().ok());
        Ok(to_float(microseconds.context("a cgroup has no CPU time")?) / 1e6)
    }
}
