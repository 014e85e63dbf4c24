//! Measuring in windows: programs that messages of TCP alone need are attached for a part of the
//! time, and gone in between (`window.bpf.h`).

mod schedule;

use std::num::NonZeroU32;
use std::time::Duration;

use libbpf_rs::Link;
use sockstamp_model::summary;

use self::schedule::Schedule;
use crate::abi::raw::{WINDOW_LEAD_NS, WINDOW_NS, WINDOW_TAIL_NS};
use crate::clock::monotonic_now;
use crate::demand::Standby;
use crate::error::{Error, Tried};
use crate::object;
use crate::plan::Plan;
use crate::privilege::with_capabilities;
use crate::programs::{self, Demand, Program};
use crate::skeleton::sockstamp::SockstampSkel;

const LEAD: u64 = WINDOW_LEAD_NS as u64;
const LENGTH: u64 = WINDOW_NS as u64;
const TAIL: u64 = WINDOW_TAIL_NS as u64;

/// Looks for messages in flight after a window.
const LOOK: u64 = 25_000_000;

/// Initial guess of the time that attaching takes.
const ATTACHING: u64 = 50_000_000;

/// The state of the programs; times are of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// They are attached, for a window that opens or has opened.
    Attached {
        closes: u64,
    },
    /// The window is closed: they are attached as long as messages are in flight.
    Tail {
        look: u64,
        ends: u64,
    },
    Gone,
}

/// The windows of a measurement.
pub(crate) struct Windows {
    schedule: Schedule,
    phase: Phase,
    /// When the next window opens as it was drawn, or the present one before its end.
    opens: u64,
    /// In the order of attaching.
    links: Vec<(&'static str, Link)>,
    attaching: u64,
    /// The programs for parts of packets were attached when the others went.
    had_parts: bool,
    summary: summary::Windows,
}

impl Windows {
    /// Windows for one in `one_of` of the time.
    pub(crate) fn new(one_of: NonZeroU32) -> Self {
        Self {
            schedule: Schedule::new(LENGTH, one_of),
            phase: Phase::Gone,
            opens: 0,
            links: Vec::new(),
            attaching: ATTACHING,
            had_parts: false,
            summary: summary::Windows {
                one_of: one_of.get(),
                ..summary::Windows::default()
            },
        }
    }

    /// Draw the first window, before anything is attached.
    pub(crate) fn begin(&mut self, skeleton: &mut SockstampSkel<'static>) {
        self.opens = self.schedule.first(monotonic_now());
        if let Some(data) = skeleton.maps.bss_data.as_mut() {
            data.window.length = LENGTH;
            data.window.weight = self.summary.one_of;
        }
        self.open(skeleton, self.opens);
    }

    /// Hold the link of a program that is gone between windows.
    pub(crate) fn keep(&mut self, name: &'static str, link: Link) {
        self.links.push((name, link));
    }

    /// The windows so far.
    pub(crate) fn summary(&self) -> summary::Windows {
        self.summary
    }

    /// Return the time until something is to be done.
    pub(crate) fn until_run(&self) -> Duration {
        let due = match self.phase {
            Phase::Attached { closes } => closes,
            Phase::Tail { look, .. } => look.min(self.attach_at()),
            Phase::Gone => self.attach_at(),
        };
        Duration::from_nanos(due.saturating_sub(monotonic_now()))
    }

    /// Do what is due. `in_flight` counts measured messages that have not ended.
    pub(crate) fn run(
        &mut self,
        skeleton: &mut SockstampSkel<'static>,
        plan: &Plan,
        standby: &mut Standby,
        in_flight: impl Fn() -> u64,
    ) -> Result<(), Error> {
        let now = monotonic_now();
        match self.phase {
            Phase::Attached { closes } if now >= closes => {
                self.opens = self.schedule.next(self.opens);
                self.phase = Phase::Tail {
                    look: now,
                    ends: closes + TAIL,
                };
            }
            Phase::Tail { .. } if now >= self.attach_at() => self.open(skeleton, self.opens),
            Phase::Tail { look, ends } if now >= look => {
                if now >= ends || in_flight() == 0 {
                    self.leave(skeleton, plan, standby);
                } else {
                    let look = (now + LOOK).min(ends);
                    self.phase = Phase::Tail { look, ends };
                }
            }
            Phase::Gone if now >= self.attach_at() => self.come(skeleton, plan, standby)?,
            Phase::Gone => self.serve_datagrams(skeleton, plan)?,
            _ => {}
        }
        Ok(())
    }

    /// Detach the programs; their bodies have stopped.
    pub(crate) fn detach(&mut self) {
        while self.links.pop().is_some() {}
    }

    fn attach_at(&self) -> u64 {
        self.opens.saturating_sub(LEAD + self.attaching)
    }

    /// The programs are attached: let calls count that end from `opens` on.
    fn open(&mut self, skeleton: &mut SockstampSkel<'static>, opens: u64) {
        if let Some(data) = skeleton.maps.bss_data.as_mut() {
            data.window.opens = opens;
        }
        self.summary.count += 1;
        self.phase = Phase::Attached {
            closes: opens + LENGTH,
        };
    }

    fn come(
        &mut self,
        skeleton: &mut SockstampSkel<'static>,
        plan: &Plan,
        standby: &mut Standby,
    ) -> Result<(), Error> {
        let begun = monotonic_now();
        if let Some(data) = skeleton.maps.bss_data.as_mut() {
            // No call counts before they are attached, and a while longer.
            data.window.opens = u64::MAX - LENGTH;
            data.window.number += 1;
            data.window.off = 0;
        }
        with_capabilities(|| self.attach(skeleton, plan, |_| true))?;
        if self.had_parts {
            standby.meet_parts(skeleton, plan, true);
        }
        let attached = monotonic_now();
        self.attaching = (3 * self.attaching + (attached - begun)) / 4;
        let mut opens = self.opens;
        if opens < attached + LEAD {
            opens = attached + LEAD;
            self.summary.late += 1;
        }
        self.open(skeleton, opens);
        Ok(())
    }

    fn leave(&mut self, skeleton: &mut SockstampSkel<'static>, plan: &Plan, standby: &mut Standby) {
        if let Some(data) = skeleton.maps.bss_data.as_mut() {
            data.window.off = 1;
        }
        self.had_parts = Standby::is_met(skeleton, plan, Demand::Parts);
        if self.had_parts {
            standby.meet_parts(skeleton, plan, false);
        }
        let datagrams = Standby::is_met(skeleton, plan, Demand::Datagrams);
        let stays = |name: &str| datagrams && serves_datagrams(name, plan);
        self.links.retain(|(name, _)| stays(name));
        self.phase = Phase::Gone;
    }

    /// Datagrams may come to need programs while those are gone.
    fn serve_datagrams(&mut self, skeleton: &mut SockstampSkel<'static>, plan: &Plan) -> Result<(), Error> {
        if !Standby::is_met(skeleton, plan, Demand::Datagrams) {
            return Ok(());
        }
        with_capabilities(|| {
            self.attach(skeleton, plan, |program| {
                programs::serves_datagrams(program, plan)
            })
        })
    }

    fn attach(
        &mut self,
        skeleton: &mut SockstampSkel<'static>,
        plan: &Plan,
        wanted: impl Fn(&Program) -> bool,
    ) -> Result<(), Error> {
        let windowed = programs::needed(plan).filter(|program| program.is_windowed());
        for program in windowed.filter(|program| wanted(program)) {
            if self.links.iter().any(|(name, _)| *name == program.name) {
                continue;
            }
            let link = object::find(skeleton, program.name).attach();
            self.links
                .push((program.name, link.tried(format!("attach {}", program.name))?));
        }
        Ok(())
    }
}

fn serves_datagrams(name: &str, plan: &Plan) -> bool {
    let program = programs::needed(plan).find(|program| program.name == name);
    program.is_some_and(|program| programs::serves_datagrams(program, plan))
}
