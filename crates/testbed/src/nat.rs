//! Change an address of packets on their way.

use std::net::Ipv4Addr;

use crate::sys::VNET_HEADER_LEN;

/// The places of the addresses in IPv4's header, and of its checksum: RFC 791.
const SOURCE: usize = 12;
const DESTINATION: usize = 16;
const HEADER_CHECKSUM: usize = 10;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: a device will complete the checksum of TCP or UDP.
pub(crate) const NEEDS_CSUM: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The address that a host has at the other end of a link, as behind NAT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nat {
    pub(crate) inside: Ipv4Addr,
    pub(crate) outside: Ipv4Addr,
}

impl Nat {
    /// Change a packet, after its virtio header, that leaves the host or comes to it.
    pub(crate) fn translate(self, leaves: bool, frame: &mut [u8]) {
        let (place, from, to) = match leaves {
            true => (SOURCE, self.inside, self.outside),
            false => (DESTINATION, self.outside, self.inside),
        };
        let Some((header, packet)) = frame.split_at_mut_checked(VNET_HEADER_LEN) else {
            return;
        };
        let is_partial = header.first().is_some_and(|flags| flags & NEEDS_CSUM != 0);
        let is_ipv4 = packet.first().is_some_and(|byte| byte >> 4 == 4);
        let address = packet.get_mut(place..place + 4).filter(|_| is_ipv4);
        let Some(address) = address.filter(|address| **address == from.octets()) else {
            return;
        };
        address.copy_from_slice(&to.octets());
        let (from, to) = (words(from), words(to));
        mend(packet, HEADER_CHECKSUM, &from, &to, false);
        let transport = usize::from(packet[0] & 0xf) * 4;
        match packet[9] {
            TCP => mend(packet, transport + 16, &from, &to, is_partial),
            UDP => mend(packet, transport + 6, &from, &to, is_partial),
            _ => {}
        }
    }
}

/// Correct a checksum: RFC 1624, equation 3. A checksum that a device will complete is a sum,
/// without the complement.
pub(crate) fn mend(packet: &mut [u8], at: usize, from: &[u16], to: &[u16], is_sum: bool) {
    let Some(field) = packet.get_mut(at..at + 2) else {
        return;
    };
    let old = u16::from_be_bytes([field[0], field[1]]);
    let mut sum = u32::from(if is_sum { old } else { !old });
    for (&from, &to) in from.iter().zip(to) {
        sum += u32::from(!from) + u32::from(to);
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let sum = u16::try_from(sum).expect("it is folded");
    field.copy_from_slice(&(if is_sum { sum } else { !sum }).to_be_bytes());
}

fn words(address: Ipv4Addr) -> [u16; 2] {
    let [a, b, c, d] = address.octets();
    [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
}
