//! Socket addresses of IPv4, IPv6 and packet sockets, to bytes; the first two from bytes.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use super::bytes::{array_at, u16_at, u32_at};
use crate::linux::{AF_INET, AF_INET6, AF_PACKET, sockaddr_in, sockaddr_in6, sockaddr_ll};

/// `struct sockaddr_in`, `struct sockaddr_in6` or `struct sockaddr_ll` as bytes.
#[derive(Debug, Clone, Copy)]
pub struct Address {
    bytes: [u8; size_of::<sockaddr_in6>()],
    length: usize,
}

impl Address {
    /// Return the structure, for msg_name of sendmsg(2).
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Take the structure as bytes; `None` if there are more than of `struct sockaddr_in6`.
    #[must_use]
    pub fn from_raw(structure: &[u8]) -> Option<Self> {
        let mut bytes = [0; size_of::<sockaddr_in6>()];
        let length = structure.len();
        bytes.get_mut(..length)?.copy_from_slice(structure);
        Some(Self { bytes, length })
    }

    /// Return the address of a packet socket: `protocol` as in `struct ethhdr`, and where the
    /// packets go.
    #[must_use]
    pub fn link(interface: u32, protocol: u16, hardware: [u8; 6]) -> Self {
        let mut bytes = [0; size_of::<sockaddr_in6>()];
        bytes[..2].copy_from_slice(&family(AF_PACKET));
        bytes[2..4].copy_from_slice(&protocol.to_be_bytes());
        bytes[4..8].copy_from_slice(&interface.to_ne_bytes());
        // sll_hatype and sll_pkttype are for received packets.
        bytes[11] = 6;
        bytes[12..18].copy_from_slice(&hardware);
        let length = size_of::<sockaddr_ll>();
        Self { bytes, length }
    }
}

/// The constants of families are small: the low 16 bits are all there is.
fn family(family: i32) -> [u8; 2] {
    let [low, high, ..] = family.to_le_bytes();
    u16::from_le_bytes([low, high]).to_ne_bytes()
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        let mut bytes = [0; size_of::<sockaddr_in6>()];
        bytes[..2].copy_from_slice(&match address {
            SocketAddr::V4(_) => family(AF_INET),
            SocketAddr::V6(_) => family(AF_INET6),
        });
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let length = match address {
            SocketAddr::V4(address) => {
                bytes[4..8].copy_from_slice(&address.ip().octets());
                size_of::<sockaddr_in>()
            }
            SocketAddr::V6(address) => {
                bytes[4..8].copy_from_slice(&address.flowinfo().to_ne_bytes());
                bytes[8..24].copy_from_slice(&address.ip().octets());
                bytes[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
                size_of::<sockaddr_in6>()
            }
        };
        Self { bytes, length }
    }
}

/// Decode the address in `struct sockaddr_in` or `struct sockaddr_in6`. Return `None` for other
/// families (AF_UNSPEC and AF_PACKET among them), and for too few bytes.
#[must_use]
pub fn socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let port = || Some(u16::from_be_bytes(array_at(bytes, 2)?));
    match i32::from(u16_at(bytes, 0)?) {
        AF_INET => {
            let octets: [u8; 4] = array_at(bytes, 4)?;
            Some(SocketAddrV4::new(Ipv4Addr::from(octets), port()?).into())
        }
        AF_INET6 => {
            let octets: [u8; 16] = array_at(bytes, 8)?;
            let (flow, scope) = (u32_at(bytes, 4)?, u32_at(bytes, 24)?);
            Some(SocketAddrV6::new(Ipv6Addr::from(octets), port()?, flow, scope).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_has_the_bytes_of_its_structure() {
        let address = Address::from(SocketAddr::from(([192, 0, 2, 7], 0x1234)));
        let family = u16::try_from(AF_INET).unwrap().to_ne_bytes();
        let expected = [&family[..], &[0x12, 0x34, 192, 0, 2, 7], &[0; 8]].concat();
        assert_eq!(address.as_bytes(), expected);
    }

    proptest! {
        #[test]
        fn encoded_addresses_decode_to_themselves(
            v4: [u8; 4],
            v6: [u8; 16],
            port: u16,
            flow: u32,
            scope: u32,
        ) {
            let v6 = SocketAddr::from(SocketAddrV6::new(v6.into(), port, flow, scope));
            for address in [SocketAddr::from((v4, port)), v6] {
                let bytes = Address::from(address);
                prop_assert_eq!(socket_address(bytes.as_bytes()), Some(address));
                let raw = Address::from_raw(bytes.as_bytes()).unwrap();
                prop_assert_eq!(raw.as_bytes(), bytes.as_bytes());
            }
            prop_assert!(Address::from_raw(&[0; 29]).is_none());
        }

        #[test]
        fn any_bytes_are_an_address_or_none(bytes in prop::collection::vec(any::<u8>(), 0..32)) {
            if let Some(address) = socket_address(&bytes) {
                prop_assert!(bytes.len() >= 8);
                prop_assert_eq!(socket_address(Address::from(address).as_bytes()), Some(address));
            }
        }
    }
}
