//! A round trip from its stamps.

use sockstamp::timestamping::{RxStamp, TxKind as StampKind, TxStamp, TxTime};
use sockstamp_model::clock::{ClockOffset, Monotonic, Nanos, Phc, Realtime, Timestamp};

use crate::clocks::Reading;
use crate::event::{Fallback, RxKind, Times, TxKind, Waits};

/// A probe when it was sent, and its stamps as far as they have come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Departure {
    /// Before the send call.
    pub(crate) before: Reading,
    /// After the send call.
    after: Timestamp<Monotonic>,
    /// The reason for having no stamps, if none were requested.
    pub(crate) unstamped: Option<Fallback>,
    sched: Option<Timestamp<Realtime>>,
    driver: Option<Timestamp<Realtime>>,
    interface: Option<Timestamp<Phc>>,
}

/// An answer when it came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) stamp: RxStamp,
    /// The time when the prober began to run, if it had slept.
    pub(crate) woken: Timestamp<Monotonic>,
    /// After the read call.
    pub(crate) read: Reading,
}

impl Departure {
    pub(crate) fn new(
        before: Reading,
        after: Timestamp<Monotonic>,
        unstamped: Option<Fallback>,
    ) -> Self {
        Self {
            before,
            after,
            unstamped,
            sched: None,
            driver: None,
            interface: None,
        }
    }

    pub(crate) fn add(&mut self, stamp: &TxStamp) {
        match (stamp.kind, stamp.time) {
            (StampKind::Sched, TxTime::Software(time)) => self.sched = Some(time),
            (StampKind::Snd, TxTime::Software(time)) => self.driver = Some(time),
            (StampKind::Snd, TxTime::Hardware(time)) => self.interface = Some(time),
            // Stamps of TCP and Bluetooth, which no socket here requests.
            _ => {}
        }
    }

    /// Return true if an outstanding stamp could improve the round trip.
    pub(crate) fn may_improve(&self, answer: &RxStamp) -> bool {
        let waits_for_interface = answer.hardware.is_some() && self.interface.is_none();
        let waits_for_driver = answer.software.is_some() && self.driver.is_none();
        self.unstamped.is_none() && (waits_for_interface || waits_for_driver)
    }
}

/// The best pair of stamps, of one clock, that agrees with the time that passed in user space.
pub(crate) fn times(departure: &Departure, arrival: &Arrival) -> Times {
    let before = departure.before.at;
    let user_rtt = arrival.read.at.since(before).unwrap_or_default();
    let stepped = arrival.read.differs_from(&departure.before);
    let chosen = match pair(departure, &arrival.stamp) {
        // No step of CLOCK_REALTIME concerns the clock of an interface.
        Ok((_, TxKind::Software | TxKind::Sched, _)) if stepped => Err(Fallback::ClockStep),
        Ok((rtt, _, _)) if rtt.is_none_or(|rtt| rtt > longest(user_rtt)) => {
            Err(Fallback::Implausible)
        }
        other => other,
    };
    let (rtt, tx, rx, fallback) = match chosen {
        Ok((rtt, tx, rx)) => (rtt.unwrap_or(user_rtt).min(user_rtt), tx, rx, None),
        Err(fallback) => (user_rtt, TxKind::User, RxKind::User, Some(fallback)),
    };
    let waits = if stepped {
        Waits::default()
    } else {
        waits(departure, arrival)
    };
    Times {
        rtt,
        user_rtt,
        tx,
        rx,
        fallback,
        waits,
    }
}

/// Stamps are between the two readings of user space. The clock of an interface may run at another
/// rate: crystals are within some 100 ppm.
fn longest(user_rtt: Nanos) -> Nanos {
    user_rtt + Nanos(user_rtt.0 / 1_000 + 1)
}

type Pair = (Option<Nanos>, TxKind, RxKind);

fn pair(departure: &Departure, answer: &RxStamp) -> Result<Pair, Fallback> {
    if let (Some(sent), Some(received)) = (departure.interface, answer.hardware) {
        return Ok((received.since(sent), TxKind::Hardware, RxKind::Hardware));
    }
    if let Some(why) = departure.unstamped {
        return Err(why);
    }
    let received = answer.software.ok_or(Fallback::NoRxStamp)?;
    let (sent, kind) = match (departure.driver, departure.sched) {
        (Some(sent), _) => (sent, TxKind::Software),
        (None, Some(sent)) => (sent, TxKind::Sched),
        (None, None) => return Err(Fallback::NoTxStamp),
    };
    Ok((received.since(sent), kind, RxKind::Software))
}

fn waits(departure: &Departure, arrival: &Arrival) -> Waits {
    let to_monotonic: ClockOffset<Realtime, Monotonic> = arrival.read.offset.inverse();
    let received = arrival
        .stamp
        .software
        .map(|stamp| to_monotonic.convert(stamp));
    let entered = departure.sched.map(|stamp| to_monotonic.convert(stamp));
    Waits {
        send: entered.and_then(|entered| entered.min(departure.after).since(departure.before.at)),
        neighbour: entered.and_then(|entered| neighbour(departure, arrival, entered)),
        qdisc: departure
            .driver
            .zip(departure.sched)
            .and_then(|(left, entered)| left.since(entered)),
        wakeup: received.and_then(|received| arrival.woken.since(received)),
        read: received.and_then(|received| arrival.read.at.since(received.max(arrival.woken))),
    }
}

/// Return the time from the end of the send call to the packet scheduler, if that came later. A
/// packet enters the scheduler within the call, unless it waits for the neighbour's address
/// (`neigh_resolve_output()` in net/core/neighbour.c, v6.18).
fn neighbour(
    departure: &Departure,
    arrival: &Arrival,
    entered: Timestamp<Monotonic>,
) -> Option<Nanos> {
    let waited = entered.since(departure.after)?;
    let uncertain = departure.before.uncertainty + arrival.read.uncertainty;
    Some(waited).filter(|waited| *waited > uncertain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sockstamp_model::clock::Delta;

    use super::*;

    const OFFSET: i64 = 1_000_000_000_000;

    fn reading(at: u64, offset: i64) -> Reading {
        Reading {
            at: Timestamp::from_nanos(at),
            offset: ClockOffset::new(Delta(offset)),
            uncertainty: Nanos(50),
        }
    }

    fn realtime(at: u64) -> Timestamp<Realtime> {
        Timestamp::from_nanos(at + OFFSET.unsigned_abs())
    }

    fn stamp(kind: StampKind, at: u64) -> TxStamp {
        TxStamp {
            id: 0,
            kind,
            time: TxTime::Software(realtime(at)),
        }
    }

    /// Sent at 100, scheduler at 110, driver at 130, received at 1130, running at 1200, read at
    /// 1250.
    fn departure(kinds: &[(StampKind, u64)]) -> Departure {
        let mut departure = Departure::new(reading(100, OFFSET), Timestamp::from_nanos(180), None);
        for (kind, at) in kinds {
            departure.add(&stamp(*kind, *at));
        }
        departure
    }

    fn arrival(received: Option<u64>, offset: i64) -> Arrival {
        Arrival {
            stamp: RxStamp {
                software: received.map(realtime),
                ..RxStamp::default()
            },
            woken: Timestamp::from_nanos(1_200),
            read: reading(1_250, offset),
        }
    }

    const BOTH: [(StampKind, u64); 2] = [(StampKind::Sched, 110), (StampKind::Snd, 130)];

    #[test]
    fn the_round_trip_is_from_stamp_to_stamp_and_the_rest_is_ours() {
        let times = times(&departure(&BOTH), &arrival(Some(1_130), OFFSET));
        assert_eq!((times.rtt, times.user_rtt), (Nanos(1_000), Nanos(1_150)));
        assert_eq!(
            (times.tx, times.rx, times.fallback),
            (TxKind::Software, RxKind::Software, None)
        );
        assert_eq!(
            (times.qdisc(), times.prober_delay()),
            (Nanos(20), Nanos(130))
        );
        let waits = times.waits;
        let all = [waits.send, waits.qdisc, waits.wakeup, waits.read];
        assert_eq!(all, [10, 20, 70, 50].map(|nanos| Some(Nanos(nanos))));
    }

    #[test]
    fn a_wait_for_the_neighbours_address_is_not_the_probers() {
        let late = [(StampKind::Sched, 780), (StampKind::Snd, 800)];
        let times = times(&departure(&late), &arrival(Some(1_130), OFFSET));
        let waits = times.waits;
        assert_eq!(
            (waits.send, waits.neighbour),
            (Some(Nanos(80)), Some(Nanos(600)))
        );
        assert_eq!((times.rtt, times.prober_delay()), (Nanos(330), Nanos(200)));
        let sum = waits.send.unwrap() + times.neighbour() + times.qdisc() + times.rtt;
        assert_eq!(
            sum + waits.wakeup.unwrap() + waits.read.unwrap(),
            times.user_rtt
        );
    }

    #[test]
    fn a_prober_that_ran_already_has_no_wake_up() {
        let mut arrival = arrival(Some(1_130), OFFSET);
        arrival.woken = Timestamp::from_nanos(1_000);
        let waits = times(&departure(&BOTH), &arrival).waits;
        assert_eq!((waits.wakeup, waits.read), (None, Some(Nanos(120))));
    }

    #[test]
    fn the_schedulers_stamp_replaces_a_missing_stamp_of_the_driver() {
        let times = times(&departure(&BOTH[..1]), &arrival(Some(1_130), OFFSET));
        assert_eq!((times.rtt, times.tx), (Nanos(1_020), TxKind::Sched));
        assert_eq!(times.waits.qdisc, None);
        assert_eq!(
            (times.qdisc(), times.prober_delay()),
            (Nanos(0), Nanos(130))
        );
    }

    #[test]
    fn a_missing_stamp_falls_back_on_both_sides() {
        for (kinds, received, why) in [
            (&BOTH[..0], Some(1_130), Fallback::NoTxStamp),
            (&BOTH[..], None, Fallback::NoRxStamp),
        ] {
            let times = times(&departure(kinds), &arrival(received, OFFSET));
            assert_eq!((times.rtt, times.fallback), (Nanos(1_150), Some(why)));
            assert_eq!((times.tx, times.rx), (TxKind::User, RxKind::User));
        }
    }

    #[test]
    fn hardware_is_preferred_and_its_clock_is_its_own() {
        let mut departure = departure(&BOTH);
        departure.interface = Some(Timestamp::from_nanos(77));
        let mut arrival = arrival(Some(1_130), OFFSET + 5_000_000);
        arrival.stamp.hardware = Some(Timestamp::from_nanos(977));
        let times = times(&departure, &arrival);
        assert_eq!((times.rtt, times.tx), (Nanos(900), TxKind::Hardware));
        assert_eq!((times.fallback, times.waits), (None, Waits::default()));
    }

    #[test]
    fn an_answer_waits_for_the_stamps_that_it_can_be_joined_with() {
        let software = arrival(Some(1), OFFSET).stamp;
        assert!(departure(&BOTH[..1]).may_improve(&software));
        assert!(!departure(&BOTH).may_improve(&software));
        assert!(!departure(&[]).may_improve(&RxStamp::default()));
        let hardware = RxStamp {
            hardware: Some(Timestamp::from_nanos(1)),
            ..software
        };
        assert!(departure(&BOTH).may_improve(&hardware));
        let unstamped = Departure::new(
            reading(100, OFFSET),
            Timestamp::from_nanos(180),
            Some(Fallback::NoId),
        );
        assert!(!unstamped.may_improve(&software));
    }

    proptest! {
        /// Wherever the step is, stamps before it are on the old time and those after it on the new
        /// one.
        #[test]
        fn no_step_of_the_clock_makes_a_wrong_round_trip(
            step in prop_oneof![-2_000_000_000_i64..-200, 200..2_000_000_000_i64],
            at in 0_usize..4,
        ) {
            let stamp_at = |place: usize, time: u64| {
                let by = if place > at { step } else { 0 };
                Timestamp::<Realtime>::from_nanos(
                    (OFFSET + i64::try_from(time).unwrap() + by).unsigned_abs(),
                )
            };
            let sent = Timestamp::from_nanos(0);
            let mut departure = Departure::new(reading(100, OFFSET), sent, None);
            for (place, kind, time) in [(1, StampKind::Sched, 110), (2, StampKind::Snd, 130)] {
                departure.add(
                    &TxStamp { id: 0, kind, time: TxTime::Software(stamp_at(place, time)) },
                );
            }
            let mut arrival = arrival(None, OFFSET + step);
            arrival.stamp.software = Some(stamp_at(3, 1_130));
            let times = times(&departure, &arrival);
            prop_assert_eq!((times.rtt, times.fallback), (Nanos(1_150), Some(Fallback::ClockStep)));
            prop_assert_eq!(times.waits, Waits::default());
        }

        #[test]
        fn no_stamps_make_a_round_trip_longer_than_in_user_space(
            sched in prop::option::of(0_u64..10_000),
            driver in prop::option::of(0_u64..10_000),
            received in prop::option::of(0_u64..10_000),
        ) {
            let kinds: Vec<_> = sched.map(|at| (StampKind::Sched, at)).into_iter()
                .chain(driver.map(|at| (StampKind::Snd, at))).collect();
            let times = times(&departure(&kinds), &arrival(received, OFFSET));
            prop_assert!(times.rtt <= times.user_rtt);
            prop_assert_eq!(times.fallback.is_some(), times.tx == TxKind::User);
        }
    }
}
