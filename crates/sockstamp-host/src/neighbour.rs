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
/// Bytes of `struct ndmsg`.
const NDMSG: usize = 12;

/// Hops on this host: a container, its host, and as many again.
const HOPS: usize = 4;

/// The next hop of a way, which the kernel asks for its link address in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silent {
    /// Its address: that of the peer, or of a gateway.
    pub address: IpAddr,
    /// The device by which it is asked.
    pub device: Device,
}

impl Queues {
    /// Return the next hop that does not answer on the way from a namespace to an address: its own,
    /// or that of a namespace of this host that forwards.
    #[must_use]
    pub fn silent_neighbour(&self, from: NetnsInode, to: IpAddr) -> Option<Silent> {
        let mut netns = from;
        for _ in 0..HOPS {
            let route = self.route(netns, to).filter(|route| !route.is_local)?;
            let address = route.gateway.unwrap_or(to);
            let index = route.device?;
            if self.is_silent(netns, index, address) {
                let device = Device { netns, index };
                return Some(Silent { address, device });
            }
            netns = self.namespace_of(netns, route.gateway?)?;
        }
        None
    }

    /// Return another namespace that has an address.
    fn namespace_of(&self, but: NetnsInode, address: IpAddr) -> Option<NetnsInode> {
        let mut others = self.0.keys().copied().filter(|netns| *netns != but);
        others.find(|netns| {
            let route = self.route(*netns, address);
            route.is_some_and(|route| route.is_local)
        })
    }

    fn is_silent(&self, netns: NetnsInode, device: u32, address: IpAddr) -> bool {
        let Some(socket) = self.0.get(&netns) else {
            return false;
        };
        let mut request = [0; NDMSG];
        request[0] = match address {
            IpAddr::V4(_) => libc::AF_INET,
            IpAddr::V6(_) => libc::AF_INET6,
        }
        .to_le_bytes()[0];
        let mut silent = false;
        // A namespace that has ended has no neighbours.
        let _ = netlink::dump(socket, RTM_GETNEIGH, &request, &mut |body| {
            silent |= is_silent(body, device, address);
        });
        silent
    }
}

/// Return true for a `struct ndmsg` of a neighbour that does not answer.
fn is_silent(body: &[u8], device: u32, address: IpAddr) -> bool {
    let state = body
        .get(8..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |state| u16::from_ne_bytes(*state));
    let bytes = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    word(body, 4) == Some(device)
        && state & (NUD_INCOMPLETE | NUD_FAILED) != 0
        && body.get(NDMSG..).and_then(|rest| value(rest, NDA_DST)) == Some(&bytes[..])
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
    fn only_a_neighbour_without_an_answer_is_silent() {
        const REACHABLE: u16 = 0x02;
        let address = IpAddr::from([10, 0, 0, 9]);
        assert!(is_silent(&message(NUD_FAILED), 7, address));
        assert!(is_silent(&message(NUD_INCOMPLETE), 7, address));
        assert!(!is_silent(&message(REACHABLE), 7, address));
        assert!(!is_silent(&message(NUD_FAILED), 8, address));
        assert!(!is_silent(
            &message(NUD_FAILED),
            7,
            IpAddr::from([10, 0, 0, 8])
        ));
        assert!(!is_silent(&message(NUD_FAILED)[..9], 7, address));
    }

    #[test]
    fn the_loopback_has_no_neighbours() {
        let queues = Queues::open();
        let netns = crate::netns::own().unwrap();
        let to = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(queues.silent_neighbour(netns, to), None);
    }
}
