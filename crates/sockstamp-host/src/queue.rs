//! The queues of devices: what waits in the packet schedulers of every network namespace.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use nix::libc;
use nix::sys::socket::SockProtocol;
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::name::Name;

use crate::cut;
use crate::netlink::{self, value, word};
use crate::netns;

// include/uapi/linux/rtnetlink.h, pkt_sched.h, gen_stats.h, if_link.h
const RTM_GETLINK: u16 = 18;
const RTM_GETROUTE: u16 = 26;
const RTM_GETQDISC: u16 = 38;
const TC_H_ROOT: u32 = u32::MAX;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTN_LOCAL: u8 = 2;
const IFLA_IFNAME: u16 = 3;
const IFLA_CARRIER: u16 = 33;
const IFLA_CARRIER_DOWN_COUNT: u16 = 48;
/// Bytes of `struct tcmsg`, `struct rtmsg` and `struct ifinfomsg`.
const TCMSG: usize = 20;
const RTMSG: usize = 12;
const IFINFOMSG: usize = 16;

/// Devices of a namespace whose queues are told: users may make any number in theirs.
const MOST_DEVICES: usize = 256;
/// Devices of a namespace whose carriers are told: those of its first ones.
const MOST_CARRIERS: usize = 1024;

/// A device, in its namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// Its network namespace.
    pub netns: NetnsInode,
    pub(crate) index: u32,
}

/// The packet scheduler of a device at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queue {
    /// Bytes that wait.
    pub backlog: u32,
    /// Bytes that have left in its life.
    pub sent: u64,
}

/// The carrier of a device at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carrier {
    /// The number of times that the device has lost it.
    pub lost: u32,
    /// The device has none.
    pub is_down: bool,
}

/// Sockets to the kernel of every namespace that could be entered.
#[derive(Debug)]
pub struct Queues(pub(crate) BTreeMap<NetnsInode, OwnedFd>);

impl Queues {
    /// Open them; later calls need no privilege.
    #[must_use]
    pub fn open() -> Self {
        let files = netns::files_for_sockets();
        let opened = netns::in_each_of(&files, &[], || netlink::open(SockProtocol::NetlinkRoute));
        let opened = opened.into_iter();
        Self(
            opened
                .filter_map(|(netns, socket)| Some((netns, socket.ok()?.ok()?)))
                .collect(),
        )
    }

    /// Return the devices in whose packet scheduler at least this many bytes wait.
    #[must_use]
    pub fn waiting(&self, least: u32) -> BTreeMap<Device, Queue> {
        let mut waiting = BTreeMap::new();
        for (&netns, socket) in &self.0 {
            let mut found = 0;
            // A namespace that has ended has no queues.
            let _ = netlink::dump(socket, RTM_GETQDISC, &[0; TCMSG], &mut |body| {
                let Some((index, queue)) = root(body) else {
                    return;
                };
                if queue.backlog >= least {
                    found += 1;
                    if found <= MOST_DEVICES {
                        waiting.insert(Device { netns, index }, queue);
                    }
                }
            });
            if found > MOST_DEVICES {
                cut::count();
            }
        }
        waiting
    }

    /// Return the way of a namespace to an address.
    pub(crate) fn route(&self, netns: NetnsInode, to: IpAddr) -> Option<Route> {
        let socket = self.0.get(&netns)?;
        let answer = netlink::ask(socket, RTM_GETROUTE, &route_request(to)).ok()?;
        Route::of(&answer)
    }

    /// Return true if a device is on the way from a namespace to an address: its own, or that of a
    /// namespace that has the address of the gateway.
    #[must_use]
    pub fn leads_to(&self, device: Device, from: NetnsInode, to: IpAddr) -> bool {
        let way = |netns| self.route(netns, to);
        let leads = way(device.netns).is_some_and(|route| route.device == Some(device.index));
        let forwards = || {
            let gateway = way(from).and_then(|route| route.gateway);
            let local = gateway.and_then(|gateway| self.route(device.netns, gateway));
            local.is_some_and(|route| route.is_local)
        };
        leads && (device.netns == from || forwards())
    }

    /// Return the carriers of devices; kernels before v4.16 do not tell how often they were lost.
    #[must_use]
    pub fn carriers(&self) -> BTreeMap<Device, Carrier> {
        let mut carriers = BTreeMap::new();
        for (&netns, socket) in &self.0 {
            let mut found = 0;
            // A namespace that has ended has no devices.
            let _ = netlink::dump(socket, RTM_GETLINK, &[0; IFINFOMSG], &mut |body| {
                if let Some((index, carrier)) = carrier(body) {
                    found += 1;
                    if found <= MOST_CARRIERS {
                        carriers.insert(Device { netns, index }, carrier);
                    }
                }
            });
            if found > MOST_CARRIERS {
                cut::count();
            }
        }
        carriers
    }

    /// Return the device by which the way of a namespace to an address begins.
    #[must_use]
    pub fn first_to(&self, from: NetnsInode, to: IpAddr) -> Option<Device> {
        let index = self.route(from, to)?.device?;
        Some(Device { netns: from, index })
    }

    /// Return the name of a device.
    #[must_use]
    pub fn name(&self, device: Device) -> Option<Name> {
        let mut request = [0; IFINFOMSG];
        request[4..8].copy_from_slice(&device.index.to_ne_bytes());
        let answer = netlink::ask(self.0.get(&device.netns)?, RTM_GETLINK, &request).ok()?;
        let name = value(answer.get(IFINFOMSG..)?, IFLA_IFNAME)?;
        let name = name.split(|&byte| byte == 0).next()?;
        Some(Name::from(name))
    }
}

/// A way of a namespace to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) device: Option<u32>,
    pub(crate) gateway: Option<IpAddr>,
    /// The address is its own.
    pub(crate) is_local: bool,
}

impl Route {
    /// Read a `struct rtmsg` with its attributes.
    fn of(message: &[u8]) -> Option<Self> {
        let attributes = message.get(RTMSG..)?;
        let gateway = value(attributes, RTA_GATEWAY);
        Some(Self {
            device: value(attributes, RTA_OIF).and_then(|device| word(device, 0)),
            gateway: gateway.and_then(|bytes| match bytes.len() {
                4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
                _ => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
            }),
            is_local: *message.get(7)? == RTN_LOCAL,
        })
    }
}

/// Return the device and the figures of a root scheduler: those of its children are in them.
fn root(body: &[u8]) -> Option<(u32, Queue)> {
    if word(body, 12)? != TC_H_ROOT {
        return None;
    }
    let stats = value(body.get(TCMSG..)?, TCA_STATS2)?;
    let sent = value(stats, TCA_STATS_BASIC)?.first_chunk()?;
    let queue = Queue {
        backlog: word(value(stats, TCA_STATS_QUEUE)?, 4)?,
        sent: u64::from_ne_bytes(*sent),
    };
    Some((word(body, 4)?, queue))
}

/// Return a device of a `struct ifinfomsg`, and its carrier.
fn carrier(body: &[u8]) -> Option<(u32, Carrier)> {
    let attributes = body.get(IFINFOMSG..)?;
    let carrier = Carrier {
        lost: word(value(attributes, IFLA_CARRIER_DOWN_COUNT)?, 0)?,
        is_down: value(attributes, IFLA_CARRIER).is_some_and(|has| has.first() == Some(&0)),
    };
    Some((word(body, 4)?, carrier))
}

/// A `struct rtmsg` and the address.
fn route_request(to: IpAddr) -> Vec<u8> {
    let (family, address) = match to {
        IpAddr::V4(to) => (libc::AF_INET, to.octets().to_vec()),
        IpAddr::V6(to) => (libc::AF_INET6, to.octets().to_vec()),
    };
    let bits = u8::try_from(address.len() * 8).unwrap_or(0);
    let mut request = vec![0; RTMSG];
    request[0] = u8::try_from(family).unwrap_or(0);
    request[1] = bits;
    let length = u16::try_from(4 + address.len()).unwrap_or(0);
    request.extend_from_slice(&length.to_ne_bytes());
    request.extend_from_slice(&RTA_DST.to_ne_bytes());
    request.extend_from_slice(&address);
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_leads_to_itself_and_has_its_name() {
        let queues = Queues::open();
        let netns = netns::own().unwrap();
        let to = IpAddr::from([127, 0, 0, 1]);
        let route = queues.route(netns, to).unwrap();
        assert!(route.is_local, "{route:?}");
        let index = route.device.unwrap();
        let device = Device { netns, index };
        assert!(queues.leads_to(device, netns, to));
        // Another namespace has no gateway here.
        assert!(!queues.leads_to(device, NetnsInode(1), to));
        assert_eq!(queues.name(device), Some(Name::from("lo")));
        assert_eq!(queues.first_to(netns, to), Some(device));
        assert!(queues.carriers().contains_key(&device));
    }

    #[test]
    fn what_is_cut_short_is_no_queue() {
        assert_eq!(root(&[0; 8]), None);
        assert_eq!(root(&[255; TCMSG]), None);
        assert_eq!(carrier(&[0; IFINFOMSG]), None);
    }
}
