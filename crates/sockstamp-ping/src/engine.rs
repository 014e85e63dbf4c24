use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};
use sockstamp::ReceiveStamping;
use sockstamp_model::Histogram;

use crate::added::Added;
use crate::limits::Limits;
use crate::worker::{Batch, Command, Report, Setup, Shared, Worker};
use crate::{Counters, Error, Event, Namespace, Result, Target, TargetId};

/// Probes targets, and reports the results by [`Events`]. Dropping it [stops](Self::stop) it.
#[derive(Debug)]
pub struct Engine {
    limits: Limits,
    /// `None` after [`finish`](Self::finish).
    events: Option<SyncSender<Event>>,
    workers: HashMap<Place, Handle>,
    /// The reports of ended workers.
    past: Report,
    next: u64,
    _stamping: ReceiveStamping,
}

/// A network namespace, and which of its threads.
type Place = (Namespace, u16);

/// A worker, from outside.
#[derive(Debug)]
struct Handle {
    commands: Sender<Command>,
    wake: Arc<EventFd>,
    shared: Shared,
    thread: JoinHandle<()>,
}

impl Engine {
    /// Make the kernel stamp received packets, and wait until it does, at most [`Limits::settle`].
    /// Nothing is probed yet.
    ///
    /// # Errors
    ///
    /// [`Error::Stamps`] if the process may have no sockets.
    pub fn start(limits: Limits) -> Result<(Self, Events)> {
        let stamping = ReceiveStamping::enable()?;
        // Ignore the result: it is unknown while the loopback interface is down, and an answer
        // without a stamp shows it.
        let _ = stamping.settle(limits.settle);
        let (sender, receiver) = mpsc::sync_channel(limits.events);
        let engine = Self {
            limits,
            events: Some(sender),
            workers: HashMap::new(),
            past: Report::default(),
            next: 0,
            _stamping: stamping,
        };
        Ok((engine, Events(receiver)))
    }

    /// Begin to probe a target. The first of a network namespace starts the thread that enters it,
    /// with CAP_SYS_ADMIN unless it is our own.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] and [`Error::Refused`] for settings that cannot be, [`Error::Namespace`],
    /// [`Error::NoIcmpSocket`], [`Error::Finished`] after [`finish`](Self::finish).
    pub fn add(&mut self, target: Target) -> Result<Added> {
        let namespace = target.namespace.clone();
        let mut added = self.add_all([target]).map_err(|(_, error)| error)?;
        added.pop().ok_or(Error::Ended(namespace))
    }

    /// Begin to probe targets. The probes of a network namespace begin when all of its targets have
    /// been added, so adding many makes none late.
    ///
    /// # Errors
    ///
    /// Those of [`add`](Self::add), with the address: then no target of that network namespace was
    /// added.
    pub fn add_all(
        &mut self,
        targets: impl IntoIterator<Item = Target>,
    ) -> std::result::Result<Vec<Added>, (IpAddr, Error)> {
        let mut batches: BTreeMap<u64, Batch> = BTreeMap::new();
        let mut first = HashMap::new();
        for target in targets {
            target.check().map_err(|error| (target.address, error))?;
            let id = TargetId(self.next);
            self.next += 1;
            let place = (target.namespace.clone(), target.settings.thread);
            let batch = *first.entry(place).or_insert(id.0);
            batches.entry(batch).or_default().push((id, target));
        }
        let mut added = Vec::new();
        for batch in batches.into_values() {
            added.extend(self.add_batch(batch)?);
        }
        added.sort_unstable_by_key(|added: &Added| added.id);
        Ok(added)
    }

    /// Add targets of one thread.
    fn add_batch(&mut self, batch: Batch) -> std::result::Result<Vec<Added>, (IpAddr, Error)> {
        let Some((_, first)) = batch.first() else {
            return Ok(Vec::new());
        };
        let (address, namespace) = (first.address, first.namespace.clone());
        let place = (namespace.clone(), first.settings.thread);
        let worker = self.worker(&place).map_err(|error| (address, error))?;
        let (reply, answer) = mpsc::channel();
        worker.command(Command::Add(batch, reply));
        let gone = |_| (address, Error::Ended(namespace));
        answer.recv().map_err(gone)?
    }

    fn worker(&mut self, place: &Place) -> Result<&Handle> {
        let events = self.events.clone().ok_or(Error::Finished)?;
        // Its namespace was gone; there may be a new one of the same name.
        self.release_ended();
        if !self.workers.contains_key(place) {
            let worker = Handle::start(place.0.clone(), events, &self.limits)?;
            self.workers.insert(place.clone(), worker);
        }
        Ok(&self.workers[place])
    }

    /// End a target: [`End::Removed`](crate::End::Removed), unless it has ended already.
    pub fn remove(&mut self, target: TargetId) {
        for worker in self.workers.values() {
            worker.command(Command::Remove(target));
        }
    }

    /// Leave network namespaces without targets, and release what ended threads held. For engines
    /// whose targets come and go.
    pub fn retire_idle(&mut self) {
        for worker in self.workers.values() {
            worker.command(Command::Retire);
        }
        self.release_ended();
    }

    fn release_ended(&mut self) {
        let past = &mut self.past;
        self.workers.retain(|_, worker| {
            let ended = worker.thread.is_finished();
            if ended {
                past.add(&worker.report());
            }
            !ended
        });
    }

    /// No more targets come: the events end with the last one.
    pub fn finish(&mut self) {
        self.events = None;
        for worker in self.workers.values() {
            worker.command(Command::Finish);
        }
    }

    /// Return what ends a wait for events; `None` after [`finish`](Self::finish). The events do not
    /// end before it is dropped.
    #[must_use]
    pub fn waker(&self) -> Option<Waker> {
        self.events.clone().map(Waker)
    }

    /// End all targets and wait for the threads. Events without room are dropped and counted.
    pub fn stop(&mut self) {
        self.events = None;
        for worker in self.workers.values() {
            worker.command(Command::Stop);
        }
        for (_, worker) in self.workers.drain() {
            let shared = Arc::clone(&worker.shared);
            // A panic there was printed there.
            let _ = worker.thread.join();
            self.past
                .add(&shared.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Return the counters so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.report().counters
    }

    /// Return the deviations of probes from their schedule: late, or about 100 µs early.
    #[must_use]
    pub fn lateness(&self) -> Histogram {
        self.report().lateness
    }

    fn report(&self) -> Report {
        let mut report = self.past.clone();
        for worker in self.workers.values() {
            report.add(&worker.report());
        }
        report
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Handle {
    fn start(namespace: Namespace, events: SyncSender<Event>, limits: &Limits) -> Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = EventFd::from_flags(flags).map_err(Error::call("eventfd", "a prober"))?;
        let wake = Arc::new(wake);
        let shared = Arc::new(Mutex::new(Report::default()));
        let (commands, received) = mpsc::channel();
        let setup = Setup {
            namespace,
            commands: received,
            wake: Arc::clone(&wake),
            events,
            shared: Arc::clone(&shared),
            stamp_wait: limits.stamp_wait.into(),
            look: limits.look.into(),
        };
        let (ready, is_ready) = mpsc::channel();
        let probe = move || match Worker::new(setup) {
            Ok(worker) => {
                // The starting thread waits for this.
                let _ = ready.send(Ok(()));
                drop(ready);
                worker.run();
            }
            Err(error) => {
                let _ = ready.send(Err(error));
            }
        };
        let thread = thread::Builder::new()
            .name("sockstamp-ping".to_owned())
            .spawn(probe)
            .map_err(Error::call("clone", "a prober"))?;
        is_ready.recv().map_err(|_| Error::Finished)??;
        Ok(Self {
            commands,
            wake,
            shared,
            thread,
        })
    }

    fn command(&self, command: Command) {
        // Ignore the error: a worker that has ended has ended its targets.
        let _ = self.commands.send(command);
        // Its counter is full: then it will look anyway.
        let _ = self.wake.write(1);
    }

    fn report(&self) -> Report {
        self.shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// The results of probes of all targets, in the order in which each thread sees them. Ends when the
/// engine is stopped, and after [`Engine::finish`] with the last target.
#[derive(Debug)]
pub struct Events(Receiver<Event>);

/// Ends the wait of another thread for events.
#[derive(Debug, Clone)]
pub struct Waker(SyncSender<Event>);

impl Waker {
    /// Have [`Events`] return [`Event::Woken`] after the events that there are.
    pub fn wake(&self) {
        // Where there is no room, events end the wait.
        let _ = self.0.try_send(Event::Woken);
    }
}

/// The result of [`Events::next_within`].
#[derive(Debug)]
pub enum Next {
    /// An event.
    Event(Event),
    /// None within that time.
    Timeout,
    /// There will be none.
    Over,
}

impl Events {
    /// Wait for the next event, at most that long.
    pub fn next_within(&mut self, patience: Duration) -> Next {
        match self.0.recv_timeout(patience) {
            Ok(event) => Next::Event(event),
            Err(RecvTimeoutError::Timeout) => Next::Timeout,
            Err(RecvTimeoutError::Disconnected) => Next::Over,
        }
    }
}

impl Iterator for Events {
    type Item = Event;

    /// Waits.
    fn next(&mut self) -> Option<Event> {
        self.0.recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_ends_a_wait_and_another_one_after_the_events() {
        let (sender, receiver) = mpsc::sync_channel(1);
        let (waker, mut events) = (Waker(sender), Events(receiver));
        // The second has no room, and no need of any.
        waker.wake();
        waker.wake();
        assert!(matches!(
            events.next_within(Duration::ZERO),
            Next::Event(Event::Woken)
        ));
        assert!(matches!(events.next_within(Duration::ZERO), Next::Timeout));
        let waking = thread::spawn(move || waker.wake());
        let long = Duration::from_secs(60);
        assert!(matches!(
            events.next_within(long),
            Next::Event(Event::Woken)
        ));
        waking.join().unwrap();
    }
}
