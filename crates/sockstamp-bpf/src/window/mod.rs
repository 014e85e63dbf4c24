//! Measure in windows: programs that all messages of the host run are attached for a part of the
//! time, and detached in between (`window.bpf.h`).

mod course;
mod estimate;
mod release;
mod schedule;

use std::num::NonZeroU32;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use libbpf_rs::Link;
use sockstamp_model::clock::Nanos;
use sockstamp_model::summary::{self, Summary};

use self::course::{Course, LENGTH, NO_END};
use self::estimate::{Estimates, Stretch};
use self::release::Release;
pub(crate) use self::release::Walks;
use crate::abi::raw::{WINDOW_LEAD_NS, WINDOW_TAIL_NS};
use crate::clock::monotonic_now;
use crate::demand::Standby;
use crate::error::Error;
use crate::map_view::Tally;
use crate::options::Options;
use crate::plan::Plan;
use crate::privilege::with_capabilities;
use crate::programs;
use crate::skeleton::Constants;
use crate::skeleton::sockstamp::SockstampSkel;

const LEAD: u64 = WINDOW_LEAD_NS as u64;
const TAIL: u64 = WINDOW_TAIL_NS as u64;

/// Interval between looks for messages in flight after a window.
const LOOK: u64 = 25_000_000;

/// Initial guess of the time that attaching takes.
const ATTACHING: u64 = 50_000_000;

/// Set whether there may be gaps between windows.
pub(crate) fn constants(constants: &mut Constants, plan: &Plan, options: &Options) {
    constants.setting_windows =
        options.windows.is_some() || (options.may_have_windows() && plan.has_windows());
}

/// The time that programs are attached beyond a window, in lengths of the window.
pub(crate) const OVERHEAD: f64 = (LEAD + ATTACHING) as f64 / LENGTH as f64;

/// The state of the programs; times are of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Attached, for a window that opens or has opened.
    Attached {
        opens: u64,
        closes: u64,
    },
    /// The window is closed: they are attached as long as messages are in flight.
    Tail {
        look: u64,
        ends: u64,
    },
    Gone,
}

/// The programs that run for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attached {
    All,
    /// Between windows: callbacks of selected sockets.
    Callbacks,
    /// Between windows: those of the segments of half-closed connections.
    Released,
}

/// The windows of a measurement.
pub(crate) struct Windows {
    course: Course,
    phase: Phase,
    /// In the order of attaching.
    links: Vec<Link>,
    release: Release,
    attaching: u64,
    summary: summary::Windows,
    estimates: Estimates,
}

impl Windows {
    /// Return the windows that options request, or may later need.
    pub(crate) fn new(options: &Options, plan: &Plan) -> Option<Self> {
        if !options.may_have_windows() || !plan.has_windows() {
            return None;
        }
        let one_of = options.windows.unwrap_or(NonZeroU32::MIN);
        Some(Self {
            course: Course::new(one_of, monotonic_now()),
            phase: Phase::Gone,
            links: Vec::new(),
            release: Release::new(options.target.netns.clone(), options.windows.is_some()),
            attaching: ATTACHING,
            summary: summary::Windows::default(),
            estimates: Estimates::default(),
        })
    }

    /// Begin before anything is attached.
    pub(crate) fn begin(&mut self, skeleton: &mut SockstampSkel<'static>) {
        if self.course.is_whole() {
            if let Some(data) = skeleton.maps.bss_data.as_mut() {
                data.window.length = u64::MAX;
                data.window.weight = 1;
            }
            let opens = monotonic_now();
            let closes = u64::MAX;
            self.phase = Phase::Attached { opens, closes };
        } else {
            self.open(skeleton);
        }
    }

    /// Measure for another part of the time as soon as that leaves estimates unbiased.
    /// `released`: selected sockets give their bits back in between.
    pub(crate) fn want(&mut self, one_of: NonZeroU32, released: bool) {
        self.course.want(one_of, monotonic_now());
        self.release.wanted = released;
    }

    /// Return what runs now.
    pub(crate) fn attached(&self) -> Attached {
        match self.phase {
            Phase::Gone if self.release.is_on() => Attached::Released,
            Phase::Gone => Attached::Callbacks,
            _ => Attached::All,
        }
    }

    /// Return whether selected sockets can give their bits back, as far as is known.
    pub(crate) fn can_release(&self) -> bool {
        self.release.is_possible()
    }

    /// Take the CPU time of having sockets give their bits back and asking for them again, if it is
    /// new.
    pub(crate) fn take_walks(&mut self) -> Option<Walks> {
        self.release.take_walks()
    }

    /// Return the number of connections that a walk did not reach, and that kept no bit.
    pub(crate) fn missed(&self) -> u64 {
        self.release.missed
    }

    /// Hold the link of a program that is detached between windows.
    pub(crate) fn keep(&mut self, link: Link) {
        self.links.push(link);
    }

    /// The windows so far; `None` if all was measured.
    pub(crate) fn summary(&self) -> Option<summary::Windows> {
        let one_of = self.course.one_of().get();
        (self.summary.count > 0 || one_of > 1).then_some(summary::Windows {
            one_of,
            released: self.release.count,
            ..self.summary
        })
    }

    /// State the errors of the counts so far.
    pub(crate) fn state_errors(&self, summary: &mut Summary, counted: [Tally; 2]) {
        if summary.windows.is_some() {
            let parts = [&mut summary.tx, &mut summary.rx];
            let estimates = self.estimates_with(counted, monotonic_now());
            estimates.state(summary.duration.as_nanos(), parts);
        }
    }

    /// Replace the counts of the whole measurement, which ended at `now`, by estimates of what
    /// they should be. `moved`: the bytes of connections in each direction, where these are known.
    pub(crate) fn settle(
        &self,
        summary: &mut Summary,
        counted: [Tally; 2],
        moved: Option<[u64; 2]>,
        now: u64,
    ) {
        if summary.windows.is_some() {
            let parts = [&mut summary.tx, &mut summary.rx];
            let estimates = self.estimates_with(counted, now);
            estimates.settle(summary.duration.as_nanos(), moved, parts);
        }
    }

    /// Return what windows have shown, the present one among them.
    fn estimates_with(&self, counted: [Tally; 2], now: u64) -> Estimates {
        let mut estimates = self.estimates;
        if let Phase::Attached { opens, closes } = self.phase {
            estimates.add(self.stretch(opens, closes.min(now)), counted);
        }
        estimates
    }

    fn stretch(&self, opens: u64, closes: u64) -> Stretch {
        Stretch {
            length: closes.saturating_sub(opens),
            weight: self.course.one_of().get(),
        }
    }

    /// Return the time until the next action.
    pub(crate) fn until_run(&self) -> Duration {
        let due = match self.phase {
            Phase::Attached { closes, .. } => closes,
            Phase::Tail { look, .. } => look.min(self.attach_at()),
            Phase::Gone => self.attach_at(),
        };
        Duration::from_nanos(
            due.min(self.course.turns().unwrap_or(u64::MAX))
                .saturating_sub(monotonic_now()),
        )
    }

    /// Do what is due. `in_flight` counts measured messages that have not ended.
    pub(crate) fn run(
        &mut self,
        skeleton: &mut SockstampSkel<'static>,
        plan: &Plan,
        standby: &mut Standby,
        in_flight: impl Fn() -> u64,
        counted: impl Fn() -> [Tally; 2],
    ) -> Result<(), Error> {
        let now = monotonic_now();
        if self.course.turns().is_some_and(|turns| now >= turns) {
            self.turn(skeleton, now, &counted);
        }
        match self.phase {
            Phase::Attached { opens, closes } if now >= closes => {
                self.estimates.add(self.stretch(opens, closes), counted());
                self.course.draw_next(now);
                self.phase = Phase::Tail {
                    look: now,
                    ends: closes + TAIL,
                };
            }
            Phase::Tail { .. } if now >= self.attach_at() => self.open(skeleton),
            Phase::Tail { look, ends } if now >= look => {
                if now >= ends || in_flight() == 0 {
                    self.leave(skeleton, plan, standby);
                } else {
                    let look = (now + LOOK).min(ends);
                    self.phase = Phase::Tail { look, ends };
                }
            }
            Phase::Gone if now >= self.attach_at() => self.come(skeleton, plan, standby)?,
            // It may be wanted since the last window.
            Phase::Gone => self.release_bits(skeleton),
            _ => {}
        }
        Ok(())
    }

    /// Detach the programs; their bodies have stopped.
    pub(crate) fn detach(&mut self) {
        while self.links.pop().is_some() {}
    }

    fn attach_at(&self) -> u64 {
        self.course.opens.saturating_sub(LEAD + self.attaching)
    }

    /// Continue with another part of the time. No window is open until programs that count by the
    /// old one have ended and messages can be followed from their beginning.
    fn turn(
        &mut self,
        skeleton: &mut SockstampSkel<'static>,
        now: u64,
        counted: &impl Fn() -> [Tally; 2],
    ) {
        if let Phase::Attached { opens, closes } = self.phase {
            close(skeleton, now);
            let stretch = self.stretch(opens, closes.min(now));
            self.estimates.add(stretch, counted());
            self.phase = Phase::Tail {
                look: now,
                ends: now + TAIL,
            };
        }
        let begins = now + LEAD + self.attaching + ATTACHING;
        self.summary.unmeasured = self.summary.unmeasured + Nanos(begins - now);
        self.course.turn(begins);
    }

    /// The programs are attached, and no window is open: let calls count from the next one on.
    fn open(&mut self, skeleton: &mut SockstampSkel<'static>) {
        let Course { opens, closes, .. } = self.course;
        let one_of = self.course.one_of();
        if let Some(data) = skeleton.maps.bss_data.as_mut() {
            data.window.weight = one_of.get();
            data.window.length = closes - opens;
            fence(Ordering::SeqCst);
            data.window.opens = opens;
        }
        self.summary.count += 1;
        self.phase = Phase::Attached { opens, closes };
    }

    fn come(
        &mut self,
        skeleton: &mut SockstampSkel<'static>,
        plan: &Plan,
        standby: &mut Standby,
    ) -> Result<(), Error> {
        let begun = monotonic_now();
        // While the programs are gone, a call costs next to nothing.
        self.release.end(skeleton);
        if let Some(data) = skeleton.maps.bss_data.as_mut() {
            // No call counts before they are attached, and a while longer.
            data.window.opens = NEVER;
            data.window.number += 1;
            fence(Ordering::SeqCst);
            data.window.off = 0;
        }
        if let Err(error) = with_capabilities(|| self.attach(skeleton, plan, standby)) {
            self.summary.failed += 1;
            self.leave(skeleton, plan, standby);
            self.course.draw_next(begun);
            return Err(error);
        }
        standby.resume(skeleton, plan);
        let attached = monotonic_now();
        self.attaching = (3 * self.attaching + (attached - begun)) / 4;
        self.summary.attaching = self.summary.attaching + Nanos(attached - begun);
        let late = (attached + LEAD).saturating_sub(self.course.opens);
        if late > 0 {
            self.summary.late += 1;
            self.course.shift(late);
        }
        self.open(skeleton);
        Ok(())
    }

    fn leave(&mut self, skeleton: &mut SockstampSkel<'static>, plan: &Plan, standby: &mut Standby) {
        if let Some(data) = skeleton.maps.bss_data.as_mut() {
            data.window.off = 1;
        }
        let begun = monotonic_now();
        standby.pause(skeleton, plan);
        self.links.clear();
        self.summary.detaching = self.summary.detaching + Nanos(monotonic_now() - begun);
        self.phase = Phase::Gone;
        self.release_bits(skeleton);
    }

    fn release_bits(&mut self, skeleton: &mut SockstampSkel<'static>) {
        let left = self.attach_at().saturating_sub(monotonic_now());
        self.release.begin(skeleton, Duration::from_nanos(left));
    }

    fn attach(
        &mut self,
        skeleton: &mut SockstampSkel<'static>,
        plan: &Plan,
        standby: &Standby,
    ) -> Result<(), Error> {
        let windowed = programs::needed(plan)
            .filter(|program| program.is_windowed() && program.demands(plan).is_empty());
        for program in windowed {
            self.links.push(standby.attach(skeleton, program)?);
        }
        Ok(())
    }
}

/// A time at which no window opens, so far ahead that none is open before.
const NEVER: u64 = u64::MAX - NO_END;

/// Let no call count any more.
fn close(skeleton: &mut SockstampSkel<'static>, now: u64) {
    let Some(data) = skeleton.maps.bss_data.as_mut() else {
        return;
    };
    if now < data.window.opens {
        data.window.opens = NEVER;
    } else {
        data.window.length = now - data.window.opens;
    }
}
