//! The cost of a measurement, and the ceiling that it stays below.

mod account;
mod governor;
mod meter;

use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use sockstamp_model::summary;

use self::governor::{Distance, Governor};
use self::meter::Meter;
use crate::clock::monotonic_now;
use crate::error::Error;
use crate::map_view::Traffic;
use crate::options::{Ceiling, Options, Sampling};
use crate::plan::Plan;
use crate::random::Random;
use crate::window::{self, Attached, Walks};

pub use self::account::ProgramCost;
pub(crate) use self::governor::Step;

/// The length of a sample of the programs' cost.
const LOOK: Duration = Duration::from_millis(50);

/// A look before a measurement whose cost nothing can lower.
const FIRST_LOOK: Duration = Duration::from_millis(100);

/// So many of them must all be above the ceiling. The kernel counts a program's time by the wall
/// clock: one that is interrupted for 3 ms is 3 % of a look.
const FIRST_LOOKS: usize = 3;

/// The shortest interval between looks.
const OFTEN: Duration = Duration::from_secs(2);

/// The longest one, while the cost is nowhere near the ceiling.
const SELDOM: Duration = Duration::from_secs(30);

/// The interval while almost nothing runs the programs. A look takes two million instructions: the
/// kernel rewrites each place that runs a program, before and after.
const RARELY: Duration = Duration::from_secs(60);

/// End a rest when as much has been done as this many measured messages cost: a part of what a
/// ceiling of 1 % allows in [`OFTEN`].
const STIR: u64 = 2000;

/// Messages that are passed over and together cost no more than a measured one, at least.
const PASSED_OVER: u64 = 8;

/// Keeps the cost of a measurement below a ceiling.
pub(crate) struct Control {
    ceiling: Ceiling,
    /// Messages per second, flow and direction, where there is a cap.
    rate_cap: Option<u32>,
    governor: Governor,
    meter: Meter,
    random: Random,
    interval: Duration,
    /// When the next look begins, or the present one ends.
    due: u64,
    /// The programs that run in this look.
    attached: Attached,
    /// The messages before the look, or at its end.
    before: Traffic,
    looks: u64,
    over: u64,
}

impl Control {
    /// Return the control of a measurement whose options request one; `None` also if the kernel
    /// keeps no account for us.
    pub(crate) fn new(
        options: &Options,
        programs: &[(String, OwnedFd)],
        plan: &Plan,
    ) -> Result<Option<Self>, Error> {
        let Some(ceiling) = options.max_cost else {
            return Ok(None);
        };
        let mut meter = Meter::new(programs.iter().map(|(_, program)| program))?;
        if meter.begin().is_err() {
            return Ok(None);
        }
        meter.discard();
        // A part of the time that the user chose stays.
        let windows = plan.has_windows() && options.windows.is_none();
        Ok(Some(Self {
            ceiling,
            rate_cap: match options.sampling {
                Sampling::RateCap(cap) => Some(cap),
                _ => None,
            },
            governor: Governor::new(&ceiling, options.sampling, windows, window::OVERHEAD),
            meter,
            random: Random::default(),
            interval: OFTEN,
            due: monotonic_now(),
            attached: Attached::All,
            before: Traffic::default(),
            looks: 0,
            over: 0,
        }))
    }

    /// Begin to count what the process costs: starting is not measuring.
    pub(crate) fn begin_account(&mut self) {
        self.meter.begin_process();
    }

    /// If every message must be measured, nothing lowers the cost: sample it before the measurement
    /// begins.
    pub(crate) fn admit(&mut self, sampling: Sampling) -> Result<(), Error> {
        if sampling != Sampling::Every {
            return Ok(());
        }
        let mut least = f64::INFINITY;
        for _ in 0..FIRST_LOOKS {
            self.meter.begin()?;
            thread::sleep(FIRST_LOOK);
            let (cost, _) = self.meter.end().unwrap_or_default();
            if cost <= self.ceiling.cores() {
                return Ok(());
            }
            least = least.min(cost);
        }
        Err(Error::TooDear {
            percent: 100.0 * least,
            ceiling: 100.0 * self.ceiling.cores(),
        })
    }

    /// Sample these programs, too, from now on: others came and went before.
    pub(crate) fn sample_too(&mut self, programs: Vec<OwnedFd>) {
        self.meter.sample_too(programs);
        self.due_in(OFTEN);
    }

    /// Take the CPU time of giving the sockets' bits back, and asking for them again.
    pub(crate) fn saw_walks(&mut self, walks: &Walks) {
        self.governor.saw_walks(walks.whole().as_secs_f64());
        self.meter.leave_out(walks.here);
    }

    /// Take whether sockets can give their bits back.
    pub(crate) fn can_release(&mut self, can: bool) {
        self.governor.can_release(can);
    }

    pub(crate) fn until_run(&self) -> Duration {
        let due = Duration::from_nanos(self.due.saturating_sub(monotonic_now()));
        if self.rests() { due.min(OFTEN) } else { due }
    }

    fn rests(&self) -> bool {
        self.interval == RARELY && !self.meter.is_looking()
    }

    /// Sample the cost when that is due, and return how to continue. `attached`: what runs now.
    pub(crate) fn run(
        &mut self,
        attached: Attached,
        traffic: impl Fn() -> Traffic,
    ) -> Option<Step> {
        if attached != self.attached {
            // A look is at one state.
            self.meter.discard();
            self.attached = attached;
            self.begin(traffic());
        } else if monotonic_now() >= self.due || self.stirs(&traffic) {
            match self.meter.is_looking() {
                true => return self.end(traffic()),
                false => self.begin(traffic()),
            }
        }
        None
    }

    /// Return true if messages come after a time without any.
    fn stirs(&self, traffic: &impl Fn() -> Traffic) -> bool {
        let work = |traffic: Traffic| traffic.measured + traffic.messages / PASSED_OVER;
        self.rests() && work(traffic()) > work(self.before) + STIR
    }

    /// Begin a look. Without a descriptor for it there is none, which `looks` shows: measuring goes
    /// on as before.
    fn begin(&mut self, traffic: Traffic) {
        match self.meter.begin() {
            Ok(()) => {
                self.before = traffic;
                self.due_in(LOOK);
            }
            Err(_) => self.due_in(OFTEN),
        }
    }

    fn end(&mut self, traffic: Traffic) -> Option<Step> {
        let (cost, seconds) = self.meter.end()?;
        let before = std::mem::replace(&mut self.before, traffic);
        let measured = traffic.measured.saturating_sub(before.measured) as f64 / seconds;
        match self.attached {
            Attached::All => self.governor.saw_attached(cost, measured),
            Attached::Callbacks => self.governor.saw_gap(cost),
            Attached::Released => self.governor.saw_released(cost),
        }
        if let Some((process, seconds)) = self.meter.process() {
            self.governor.saw_process(process, seconds);
        }
        let before = self.governor.step();
        let step = self.governor.choose();
        self.looks += 1;
        self.over += u64::from(self.governor.is_over());
        self.interval = match self.governor.distance() {
            Distance::Near => OFTEN,
            Distance::Calm => (2 * self.interval).min(SELDOM),
            Distance::Idle => RARELY,
        };
        let interval = self.interval.mul_f64(self.random.jitter());
        self.due_in(interval);
        (step != before).then_some(step)
    }

    fn due_in(&mut self, time: Duration) {
        self.due =
            monotonic_now().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Return the cost so far; `None` before the first look.
    pub(crate) fn summary(&self) -> Option<summary::Cost> {
        let step = self.governor.step();
        (self.looks > 0).then(|| summary::Cost {
            ceiling: self.ceiling.millionths.get(),
            programs: millionths(self.governor.programs(step)),
            process: millionths(self.governor.process()),
            rate_cap: self.rate_cap.map(|cap| (cap / step.rate).max(1)),
            lowered: step.rate > 1,
            looks: self.looks,
            over: self.over,
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a saturating cast of a positive number"
)]
fn millionths(cores: f64) -> u32 {
    (cores * 1e6).round() as u32
}

/// The governor, for tests of what follows its choices.
#[cfg(test)]
pub(crate) mod simulated {
    use std::num::NonZeroU32;

    use super::Governor;
    use crate::options::{Ceiling, Sampling};

    /// Below 1 %, on a host that can measure in windows.
    pub(crate) fn governor() -> Governor {
        let ceiling = Ceiling {
            millionths: NonZeroU32::new(10_000).unwrap(),
            windows: true,
        };
        Governor::new(&ceiling, Sampling::OneIn(1), true, 1.2)
    }

    /// Sample messages: one costs half of the ceiling, ten cost five times the ceiling.
    pub(crate) fn look(governor: &mut Governor, messages: f64) -> NonZeroU32 {
        governor.saw_attached(0.005 * messages, 0.0);
        governor.choose().one_of
    }
}
