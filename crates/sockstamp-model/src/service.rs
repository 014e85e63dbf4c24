//! The address of a service as text.

use std::fmt;
use std::net::SocketAddr;

/// Questions to a name server go to this port, by UDP and TCP: RFC 1035, section 4.2.
const DNS: u16 = 53;

/// An address and, if its port is known, the protocol.
#[derive(Debug, Clone, Copy)]
pub struct Service(pub SocketAddr);

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(address) = self;
        match address.port() {
            DNS => write!(f, "{address} (DNS)"),
            _ => write!(f, "{address}"),
        }
    }
}
