//! Read the events of an engine until there are no more, and mind signals meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use sockstamp_ping::{Engine, Event, Events, Next};

/// Longest delay in noticing a signal.
const STEP: Duration = Duration::from_millis(50);
/// Time in which events gather. With a wake-up per event, the thread that reads them would take the
/// CPU from the one that probes.
const GATHER: Duration = Duration::from_millis(10);
/// Events within that time that are read one by one: those of a single probe are printed, and end
/// the program, at once.
const FEW: u32 = 4;

/// The signals that end it, and the one that asks how it goes.
pub(crate) struct Signals {
    end: Arc<AtomicBool>,
    ask: Arc<AtomicBool>,
}

impl Signals {
    pub(crate) fn catch() -> Result<Self> {
        let signals = Self {
            end: Arc::default(),
            ask: Arc::default(),
        };
        let register = |signal, flag| flag::register(signal, Arc::clone(flag));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            register(signal, &signals.end).context("cannot catch signals")?;
        }
        register(SIGQUIT, &signals.ask).context("cannot catch signals")?;
        Ok(signals)
    }
}

/// Takes the events.
pub(crate) trait Listener {
    fn take(&mut self, engine: &mut Engine, event: &Event) -> Result<()>;
    /// No event waits, and time may have passed.
    fn rest(&mut self, engine: &mut Engine) -> Result<()>;
    /// The user asks how it goes.
    fn asked(&self);
    /// Return true if it wants no more events.
    fn is_done(&self) -> bool;
}

/// Read events until there are no more.
pub(crate) fn follow(
    engine: &mut Engine,
    mut events: Events,
    signals: &Signals,
    listener: &mut impl Listener,
) -> Result<()> {
    let mut stopped = false;
    let mut calm = Calm::new();
    loop {
        let next = match events.next_within(Duration::ZERO) {
            Next::Timeout => {
                listener.rest(engine)?;
                if !calm.is_calm() {
                    thread::sleep(GATHER);
                }
                events.next_within(STEP)
            }
            next => next,
        };
        match next {
            Next::Event(event) => {
                calm.count();
                listener.take(engine, &event)?;
            }
            Next::Timeout => {}
            Next::Over => return Ok(()),
        }
        if signals.ask.swap(false, Ordering::Relaxed) {
            listener.asked();
        }
        if !stopped && (listener.is_done() || signals.end.load(Ordering::Relaxed)) {
            engine.stop();
            stopped = true;
        }
    }
}

/// The number of events in this span of [`GATHER`], and in the one before.
struct Calm {
    since: Instant,
    events: u32,
    before: u32,
}

impl Calm {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            events: 0,
            before: 0,
        }
    }

    fn count(&mut self) {
        self.events += 1;
    }

    fn is_calm(&mut self) -> bool {
        if self.since.elapsed() > GATHER {
            *self = Self {
                before: self.events,
                ..Self::new()
            };
        }
        self.events.max(self.before) <= FEW
    }
}
