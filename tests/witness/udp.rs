//! UDP: each valid message against the wire and the clocks of sender and reader.

use std::ops::Range;
use std::thread;
use std::time::Duration;

use testbed::{Family, LinkConfig, within_attempts};
use with::FAMILIES;
use with::datagrams::WatchedLink;

/// A different length for each datagram of a test, so a message identifies it.
fn length(number: u64) -> usize {
    100 + usize::try_from(number).unwrap() % 1200
}

#[test]
fn bursts_to_a_reader_that_waits_are_timed_as_on_the_wire() {
    within_attempts(|| bursts(Duration::ZERO));
}

#[test]
fn bursts_to_a_reader_that_comes_late_are_timed_as_on_the_wire() {
    within_attempts(|| bursts(Duration::from_millis(3)));
}

/// Bursts of twenty, from sockets that are connected and that are not, over both families.
fn bursts(pause: Duration) -> Result<(), String> {
    let setup = WatchedLink::veth();
    for (kind, (family, connected)) in (0..).zip(kinds()) {
        exchange(
            &setup,
            family,
            connected,
            kind * 1000..kind * 1000 + 200,
            pause,
        );
    }
    setup.finish().check()
}

#[test]
fn what_the_network_loses_doubles_and_reorders_is_timed_as_on_the_wire() {
    within_attempts(|| {
        let config = LinkConfig::default()
            .delay(Duration::from_millis(5))
            .loss(0.05)
            .duplicate(0.05)
            .reorder(0.1)
            .reorder_hold(Duration::from_millis(3));
        let setup = WatchedLink::relay(config);
        for (kind, (family, connected)) in (0..).zip(kinds()) {
            let numbers = kind * 1000..kind * 1000 + 300;
            exchange(
                &setup,
                family,
                connected,
                numbers,
                Duration::from_micros(300),
            );
        }
        let evidence = setup.finish();
        assert_ne!(evidence.read.len(), evidence.sent.len(), "a perfect link");
        evidence.check()
    });
}

/// Connected and not, over both families.
fn kinds() -> impl Iterator<Item = (Family, bool)> {
    FAMILIES
        .into_iter()
        .flat_map(|family| [(family, true), (family, false)])
}

/// Send datagrams of these numbers in bursts of twenty, to a reader that pauses before each read,
/// and never has more of them waiting than there is room for (`UDP_ARRIVALS`).
fn exchange(
    setup: &WatchedLink,
    family: Family,
    connected: bool,
    numbers: Range<u64>,
    pause: Duration,
) {
    let (sender, receiver) = (setup.sender(family), setup.receiver(family));
    if connected {
        sender.socket.connect(receiver.local).unwrap();
    }
    let to = (!connected).then_some(receiver.local);
    thread::scope(|scope| {
        scope.spawn(|| receiver.receive_all(|| pause));
        for number in numbers {
            sender.send(number, length(number), to);
            if number % 20 == 19 {
                thread::sleep(20 * pause + Duration::from_millis(10));
                receiver.wait_until_read();
            }
        }
    });
}

/// Through a token bucket, a datagram leaves long after its call, in softirq.
#[test]
fn sends_behind_a_token_bucket_are_timed_as_on_the_wire() {
    within_attempts(|| {
        let setup = WatchedLink::veth();
        setup.shape("rate 20mbit burst 5kb limit 10mb");
        for (kind, (family, connected)) in (0..).zip(kinds()) {
            let numbers = kind * 1000..kind * 1000 + 600;
            exchange(&setup, family, connected, numbers, Duration::ZERO);
        }
        setup.finish().check()
    });
}
