//! Messages that wait for the time of a NIC's stamp, and stamps that wait for their messages. Pure.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sockstamp_model::clock::{Phc, Realtime, Timestamp};
use sockstamp_model::flow::SocketCookie;
use sockstamp_model::interface::Interface;
use sockstamp_model::message::Message;

use super::clock::Time;
use super::divide::{divide, precede};

/// The time for which a stamp is waited for after the acknowledgement: drivers hand it over within
/// milliseconds.
const PATIENCE: Duration = Duration::from_millis(500);
/// The time for which a reading of the clock is waited for.
const PATIENCE_OF_CLOCK: Duration = Duration::from_secs(3);

/// A message that was held.
pub(super) struct Settled {
    pub(super) message: Message,
    /// Of a read message, the interface that has received it.
    pub(super) by: Option<Interface>,
    /// A record of it was requested for its own sake.
    pub(super) wanted: bool,
    pub(super) became: Became,
}

/// The fate of the request for a stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Became {
    /// The message has `tx.nic` or `rx.nic`.
    Divided,
    /// There is no stamp of the packet's first transmission.
    Unstamped,
    /// The stamp's time is not known well enough.
    Refused,
}

/// A stamp that came after its message had ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Late {
    pub(super) cookie: SocketCookie,
    pub(super) seq_last: u32,
    pub(super) stamp: Timestamp<Phc>,
    pub(super) since: Instant,
}

impl Late {
    fn is_of(&self, message: &Message) -> bool {
        self.cookie == message.flow.cookie && self.seq_last.wrapping_add(1) == message.seq_end
    }
}

/// The stamps of a received packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Received {
    pub(super) nic: Timestamp<Phc>,
    /// The kernel's.
    pub(super) software: Timestamp<Realtime>,
}

/// Tells the time of a stamp by the clock of an interface, which may be compared with another time;
/// `None` if the interface has no clock.
pub(super) type TimeOf<'a> =
    dyn Fn(&Interface, Timestamp<Phc>, Option<Timestamp<Realtime>>) -> Option<Time> + 'a;

struct Waiting {
    message: Message,
    /// Of a read message, with the interface that has received it.
    received: Option<(Interface, Received)>,
    wanted: bool,
    since: Instant,
}

/// Messages and stamps that wait.
#[derive(Default)]
pub(super) struct Held {
    messages: VecDeque<Waiting>,
    late: Vec<Late>,
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Add a sent message.
    pub(super) fn add(&mut self, message: Message, wanted: bool, now: Instant) {
        self.messages.push_back(Waiting {
            message,
            received: None,
            wanted,
            since: now,
        });
    }

    /// Add a read message, which this interface has received.
    pub(super) fn add_read(
        &mut self,
        message: Message,
        received: (Interface, Received),
        wanted: bool,
        now: Instant,
    ) {
        self.messages.push_back(Waiting {
            message,
            received: Some(received),
            wanted,
            since: now,
        });
    }

    /// Add a stamp: its message may come later.
    pub(super) fn add_stamp(&mut self, late: Late) {
        self.late.push(late);
    }

    /// Pass the messages whose stamps have a time or never will; at the end all of them.
    pub(super) fn settle(
        &mut self,
        now: Instant,
        at_end: bool,
        time: &TimeOf<'_>,
        pass: &mut dyn FnMut(Settled),
    ) {
        self.give_stamps();
        self.late
            .retain(|late| now.saturating_duration_since(late.since) < PATIENCE);
        for mut waiting in std::mem::take(&mut self.messages) {
            let waited = match at_end {
                true => Duration::MAX,
                false => now.saturating_duration_since(waiting.since),
            };
            let message = &mut waiting.message;
            let outcome = match &waiting.received {
                Some((interface, received)) => {
                    outcome_of_read(message, interface, received, waited, time)
                }
                None => outcome(message, waited, time),
            };
            match outcome {
                None => self.messages.push_back(waiting),
                Some(became) => pass(Settled {
                    message: waiting.message,
                    by: waiting.received.map(|(interface, _)| interface),
                    wanted: waiting.wanted,
                    became,
                }),
            }
        }
    }

    fn give_stamps(&mut self) {
        let messages = &mut self.messages;
        self.late.retain(|late| {
            let waiting = messages
                .iter_mut()
                .find(|waiting| waiting.received.is_none() && late.is_of(&waiting.message));
            let Some(waiting) = waiting else {
                return true;
            };
            waiting.message.stamps.snd_hw.get_or_insert(late.stamp);
            false
        });
    }
}

/// Return what becomes of a read message that has waited so long; `None` if that is still open.
fn outcome_of_read(
    message: &mut Message,
    interface: &Interface,
    received: &Received,
    waited: Duration,
    time: &TimeOf<'_>,
) -> Option<Became> {
    match time(interface, received.nic, Some(received.software)) {
        Some(Time::Known {
            realtime, bound, ..
        }) if precede(message, realtime, received.software, bound) => Some(Became::Divided),
        Some(Time::NotYet) if waited < PATIENCE_OF_CLOCK => None,
        _ => Some(Became::Refused),
    }
}

/// Return what becomes of a sent message that has waited so long; `None` if that is still open.
fn outcome(message: &mut Message, waited: Duration, time: &TimeOf<'_>) -> Option<Became> {
    let Some(stamp) = message.stamps.snd_hw else {
        return (waited >= PATIENCE).then_some(Became::Unstamped);
    };
    // The NIC may have missed the first transmission, and stamped another.
    if message.retransmits > 0 {
        return Some(Became::Unstamped);
    }
    let interface = message.interfaces.last.as_ref();
    match interface.and_then(|interface| time(interface, stamp, None)) {
        Some(Time::Known { at, bound, .. }) if divide(message, at, bound) => Some(Became::Divided),
        Some(Time::NotYet) if waited < PATIENCE_OF_CLOCK => None,
        _ => Some(Became::Refused),
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Nanos;
    use sockstamp_model::fixture;
    use sockstamp_model::flow::NetnsInode;
    use sockstamp_model::interface::Interface;
    use sockstamp_model::stage::{Direction, Stage};

    use super::*;

    const STAMP: Timestamp<Phc> = Timestamp::from_nanos(37_000_000_000);
    const INDEX: u32 = 3;

    /// A message that left 1 ms after the clock's origin, and was acknowledged after 500 µs.
    fn message() -> Message {
        let mut message = fixture::message(Direction::Tx);
        message.stamps.snd = Some(Timestamp::from_nanos(1_000_000));
        message.stages[Stage::TxNetwork] = Some(Nanos(500_000));
        message.interfaces.last = Some(Interface {
            name: "eth0".into(),
            index: INDEX,
            netns: NetnsInode(4_026_531_840),
        });
        message
    }

    fn stamped() -> Message {
        let mut message = message();
        message.stamps.snd_hw = Some(STAMP);
        message
    }

    fn late(message: &Message, since: Instant) -> Late {
        Late {
            cookie: message.flow.cookie,
            seq_last: message.seq_end.wrapping_sub(1),
            stamp: STAMP,
            since,
        }
    }

    /// Tell that the packet was on the wire 20 µs later.
    fn known(
        interface: &Interface,
        stamp: Timestamp<Phc>,
        _: Option<Timestamp<Realtime>>,
    ) -> Option<Time> {
        assert_eq!(stamp, STAMP);
        (interface.index == INDEX).then_some(at(Nanos(700)))
    }

    /// 20 µs after the driver had the packet, by either clock.
    fn at(bound: Nanos) -> Time {
        Time::Known {
            at: Timestamp::from_nanos(1_020_000),
            realtime: Timestamp::from_nanos(1_020_000),
            bound,
        }
    }

    fn not_yet(_: &Interface, _: Timestamp<Phc>, _: Option<Timestamp<Realtime>>) -> Option<Time> {
        Some(Time::NotYet)
    }

    fn settle(held: &mut Held, now: Instant, at_end: bool, time: &TimeOf<'_>) -> Vec<Settled> {
        let mut settled = Vec::new();
        held.settle(now, at_end, time, &mut |one| settled.push(one));
        settled
    }

    fn only(mut settled: Vec<Settled>) -> (Message, Became) {
        assert_eq!(settled.len(), 1);
        let settled = settled.remove(0);
        (settled.message, settled.became)
    }

    #[test]
    fn a_message_waits_for_a_reading_behind_its_stamp() {
        let (mut held, begun) = (Held::default(), Instant::now());
        held.add(stamped(), true, begun);
        assert!(settle(&mut held, begun, false, &not_yet).is_empty());
        assert!(!held.is_empty());
        let (message, became) = only(settle(&mut held, begun, false, &known));
        assert_eq!(became, Became::Divided);
        assert_eq!(message.stages[Stage::TxNic], Some(Nanos(20_000)));
        assert!(held.is_empty());
    }

    #[test]
    fn a_stamp_finds_its_message_whichever_comes_first() {
        let mut other = message();
        other.seq_end = 5_000;
        for late_first in [true, false] {
            let (mut held, begun) = (Held::default(), Instant::now());
            if late_first {
                held.add_stamp(late(&message(), begun));
                assert!(settle(&mut held, begun, false, &known).is_empty());
            }
            held.add(other.clone(), true, begun);
            held.add(message(), true, begun);
            if !late_first {
                assert!(settle(&mut held, begun, false, &known).is_empty());
                held.add_stamp(late(&message(), begun));
            }
            let (message, became) = only(settle(&mut held, begun, false, &known));
            assert_eq!(became, Became::Divided);
            assert_eq!(message.stamps.snd_hw, Some(STAMP));
            let (message, became) = only(settle(&mut held, begun + PATIENCE, false, &known));
            assert_eq!((message, became), (other.clone(), Became::Unstamped));
        }
    }

    #[test]
    fn a_message_that_was_sent_again_has_no_stamp_of_its_own() {
        let (mut held, begun) = (Held::default(), Instant::now());
        let mut resent = stamped();
        resent.retransmits = 1;
        held.add(resent.clone(), true, begun);
        let (message, became) = only(settle(&mut held, begun, false, &known));
        assert_eq!((message, became), (resent, Became::Unstamped));
    }

    #[test]
    fn a_stamp_without_a_time_is_refused_and_counted() {
        let mut elsewhere = stamped();
        elsewhere.interfaces.last.as_mut().unwrap().index = 9;
        let stepped =
            |_: &Interface, _: Timestamp<Phc>, _: Option<Timestamp<Realtime>>| Some(Time::Unknown);
        let wide = |_: &Interface, _: Timestamp<Phc>, _: Option<Timestamp<Realtime>>| {
            Some(at(Nanos(20_001)))
        };
        let cases: [(Message, &TimeOf<'_>); 3] = [
            (elsewhere, &known),
            (stamped(), &stepped),
            (stamped(), &wide),
        ];
        for (message, time) in cases {
            let (mut held, begun) = (Held::default(), Instant::now());
            held.add(message.clone(), true, begun);
            let settled = only(settle(&mut held, begun, false, time));
            assert_eq!(settled, (message, Became::Refused));
        }
    }

    #[test]
    fn a_read_waits_for_a_reading_behind_both_stamps() {
        let read = fixture::message(Direction::Rx);
        let eth0 = message().interfaces.last.unwrap();
        let received = Received {
            nic: STAMP,
            software: Timestamp::from_nanos(1_050_000),
        };
        let settled = |interface: Interface, time: &TimeOf<'_>| {
            let (mut held, begun) = (Held::default(), Instant::now());
            held.add_read(read.clone(), (interface, received), true, begun);
            assert!(settle(&mut held, begun, false, &not_yet).is_empty());
            only(settle(&mut held, begun, false, time))
        };
        let beside =
            |interface: &Interface, stamp: Timestamp<Phc>, other: Option<Timestamp<Realtime>>| {
                assert_eq!(other, Some(received.software));
                known(interface, stamp, other)
            };
        let (message, became) = settled(eth0.clone(), &beside);
        assert_eq!(became, Became::Divided);
        assert_eq!(message.stages[Stage::RxNic], Some(Nanos(30_000)));
        let elsewhere = Interface { index: 9, ..eth0 };
        let (message, became) = settled(elsewhere, &known);
        assert_eq!((message, became), (read.clone(), Became::Refused));
    }

    #[test]
    fn a_clock_that_is_read_no_more_holds_no_message_for_ever() {
        let (mut held, begun) = (Held::default(), Instant::now());
        held.add(stamped(), true, begun);
        let later = begun + PATIENCE_OF_CLOCK;
        let (_, became) = only(settle(&mut held, later, false, &not_yet));
        assert_eq!(became, Became::Refused);
    }

    #[test]
    fn nothing_is_held_at_the_end() {
        let (mut held, begun) = (Held::default(), Instant::now());
        held.add(stamped(), true, begun);
        held.add(message(), false, begun);
        let settled = settle(&mut held, begun, true, &not_yet);
        let became: Vec<_> = settled.iter().map(|one| (one.wanted, one.became)).collect();
        assert_eq!(
            became,
            [(true, Became::Refused), (false, Became::Unstamped)]
        );
        assert!(held.is_empty());
    }
}
