//! Programs that events of all sockets run, and few of these need: they are attached while
//! something selected does (`demand.bpf.h`).

use std::collections::BTreeMap;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use libbpf_rs::{Link, RingBuffer, RingBufferBuilder};

use crate::abi::raw::demand_for;
use crate::clock::monotonic_now;
use crate::error::{Error, Tried};
use crate::object;
use crate::plan::Plan;
use crate::privilege::with_capabilities;
use crate::programs::{self, Demand, Program};
use crate::skeleton::Constants;
use crate::skeleton::sockstamp::SockstampSkel;
use crate::target::Cgroups;

/// In the order in which they are met. A socket that has got a peer needs the first two: until the
/// ends of its sends are seen, these are not even counted.
const ALL: [Demand; demand_for::DEMAND_COUNT as usize] =
    [Demand::Sends, Demand::Datagrams, Demand::Parts];

/// Interval between trials where the kernel refuses to attach.
const AGAIN: Duration = Duration::from_secs(1);

/// Set whether programs are attached on demand.
pub(crate) fn constants(constants: &mut Constants, plan: &Plan) {
    constants.setting_on_demand = plan.on_demand;
}

/// The programs of a plan that wait for their use.
pub(crate) struct Standby {
    cgroups: Cgroups,
    knocks: RingBuffer<'static>,
    /// Time without use after which they go.
    idle: Duration,
    links: BTreeMap<&'static str, Link>,
    /// Between windows of measuring: for how long each met demand had been without use.
    paused: Option<Vec<(Demand, Duration)>>,
    /// The kernel refused at this time.
    refused: Option<u64>,
}

impl Standby {
    /// `idle`: the time without use after which programs go.
    pub(crate) fn new(
        cgroups: Cgroups,
        skeleton: &mut SockstampSkel<'static>,
        plan: &Plan,
        idle: Duration,
    ) -> Result<Self, Error> {
        for demand in ALL.into_iter().filter(|demand| !is_served(plan, *demand)) {
            set_met(skeleton, demand, true);
        }
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&skeleton.maps.knocks, |_| 0)
            .tried("wait for programs to be needed")?;
        Ok(Self {
            cgroups,
            idle,
            knocks: builder.build().tried("wait for programs to be needed")?,
            links: BTreeMap::new(),
            paused: None,
            refused: None,
        })
    }

    /// Attach what is needed, and detach what has not been for a while.
    pub(crate) fn run(&mut self, skeleton: &mut SockstampSkel<'static>, plan: &Plan) {
        // Records only wake us: the demand itself is in the programs' memory.
        let _ = self.knocks.consume();
        if self.paused.is_some() {
            return;
        }
        for demand in served(plan) {
            let state = State::of(skeleton, demand);
            if state.met && state.idle().is_some_and(|idle| idle >= self.idle) {
                self.leave(skeleton, plan, demand);
            } else if !state.met && state.wanted && self.may_try() {
                self.meet(skeleton, plan, demand);
            }
        }
    }

    /// Detach all programs until [`resume`](Self::resume).
    pub(crate) fn pause(&mut self, skeleton: &mut SockstampSkel<'static>, plan: &Plan) {
        let mut idle = Vec::new();
        for demand in served(plan) {
            let state = State::of(skeleton, demand);
            if let (true, Some(data)) = (state.met, skeleton.maps.bss_data.as_mut()) {
                idle.push((demand, since(state.used)));
                // The programs are still wanted.
                data.demands[demand as usize].met = 0;
            }
        }
        self.links.clear();
        // A window that fails is left again.
        self.paused.get_or_insert(idle);
    }

    /// Attach the programs that are wanted. Only the time with programs counts as time without use.
    pub(crate) fn resume(&mut self, skeleton: &mut SockstampSkel<'static>, plan: &Plan) {
        let paused = self.paused.take();
        self.run(skeleton, plan);
        for (demand, idle) in paused.into_iter().flatten() {
            let data = skeleton.maps.bss_data.as_mut();
            let state = data.map(|data| &mut data.demands[demand as usize]);
            if let Some(state) = state.filter(|state| state.met != 0) {
                let idle = u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX);
                state.used = monotonic_now().saturating_sub(idle);
            }
        }
    }

    /// Return the time until the next action that no program requests.
    pub(crate) fn until_run(
        &self,
        skeleton: &SockstampSkel<'static>,
        plan: &Plan,
    ) -> Option<Duration> {
        if self.paused.is_some() {
            return None;
        }
        let states = served(plan).map(|demand| State::of(skeleton, demand));
        let leaving = states.filter(|state| state.met);
        let leaving = leaving.map(|state| {
            state
                .idle()
                .map_or(self.idle, |idle| self.idle.saturating_sub(idle))
        });
        let again = self.refused.map(|_| AGAIN);
        leaving.chain(again).min()
    }

    /// Detach everything: bodies stop first.
    pub(crate) fn detach(&mut self, skeleton: &mut SockstampSkel<'static>, plan: &Plan) {
        for demand in served(plan) {
            set_met(skeleton, demand, false);
        }
        self.links.clear();
    }

    fn may_try(&self) -> bool {
        self.refused.is_none_or(|refused| since(refused) >= AGAIN)
    }

    /// Attach the programs of a demand. Where the kernel refuses, its messages stay unmeasured, and
    /// are counted.
    fn meet(&mut self, skeleton: &mut SockstampSkel<'static>, plan: &Plan, demand: Demand) {
        let attached = with_capabilities(|| {
            for program in waiting(plan, demand) {
                if !self.links.contains_key(program.name) {
                    let link = self.attach(skeleton, program)?;
                    self.links.insert(program.name, link);
                }
            }
            Ok(())
        });
        self.refused = attached.is_err().then(monotonic_now);
        if self.refused.is_none() {
            set_met(skeleton, demand, true);
        }
    }

    /// Attach a program to its hook.
    pub(crate) fn attach(
        &self,
        skeleton: &mut SockstampSkel<'static>,
        program: &Program,
    ) -> Result<Link, Error> {
        object::attach(skeleton, program, &self.cgroups)
    }

    fn leave(&mut self, skeleton: &mut SockstampSkel<'static>, plan: &Plan, demand: Demand) {
        set_met(skeleton, demand, false);
        let others = served(plan).filter(|other| State::of(skeleton, *other).met);
        let needed: Vec<_> = others
            .flat_map(|other| waiting(plan, other).map(|program| program.name))
            .collect();
        self.links.retain(|name, _| needed.contains(name));
    }
}

/// Return whether a plan leaves programs to a demand.
fn is_served(plan: &Plan, demand: Demand) -> bool {
    waiting(plan, demand).next().is_some()
}

fn served(plan: &Plan) -> impl Iterator<Item = Demand> {
    ALL.into_iter().filter(|demand| is_served(plan, *demand))
}

fn waiting(plan: &Plan, demand: Demand) -> impl Iterator<Item = &'static Program> {
    programs::needed(plan).filter(move |program| program.demands(plan).contains(&demand))
}

/// The fields of `struct demand` that user space reads.
#[derive(Debug, Clone, Copy)]
struct State {
    wanted: bool,
    met: bool,
    used: u64,
    is_held: bool,
}

impl State {
    fn of(skeleton: &SockstampSkel<'static>, demand: Demand) -> Self {
        let data = skeleton.maps.bss_data.as_ref();
        let state = data.map(|data| &data.demands[demand as usize]);
        Self {
            wanted: state.is_some_and(|state| state.wanted != 0),
            met: state.is_some_and(|state| state.met != 0),
            used: state.map_or(0, |state| state.used),
            is_held: state.is_some_and(|state| state.holders > 0),
        }
    }

    /// Return for how long nothing has needed the programs; `None` while something may at any time.
    fn idle(&self) -> Option<Duration> {
        (!self.is_held).then(|| since(self.used))
    }
}

/// Return how long ago a time of CLOCK_MONOTONIC was.
fn since(time: u64) -> Duration {
    Duration::from_nanos(monotonic_now().saturating_sub(time))
}

/// Programs read `met` at each event: it is the last to be set, and the first to be taken back.
fn set_met(skeleton: &mut SockstampSkel<'static>, demand: Demand, met: bool) {
    if let Some(data) = skeleton.maps.bss_data.as_mut() {
        let state = &mut data.demands[demand as usize];
        state.used = monotonic_now();
        state.wanted = u32::from(met);
        fence(Ordering::SeqCst);
        state.met = u32::from(met);
    }
}
