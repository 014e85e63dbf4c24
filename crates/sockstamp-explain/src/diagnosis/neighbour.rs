//! Next hops that do not answer to their addresses: what no event of the socket shows.

use std::net::IpAddr;

use sockstamp_model::name::Name;

/// A next hop that the kernel asks for its link address in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address: that of the peer, or of a gateway.
    pub address: IpAddr,
    /// The device by which it is asked, with its namespace.
    pub device: Name,
}
