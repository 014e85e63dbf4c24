//! Divide the time of a message by the NIC's stamp: what lies behind the driver of a sent one, and
//! what lies before the kernel's stamp of a read one. Pure.

use sockstamp_model::clock::{Monotonic, Nanos, Realtime, Timestamp};
use sockstamp_model::message::Message;
use sockstamp_model::part::Part;
use sockstamp_model::stage::Stage;

/// Give a message `tx.nic`, and leave `tx.network` the rest. Return false, and leave it as it is,
/// if the bound is longer than the stage, or the stamp lies outside of the message's time: then the
/// clock of the NIC does not show how long it took.
pub(super) fn divide(message: &mut Message, at: Timestamp<Monotonic>, bound: Nanos) -> bool {
    let (Some(snd), Some(whole)) = (message.stamps.snd, message.stages[Stage::TxNetwork]) else {
        return false;
    };
    let nic = at.since(snd).filter(|nic| bound <= *nic);
    let Some((nic, network)) = nic.and_then(|nic| Some((nic, whole.checked_sub(nic)?))) else {
        return false;
    };
    message.stages[Stage::TxNic] = Some(nic);
    message.stages[Stage::TxNetwork] = Some(network);
    message.nic_bound = Some(bound);
    shorten_parts(message, network);
    true
}

/// Give a read message `rx.nic`: from the NIC's stamp of its packet to the kernel's. Return false,
/// and leave it as it is, if the bound is longer than the stage, or the kernel's stamp is earlier.
pub(super) fn precede(
    message: &mut Message,
    at: Timestamp<Realtime>,
    software: Timestamp<Realtime>,
    bound: Nanos,
) -> bool {
    let Some(nic) = software.since(at).filter(|nic| bound <= *nic) else {
        return false;
    };
    message.stages[Stage::RxNic] = Some(nic);
    message.nic_bound = Some(bound);
    true
}

/// Time beyond the path is what remains of `tx.network`: first the peer's delay, as far as there
/// was one, then the excess (tcp/send/network.bpf.h).
fn shorten_parts(message: &mut Message, network: Nanos) {
    let path = message.min_rtt.unwrap_or(Nanos::MAX);
    let beyond = network.saturating_sub(path);
    let delayed = message.parts[Part::DelayedAck].unwrap_or_default();
    let delayed = delayed.min(beyond);
    let excess = beyond.saturating_sub(delayed);
    let some = |part: Nanos| (part > Nanos::ZERO).then_some(part);
    message.parts[Part::DelayedAck] = some(delayed);
    message.parts[Part::Excess] = some(excess);
    message.parts[Part::Path] = Some(network.saturating_sub(beyond));
}

#[cfg(test)]
mod tests {
    use sockstamp_model::fixture;
    use sockstamp_model::stage::Direction;

    use super::*;

    /// A message that left 1 ms after the clock's origin, and was acknowledged after 500 µs.
    fn message() -> Message {
        let mut message = fixture::message(Direction::Tx);
        message.stamps.snd = Some(Timestamp::from_nanos(1_000_000));
        message.stages[Stage::TxQdisc] = Some(Nanos(3_000));
        message.stages[Stage::TxNetwork] = Some(Nanos(500_000));
        message.min_rtt = Some(Nanos(200_000));
        message.parts[Part::DelayedAck] = Some(Nanos(100_000));
        message.parts[Part::Excess] = Some(Nanos(200_000));
        message.parts[Part::Path] = Some(Nanos(200_000));
        message
    }

    #[test]
    fn the_stages_and_their_parts_still_add_up() {
        for nic in [1_000, 150_000, 250_000, 350_000, 500_000] {
            let mut divided = message();
            let at = Timestamp::from_nanos(1_000_000 + nic);
            assert!(divide(&mut divided, at, Nanos(900)));
            assert_eq!(divided.stages[Stage::TxNic], Some(Nanos(nic)));
            assert_eq!(divided.total(), message().total());
            assert_eq!(divided.nic_bound, Some(Nanos(900)));
            let parts = divided.parts.of(Stage::TxNetwork);
            let parts: Nanos = parts.map(|(_, part)| *part).sum();
            assert_eq!(Some(parts), divided.stages[Stage::TxNetwork]);
        }
    }

    #[test]
    fn the_nics_time_is_no_excess_of_the_network() {
        let mut divided = message();
        assert!(divide(
            &mut divided,
            Timestamp::from_nanos(1_150_000),
            Nanos(1)
        ));
        assert_eq!(divided.parts[Part::Excess], Some(Nanos(50_000)));
        assert_eq!(divided.parts[Part::DelayedAck], Some(Nanos(100_000)));
    }

    #[test]
    fn a_read_begins_at_the_nic() {
        let read = fixture::message(Direction::Rx);
        let software = Timestamp::from_nanos(1_000_000);
        let precede = |message: &mut Message, nic: u64, bound| {
            let at = Timestamp::from_nanos(software.as_nanos() - nic);
            precede(message, at, software, Nanos(bound))
        };
        let mut preceded = read.clone();
        assert!(precede(&mut preceded, 30_000, 30_000));
        assert_eq!(preceded.total(), read.total() + Nanos(30_000));
        assert_eq!(preceded.nic_bound, Some(Nanos(30_000)));
        let mut whole = read.clone();
        assert!(
            !precede(&mut whole, 30_000, 30_001),
            "the bound exceeds the stage"
        );
        let later = Timestamp::from_nanos(1_000_001);
        assert!(
            !super::precede(&mut whole, later, software, Nanos(0)),
            "later than the kernel"
        );
        assert_eq!(whole, read);
    }

    #[test]
    fn a_stamp_that_shows_nothing_is_refused() {
        let refused = [
            (1_000_800, 801), // the bound exceeds the stage
            (999_999, 0),     // before the driver had it
            (1_500_001, 1),   // after the acknowledgement
        ];
        for (at, bound) in refused {
            let mut whole = message();
            assert!(!divide(&mut whole, Timestamp::from_nanos(at), Nanos(bound)));
            assert_eq!(whole, message());
        }
    }
}
