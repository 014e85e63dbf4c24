//! Two hosts with NAT between them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use testbed::{Family, Host, Link, LinkConfig};

use crate::cause::Cause;

const DELAY: Duration = Duration::from_millis(20);
const PORT: u16 = 8080;
/// Less than a message and a datagram before it, so that the message has to wait.
const SLOW: [&str; 7] = ["tbf", "rate", "500kbit", "burst", "1200", "limit", "100000"];

/// The hosts, by the side that they are on: the client, then the server.
pub(crate) struct Topology {
    link: Link,
    pub(crate) hosts: [Host; 2],
}

impl Topology {
    /// Build the hosts, with a cause in their interfaces or between them.
    pub(crate) fn build(cause: Cause) -> Result<Self> {
        let hosts = [Host::new("client")?, Host::new("server")?];
        let delay = if cause == Cause::Network {
            DELAY
        } else {
            Duration::ZERO
        };
        let link = Link::relay(&hosts[0], &hosts[1], LinkConfig::default().delay(delay))?;
        link.translate()?;
        if cause == Cause::Queue {
            for (host, interface) in hosts.iter().zip([link.interface_a(), link.interface_b()]) {
                let device = ["qdisc", "add", "dev", interface, "root"];
                host.run("tc", &[&device[..], &SLOW].concat())?;
            }
        }
        Ok(Self { link, hosts })
    }

    /// Return the address of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::new(self.link.address_b(Family::V4), PORT)
    }
}
