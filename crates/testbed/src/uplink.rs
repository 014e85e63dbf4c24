use std::net::IpAddr;
use std::path::Path;

use crate::error::Result;
use crate::host::Host;
use crate::leftovers::NETNS_DIRECTORY;
use crate::link::{Family, Link};
use crate::process;

/// A container's way out: from its veth through the host that it runs on, by that host's uplink, to
/// a peer.
///
/// All three are [`Host`]s. Addresses are those of a [`Link`] between the container and its
/// neighbour in IP.
#[derive(Debug)]
pub struct Uplink {
    inner: Link,
    outer: Link,
    host: String,
    bridged: bool,
}

/// A container, the host that it runs on, and a peer elsewhere.
#[derive(Debug)]
pub struct UplinkHosts {
    /// The container.
    pub container: Host,
    /// Its host.
    pub host: Host,
    /// The peer.
    pub peer: Host,
    /// The way between them.
    pub uplink: Uplink,
}

impl UplinkHosts {
    /// Build the way by [`Uplink::bridged`] or [`Uplink::routed`].
    ///
    /// # Panics
    ///
    /// If a host or the way cannot be made.
    #[must_use]
    pub fn new(build: fn(&Host, &Host, &Host) -> Result<Uplink>) -> UplinkHosts {
        let made = "a container's way out through its host";
        let [container, host, peer] =
            ["container", "host", "peer"].map(|name| Host::new(name).expect(made));
        let uplink = build(&container, &host, &peer).expect(made);
        UplinkHosts {
            container,
            host,
            peer,
            uplink,
        }
    }

    /// Put a token bucket (tc-tbf(8)) in front of the uplink.
    ///
    /// # Panics
    ///
    /// If tc refuses.
    pub fn limit_uplink(&self, bucket: &str) {
        let device = self.uplink.uplink_interface();
        let words = format!("qdisc add dev {device} root tbf {bucket}");
        let words: Vec<_> = words.split(' ').collect();
        self.host.run("tc", &words).expect("a token bucket");
    }
}

/// The name of the bridge. It is in the namespace of the host, and gone with it.
const BRIDGE: &str = "sstbr";

impl Uplink {
    /// The container's veth and the uplink are ports of a bridge: container and peer are in one
    /// subnet, and packets belong to the container's socket until they leave the uplink. The bridge
    /// does not call iptables, which is a setting of the host, `net.bridge.bridge-nf-call-iptables`
    /// and `-ip6tables`.
    pub fn bridged(container: &Host, host: &Host, peer: &Host) -> Result<Uplink> {
        let uplink = Uplink::new(container, host, peer, true)?;
        let Uplink { inner, outer, .. } = &uplink;
        let (at_host, at_peer) = (host.netns_name(), peer.netns_name());
        process::ip(&format!("-n {at_host} link add {BRIDGE} type bridge"))?;
        if Path::new("/proc/sys/net/bridge").exists() {
            for setting in ["iptables", "ip6tables"] {
                host.set_sysctl(&format!("net.bridge.bridge-nf-call-{setting}"), "0")?;
            }
        }
        for port in [inner.interface_b(), outer.interface_a()] {
            process::ip(&format!("-n {at_host} address flush dev {port}"))?;
            process::ip(&format!("-n {at_host} link set {port} master {BRIDGE}"))?;
        }
        for family in [Family::V4, Family::V6] {
            // The container's neighbour in IP is now the peer.
            let address = with_prefix(inner, family);
            let device = outer.interface_b();
            process::ip(&format!("-n {at_peer} address add {address} dev {device}"))?;
        }
        process::ip(&format!("-n {at_host} link set {BRIDGE} up"))?;
        Ok(uplink)
    }

    /// The host forwards by IP, as it does for containers on a bridge that is not the uplink's:
    /// packets lose their socket on the way.
    pub fn routed(container: &Host, host: &Host, peer: &Host) -> Result<Uplink> {
        let uplink = Uplink::new(container, host, peer, false)?;
        let Uplink { inner, outer, .. } = &uplink;
        host.set_sysctl("net.ipv4.ip_forward", "1")?;
        host.set_sysctl("net.ipv6.conf.all.forwarding", "1")?;
        for family in [Family::V4, Family::V6] {
            let version = match family {
                Family::V4 => "-4",
                Family::V6 => "-6",
            };
            for (end, gateway) in [
                (container, inner.address_b(family)),
                (peer, outer.address_a(family)),
            ] {
                let namespace = end.netns_name();
                process::ip(&format!(
                    "{version} -n {namespace} route add default via {gateway}"
                ))?;
            }
        }
        Ok(uplink)
    }

    fn new(container: &Host, host: &Host, peer: &Host, bridged: bool) -> Result<Uplink> {
        Ok(Uplink {
            inner: Link::veth(container, host)?,
            outer: Link::veth(host, peer)?,
            host: host.netns_name().to_owned(),
            bridged,
        })
    }

    /// The address at which the container reaches the peer.
    pub fn peer_address(&self, family: Family) -> IpAddr {
        if self.bridged {
            self.inner.address_b(family)
        } else {
            self.outer.address_b(family)
        }
    }

    /// The address of the container.
    pub fn container_address(&self, family: Family) -> IpAddr {
        self.inner.address_a(family)
    }

    /// The address of the host that forwards by IP, as the container's gateway.
    pub fn gateway_address(&self, family: Family) -> IpAddr {
        self.inner.address_b(family)
    }

    /// The interface of the container.
    pub fn container_interface(&self) -> &str {
        self.inner.interface_a()
    }

    /// The interface of the peer.
    pub fn peer_interface(&self) -> &str {
        self.outer.interface_b()
    }

    /// The interface by which packets leave the host for the peer.
    pub fn uplink_interface(&self) -> &str {
        self.outer.interface_a()
    }
}

impl Drop for Uplink {
    fn drop(&mut self) {
        let to_delete = self.bridged && Path::new(NETNS_DIRECTORY).join(&self.host).exists();
        if !to_delete {
            return;
        }
        if let Err(error) = process::ip(&format!("-n {} link delete {BRIDGE}", self.host)) {
            eprintln!("testbed: {error}");
        }
    }
}

fn with_prefix(link: &Link, family: Family) -> String {
    let address = link.address_b(family);
    match family {
        Family::V4 => format!("{address}/24"),
        Family::V6 => format!("{address}/64 nodad"),
    }
}
