//! The address of a service as text.

use std::fmt;
use std::net::SocketAddr;

/// Questions to a name server go to this port, by UDP and TCP: RFC 1035, section 4.2.
pub const DNS: u16 = 53;

/// Ports of services over UDP that answer each question while they run: NTP, SNMP, RADIUS,
/// memcached. What is sent to others, as to one that may have an address (STUN, a DHT), often finds
/// nobody.
pub const ANSWERING_EACH: [u16; 5] = [123, 161, 1812, 1813, 11211];

/// Ports of services over TCP that speak first, and of no use to a client to whom they say no more:
/// FTP, SSH, SMTP, POP3, IMAP, MySQL, VNC.
pub const SPEAKING_FIRST: [u16; 8] = [21, 22, 25, 110, 143, 587, 3306, 5900];

/// Ports of services over TCP whose clients end connections, by their protocols, so that one that
/// the service ends at once is one that it does not want: LDAP, MySQL, PostgreSQL, AMQP,
/// PgBouncer, Cassandra, memcached, MongoDB.
pub const CLIENT_ENDS: [u16; 8] = [389, 3306, 5432, 5672, 6432, 9042, 11211, 27017];

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
