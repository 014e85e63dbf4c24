//! Networks, of which a host is the smallest.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The IPv6 prefix of v4-mapped addresses (RFC 4291, section 2.5.5.2): 96 bits.
const MAPPED_PREFIX: u8 = 96;

/// An address, of which no bit beyond the prefix is set. The v4-mapped ones are IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Net {
    address: IpAddr,
    prefix: u8,
}

impl Net {
    /// Every IPv4 address.
    pub(super) const IPV4: Self = Self {
        address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        prefix: 0,
    };

    pub(super) fn host(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self {
            address,
            prefix: longest(address),
        }
    }

    /// The network of this prefix that `address` is in; `None` if no prefix is that long.
    pub(super) fn around(address: IpAddr, prefix: u8) -> Option<Self> {
        if prefix > longest(address) {
            return None;
        }
        let (address, prefix) = match address.to_canonical() {
            canonical @ IpAddr::V4(_) if address.is_ipv6() && prefix >= MAPPED_PREFIX => {
                (canonical, prefix - MAPPED_PREFIX)
            }
            _ => (address, prefix),
        };
        let address = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                Ipv4Addr::from_bits(v4.to_bits() & mask).into()
            }
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & mask(prefix)).into(),
        };
        Some(Self { address, prefix })
    }

    pub(super) fn address(&self) -> IpAddr {
        self.address
    }

    pub(super) fn is_host(&self) -> bool {
        self.prefix == longest(self.address)
    }

    /// `address` is no v4-mapped one.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && {
            let (network, mask) = self.bits();
            mapped(address) & mask == network
        }
    }

    /// Network and mask with IPv4 in its place in IPv6.
    pub(super) fn bits(&self) -> (u128, u128) {
        let prefix = match self.address {
            IpAddr::V4(_) => self.prefix + MAPPED_PREFIX,
            IpAddr::V6(_) => self.prefix,
        };
        (mapped(self.address), mask(prefix))
    }

    /// Return true if [`Net::bits`] include IPv4 addresses that are not in the network.
    pub(super) fn covers_mapped(&self) -> bool {
        let (network, mask) = self.bits();
        self.address.is_ipv6() && Self::IPV4.bits().0 & mask == network
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn longest(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn mask(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}
