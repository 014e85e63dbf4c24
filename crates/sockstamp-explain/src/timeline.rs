//! Place the stages of a message in time.

use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::message::{Message, Stamps};
use sockstamp_model::part::Part;
use sockstamp_model::stage::{Direction, Stage};

/// Stages of a sent message, in their order in time.
pub(crate) const SENT: [Stage; 5] = [
    Stage::TxCopy,
    Stage::TxQueue,
    Stage::TxQdisc,
    Stage::TxNic,
    Stage::TxNetwork,
];
/// Stages of a received message, in their order in time: it becomes readable once the segment
/// before it is there.
pub(crate) const READ: [Stage; 5] = [
    Stage::RxNic,
    Stage::RxHol,
    Stage::RxStack,
    Stage::RxWakeup,
    Stage::RxApp,
];

/// Stages before a message, the last one first. A request was read after it had come: how long
/// after that, only the read's own message knows, and the service is placed right behind it. The
/// pause of a client has no place: minutes of it would hide all else.
const BEFORE: [Stage; 6] = [
    Stage::AppService,
    Stage::ClientRequest,
    Stage::PeerRest,
    Stage::PeerAnswer,
    Stage::ConnHandshake,
    Stage::ConnAccept,
];

/// A stretch of time, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its begin.
    pub begin: u64,
    /// Its end.
    pub end: u64,
}

impl Span {
    fn until(end: u64, duration: Nanos) -> Self {
        Self {
            begin: end.saturating_sub(duration.0),
            end,
        }
    }

    /// Return its length.
    #[must_use]
    pub const fn duration(self) -> Nanos {
        Nanos(self.end.saturating_sub(self.begin))
    }
}

/// A stage of a message, and its place in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The stage.
    pub stage: Stage,
    /// The time that it took.
    pub span: Span,
    /// Its parts that took time, one after the other: how they interleave is not measured.
    pub parts: Vec<(Part, Span)>,
}

/// The stages of a message at their places in time. The last stamp of the message is at its
/// completion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Timeline {
    /// Stages of its path, in the order of time; they do not overlap.
    pub way: Vec<Placed>,
    /// The stages before it, in the order of time, or that of a connection.
    pub between: Vec<Placed>,
}

impl Timeline {
    /// Place the stages of a message.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        let time = message.time.as_nanos();
        let last = message.stamps.times().into_iter().rev().flatten().next();
        let place = |stamp: Timestamp<Monotonic>| {
            let before = last.map_or(0, |last| last.as_nanos().saturating_sub(stamp.as_nanos()));
            time.saturating_sub(before)
        };
        let stages: &[Stage] = match message.direction {
            _ if message.is_life() => &Stage::WAY,
            Direction::Tx => &SENT,
            Direction::Rx => &READ,
        };
        let mut at = time;
        let mut way = Vec::new();
        for &stage in stages.iter().rev() {
            if let Some(duration) = message.stages[stage] {
                let end = end_of(stage, &message.stamps).map_or(at, place).min(at);
                let span = Span::until(end, duration);
                at = span.begin;
                way.push(placed(stage, span, message));
            }
        }
        way.reverse();
        let ready = message.stamps.ready.map_or(at, place);
        let mut between = Vec::new();
        let mut before = at;
        for stage in BEFORE {
            let Some(duration) = message.stages[stage] else {
                continue;
            };
            let end = match stage {
                Stage::PeerAnswer => first_byte(message, ready),
                Stage::PeerRest => ready,
                Stage::ConnHandshake | Stage::ConnAccept => time,
                _ => before,
            };
            let span = Span::until(end, duration);
            before = span.begin;
            between.push(placed(stage, span, message));
        }
        between.reverse();
        Self { way, between }
    }

    /// Return the whole way.
    #[must_use]
    pub fn span(&self) -> Option<Span> {
        Some(Span {
            begin: self.way.first()?.span.begin,
            end: self.way.last()?.span.end,
        })
    }
}

/// Return the stamp that ends a stage, of those on our clock.
const fn end_of(stage: Stage, stamps: &Stamps) -> Option<Timestamp<Monotonic>> {
    match stage {
        Stage::TxCopy => stamps.queued,
        Stage::TxQueue => stamps.sched,
        Stage::TxQdisc => stamps.snd,
        Stage::TxNetwork => stamps.ack,
        Stage::RxNic => stamps.rx_software,
        Stage::RxHol => stamps.filled,
        Stage::RxStack => stamps.ready,
        Stage::RxApp => stamps.read,
        _ => None,
    }
}

/// Return when the first byte of a message could be read whose last byte could be at `ready`.
fn first_byte(message: &Message, ready: u64) -> u64 {
    let age = message.oldest_age.unwrap_or(Nanos::ZERO);
    let nic = message.stages[Stage::RxNic].unwrap_or_default();
    let since_kernel = message.total().saturating_sub(nic);
    ready.saturating_sub(age.saturating_sub(since_kernel).0)
}

fn placed(stage: Stage, span: Span, message: &Message) -> Placed {
    let mut parts = Vec::new();
    let mut begin = span.begin;
    for (part, &duration) in message.parts.of(stage) {
        let end = begin.saturating_add(duration.0).min(span.end);
        if end > begin {
            parts.push((part, Span { begin, end }));
        }
        begin = end;
    }
    Placed { stage, span, parts }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::fixture::message;

    use super::*;

    /// A message whose completion is 1000 ns after its last stamp's number.
    fn sent() -> Message {
        let mut message = message(Direction::Tx);
        let stamp = |nanos| Some(Timestamp::from_nanos(nanos));
        message.time = Timestamp::from_nanos(2_000);
        message.stamps.entry = stamp(100);
        message.stamps.queued = stamp(110);
        message.stamps.sched = stamp(150);
        message.stamps.snd = stamp(160);
        message.stamps.snd_last = stamp(500);
        message.stamps.ack = stamp(1_000);
        message.stages[Stage::TxCopy] = Some(Nanos(10));
        message.stages[Stage::TxQueue] = Some(Nanos(40));
        message.stages[Stage::TxQdisc] = Some(Nanos(10));
        message.stages[Stage::TxNetwork] = Some(Nanos(500));
        message.stages[Stage::AppService] = Some(Nanos(7));
        message
    }

    fn places(timeline: &Timeline) -> Vec<(Stage, u64, u64)> {
        let all = timeline.way.iter().chain(&timeline.between);
        all.map(|placed| (placed.stage, placed.span.begin, placed.span.end))
            .collect()
    }

    #[test]
    fn stages_lie_where_their_stamps_are() {
        let timeline = Timeline::of(&sent());
        assert_eq!(
            places(&timeline),
            [
                (Stage::TxCopy, 1_100, 1_110),
                (Stage::TxQueue, 1_110, 1_150),
                (Stage::TxQdisc, 1_150, 1_160),
                // The message was sent again in between.
                (Stage::TxNetwork, 1_500, 2_000),
                (Stage::AppService, 1_093, 1_100),
            ]
        );
        assert_eq!(
            timeline.span(),
            Some(Span {
                begin: 1_100,
                end: 2_000
            })
        );
    }

    #[test]
    fn a_request_comes_before_its_service_and_the_pause_of_a_client_nowhere() {
        let mut message = sent();
        message.stages[Stage::ClientPause] = Some(Nanos(400));
        message.stages[Stage::ClientRequest] = Some(Nanos(90));
        assert_eq!(
            places(&Timeline::of(&message))[4..],
            [
                (Stage::ClientRequest, 1_003, 1_093),
                (Stage::AppService, 1_093, 1_100),
            ]
        );
    }

    #[test]
    fn without_stamps_stages_follow_each_other_up_to_the_completion() {
        let mut message = sent();
        message.stamps = Stamps::default();
        assert_eq!(
            places(&Timeline::of(&message))[2..],
            [
                (Stage::TxQdisc, 1_490, 1_500),
                (Stage::TxNetwork, 1_500, 2_000),
                (Stage::AppService, 1_433, 1_440),
            ]
        );
    }

    #[test]
    fn the_missing_segment_comes_before_the_receive_path() {
        let mut message = message(Direction::Rx);
        message.time = Timestamp::from_nanos(2_000);
        message.stages[Stage::RxStack] = Some(Nanos(10));
        message.stages[Stage::RxHol] = Some(Nanos(100));
        message.stages[Stage::RxApp] = Some(Nanos(50));
        message.stages[Stage::PeerAnswer] = Some(Nanos(300));
        message.parts[Part::Network] = Some(Nanos(200));
        message.parts[Part::Peer] = Some(Nanos(100));
        message.oldest_age = Some(Nanos(165));
        let timeline = Timeline::of(&message);
        assert_eq!(
            places(&timeline)[..3],
            [
                (Stage::RxHol, 1_840, 1_940),
                (Stage::RxStack, 1_940, 1_950),
                (Stage::RxApp, 1_950, 2_000),
            ]
        );
        // The first byte came 5 ns before the last one.
        let answer = &timeline.between[0];
        let parts = [(Part::Network, 1_535, 1_735), (Part::Peer, 1_735, 1_835)];
        let parts = parts.map(|(part, begin, end)| (part, Span { begin, end }));
        assert_eq!(answer.parts, parts);
    }

    #[test]
    fn stages_that_no_message_has_stay_within_time() {
        let mut message = sent();
        message.stages = sockstamp_model::stage::StageMap::from_fn(|_| Some(Nanos(u64::MAX)));
        message.parts = sockstamp_model::part::PartMap::from_fn(|_| Some(Nanos(u64::MAX)));
        let timeline = Timeline::of(&message);
        for pair in timeline.way.windows(2) {
            assert!(pair[0].span.end <= pair[1].span.begin, "{pair:?}");
        }
        assert!(
            timeline
                .way
                .iter()
                .all(|placed| placed.span.begin <= placed.span.end)
        );
    }
}
