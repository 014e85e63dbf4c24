//! Neighbours that do not answer to their addresses: ARP, and neighbour discovery of IPv6.

use std::net::IpAddr;

use nix::libc;
use sockstamp_model::flow::NetnsInode;

use crate::netlink::{self, value, word};
use crate::queue::{Device, Queues};

// include/uapi/linux/rtnetlink.h, neighbour.h
const RTM_GETNEIGH: u16 = 30;
const NDA_DST: u16 = 1;
const NUD_INCOMPLETE: u16 = 0x01;
const NUD_FAILED: u16 = 0x20;
const NUD_PERMANENT: u16 = 0x80;
/// Bytes of `struct ndmsg`.
const NDMSG: usize = 12;

/// Hops on this host: a container, its host, and as many again.
const HOPS: usize = 4;

/// The way the kernel has the link address of a neighbour that may not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// The kernel asks for the address in vain.
    Unanswered,
    /// Somebody set the address, and it asks nobody.
    Set,
}

/// The next hop of a way, which may not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silent {
    /// The address: that of the peer, or of a gateway.
    pub address: IpAddr,
    /// The device by which it is asked.
    pub device: Device,
    /// The way its link address is known.
    pub known: Known,
}

impl Queues {
    /// Return the next hop that does not answer on the way from a namespace to an address: its own,
    /// or that of a namespace of this host that forwards; otherwise one whose link address was set.
    #[must_use]
    pub fn silent_neighbour(&self, from: NetnsInode, to: IpAddr) -> Option<Silent> {
        let mut set = None;
        for (device, address) in self.hops(from, to) {
            let silent = |known| Silent {
                address,
                device,
                known,
            };
            match self.known(device, address) {
                Some(Known::Unanswered) => return Some(silent(Known::Unanswered)),
                known => set = set.or(known.map(silent)),
            }
        }
        set
    }

    /// Return the next hops on the way from a namespace to an address, by their devices: its own,
    /// and those of namespaces of this host that forward.
    #[must_use]
    pub fn hops(&self, from: NetnsInode, to: IpAddr) -> Vec<(Device, IpAddr)> {
        let (mut netns, mut hops) = (from, Vec::new());
        while hops.len() < HOPS {
            let Some(route) = self.route(netns, to).filter(|route| !route.is_local) else {
                break;
            };
            let Some(index) = route.device else { break };
            hops.push((Device { netns, index }, route.gateway.unwrap_or(to)));
            let forwarder = route.gateway.and_then(|to| self.namespace_of(netns, to));
            let Some(forwarder) = forwarder else { break };
            netns = forwarder;
        }
        hops
    }

    /// Return another namespace that has an address.
    fn namespace_of(&self, but: NetnsInode, address: IpAddr) -> Option<NetnsInode> {
        let mut others = self.0.keys().copied().filter(|netns| *netns != but);
        others.find(|netns| {
            let route = self.route(*netns, address);
            route.is_some_and(|route| route.is_local)
        })
    }

    fn known(&self, device: Device, address: IpAddr) -> Option<Known> {
        let socket = self.0.get(&device.netns)?;
        let mut request = [0; NDMSG];
        request[0] = match address {
            IpAddr::V4(_) => libc::AF_INET,
            IpAddr::V6(_) => libc::AF_INET6,
        }
        .to_le_bytes()[0];
        let mut found = None;
        // A namespace that has ended has no neighbours.
        let _ = netlink::dump(socket, RTM_GETNEIGH, &request, &mut |body| {
            found = found.or(known(body, device.index, address));
        });
        found
    }
}

/// Return how a `struct ndmsg` of a neighbour that may not answer has its address.
fn known(body: &[u8], device: u32, address: IpAddr) -> Option<Known> {
    let state = body
        .get(8..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |state| u16::from_ne_bytes(*state));
    let bytes = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let is_it = word(body, 4)? == device && value(body.get(NDMSG..)?, NDA_DST)? == bytes;
    match is_it {
        true if state & (NUD_INCOMPLETE | NUD_FAILED) != 0 => Some(Known::Unanswered),
        true if state & NUD_PERMANENT != 0 => Some(Known::Set),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(state: u16) -> Vec<u8> {
        let mut body = vec![0; NDMSG];
        body[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        body[8..10].copy_from_slice(&state.to_ne_bytes());
        body.extend_from_slice(&8_u16.to_ne_bytes());
        body.extend_from_slice(&NDA_DST.to_ne_bytes());
        body.extend_from_slice(&[10, 0, 0, 9]);
        body
    }

    #[test]
    fn a_neighbour_may_be_silent_without_an_answer_or_with_an_address_that_was_set() {
        const REACHABLE: u16 = 0x02;
        let address = IpAddr::from([10, 0, 0, 9]);
        let state = |state, device, address| known(&message(state), device, address);
        assert_eq!(state(NUD_FAILED, 7, address), Some(Known::Unanswered));
        assert_eq!(state(NUD_INCOMPLETE, 7, address), Some(Known::Unanswered));
        assert_eq!(state(NUD_PERMANENT, 7, address), Some(Known::Set));
        assert_eq!(state(REACHABLE, 7, address), None);
        assert_eq!(state(NUD_FAILED, 8, address), None);
        let another = IpAddr::from([10, 0, 0, 8]);
        assert_eq!(state(NUD_FAILED, 7, another), None);
        assert_eq!(known(&message(NUD_FAILED)[..9], 7, address), None);
    }

    #[test]
    fn the_loopback_has_no_neighbours() {
        let queues = Queues::open();
        let netns = crate::netns::own().unwrap();
        let to = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(queues.silent_neighbour(netns, to), None);
    }
}
