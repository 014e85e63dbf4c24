//! Link addresses of neighbours that change, by the kernel's own events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use nix::libc;
use nix::sys::socket::SockProtocol;
use sockstamp_model::clock::{Monotonic, Timestamp};
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::name::Name;

use crate::netlink::{self, value, word};
use crate::netns;
use crate::queue::Device;

// include/uapi/linux/rtnetlink.h, neighbour.h
const RTM_NEWNEIGH: u16 = 28;
const RTMGRP_NEIGH: u32 = 4;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// Bytes of `struct ndmsg`.
const NDMSG: usize = 12;

/// A neighbour: the device by which it is reached, and its address.
pub type Neighbour = (Device, IpAddr);

/// A link address that changed, and changed back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flips {
    /// The number of changes that were seen.
    pub changes: u32,
    /// The link address that came back, and the one before that.
    pub between: [Name; 2],
    /// The changes were seen between these moments.
    pub time: (Timestamp<Monotonic>, Timestamp<Monotonic>),
}

/// A link address of a neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    link: Vec<u8>,
    /// The address came since the first moment, and was read at the second one.
    seen: (Timestamp<Monotonic>, Timestamp<Monotonic>),
}

/// Sockets that the kernel of every namespace tells of its neighbours.
#[derive(Debug)]
pub struct LinkAddresses {
    sockets: BTreeMap<NetnsInode, OwnedFd>,
    /// The link addresses of each neighbour, one after the other.
    known: BTreeMap<Neighbour, Vec<Known>>,
    /// When events were read last.
    read: Option<Timestamp<Monotonic>>,
}

/// Neighbours whose changes are kept, and changes of each.
const MOST_KNOWN: usize = 1024;

impl LinkAddresses {
    /// Open them; later calls need no privilege. Events beyond what a socket has room for are lost.
    #[must_use]
    pub fn open() -> Self {
        let files = netns::files_for_sockets();
        let open = || netlink::listen(SockProtocol::NetlinkRoute, RTMGRP_NEIGH);
        let opened = netns::in_each_of(&files, &[], open).into_iter();
        Self {
            sockets: opened
                .filter_map(|(netns, socket)| Some((netns, socket.ok()?.ok()?)))
                .collect(),
            known: BTreeMap::new(),
            read: None,
        }
    }

    /// Take the events until now.
    pub fn read(&mut self, now: Timestamp<Monotonic>) {
        let since = self.read.replace(now).unwrap_or(now);
        let Self { sockets, known, .. } = self;
        for (&netns, socket) in &*sockets {
            netlink::events(socket, RTM_NEWNEIGH, &mut |body| {
                let Some((index, address, link)) = neighbour(body) else {
                    return;
                };
                let device = Device { netns, index };
                let neighbour = (device, address);
                if known.len() >= MOST_KNOWN && !known.contains_key(&neighbour) {
                    return;
                }
                let links = known.entry(neighbour).or_default();
                let is_same = links.last().is_some_and(|last| last.link == link);
                if !is_same && links.len() < MOST_KNOWN {
                    let seen = (since, now);
                    links.push(Known { link, seen });
                }
            });
        }
    }

    /// Return those that changed, and changed back, since they were opened.
    #[must_use]
    pub fn flips(&self) -> BTreeMap<Neighbour, Flips> {
        let flips = self.known.iter();
        flips
            .filter_map(|(neighbour, links)| Some((*neighbour, flips_of(links)?)))
            .collect()
    }
}

/// Return the flips of a neighbour that had these link addresses, one after the other.
fn flips_of(links: &[Known]) -> Option<Flips> {
    let mut seen = BTreeSet::new();
    let back = links.iter().find(|one| !seen.insert(&one.link))?;
    let first = links.iter().position(|one| one.link == back.link)?;
    let (after, last) = (links.get(first + 1)?, links.last()?);
    Some(Flips {
        changes: u32::try_from(links.len() - 1).unwrap_or(u32::MAX),
        between: [&back.link, &after.link].map(|link| written(link)),
        time: (after.seen.0, last.seen.1),
    })
}

/// Return the device, the address and the link address in a `struct ndmsg`.
fn neighbour(body: &[u8]) -> Option<(u32, IpAddr, Vec<u8>)> {
    // Entries of bridges, AF_BRIDGE, have other link addresses behind one address.
    let is_ip = matches!(i32::from(*body.first()?), libc::AF_INET | libc::AF_INET6);
    let attributes = body.get(NDMSG..).filter(|_| is_ip)?;
    let address = value(attributes, NDA_DST)?;
    let address = match address.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(address).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(address).ok()?),
    };
    let link = value(attributes, NDA_LLADDR)?;
    Some((word(body, 4)?, address, link.to_vec()))
}

/// `02:00:00:00:00:01`.
fn written(link: &[u8]) -> Name {
    let mut text = String::new();
    for (place, byte) in link.iter().enumerate() {
        let colon = if place > 0 { ":" } else { "" };
        // Writing to a String does not fail.
        let _ = write!(text, "{colon}{byte:02x}");
    }
    Name::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_flips_if_it_comes_back() {
        let at = Timestamp::from_nanos;
        let known = |(place, &of): (u64, &u8)| Known {
            link: vec![2, of],
            seen: (at(place * 10), at(place * 10 + 9)),
        };
        let links = |of: &[u8]| (0..).zip(of).map(known).collect::<Vec<_>>();
        assert_eq!(flips_of(&links(&[1])), None);
        // Another host has taken the address over.
        assert_eq!(flips_of(&links(&[1, 2])), None);
        let flips = flips_of(&links(&[1, 2, 1, 2])).unwrap();
        assert_eq!(flips.changes, 3);
        assert_eq!(flips.between, [Name::from("02:01"), Name::from("02:02")]);
        assert_eq!(flips.time, (at(10), at(39)));
        // The first one was another host's.
        let flips = flips_of(&links(&[1, 2, 3, 2])).unwrap();
        assert_eq!(flips.between, [Name::from("02:02"), Name::from("02:03")]);
        assert_eq!(flips.time, (at(20), at(39)));
    }

    #[test]
    fn a_neighbour_is_read_by_its_attributes() {
        let mut body = vec![0; NDMSG];
        body[0] = 2;
        body[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        for (kind, bytes) in [(NDA_DST, vec![10, 0, 0, 9]), (NDA_LLADDR, vec![2, 0, 0, 0])] {
            body.extend_from_slice(&8_u16.to_ne_bytes());
            body.extend_from_slice(&kind.to_ne_bytes());
            body.extend_from_slice(&bytes);
        }
        let address = IpAddr::from([10, 0, 0, 9]);
        assert_eq!(neighbour(&body), Some((7, address, vec![2, 0, 0, 0])));
        assert_eq!(neighbour(&body[..20]), None);
        // Of a bridge.
        body[0] = 7;
        assert_eq!(neighbour(&body), None);
    }

    #[test]
    fn a_socket_that_listens_waits_for_no_event() {
        let mut links = LinkAddresses::open();
        assert!(links.sockets.contains_key(&netns::own().unwrap()));
        links.read(Timestamp::from_nanos(1));
        assert_eq!(links.flips(), BTreeMap::new());
    }
}
