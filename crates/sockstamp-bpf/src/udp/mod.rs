//! UDP: the sockets that exist already, and messages that would stay in flight for good.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use libbpf_rs::{Iter, Link, ProgramMut};

use crate::error::{Error, Tried};
use crate::flow;
use crate::plan::{Datagrams, Plan};
use crate::skeleton::Constants;

/// Interval between looks at messages in flight. One of a socket without packets is given up when
/// it is a second old (`UDP_CALL_NS` in send.bpf.h).
const GIVE_UP_EVERY: Duration = Duration::from_secs(1);

/// Longest interval between walks over all open files while messages stay in flight.
const WALK_EVERY_AT_LEAST: Duration = Duration::from_secs(32);

/// Ends messages whose packet left unseen, also of sockets that send no more.
#[derive(Debug)]
pub(crate) struct GivingUp {
    walk: Link,
    last: Instant,
    interval: Duration,
    /// Messages in flight after the last walk.
    stayed: u64,
}

impl GivingUp {
    pub(crate) fn attach(program: &ProgramMut<'_>) -> Result<Self, Error> {
        Ok(Self {
            walk: program.attach().tried("look at UDP messages in flight")?,
            last: Instant::now(),
            interval: GIVE_UP_EVERY,
            stayed: 0,
        })
    }

    pub(crate) fn until_run(&self) -> Duration {
        self.interval.saturating_sub(self.last.elapsed())
    }

    /// Walk where messages are in flight, ever less often while the same number stays: those wait
    /// for something else.
    pub(crate) fn run(&mut self, in_flight: impl Fn() -> u64) -> Result<(), Error> {
        if self.last.elapsed() < self.interval {
            return Ok(());
        }
        self.last = Instant::now();
        if in_flight() > 0 {
            let mut iterator = Iter::new(&self.walk).tried("look at UDP messages in flight")?;
            let read = io::copy(&mut iterator.by_ref(), &mut io::sink());
            read.tried("look at UDP messages in flight")?;
        }
        let stayed = in_flight();
        self.interval = match stayed > 0 && stayed == self.stayed {
            true => (self.interval * 2).min(WALK_EVERY_AT_LEAST),
            false => GIVE_UP_EVERY,
        };
        self.stayed = stayed;
        Ok(())
    }
}

/// Set the constants of UDP sockets.
pub(crate) fn constants(constants: &mut Constants, plan: &Plan) {
    constants.setting_udp = plan.measures_udp();
    constants.setting_udp_entries = plan.udp_entries;
    constants.setting_udp_functions = matches!(plan.udp, Ok(Datagrams::Functions { .. }));
}

/// Mark the target's sockets that are there already. None is missed after the hook that marks new
/// ones is attached.
pub(crate) fn mark_existing(program: &ProgramMut<'_>) -> Result<(), Error> {
    flow::run_once(program, "look at the UDP sockets that exist")
}
