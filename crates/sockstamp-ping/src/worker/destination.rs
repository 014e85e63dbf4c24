//! Track the destinations of probes, which several targets may share.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};

use crate::TargetId;
use crate::flights::Flights;
use crate::lane::{PORT_BITS, PORTS, low};
use crate::packet::icmp::has_cookie;

/// An address, and for UDP and TCP a port, by one lane.
#[derive(Debug)]
pub(super) struct Destination {
    pub(super) lane: u32,
    pub(super) address: SocketAddr,
    pub(super) flights: Flights,
    /// The targets that probe it.
    pub(super) targets: BTreeSet<TargetId>,
    /// Our own address on the way there, and when it was found.
    pub(super) source: Option<(IpAddr, Timestamp<Monotonic>)>,
}

/// Time for which a source address counts as that of the route.
pub(super) const SOURCE_HOLDS: Nanos = Nanos::from_secs(1);

/// Return the sequence number of a SYN: the probe's low bits, and unpredictable ones.
pub(super) fn initial_sequence(number: u64, cookie: u64) -> u32 {
    let [.., high, higher, _, _] = cookie.to_be_bytes();
    u32::from_be_bytes([
        high,
        higher,
        low(number).to_be_bytes()[0],
        low(number).to_be_bytes()[1],
    ])
}

/// Find the probe that a datagram is about: the one that its first two bytes name, if the datagram
/// carries that one's cookie, else the latest from the `port`-th of the source ports that are used
/// in turn. One cookie is computed at most, so that a forged datagram costs the same however many
/// probes are remembered.
pub(super) fn datagram(
    flights: &mut Flights,
    port: Option<usize>,
    payload: &[u8],
    cookie: impl Fn(u64) -> u64,
) -> Option<u64> {
    let port = port.map(|port| port as u64);
    let latest = port.and_then(|port| flights.latest(port, PORT_BITS));
    let name = payload.first_chunk().map(|name| u16::from_be_bytes(*name));
    let named = name
        .and_then(|name| flights.latest(name.into(), u16::BITS))
        .filter(|number| port.is_none_or(|port| number % PORTS as u64 == port));
    let sent = named.and_then(|number| flights.get(number));
    match sent {
        Some(flight)
            if has_cookie(payload, cookie(flight.number), flight.payload) == Some(true) =>
        {
            named
        }
        _ => latest,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::hash::RandomState;

    use proptest::prelude::*;

    use super::*;
    use crate::MAX_IN_FLIGHT;
    use crate::clocks::Reading;
    use crate::clocks::now;
    use crate::lane::Probe;
    use crate::packet::Content;
    use crate::times::Departure;
    use crate::worker::cookie;

    const PAYLOAD: usize = 56;

    fn filled(probes: u64) -> Flights {
        let mut flights = Flights::new(MAX_IN_FLIGHT);
        for seq in 0..probes {
            let departure = Departure::new(Reading::take(), now(), None);
            flights.push(TargetId(0), seq + 1, PAYLOAD, departure, None);
        }
        flights
    }

    fn of(number: u64) -> Probe {
        Probe {
            destination: 7,
            number,
        }
    }

    /// The last of a hundred thousand are remembered.
    #[test]
    fn each_of_the_remembered_probes_is_found_by_its_cookie_and_by_one_cookie() {
        const PROBES: u64 = 100_000;
        let (mut flights, secret) = (filled(PROBES), RandomState::new());
        let made = Cell::new(0);
        let count = |number| {
            made.set(made.get() + 1);
            cookie(&secret, of(number))
        };
        for number in PROBES - MAX_IN_FLIGHT as u64 + 1..=PROBES {
            let mut payload = Vec::new();
            let content = Content {
                length: PAYLOAD,
                ..Content::default()
            };
            content.write(&mut payload, cookie(&secret, of(number)));
            let port = usize::try_from(number).unwrap() % PORTS;
            let found = datagram(&mut flights, Some(port), &payload, count);
            assert_eq!(found, Some(number));
            assert_eq!(datagram(&mut flights, None, &payload, count), Some(number));
        }
        assert_eq!(made.get(), 2 * MAX_IN_FLIGHT);
    }

    proptest! {
        #[test]
        fn a_forged_datagram_costs_one_cookie_however_many_probes_are_remembered(
            probes in 1_u64..20_000,
            port in 0..PORTS,
            forged in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let (mut flights, secret) = (filled(probes), RandomState::new());
            let made = Cell::new(0);
            let found = datagram(&mut flights, Some(port), &forged, |number| {
                made.set(made.get() + 1);
                cookie(&secret, of(number))
            });
            let latest = (1..=probes).rev().find(|number| number % PORTS as u64 == port as u64);
            prop_assert_eq!(found, latest);
            prop_assert!(made.get() <= 1);
        }
    }
}
