//! The clock offsets that observations leave possible.

/// An offset that changes at a constant rate: a point of the plane of a `Region`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Line {
    /// Nanoseconds, at the origin of time.
    pub offset: f64,
    /// Nanoseconds per second.
    pub drift: f64,
}

impl Line {
    pub(crate) fn at(self, seconds: f64) -> f64 {
        self.offset + self.drift * seconds
    }

    /// Return the point between two others whose offset at a time is a bound.
    fn between(one: Self, other: Self, seconds: f64, bound: f64) -> Self {
        let (near, far) = (one.at(seconds), other.at(seconds));
        let share = ((bound - near) / (far - near)).clamp(0.0, 1.0);
        Self {
            offset: one.offset + (other.offset - one.offset) * share,
            drift: one.drift + (other.drift - one.drift) * share,
        }
    }
}

/// A bound of the offset at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    /// The offset is at most this many nanoseconds.
    Most(f64),
    /// The offset is at least this many nanoseconds.
    Least(f64),
}

/// All lines within every bound: a convex polygon in the plane of offset and drift.
///
/// A bound of the offset at a moment is a half-plane there, so that the polygon is the dual of the
/// space between the two convex hulls of the stamps of both directions (Zhang, Liu and Xia, "Clock
/// Synchronization Algorithms for Network Measurements", INFOCOM 2002). It is exact: a line is in
/// it if and only if no observation contradicts it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Region {
    corners: Vec<Line>,
}

impl Region {
    /// Begin with the lines between two offsets at the origin of time, and two drifts.
    pub(crate) fn new((least, most): (f64, f64), drift: f64) -> Self {
        let corner = |offset, drift| Line { offset, drift };
        Self {
            corners: vec![
                corner(least, -drift),
                corner(most, -drift),
                corner(most, drift),
                corner(least, drift),
            ],
        }
    }

    /// Return the part that a bound leaves, `None` if it leaves nothing.
    pub(crate) fn within(&self, seconds: f64, bound: Bound) -> Option<Self> {
        let (limit, inside): (f64, fn(f64, f64) -> bool) = match bound {
            Bound::Most(limit) => (limit, |offset, limit| offset <= limit),
            Bound::Least(limit) => (limit, |offset, limit| offset >= limit),
        };
        let is_inside = |line: &Line| inside(line.at(seconds), limit);
        let mut corners = Vec::with_capacity(self.corners.len() + 1);
        for (corner, next) in self.edges() {
            if is_inside(&corner) {
                corners.push(corner);
            }
            if is_inside(&corner) != is_inside(&next) {
                corners.push(Line::between(corner, next, seconds, limit));
            }
        }
        (!corners.is_empty()).then_some(Self { corners })
    }

    /// Return the smallest and the largest offset at a moment.
    pub(crate) fn range(&self, seconds: f64) -> (f64, f64) {
        let offsets = self.corners.iter().map(|corner| corner.at(seconds));
        offsets.fold(
            (f64::INFINITY, f64::NEG_INFINITY),
            |(least, most), offset| (least.min(offset), most.max(offset)),
        )
    }

    /// Return the lines that have the smallest and the largest offset at a moment.
    pub(crate) fn outer(&self, seconds: f64) -> [Line; 2] {
        let by_offset = |one: &&Line, other: &&Line| one.at(seconds).total_cmp(&other.at(seconds));
        let least = self.corners.iter().min_by(by_offset);
        let most = self.corners.iter().max_by(by_offset);
        // The region has a corner.
        [least, most].map(|line| line.copied().unwrap_or_default())
    }

    /// Return the smallest and the largest drift, in nanoseconds per second.
    pub(crate) fn drifts(&self) -> (f64, f64) {
        let drifts = self.corners.iter().map(|corner| corner.drift);
        drifts.fold(
            (f64::INFINITY, f64::NEG_INFINITY),
            |(least, most), drift| (least.min(drift), most.max(drift)),
        )
    }

    fn edges(&self) -> impl Iterator<Item = (Line, Line)> {
        let next = self.corners.iter().cycle().skip(1);
        self.corners.iter().copied().zip(next.copied())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-3
    }

    #[test]
    fn bounds_at_two_moments_bound_the_drift() {
        let region = Region::new((-1e6, 1e6), 1e5);
        let region = region.within(0.0, Bound::Most(10.0)).unwrap();
        let region = region.within(0.0, Bound::Least(-10.0)).unwrap();
        let region = region.within(1.0, Bound::Most(110.0)).unwrap();
        let region = region.within(1.0, Bound::Least(90.0)).unwrap();
        let (least, most) = region.range(0.5);
        assert!(close(least, 40.0) && close(most, 60.0), "{least} to {most}");
        let (least, most) = region.drifts();
        assert!(
            close(least, 80.0) && close(most, 120.0),
            "{least} to {most}"
        );
        let (least, most) = region.range(2.0);
        assert!(
            close(least, 170.0) && close(most, 230.0),
            "{least} to {most}"
        );
    }

    #[test]
    fn contradicting_bounds_leave_nothing() {
        let region = Region::new((-1e6, 1e6), 1e5);
        let region = region.within(3.0, Bound::Most(10.0)).unwrap();
        assert_eq!(region.within(3.0, Bound::Least(11.0)), None);
    }

    proptest! {
        #[test]
        fn the_true_line_is_never_cut_off(
            offset in -1e6..1e6, drift in -1e4..1e4,
            points in prop::collection::vec((0.0..4.0, 0.0..1e5, any::<bool>()), 1..100),
        ) {
            let truth = Line { offset, drift };
            let mut region = Region::new((-1e7, 1e7), 1e6);
            for (seconds, delay, most) in points {
                let bound = match most {
                    true => Bound::Most(truth.at(seconds) + delay),
                    false => Bound::Least(truth.at(seconds) - delay),
                };
                region = region.within(seconds, bound).unwrap();
                let (least, most) = region.range(seconds);
                prop_assert!(least - 1e-3 <= truth.at(seconds) && truth.at(seconds) <= most + 1e-3);
            }
            let (least, most) = region.drifts();
            prop_assert!(least - 1e-3 <= drift && drift <= most + 1e-3);
        }
    }
}
