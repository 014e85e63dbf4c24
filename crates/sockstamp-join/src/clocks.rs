//! The offset between the clocks of two hosts, from the messages that went between them.
//!
//! If a packet leaves one host at `s` (by its clock) and arrives at the other at `r` (by that
//! host's clock), the clocks differ by at most `r - s`. A packet in the other direction gives a
//! lower bound. Packets that waited give loose bounds, but never wrong ones. The packets that
//! waited least decide: the middle may be wrong by half of the shortest round trip. An
//! acknowledgement gives a bound like a packet in the other direction, because the acknowledged
//! bytes had arrived before; it may have been delayed, so its bounds are loose.
//!
//! Clocks drift. Within four seconds the offset is modelled as a line: the region has all lines
//! that no packet contradicts, and the interval of an offset is their span at its moment.
//! Neighbouring windows meet. If no line is left, a clock was stepped, and the window is split
//! there.

use std::collections::{BTreeMap, BTreeSet};

use sockstamp_model::clock::{ClockOffset, Delta, Nanos, Timestamp};

use crate::region::{Bound, Line, Region};
use crate::sides::{First, Offset, Second, Stamp};

/// Nanoseconds in which an offset is a line. Clocks that are disciplined change their rate by less
/// than a part in a million within such a time.
pub(crate) const WINDOW: u64 = 4_000_000_000;

/// Nanoseconds per bin, of which the tightest bounds count. A drift of 100 parts in a million is a
/// microsecond in it.
const BIN: u64 = 10_000_000;

/// The fastest drift in nanoseconds per second: adjtimex(2) steers a clock by 500 parts in a
/// million at most, and here are two.
const DRIFT: f64 = 1e6;

/// Nanoseconds that a stamp may be off. A stamp of reception is of CLOCK_REALTIME, and its
/// distance from CLOCK_MONOTONIC is measured between two readings of the other.
const STAMP_ERROR: f64 = 1e3;

/// Offsets beyond any, in nanoseconds: bounds of a region that nothing was seen of.
const ANY: f64 = 1e15;

/// Splits of a window before its bounds are rejected as nonsense.
const SPLITS: usize = 3;

/// The quality of an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quality {
    /// No pair was seen.
    Absent,
    /// Bounds of one side only: no interval.
    Incomplete,
    /// Data went in one direction only; the other bound is of acknowledgements.
    Approximate,
    /// Data went in both directions.
    Accurate,
    /// The bounds contradict each other.
    Failed,
}

impl Quality {
    /// Every quality.
    pub const ALL: [Self; 5] = [
        Self::Absent,
        Self::Incomplete,
        Self::Approximate,
        Self::Accurate,
        Self::Failed,
    ];

    /// The name in text and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Incomplete => "incomplete",
            Self::Approximate => "approximate",
            Self::Accurate => "accurate",
            Self::Failed => "failed",
        }
    }
}

/// The evidence of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// A packet with data.
    Data,
    /// An acknowledgement.
    Acknowledgement,
}

/// The side of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Most,
    Least,
}

/// An offset and its interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// The clock of the second host less that of the first.
    pub offset: Offset<First, Second>,
    /// The truth is no farther from it than this, to either side.
    pub error: Nanos,
    /// The evidence for it.
    pub quality: Quality,
}

/// A time in which the least and the most offset are lines. The offset of a moment is the middle of
/// both there, rounded to a nanosecond.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Its first moment.
    pub begin: Stamp<First>,
    /// The moment after its last one.
    pub end: Stamp<First>,
    /// The origin of time of the lines.
    pub origin: Stamp<First>,
    /// Offsets of the lines are relative to this one.
    pub base: Offset<First, Second>,
    /// The least offset.
    pub least: Line,
    /// The most.
    pub most: Line,
    /// The evidence.
    pub quality: Quality,
}

/// The tightest bounds of a bin, each with its moment: by side and evidence.
#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    bounds: [[Option<(u64, i64)>; 2]; 2],
}

impl Bin {
    fn tighten(&mut self, side: Side, evidence: Evidence, time: u64, offset: i64) {
        let known = &mut self.bounds[side as usize][evidence as usize];
        let is_tighter = known.is_none_or(|(_, known)| match side {
            Side::Most => offset < known,
            Side::Least => offset > known,
        });
        if is_tighter {
            *known = Some((time, offset));
        }
    }
}

/// A bound, by its moment.
#[derive(Debug, Clone, Copy)]
struct Observation {
    time: u64,
    offset: i64,
    side: Side,
    evidence: Evidence,
}

/// The bounds of a window.
#[derive(Debug, Default)]
struct Window {
    bins: BTreeMap<u64, Bin>,
}

impl Window {
    fn observations(&self) -> Vec<Observation> {
        let mut observations = Vec::new();
        for bin in self.bins.values() {
            for side in [Side::Most, Side::Least] {
                for evidence in [Evidence::Data, Evidence::Acknowledgement] {
                    if let Some((time, offset)) = bin.bounds[side as usize][evidence as usize] {
                        observations.push(Observation {
                            time,
                            offset,
                            side,
                            evidence,
                        });
                    }
                }
            }
        }
        observations.sort_by_key(|observation| observation.time);
        observations
    }
}

/// A time in which the offset is a line.
#[derive(Debug, Clone)]
struct Piece {
    begin: u64,
    end: u64,
    /// Offsets of the region are relative to it: floating point has no room for years.
    base: i64,
    region: Region,
    quality: Quality,
}

impl Piece {
    fn seconds(&self, time: u64) -> f64 {
        (i128::from(time) - i128::from(self.begin)) as f64 / 1e9
    }

    fn range(&self, time: u64) -> (f64, f64) {
        self.region.range(self.seconds(time))
    }

    /// Return the times between which other lines become the outer ones.
    fn intervals(&self) -> Vec<Interval> {
        let mut intervals = Vec::new();
        let mut begin = self.begin;
        while begin < self.end {
            let lines = self.region.outer(self.seconds(begin));
            let end = self.until(begin, lines);
            intervals.push(Interval {
                begin: Timestamp::from_nanos(begin),
                end: Timestamp::from_nanos(end),
                origin: Timestamp::from_nanos(self.begin),
                base: ClockOffset::new(Delta(self.base)),
                least: lines[0],
                most: lines[1],
                quality: self.quality,
            });
            begin = end;
        }
        intervals
    }

    /// Return the first moment since `begin` when other lines than these are the outer ones. Each
    /// line is an outer one for one stretch of time, so that halving finds its end.
    fn until(&self, begin: u64, lines: [Line; 2]) -> u64 {
        let (mut same, mut other) = (begin, self.end);
        while other - same > 1 {
            let middle = u64::midpoint(same, other);
            match self.region.outer(self.seconds(middle)) == lines {
                true => same = middle,
                false => other = middle,
            }
        }
        other
    }

    fn keep(&self, observation: &Observation) -> Option<Region> {
        let relative = (i128::from(observation.offset) - i128::from(self.base)) as f64;
        let bound = match observation.side {
            Side::Most => Bound::Most(relative + STAMP_ERROR),
            Side::Least => Bound::Least(relative - STAMP_ERROR),
        };
        self.region.within(self.seconds(observation.time), bound)
    }
}

/// The offsets between two clocks over time, by the first one's time.
///
/// Bounds may come in any order within the windows that are not settled yet.
#[derive(Debug, Default)]
pub struct Clocks {
    open: BTreeMap<u64, Window>,
    pieces: BTreeMap<u64, Piece>,
    failed: BTreeSet<u64>,
    settled: u64,
    steps: u64,
    late: u64,
}

impl Clocks {
    /// Take note that at `time` the second clock is ahead by at most, or at least, `offset`.
    pub(crate) fn observe(
        &mut self,
        time: Stamp<First>,
        offset: Offset<First, Second>,
        side: Side,
        evidence: Evidence,
    ) {
        let (time, offset) = (time.as_nanos(), offset.delta().as_nanos());
        if time < self.settled {
            self.late += 1;
            return;
        }
        let window = self.open.entry(time / WINDOW).or_default();
        let bin = window.bins.entry(time / BIN).or_default();
        bin.tighten(side, evidence, time, offset);
    }

    /// Decide on the windows that end before a moment; no more bounds of theirs are taken.
    pub(crate) fn settle(&mut self, before: Stamp<First>) {
        let before = before.as_nanos();
        while let Some(entry) = self.open.first_entry() {
            if (entry.key() + 1).saturating_mul(WINDOW) > before {
                break;
            }
            let (index, window) = entry.remove_entry();
            self.add(index, &window);
        }
        self.settled = self.settled.max(before - before % WINDOW);
    }

    /// Return the offset at a moment of the first clock.
    #[must_use]
    pub fn at(&self, time: Stamp<First>) -> Estimate {
        let time = time.as_nanos();
        let unknown = |quality| Estimate {
            offset: ClockOffset::new(Delta(0)),
            error: Nanos::MAX,
            quality,
        };
        if self.failed.contains(&(time / WINDOW)) {
            return unknown(Quality::Failed);
        }
        let piece = self.pieces.range(..=time).next_back();
        let Some((_, piece)) = piece.filter(|(_, piece)| time < piece.end) else {
            return unknown(Quality::Absent);
        };
        if piece.quality == Quality::Incomplete {
            return unknown(Quality::Incomplete);
        }
        let (least, most) = piece.range(time);
        let middle = piece.base.saturating_add(whole(f64::midpoint(least, most)));
        Estimate {
            offset: ClockOffset::new(Delta(middle)),
            error: Nanos(whole(((most - least) / 2.0).ceil()).unsigned_abs()),
            quality: piece.quality,
        }
    }

    /// Iterate over the times whose offset is known, in their order.
    pub fn intervals(&self) -> impl Iterator<Item = Interval> {
        let known = self.pieces.values().filter(|piece| {
            piece.quality > Quality::Incomplete && !self.failed.contains(&(piece.begin / WINDOW))
        });
        known.flat_map(Piece::intervals)
    }

    /// Return the drift of the second clock against the first at a moment, in nanoseconds per
    /// second: the least and the most that is possible.
    #[must_use]
    pub fn drift(&self, time: Stamp<First>) -> Option<(f64, f64)> {
        let time = time.as_nanos();
        let (_, piece) = self.pieces.range(..=time).next_back()?;
        (time < piece.end).then(|| piece.region.drifts())
    }

    /// The number of times that a clock was stepped.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The number of bounds that came too late to have a part in the offset of their time: rows of
    /// a recording are farther from their order than its writer leaves them.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }

    fn add(&mut self, index: u64, window: &Window) {
        let observations = window.observations();
        let Some(first) = observations.first() else {
            return;
        };
        let (begin, end) = (index * WINDOW, (index + 1) * WINDOW);
        let known = self.carried(begin, end);
        let unknown = || Piece {
            begin,
            end,
            base: first.offset,
            region: Region::new((-ANY, ANY), DRIFT),
            quality: Quality::Absent,
        };
        let pieces = fit(known.unwrap_or_else(unknown), &observations);
        if pieces.len() > SPLITS {
            self.failed.insert(index);
            return;
        }
        if let [piece] = &pieces[..] {
            self.meet(piece);
        }
        self.steps += pieces.len() as u64 - 1;
        self.pieces
            .extend(pieces.into_iter().map(|piece| (piece.begin, piece)));
    }

    /// Begin a window with what the one before leaves possible at its begin.
    fn carried(&self, begin: u64, end: u64) -> Option<Piece> {
        let (_, last) = self.pieces.last_key_value()?;
        let known = last.end == begin && last.quality > Quality::Incomplete;
        known.then(|| Piece {
            begin,
            end,
            base: last.base,
            region: Region::new(last.range(begin), DRIFT),
            // The offset has both bounds.
            quality: Quality::Approximate,
        })
    }

    /// Bring the piece before to meet the begin of this one. A piece that has bounds of one side
    /// alone, as the first messages of a measurement just before a window ends, has both by that.
    fn meet(&mut self, piece: &Piece) {
        let Some(mut last) = self.pieces.last_entry() else {
            return;
        };
        let last = last.get_mut();
        if last.end != piece.begin || piece.quality <= Quality::Incomplete {
            return;
        }
        let (least, most) = piece.range(piece.begin);
        let seconds = last.seconds(piece.begin);
        let shift = (i128::from(piece.base) - i128::from(last.base)) as f64;
        let region = last
            .region
            .within(seconds, Bound::Most(most + shift))
            .and_then(|region| region.within(seconds, Bound::Least(least + shift)));
        if let Some(region) = region {
            last.region = region;
            last.quality = last.quality.max(Quality::Approximate);
        }
    }
}

/// Narrow a piece by observations, in order; begin another one where they contradict.
fn fit(piece: Piece, observations: &[Observation]) -> Vec<Piece> {
    let mut pieces = vec![piece];
    let mut seen = Seen::default();
    for observation in observations {
        let last = pieces.len() - 1;
        let piece = &mut pieces[last];
        if let Some(region) = piece.keep(observation) {
            piece.region = region;
            seen.add(observation);
            piece.quality = piece.quality.max(seen.quality());
            continue;
        }
        let mut next = Piece {
            begin: observation.time,
            end: piece.end,
            base: observation.offset,
            region: Region::new((-ANY, ANY), DRIFT),
            quality: Quality::Incomplete,
        };
        // The step is after the last consistent observation of this side.
        piece.end = seen.last[observation.side as usize].unwrap_or(piece.begin);
        seen = Seen::default();
        if let Some(region) = next.keep(observation) {
            next.region = region;
            seen.add(observation);
        }
        pieces.push(next);
    }
    pieces
}

/// The evidence of a piece.
#[derive(Debug, Default)]
struct Seen {
    /// The moment of the last observation of each side.
    last: [Option<u64>; 2],
    /// Data bounds each side.
    data: [bool; 2],
}

impl Seen {
    fn add(&mut self, observation: &Observation) {
        let side = observation.side as usize;
        self.last[side] = Some(observation.time);
        self.data[side] |= observation.evidence == Evidence::Data;
    }

    fn quality(&self) -> Quality {
        match (self.last, self.data) {
            (_, [true, true]) => Quality::Accurate,
            ([Some(_), Some(_)], _) => Quality::Approximate,
            _ => Quality::Incomplete,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it saturates")]
fn whole(nanos: f64) -> i64 {
    nanos.round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return the quality of a window with these bounds, each a millisecond after the one before.
    fn quality(bounds: &[(i64, Side, Evidence)]) -> Quality {
        let mut clocks = Clocks::default();
        for (time, &(offset, side, evidence)) in (1..).zip(bounds) {
            let time = Timestamp::from_nanos(time * 20_000_000);
            clocks.observe(time, ClockOffset::new(Delta(offset)), side, evidence);
        }
        clocks.settle(Timestamp::from_nanos(WINDOW));
        let estimate = clocks.at(Timestamp::from_nanos(30_000_000));
        let is_known = estimate.quality > Quality::Incomplete && estimate.quality < Quality::Failed;
        assert_eq!(estimate.error != Nanos::MAX, is_known, "{estimate:?}");
        estimate.quality
    }

    #[test]
    fn each_quality_follows_from_its_evidence() {
        use Evidence::{Acknowledgement, Data};
        use Side::{Least, Most};
        assert_eq!(quality(&[]), Quality::Absent);
        assert_eq!(quality(&[(5_000, Most, Data); 2]), Quality::Incomplete);
        let one_way = [(5_000, Most, Data), (1_000, Least, Acknowledgement)];
        assert_eq!(quality(&one_way), Quality::Approximate);
        let both_ways = [(5_000, Most, Data), (1_000, Least, Data)];
        assert_eq!(quality(&both_ways), Quality::Accurate);
        // For instance: at most 5 µs, at least a second.
        let contradicting: Vec<_> = [(5_000, Most, Data), (1_000_000_000, Least, Data)].repeat(4);
        assert_eq!(quality(&contradicting), Quality::Failed);
    }

    #[test]
    fn a_window_of_one_side_meets_the_next() {
        let offset = 7_000_000;
        let mut clocks = Clocks::default();
        let mut observe = |time, side, offset| {
            let offset = ClockOffset::new(Delta(offset));
            clocks.observe(Timestamp::from_nanos(time), offset, side, Evidence::Data);
        };
        observe(WINDOW - 10_000_000, Side::Most, offset + 20_000_000);
        observe(WINDOW + 10_000_000, Side::Least, offset - 20_000_000);
        observe(WINDOW + 30_000_000, Side::Most, offset + 20_000_000);
        clocks.settle(Timestamp::from_nanos(2 * WINDOW));
        let first = clocks.at(Timestamp::from_nanos(WINDOW - 10_000_000));
        assert_eq!(first.quality, Quality::Approximate);
        let (found, error) = (first.offset.delta().as_nanos(), first.error.0);
        assert!(found.abs_diff(offset) <= error, "{found} ± {error}");
        // Half of both ways, and what drifts within 20 ms.
        assert!(error < 20_100_000, "{error}");
    }

    #[test]
    fn a_window_after_a_gap_is_no_evidence_for_the_one_before() {
        let mut clocks = Clocks::default();
        let mut observe = |time, side, offset| {
            let offset = ClockOffset::new(Delta(offset));
            clocks.observe(Timestamp::from_nanos(time), offset, side, Evidence::Data);
        };
        observe(10_000_000, Side::Most, 20_000_000);
        observe(5 * WINDOW, Side::Least, 0);
        observe(5 * WINDOW, Side::Most, 1_000_000);
        clocks.settle(Timestamp::from_nanos(6 * WINDOW));
        let first = clocks.at(Timestamp::from_nanos(10_000_000));
        assert_eq!(first.quality, Quality::Incomplete);
    }

    #[test]
    fn intervals_have_the_offset_of_each_moment() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut clocks = Clocks::default();
        for number in 0..4_000 {
            let time = number * 3_000_000;
            let truth = 7_000_000 + i64::try_from(time / 50_000).unwrap();
            let delay = random.i64(20_000..900_000);
            let (side, offset) = match random.bool() {
                true => (Side::Most, truth + delay),
                false => (Side::Least, truth - delay),
            };
            let offset = ClockOffset::new(Delta(offset));
            clocks.observe(Timestamp::from_nanos(time), offset, side, Evidence::Data);
        }
        clocks.settle(Timestamp::from_nanos(u64::MAX));
        let intervals: Vec<Interval> = clocks.intervals().collect();
        assert!(intervals.len() > 3, "{}", intervals.len());
        for pair in intervals.windows(2) {
            assert_eq!(pair[0].end, pair[1].begin);
        }
        for interval in intervals {
            let last = interval.end.as_nanos() - 1;
            let between = random.u64(interval.begin.as_nanos()..=last);
            for time in [interval.begin.as_nanos(), between, last] {
                let known = clocks.at(Timestamp::from_nanos(time));
                let seconds = (time - interval.origin.as_nanos()) as f64 / 1e9;
                let [least, most] = [interval.least, interval.most].map(|line| line.at(seconds));
                let middle = interval.base.delta().as_nanos() + whole(f64::midpoint(least, most));
                assert_eq!(known.offset.delta().as_nanos(), middle);
                assert_eq!(known.error.0 as f64, ((most - least) / 2.0).ceil());
            }
        }
    }

    #[test]
    fn a_bound_of_a_window_that_is_decided_on_is_counted_as_late() {
        let mut clocks = Clocks::default();
        let bound = |clocks: &mut Clocks, time, side| {
            let offset = ClockOffset::new(Delta(5_000));
            clocks.observe(Timestamp::from_nanos(time), offset, side, Evidence::Data);
        };
        for side in [Side::Most, Side::Least] {
            bound(&mut clocks, WINDOW / 2, side);
        }
        clocks.settle(Timestamp::from_nanos(WINDOW + 1));
        let known = clocks.at(Timestamp::from_nanos(WINDOW / 2));
        bound(&mut clocks, WINDOW - 1, Side::Most);
        assert_eq!(clocks.late(), 1);
        assert_eq!(clocks.at(Timestamp::from_nanos(WINDOW / 2)), known);
        bound(&mut clocks, WINDOW, Side::Most);
        assert_eq!(clocks.late(), 1);
    }
}
