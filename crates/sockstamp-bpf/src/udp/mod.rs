//! UDP: the sockets that exist already, and messages that would stay in flight for good.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use libbpf_rs::{Iter, Link, MapCore, ProgramMut};

use crate::error::{Error, Tried};
use crate::flow;

/// Interval between looks at messages in flight. One of a socket without packets is given up when
/// it is a second old (`UDP_CALL_NS` in send.bpf.h).
const GIVE_UP_EVERY: Duration = Duration::from_secs(1);

/// Ends messages whose packet left unseen, also of sockets that send no more.
#[derive(Debug)]
pub(crate) struct GivingUp {
    walk: Link,
    last: Instant,
}

impl GivingUp {
    pub(crate) fn attach(program: &ProgramMut<'_>, flows: &impl MapCore) -> Result<Self, Error> {
        let walk = program.attach_iter(flows.as_fd());
        Ok(Self {
            walk: walk.tried("look at UDP messages in flight")?,
            last: Instant::now(),
        })
    }

    pub(crate) fn until_run(&self) -> Duration {
        GIVE_UP_EVERY.saturating_sub(self.last.elapsed())
    }

    pub(crate) fn run(&mut self) -> Result<(), Error> {
        if self.last.elapsed() < GIVE_UP_EVERY {
            return Ok(());
        }
        self.last = Instant::now();
        let mut iterator = Iter::new(&self.walk).tried("look at UDP messages in flight")?;
        let read = io::copy(&mut iterator.by_ref(), &mut io::sink());
        read.map(drop).tried("look at UDP messages in flight")
    }
}

/// Marks the target's sockets that are there already. None is missed after the hook that marks new
/// ones is attached.
pub(crate) fn mark_existing(program: &ProgramMut<'_>) -> Result<(), Error> {
    flow::run_once(program, "look at the UDP sockets that exist")
}
