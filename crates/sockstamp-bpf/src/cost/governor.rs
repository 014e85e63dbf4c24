//! The way of measuring that keeps the cost below a ceiling. Pure.

use std::num::NonZeroU32;

use sockstamp_model::clock::Nanos;

use crate::abi::raw::WINDOW_NS;
use crate::options::{Ceiling, Sampling};

/// Divisors of the rate cap. Lower rates leave all counts exact: they come first.
const RATES: [u32; 5] = [1, 2, 4, 8, 16];

/// Parts of the time, as their inverse.
const WINDOWS: [u32; 8] = [4, 6, 10, 16, 25, 40, 64, 100];

/// Once measured messages are this part of the cost, lower rates would gain nothing.
const SMALL: f64 = 0.1;

/// A costlier way must cost less than this part of the ceiling, or the next look would take it
/// back.
const CALM: f64 = 0.7;

/// The weight of a new sample against the earlier ones.
const NEWEST: f64 = 0.5;

/// The part of the ceiling that programs may take whatever the process does: scrapes, probes and
/// clients of an agent are not measuring, and measuring less would not make them cheaper.
const PROGRAMS: f64 = 0.5;

/// What the process leaves to the programs is that of about this time, in seconds: a scrape takes
/// all of a moment.
const LONG: f64 = 30.0;

/// The part of a measured message's cost that one which is passed over has not.
const MEASURED: Nanos = Nanos(500);

/// The length of a window, in seconds.
const WINDOW: f64 = WINDOW_NS as f64 / 1e9;

/// The CPU time, in seconds, of two walks over few sockets, until two have been seen.
const WALKS: f64 = 0.01;

/// Have sockets give their bits back only where that saves as many times the CPU time of the walks,
/// and this part of the ceiling.
const WORTH: f64 = 2.0;
const WORTHWHILE: f64 = 0.05;

/// A way of measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// The divisor of the rate cap.
    pub(crate) rate: u32,
    /// The inverse of the part of the time; 1: all of it.
    pub(crate) one_of: NonZeroU32,
    /// Between windows, selected sockets do not call back.
    pub(crate) released: bool,
}

impl Step {
    const WHOLE: Self = Self {
        rate: 1,
        one_of: NonZeroU32::MIN,
        released: false,
    };
}

/// The programs' cost, compared with the ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Distance {
    Near,
    Calm,
    /// Almost nothing runs them.
    Idle,
}

/// The cost of measuring, in parts of one core's time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Known {
    /// The cost of the programs while all are attached.
    pub(super) attached: f64,
    /// The cost of the programs that stay between windows, while sockets call back.
    pub(super) gap: f64,
    /// The same, while they do not.
    pub(super) released: f64,
    /// The CPU time, in seconds, of the walks that switch the callbacks off and on.
    pub(super) walks: f64,
    /// The cost of the process.
    pub(super) process: f64,
    /// The same, over a longer time.
    pub(super) lasting: f64,
    /// Messages measured per second, while all programs are attached.
    pub(super) measured: f64,
}

/// Keeps the cost below a ceiling.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Governor {
    ceiling: f64,
    /// The time that programs are attached beyond a window, in lengths of the window.
    overhead: f64,
    rates: &'static [u32],
    windows: &'static [u32],
    step: Step,
    over: bool,
    /// Walks come to every socket, as far as is known.
    can_release: bool,
    known: Known,
}

impl Governor {
    /// `windows`: whether this host can measure in windows.
    pub(super) fn new(ceiling: &Ceiling, sampling: Sampling, windows: bool, overhead: f64) -> Self {
        let rates = matches!(sampling, Sampling::RateCap(_));
        let windows = ceiling.windows && windows && sampling != Sampling::Every;
        Self {
            ceiling: ceiling.cores(),
            overhead,
            rates: if rates { &RATES } else { &RATES[..1] },
            windows: if windows { &WINDOWS } else { &[] },
            step: Step::WHOLE,
            over: false,
            can_release: true,
            known: Known {
                walks: WALKS,
                ..Known::default()
            },
        }
    }

    pub(super) fn saw_attached(&mut self, cost: f64, measured: f64) {
        let known = &mut self.known;
        if self.step.released && known.attached > 0.0 {
            // The cost of callbacks that are off is not seen: as much more or less.
            known.gap *= smoothed(known.attached, cost) / known.attached;
        }
        self.known.attached = smoothed(self.known.attached, cost);
        self.known.measured = smoothed(self.known.measured, measured);
    }

    pub(super) fn saw_gap(&mut self, cost: f64) {
        self.known.gap = smoothed(self.known.gap, cost);
    }

    /// Take the cost between windows, while selected sockets do not call back.
    pub(super) fn saw_released(&mut self, cost: f64) {
        self.known.released = smoothed(self.known.released, cost);
    }

    /// Take the CPU time, in seconds, of walks there and back.
    pub(super) fn saw_walks(&mut self, seconds: f64) {
        self.known.walks = smoothed(self.known.walks, seconds);
    }

    /// Take whether selected sockets can give their bits back. If not, they call back from now on.
    pub(super) fn can_release(&mut self, can: bool) {
        self.can_release = can;
        self.step.released &= can;
    }

    /// Take the process's cost in the last seconds.
    pub(super) fn saw_process(&mut self, cost: f64, seconds: f64) {
        let known = &mut self.known;
        known.process = smoothed(known.process, cost);
        if known.lasting == 0.0 {
            known.lasting = cost;
        }
        known.lasting += seconds / (seconds + LONG) * (cost - known.lasting);
    }

    pub(super) fn step(&self) -> Step {
        self.step
    }

    pub(super) fn process(&self) -> f64 {
        self.known.process
    }

    /// Return the expected cost of measured messages, and of all that the programs do, while all
    /// are attached.
    fn attached(&self, rate: u32) -> (f64, f64) {
        let rated = (self.known.measured * MEASURED.0 as f64 / 1e9).min(self.known.attached);
        let expected = rated * f64::from(self.step.rate) / f64::from(rate);
        (expected, self.known.attached - rated + expected)
    }

    /// Return the expected cost of the programs.
    pub(super) fn programs(&self, step: Step) -> f64 {
        let part = self.part(step.one_of);
        let between = if step.released {
            self.known.released * (1.0 - part) + self.walking(step.one_of)
        } else {
            self.known.gap * (1.0 - part)
        };
        self.attached(step.rate).1 * part + between
    }

    /// Return the part of the time in which all programs are attached.
    fn part(&self, one_of: NonZeroU32) -> f64 {
        match one_of.get() {
            1 => 1.0,
            one_of => ((1.0 + self.overhead) / f64::from(one_of)).min(1.0),
        }
    }

    /// Return the cost of walks before and after each window.
    fn walking(&self, one_of: NonZeroU32) -> f64 {
        self.known.walks / (WINDOW * f64::from(one_of.get()))
    }

    /// Return whether callbacks between windows cost so much that walks are worth it. Those that
    /// are off stay so until the walks cost more.
    fn releases(&self, one_of: NonZeroU32, are_off: bool) -> bool {
        let (times, least) = match are_off {
            true => (1.0, WORTHWHILE / 2.0),
            false => (WORTH, WORTHWHILE),
        };
        let saved = (self.known.gap - self.known.released) * (1.0 - self.part(one_of));
        self.can_release
            && one_of.get() > 1
            && saved > (times * self.walking(one_of)).max(least * self.ceiling)
    }

    fn expected(&self, step: Step) -> f64 {
        self.programs(step) + self.known.lasting
    }

    /// Return what the programs may cost.
    fn budget(&self) -> f64 {
        (self.ceiling - self.known.lasting).max(PROGRAMS * self.ceiling)
    }

    /// Return true if not even the cheapest way costs less than the ceiling.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Return how near the programs' cost is to the ceiling. Sampling is a part of the process's
    /// cost.
    pub(super) fn distance(&self) -> Distance {
        let share = self.programs(self.step) / self.ceiling;
        if share < 0.01 {
            Distance::Idle
        } else if share < 0.1 {
            Distance::Calm
        } else {
            Distance::Near
        }
    }

    /// Choose the first way that costs less than the ceiling. Callbacks that are off stay off more
    /// readily, so once they are, another way may come first.
    pub(super) fn choose(&mut self) -> Step {
        let mut step = self.first_that_fits(self.step.released);
        if step.released != self.step.released {
            step = self.first_that_fits(step.released);
        }
        self.apply(step);
        step
    }

    fn first_that_fits(&self, are_off: bool) -> Step {
        let now = self.programs(self.step);
        let fits = |step: &Step| {
            let cost = self.programs(*step);
            let share = if cost > now { CALM } else { 1.0 };
            cost <= share * self.budget()
        };
        let ways = || self.ways(are_off);
        let step = ways().find(fits).or_else(|| ways().last());
        step.unwrap_or(Step::WHOLE)
    }

    fn apply(&mut self, step: Step) {
        self.over = self.expected(step) > self.ceiling;
        // The known costs are those of the present rate.
        let ((rated, attached), (before, _)) =
            (self.attached(step.rate), self.attached(self.step.rate));
        self.known.attached = attached;
        if before > 0.0 {
            self.known.measured *= rated / before;
        }
        self.step = step;
    }

    /// Return all settings, in order: the first that costs less than the ceiling applies, otherwise
    /// the last.
    fn ways(&self, are_off: bool) -> impl Iterator<Item = Step> {
        let enough = |rate: &&u32| {
            let (rated, attached) = self.attached(**rate);
            rated <= SMALL * attached
        };
        let (rates, windows) = (self.rates, self.windows);
        let useful = rates.iter().position(|rate| enough(&rate));
        let lowest = useful.unwrap_or(rates.len() - 1);
        let whole = rates[..=lowest].iter().map(|&rate| (rate, 1));
        let last = rates[lowest];
        let ways = whole.chain(windows.iter().map(move |&one_of| (last, one_of)));
        ways.filter_map(move |(rate, one_of)| {
            let one_of = NonZeroU32::new(one_of)?;
            Some(Step {
                rate,
                one_of,
                released: self.releases(one_of, are_off),
            })
        })
    }
}

fn smoothed(known: f64, cost: f64) -> f64 {
    // The first look, or a sudden rise, counts in full.
    if known == 0.0 || cost > 2.0 * known {
        return cost;
    }
    known + NEWEST * (cost - known)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAP: Sampling = Sampling::RateCap(100);

    fn governor(windows: bool, sampling: Sampling) -> Governor {
        let ceiling = Ceiling {
            millionths: NonZeroU32::new(10_000).unwrap(),
            windows,
        };
        Governor::new(&ceiling, sampling, true, 1.2)
    }

    #[test]
    fn what_costs_less_than_the_ceiling_is_measured_in_full() {
        let mut governor = governor(true, CAP);
        governor.saw_attached(0.009, 5000.0);
        assert_eq!(governor.choose(), Step::WHOLE);
        assert!(!governor.is_over());
    }

    #[test]
    fn the_distance_to_the_ceiling_is_that_of_the_programs_alone() {
        for (cost, distance) in [
            (0.00009, Distance::Idle),
            (0.0009, Distance::Calm),
            (0.0011, Distance::Near),
        ] {
            let mut governor = governor(true, CAP);
            governor.saw_process(0.005, 1.0);
            governor.saw_attached(cost, 0.0);
            assert_eq!(governor.distance(), distance, "{cost}");
        }
    }

    #[test]
    fn a_scrape_changes_nothing_and_a_busy_server_leaves_half_to_the_programs() {
        let mut governor = governor(true, CAP);
        governor.saw_attached(0.004, 0.0);
        governor.saw_process(0.001, 2.0);
        // All of a fiftieth of a second, in a look of 2 s.
        governor.saw_process(0.02, 2.0);
        assert_eq!(governor.choose(), Step::WHOLE);
        assert!(!governor.is_over());
        for _ in 0..100 {
            governor.saw_process(1.0, 2.0);
        }
        assert_eq!(governor.choose(), Step::WHOLE);
        assert!(governor.is_over());
        governor.saw_attached(0.02, 0.0);
        // 2.2 windows of 0.02 each: 0.0044 for 1/10.
        assert_eq!(governor.choose().one_of.get(), 10);
    }

    #[test]
    fn rates_are_lowered_before_windows_are_used() {
        let mut governor = governor(true, CAP);
        // 20 000 messages of 500 ns are half of it.
        governor.saw_attached(0.018, 20_000.0);
        assert_eq!(governor.choose().rate, 8);
        governor.saw_attached(0.03, 2500.0);
        let step = governor.choose();
        assert_eq!((step.rate, step.one_of.get()), (4, 10));
    }

    #[test]
    fn rates_that_gain_nothing_stay() {
        for (windows, one_of) in [(false, 1), (true, 16)] {
            let mut governor = governor(windows, CAP);
            // 200 messages of 500 ns are a thousandth of it.
            governor.saw_attached(0.05, 200.0);
            let step = governor.choose();
            assert_eq!((step.rate, step.one_of.get()), (1, one_of));
            assert_eq!(governor.is_over(), !windows);
        }
    }

    #[test]
    fn rates_alone_are_lowered_as_far_as_is_needed() {
        let mut governor = governor(false, CAP);
        governor.saw_attached(0.014, 20_000.0);
        assert_eq!(governor.choose().rate, 2);
        governor.saw_attached(0.06, 10_000.0);
        assert_eq!((governor.choose().rate, governor.is_over()), (2, true));
    }

    #[test]
    fn a_small_change_of_the_cost_changes_nothing() {
        let mut governor = governor(true, CAP);
        governor.saw_attached(0.05, 0.0);
        // 2.2 windows of 0.05 each: 0.011 for 1/10, 0.0069 for 1/16.
        let before = governor.choose();
        assert_eq!(before.one_of.get(), 16);
        governor.saw_attached(0.04, 0.0);
        assert_eq!(governor.choose(), before);
        for _ in 0..20 {
            governor.saw_attached(0.001, 0.0);
        }
        assert_eq!(governor.choose(), Step::WHOLE);
    }

    #[test]
    fn callbacks_between_windows_are_switched_off_where_they_cost_more_than_walks() {
        let mut governor = governor(true, CAP);
        governor.saw_attached(0.1, 0.0);
        governor.saw_gap(0.015);
        let step = governor.choose();
        // 2.2 windows of 0.1 each, and walks of 10 ms in 10 s: 0.0065 for 1/40.
        assert_eq!((step.one_of.get(), step.released), (40, true));
        assert!(!governor.is_over());
        // The traffic has ended, so that no more is saved.
        governor.saw_released(0.0001);
        for _ in 0..20 {
            governor.saw_attached(0.0001, 0.0);
        }
        assert_eq!(governor.choose(), Step::WHOLE);
    }

    #[test]
    fn callbacks_between_windows_stay_where_walks_cost_more_than_they() {
        for (gap, walks) in [(0.0004, 0.01), (0.015, 1.0)] {
            let mut governor = governor(true, CAP);
            governor.saw_attached(0.1, 0.0);
            governor.saw_gap(gap);
            for _ in 0..20 {
                governor.saw_walks(walks);
            }
            assert!(!governor.choose().released, "{gap} {walks}");
        }
    }

    #[test]
    fn callbacks_that_cannot_be_switched_off_count_in_full() {
        let mut governor = governor(true, CAP);
        governor.saw_attached(0.1, 0.0);
        governor.saw_gap(0.015);
        assert!(governor.choose().released);
        governor.saw_released(0.0001);
        governor.can_release(false);
        assert!(governor.programs(governor.step()) > 0.014);
        let step = governor.choose();
        assert!(!step.released && governor.is_over(), "{step:?}");
        governor.can_release(true);
        assert!(governor.choose().released);
        assert!(!governor.is_over());
    }

    #[test]
    fn a_way_that_switches_callbacks_off_is_chosen_at_once() {
        let mut governor = governor(true, CAP);
        governor.saw_attached(0.153_773_907, 423_309.0);
        governor.saw_gap(0.010_001_37);
        governor.saw_process(0.000_944_726, 1e6);
        let step = governor.choose();
        assert_eq!(
            (step.rate, step.one_of.get(), step.released),
            (16, 10, true)
        );
        assert_eq!(governor.choose(), step);
    }

    #[test]
    fn the_users_choice_of_sampling_is_kept() {
        for (sampling, most) in [(Sampling::Every, 1), (Sampling::OneIn(8), 100)] {
            let mut governor = governor(true, sampling);
            governor.saw_attached(0.9, 1e6);
            let step = governor.choose();
            assert_eq!((step.rate, step.one_of.get()), (1, most));
            assert!(governor.is_over());
        }
    }

    proptest! {
        #[test]
        fn the_cost_stays_below_the_ceiling_where_some_way_does(
            attached in 0.0..1.0_f64, gap in 0.0..0.02_f64, process in 0.0..0.002_f64,
            measured in 0.0..1e6_f64,
        ) {
            let mut governor = governor(true, CAP);
            governor.saw_attached(attached, measured);
            governor.saw_gap(gap.min(attached));
            governor.saw_process(process, 1e6);
            let chosen = governor.choose();
            let expected = governor.expected(chosen);
            prop_assert!(expected <= governor.ceiling * 1.000_001 || governor.is_over(), "{expected}");
            prop_assert_eq!(governor.choose(), chosen);
        }
    }
}
