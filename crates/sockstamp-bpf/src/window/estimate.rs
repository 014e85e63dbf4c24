//! Estimate the messages of all the time from those in windows. Pure.
//!
//! TCP counts the bytes of each connection, whatever part of the time is measured. Messages of TCP
//! are therefore estimated by their ratio to bytes (Cochran: "Sampling Techniques", 1977, chapter
//! 6): what windows miss, or meet too often, are bursts of both. Nothing counts the datagrams of a
//! socket, so those are estimated by their number per time. The spread between windows is the only
//! evidence of the error.

use sockstamp_model::stage::Direction;
use sockstamp_model::student::critical;
use sockstamp_model::summary::{DirectionSummary, Estimate};

use crate::map_view::Tally;

/// The chance that the truth is outside of an interval.
const OUTSIDE: f64 = 0.05;

/// Fewer windows tell nothing of the spread between them.
const LEAST_WINDOWS: f64 = 1.5;

/// A stretch in which messages counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    /// In nanoseconds.
    pub(super) length: u64,
    /// The weight of each message; 1: nothing is left out.
    pub(super) weight: u32,
}

/// A figure, and half of its interval where there is enough to tell.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Figure {
    value: f64,
    error: Option<f64>,
}

impl Figure {
    fn exact(value: f64) -> Self {
        Self {
            value,
            error: Some(0.0),
        }
    }

    fn plus(self, other: Self) -> Self {
        let error = self.error.zip(other.error);
        Self {
            value: self.value + other.value,
            error: error.map(|(mine, theirs)| mine.hypot(theirs)),
        }
    }

    fn rounded(self) -> u64 {
        whole(self.value)
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float is cut to the bounds of the integer"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// Sums over windows of two figures, the second of which is estimated by the first.
#[derive(Debug, Clone, Copy, Default)]
struct Ratio {
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Ratio {
    fn add(&mut self, x: f64, y: f64) {
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
        self.yy += y * y;
    }

    fn with(mut self, x: f64, y: f64) -> Self {
        self.add(x, y);
        self
    }

    /// Return the second figure where the first one is `whole`.
    ///
    /// Windows count by what is in them: a burst that one of them met tells no more than one, in
    /// however many others there was nothing (Kish: "Survey Sampling", 1965, section 11.2).
    fn estimate(&self, whole: f64) -> Figure {
        if whole <= 0.0 {
            return Figure::exact(0.0);
        }
        if self.x <= 0.0 || self.y <= 0.0 {
            return Figure::default();
        }
        let deviation = whole / self.x * self.spread();
        self.figure(self.y / self.x * whole, deviation)
    }

    /// Return the second figure of all the time, where the first one is time.
    ///
    /// Steady traffic is alike in all windows, and begins and ends anywhere between two: each end
    /// is off by an even chance of up to half a window's share, so that both deviate by that share
    /// over the root of six.
    fn over_time(&self, time: f64) -> Figure {
        let Figure { value, error } = self.estimate(time);
        if error.is_none() {
            return Figure { value, error };
        }
        let ends = value / self.windows() / 6.0_f64.sqrt();
        self.figure(value, (time / self.x * self.spread()).hypot(ends))
    }

    fn windows(&self) -> f64 {
        self.y * self.y / self.yy
    }

    /// Return how far the sum of the second figure deviates from what the first one tells.
    fn spread(&self) -> f64 {
        let ratio = self.y / self.x;
        let windows = self.windows();
        let off = (self.yy - 2.0 * ratio * self.xy + ratio * ratio * self.xx).max(0.0);
        (off * windows / (windows - 1.0)).sqrt()
    }

    fn figure(&self, value: f64, deviation: f64) -> Figure {
        let windows = self.windows();
        let error = critical(OUTSIDE, windows - 1.0) * deviation;
        Figure {
            value,
            error: (windows >= LEAST_WINDOWS).then_some(error),
        }
    }
}

/// One direction of what windows have shown.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    by_bytes: Ratio,
    /// By time: messages and bytes of all, then of UDP.
    messages: Ratio,
    bytes: Ratio,
    datagrams: Ratio,
    datagram_bytes: Ratio,
    /// Counted while nothing was left out.
    exact: Tally,
}

impl Seen {
    fn add(&mut self, stretch: Stretch, counted: Tally) {
        if stretch.weight == 1 {
            self.exact.messages += counted.messages;
            self.exact.bytes += counted.bytes;
            self.exact.datagrams += counted.datagrams;
            self.exact.datagram_bytes += counted.datagram_bytes;
            return;
        }
        let time = stretch.length as f64 * f64::from(stretch.weight);
        let (messages, bytes) = counted.of_tcp();
        self.by_bytes = self.by_bytes.with(bytes, messages);
        self.messages.add(time, counted.messages as f64);
        self.bytes.add(time, counted.bytes as f64);
        self.datagrams.add(time, counted.datagrams as f64);
        self.datagram_bytes.add(time, counted.datagram_bytes as f64);
    }

    /// Return messages and bytes by time alone; `time`: beyond that in which nothing was left out.
    fn by_time(&self, time: f64) -> (Figure, Figure) {
        let Tally {
            messages, bytes, ..
        } = self.exact;
        (
            Figure::exact(messages as f64).plus(self.messages.over_time(time)),
            Figure::exact(bytes as f64).plus(self.bytes.over_time(time)),
        )
    }

    /// Where windows have met messages and no datagram, there was none.
    fn of_datagrams(&self, by_time: &Ratio, time: f64) -> Figure {
        match self.messages.y > 0.0 && by_time.y <= 0.0 {
            true => Figure::exact(0.0),
            false => by_time.over_time(time),
        }
    }

    /// Return messages and bytes by the bytes that connections moved in all.
    fn by_bytes(&self, moved: u64, time: f64) -> (Figure, Figure) {
        let (messages, bytes) = self.exact.of_tcp();
        let rest = (moved as f64 - bytes).max(0.0);
        let datagrams = self.of_datagrams(&self.datagrams, time);
        let datagram_bytes = self.of_datagrams(&self.datagram_bytes, time);
        let exact = self.exact;
        (
            Figure::exact(messages + exact.datagrams as f64)
                .plus(self.by_bytes.estimate(rest))
                .plus(datagrams),
            Figure::exact(moved as f64 + exact.datagram_bytes as f64).plus(datagram_bytes),
        )
    }

    /// Return true if windows contradict the bytes that connections moved: some went by calls that
    /// are no messages (splice(2), zerocopy receives). Steady traffic that begins or ends between
    /// two windows contradicts nothing.
    fn contradicts(&self, moved: u64, time: f64) -> bool {
        let (_, bytes) = self.exact.of_tcp();
        let of_all = self.bytes.over_time(time);
        let of_udp = self.datagram_bytes.estimate(time);
        let found = bytes + of_all.value - of_udp.value;
        of_all
            .error
            .is_some_and(|error| (moved as f64 - found).abs() > 2.0 * error)
    }
}

/// What windows have shown so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Estimates {
    seen: [Seen; 2],
    /// What the banks had counted at the end of the last stretch.
    last: [Tally; 2],
    /// Time in which nothing was left out.
    exact: u64,
}

impl Estimates {
    /// A stretch has ended.
    pub(super) fn add(&mut self, stretch: Stretch, counted: [Tally; 2]) {
        for ((seen, counted), last) in self.seen.iter_mut().zip(counted).zip(self.last) {
            seen.add(stretch, counted.since(last));
        }
        if stretch.weight == 1 {
            self.exact += stretch.length;
        }
        self.last = counted;
    }

    /// Replace the counts of a whole measurement of `duration` by what they should be. `moved`: the
    /// bytes of connections in each direction.
    pub(super) fn settle(&self, duration: u64, moved: Option<[u64; 2]>, summary: Parts<'_>) {
        let time = duration.saturating_sub(self.exact) as f64;
        for (direction, part) in Direction::ALL.into_iter().zip(summary) {
            let seen = &self.seen[direction as usize];
            let moved = moved.map(|moved| moved[direction as usize]);
            let (messages, bytes) = match moved.filter(|&moved| !seen.contradicts(moved, time)) {
                Some(moved) => seen.by_bytes(moved, time),
                None => seen.by_time(time),
            };
            part.estimate = Some(Estimate {
                messages_error: messages.error.map(whole),
                bytes_error: bytes.error.map(whole),
            });
            (part.messages, part.bytes) = (messages.rounded(), bytes.rounded());
        }
    }

    /// State how far the sums of weights may lie from the truth, while a measurement goes on.
    pub(super) fn state(&self, duration: u64, summary: Parts<'_>) {
        let time = duration.saturating_sub(self.exact) as f64;
        for (direction, part) in Direction::ALL.into_iter().zip(summary) {
            let (messages, bytes) = self.seen[direction as usize].by_time(time);
            let error = |figure: Figure, counted: u64| {
                let error = figure.error? + (figure.value - counted as f64).abs();
                Some(whole(error))
            };
            part.estimate = Some(Estimate {
                messages_error: error(messages, part.messages),
                bytes_error: error(bytes, part.bytes),
            });
        }
    }
}

/// Both directions, in the order of [`Direction::ALL`].
pub(super) type Parts<'a> = [&'a mut DirectionSummary; 2];

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::ops::Range;

    use super::*;
    use crate::random::Random;
    use crate::window::schedule::Schedule;

    const MILLISECOND: u64 = 1_000_000;
    const LENGTH: u64 = 250 * MILLISECOND;
    const ONE_OF: u32 = 4;

    /// One millisecond of traffic: messages, and their bytes.
    type Slice = (u64, u64);

    /// Bursts of 0.1 to 1.5 s, with pauses of that length, of messages of two sizes.
    fn bursts(random: &mut Random, seconds: u64) -> Vec<Slice> {
        let slices = usize::try_from(1000 * seconds).unwrap();
        let mut traffic = Vec::new();
        while traffic.len() < slices {
            for is_burst in [true, false] {
                for _ in 0..100 + whole(1400.0 * random.draw()) {
                    let (large, small) = (whole(9.0 * random.draw()), whole(9.0 * random.draw()));
                    let busy = (large + small, 1400 * large + 60 * small);
                    traffic.push(if is_burst { busy } else { (0, 0) });
                }
            }
        }
        traffic.truncate(slices);
        traffic
    }

    /// Measure traffic in windows. Return its estimates, and how it was.
    fn measure(traffic: &[Slice], is_udp: bool) -> (Estimates, Tally) {
        let mut schedule = Schedule::new(LENGTH, NonZeroU32::new(ONE_OF).unwrap());
        let mut estimates = Estimates::default();
        let (mut counted, mut truth) = (Tally::default(), Tally::default());
        let begin = 10 * LENGTH;
        let mut opens = schedule.first(begin);
        let stretch = |opens: u64, ends: u64| Stretch {
            length: ends - opens.max(begin),
            weight: ONE_OF,
        };
        let mut now = begin;
        for &slice in traffic {
            if now >= opens + LENGTH {
                estimates.add(stretch(opens, opens + LENGTH), [counted; 2]);
                opens = schedule.next(opens);
            }
            add(&mut truth, slice, 1, is_udp);
            if now >= opens {
                add(&mut counted, slice, ONE_OF.into(), is_udp);
            }
            now += MILLISECOND;
        }
        if now > opens {
            estimates.add(stretch(opens, now.min(opens + LENGTH)), [counted; 2]);
        }
        (estimates, truth)
    }

    fn add(tally: &mut Tally, (messages, bytes): Slice, weight: u64, is_udp: bool) {
        tally.messages += weight * messages;
        tally.bytes += weight * bytes;
        if is_udp {
            tally.datagrams += weight * messages;
            tally.datagram_bytes += weight * bytes;
        }
    }

    fn settle(estimates: &Estimates, duration: u64, moved: Option<u64>) -> DirectionSummary {
        let (mut tx, mut rx) = (DirectionSummary::default(), DirectionSummary::default());
        let moved = moved.map(|moved| [moved; 2]);
        estimates.settle(duration, moved, [&mut tx, &mut rx]);
        tx
    }

    /// Return how many of so many intervals hold, and the mean of the estimates over the truth.
    fn held(runs: u32, is_udp: bool) -> (u32, f64) {
        let mut random = Random::default();
        let (mut held, mut sum) = (0, 0.0);
        for _ in 0..runs {
            let traffic = bursts(&mut random, 30);
            let (estimates, truth) = measure(&traffic, is_udp);
            let moved = if is_udp { 0 } else { truth.bytes };
            let tx = settle(&estimates, 30_000 * MILLISECOND, Some(moved));
            let error = tx.estimate.unwrap().messages_error.unwrap_or(u64::MAX);
            held += u32::from(truth.messages.abs_diff(tx.messages) <= error);
            sum += tx.messages as f64 / truth.messages as f64;
        }
        (held, sum / f64::from(runs))
    }

    #[test]
    fn intervals_by_bytes_hold_for_bursts() {
        let (held, mean) = held(200, false);
        // With the chance of 0.95, less than one run of 10^8 is below.
        assert!(held >= 170, "{held} of 200");
        assert!((0.99..1.01).contains(&mean), "{mean}");
    }

    #[test]
    fn intervals_by_time_hold_for_bursts_of_datagrams() {
        let (held, mean) = held(200, true);
        assert!(held >= 170, "{held} of 200");
        assert!((0.9..1.1).contains(&mean), "{mean}");
    }

    /// Fourteen seconds, in so many milliseconds of which a steady sender sends.
    fn steady(sending: Range<u64>) -> Vec<Slice> {
        let slice = |slice: u64| match sending.contains(&slice) {
            true => (2, 28),
            false => (0, 0),
        };
        (0..14_000).map(slice).collect()
    }

    const OF_STEADY: u64 = 14_000 * MILLISECOND;

    #[test]
    fn intervals_by_time_hold_for_steady_datagrams() {
        let mut random = Random::default();
        let mut held = 0;
        for _ in 0..200 {
            let begin = whole(3_000.0 * random.draw());
            let end = 9_000 + whole(3_000.0 * random.draw());
            let (estimates, truth) = measure(&steady(begin..end), true);
            let tx = settle(&estimates, OF_STEADY, Some(0));
            let error = tx.estimate.unwrap().messages_error.unwrap();
            held += u32::from(truth.messages.abs_diff(tx.messages) <= error);
        }
        assert!(held >= 170, "{held} of 200");
    }

    /// All windows meet the same, and what they miss at either end is in none. Few have met an end.
    #[test]
    fn bytes_of_connections_that_begin_or_end_between_windows_are_believed() {
        let mut random = Random::default();
        let mut believed = 0;
        for _ in 0..200 {
            let begin = whole(1_000.0 * random.draw());
            let end = 13_000 + whole(1_000.0 * random.draw());
            let (estimates, truth) = measure(&steady(begin..end), false);
            let tx = settle(&estimates, OF_STEADY, Some(truth.bytes));
            believed += u32::from((tx.messages, tx.bytes) == (truth.messages, truth.bytes));
        }
        assert!(believed >= 195, "{believed} of 200");
    }

    const WINDOW: Stretch = Stretch {
        length: LENGTH,
        weight: ONE_OF,
    };

    /// Windows that have met so many messages of TCP, of 100 bytes each.
    fn of_windows(met: &[u64]) -> Estimates {
        let mut estimates = Estimates::default();
        let mut counted = Tally::default();
        for messages in met {
            counted.messages += messages;
            counted.bytes += 100 * messages;
            estimates.add(WINDOW, [counted; 2]);
        }
        estimates
    }

    #[test]
    fn bytes_are_exact_and_messages_follow_them() {
        let estimates = of_windows(&[40, 80, 20, 40, 100, 40]);
        let tx = settle(&estimates, 24 * LENGTH, Some(50_000));
        assert_eq!((tx.messages, tx.bytes), (500, 50_000));
        let exact = Estimate {
            messages_error: Some(0),
            bytes_error: Some(0),
        };
        assert_eq!(tx.estimate, Some(exact));
    }

    #[test]
    fn time_in_which_nothing_was_left_out_counts_exactly() {
        let mut estimates = Estimates::default();
        let stretch = |weight| Stretch {
            length: LENGTH,
            weight,
        };
        let counted = |messages| {
            let bytes = 10 * messages;
            [Tally {
                messages,
                bytes,
                ..Tally::default()
            }; 2]
        };
        estimates.add(stretch(1), counted(1000));
        estimates.add(stretch(4), counted(1016));
        estimates.add(stretch(4), counted(1080));
        // By time: two windows of 10 in nine lengths.
        assert_eq!(settle(&estimates, 10 * LENGTH, None).messages, 1090);
        assert_eq!(settle(&estimates, 10 * LENGTH, Some(10_500)).messages, 1050);
    }

    #[test]
    fn what_one_window_alone_has_met_has_no_interval() {
        let estimates = of_windows(&[0, 0, 0, 40, 0, 0, 0, 0, 0, 0]);
        let none = Estimate::default();
        assert_eq!(settle(&estimates, 40 * LENGTH, None).estimate, Some(none));
        assert_eq!(
            settle(&Estimates::default(), LENGTH, None).estimate,
            Some(none)
        );
    }

    #[test]
    fn bytes_that_windows_contradict_are_not_believed() {
        let estimates = of_windows(&[40, 41, 42, 40, 41, 42]);
        // Ten times as many went by splice().
        let tx = settle(&estimates, 24 * LENGTH, Some(240_000));
        assert_eq!(tx.messages, 246);
    }
}
