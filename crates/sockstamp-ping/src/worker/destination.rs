//! Where probes go, whichever targets they are of.

use std::net::{IpAddr, SocketAddr};

use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};

use crate::flights::Flights;
use crate::lane::{PORT_BITS, low};
use crate::packet::icmp::has_cookie;

/// An address, and for UDP and TCP a port, by one lane.
#[derive(Debug)]
pub(super) struct Destination {
    pub(super) lane: u32,
    pub(super) address: SocketAddr,
    pub(super) flights: Flights,
    /// How many targets probe it.
    pub(super) targets: usize,
    /// Our own address on the way there, and when it was found.
    pub(super) source: Option<(IpAddr, Timestamp<Monotonic>)>,
}

/// How long a source address is taken for the route's.
pub(super) const SOURCE_HOLDS: Nanos = Nanos::from_secs(1);

/// The sequence number of a SYN: what travels of the probe's number, and what nobody can guess.
pub(super) fn initial_sequence(number: u64, cookie: u64) -> u32 {
    let [.., high, higher, _, _] = cookie.to_be_bytes();
    u32::from_be_bytes([
        high,
        higher,
        low(number).to_be_bytes()[0],
        low(number).to_be_bytes()[1],
    ])
}

impl Destination {
    /// The probe that a datagram to the `port`-th of our source ports is about: the one whose cookie it carries, else the latest.
    pub(super) fn datagram(
        &mut self,
        port: usize,
        payload: &[u8],
        cookie: impl Fn(u64) -> u64,
    ) -> Option<u64> {
        let latest = self.flights.latest(port as u64, PORT_BITS)?;
        let mut number = Some(latest);
        while let Some(flight) = number.and_then(|number| self.flights.get(number)) {
            let candidate = flight.number;
            if has_cookie(payload, cookie(candidate), flight.payload) == Some(true) {
                return Some(candidate);
            }
            number = candidate.checked_sub(1 << PORT_BITS);
        }
        Some(latest)
    }
}
