//! A measurement under way: the programs loaded and attached for one target, their counters and
//! records read, and everything taken away at the end.

mod groups;
mod open_waits;
mod start;
mod waits;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use libbpf_rs::Link;
use libbpf_rs::skel::Skel;
use rustc_hash::FxHashSet;
use sockstamp::ReceiveStamping;
use sockstamp_host::netns;
use sockstamp_model::clock::{ClockOffset, Monotonic, Nanos, Realtime};
use sockstamp_model::flow::{NetnsInode, SocketCookie};
use sockstamp_model::message::Message;
use sockstamp_model::summary::Summary;

use crate::abi::{self, Record};
use crate::clock;
use crate::cost::{Control, ProgramCost};
use crate::demand::Standby;
use crate::drops;
use crate::error::{Error, Tried};
use crate::facts::Facts;
use crate::flow::{self, Place};
use crate::group;
use crate::histogram;
use crate::host_path;
use crate::map_view::Banks;
use crate::nic::Nics;
use crate::options::Options;
use crate::plan::Plan;
use crate::probe;
use crate::ring::Ring;
use crate::skeleton::sockstamp::SockstampSkel;
use crate::target::Processes;
use crate::udp;
use crate::unix::Questions;
use crate::verified;
use crate::wait::Waiting;
use crate::wakeups::Wakeups;
use crate::window::{Attached, Windows};

use open_waits::OpenWaits;

/// The connections that a session found at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Adopted {
    /// Connections that existed and were selected.
    pub connections: u64,
    /// Connections that were not examined, because a task does not release the lock of one.
    pub missed: u64,
    /// The time that it took.
    pub took: Duration,
}

/// A measurement under way. Dropping it detaches everything.
pub struct Session {
    // Fields are dropped in this order: nothing may run any more when the maps go.
    links: Vec<Link>,
    /// The last to go: it counts flows that close while the others go.
    closing: Option<Link>,
    standby: Standby,
    windows: Option<Windows>,
    cost: Option<Control>,
    /// A program was not attached again, for the first time.
    refusal: Option<Error>,
    refused: bool,
    giving_up: Option<udp::GivingUp>,
    ring: Option<Ring<Vec<Record>>>,
    waiting: Option<Waiting>,
    open_waits: Option<OpenWaits>,
    unix: Option<Questions>,
    wakeups: Wakeups,
    /// The last reading of the ring found some.
    records_come: bool,
    /// The offset at the last reading of the clocks.
    offset: ClockOffset<Monotonic, Realtime>,
    /// When that was.
    clock_read: Instant,
    banks: Banks,
    skeleton: SockstampSkel<'static>,
    /// The programs that run for messages, by name.
    programs: Vec<(String, OwnedFd)>,
    /// The programs of Unix sockets, while they are attached.
    passing: Vec<(String, OwnedFd)>,
    // Held because the kernel stamps received packets only while some socket requests it.
    receive_stamping: ReceiveStamping,
    adopted: Adopted,
    /// Sockets of adopted connections with records.
    older: FxHashSet<SocketCookie>,
    stuck: BTreeSet<Place>,
    /// The network namespaces of the target; empty: all.
    netns: Vec<NetnsInode>,
    groups: Option<group::Table>,
    plan: Plan,
    /// The stamps of NICs, if they are asked for some.
    nics: Option<Nics>,
    tags: bool,
    started: Instant,
    /// The marks are off the sockets.
    deselected: bool,
    /// Every connection's own counts are in ours: all marks came off.
    is_whole: bool,
    processes: Processes,
    // Held, so that their inodes are no other namespaces'.
    _netns: Vec<netns::Held>,
}

/// The clocks are read at least so often. A step of CLOCK_REALTIME wakes us; a new offset to
/// CLOCK_TAI, which daemons of NTP and PTP set after the boot, does not: it leaves CLOCK_REALTIME
/// as it is (`timerfd_clock_was_set()`, fs/timerfd.c, v6.18).
const CLOCK_PERIOD: Duration = Duration::from_secs(2);

/// Clocks that were read so long ago are read by the way. Other work wakes an idle session each
/// second, and nothing needs to wake it for the clocks alone.
const CLOCK_BY_THE_WAY: Duration = Duration::from_millis(500);

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Load and attach. [`Session::poll`] delivers messages, if they were requested.
    ///
    /// # Errors
    ///
    /// Everything in [`Error`]; nothing stays behind then.
    pub fn start(options: &Options) -> Result<Self, Error> {
        Self::start_with(probe::facts(), options)
    }

    /// Do the same as [`Session::start`] with the facts of a look that preceded it: the kernel's
    /// types are read only once.
    ///
    /// # Errors
    ///
    /// Those of [`Session::start`].
    pub fn start_with(facts: Facts, options: &Options) -> Result<Self, Error> {
        let facts = probe::try_what_is_used(facts, options)?;
        Self::start_on(&facts, options)
    }

    /// Return the plan of the measurement.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Return true if the target names processes by number, and all of them have ended.
    #[must_use]
    pub fn has_outlived_its_target(&self) -> bool {
        self.processes.have_ended()
    }

    /// The connections that existed at the start, and how long it took to select them.
    #[must_use]
    pub fn adopted(&self) -> Adopted {
        self.adopted
    }

    /// Return the places where connections were not adopted, because a task does not release the
    /// lock of one.
    #[must_use]
    pub fn stuck(&self) -> &BTreeSet<Place> {
        &self.stuck
    }

    /// The last to come is the first to go: a send whose end is seen has had its entry seen, a read
    /// the arrival of its bytes.
    fn detach(&mut self) {
        if let Some(data) = self.skeleton.maps.bss_data.as_mut() {
            data.stopping = true;
        }
        self.standby.detach(&mut self.skeleton, &self.plan);
        if let Some(windows) = &mut self.windows {
            windows.detach();
        }
        while self.links.pop().is_some() {}
    }

    /// As [`wait`](Self::wait), for messages alone.
    ///
    /// # Errors
    ///
    /// Those of [`wait`](Self::wait).
    pub fn poll(
        &mut self,
        timeout: Duration,
        on_message: &mut impl FnMut(Message),
    ) -> Result<(), Error> {
        self.wait(Some(timeout), &[], on_message)
    }

    /// Wait until there is something to do, one of `others` can be read or `timeout` has passed,
    /// and deliver new messages, if they were requested. Call it all the time: it keeps the
    /// distance of the clocks and the names of groups up to date. While messages come they are
    /// delivered every 50 ms or so; if nothing happens it returns at most once per second.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] or [`Error::Io`] where the kernel refuses.
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
        others: &[BorrowedFd<'_>],
        on_message: &mut impl FnMut(Message),
    ) -> Result<(), Error> {
        let groups = self.groups.as_ref().map(group::Table::until_sweep);
        let giving_up = self.giving_up.as_ref().map(udp::GivingUp::until_run);
        let standby = self.standby.until_run(&self.skeleton, &self.plan);
        let windows = self.windows.as_ref().map(Windows::until_run);
        let cost = self.cost.as_ref().map(Control::until_run);
        let waiting = self.waiting.as_ref().map(Waiting::until_fetch);
        let nics = self.nics.as_ref().map(Nics::until_run);
        let unix = self.unix.as_ref().map(Questions::until_run);
        let clock = CLOCK_PERIOD.saturating_sub(self.clock_read.elapsed());
        let due = [
            timeout,
            Some(clock),
            self.until_records(on_message)?,
            groups,
            giving_up,
            standby,
            windows,
            cost,
            waiting,
            nics,
            unix,
        ];
        let stepped = self.wakeups.wait(due.into_iter().flatten().min(), others)?;
        if stepped || self.clock_read.elapsed() >= CLOCK_BY_THE_WAY {
            self.refresh_clock()?;
        }
        self.processes.deselect_ended(&self.skeleton.maps.pids)?;
        self.run_windows();
        self.hold_cost();
        self.standby.run(&mut self.skeleton, &self.plan);
        self.take_records(on_message)?;
        self.run_nics(on_message)?;
        self.fetch_waits()?;
        self.look_at_unix();
        if let Some(giving_up) = &mut self.giving_up {
            let counted = self.skeleton.maps.bss_data.as_ref();
            giving_up
                .run(|| counted.map_or(0, |data| data.udp_sends_in_flight + data.hops_open))?;
        }
        if let Some(groups) = &mut self.groups {
            groups.refresh(&self.skeleton.maps, &self.plan)?;
        }
        Ok(())
    }

    /// Deliver messages whose stamps of NICs have a time.
    fn run_nics(&mut self, on_message: &mut impl FnMut(Message)) -> Result<(), Error> {
        let groups = &mut self.groups;
        let mut pass = |message, wanted| settle(groups, message, wanted, on_message);
        let Some(nics) = &mut self.nics else {
            return Ok(());
        };
        nics.run(&mut pass)?;
        // A program that advances it at this moment fails: it has another value than expected.
        if let (false, Some(data)) = (nics.asks(), self.skeleton.maps.bss_data.as_mut()) {
            data.nic_next = u64::MAX;
        }
        Ok(())
    }

    /// Return, once, why no NIC is asked for stamps any more: one has missed some.
    pub fn take_nic_objection(&mut self) -> Option<String> {
        self.nics.as_mut()?.take_objection()
    }

    /// Return the clocks of NICs that stamp and cannot be read, each with the reason, if NICs are
    /// asked for stamps.
    #[must_use]
    pub fn unread_clocks(&self) -> &[String] {
        self.nics.as_ref().map_or(&[], Nics::unread)
    }

    fn run_windows(&mut self) {
        let Some(windows) = &mut self.windows else {
            return;
        };
        let (banks, plan) = (&self.banks, &self.plan);
        let in_flight = || histogram::summary(&banks.read(), plan).in_flight;
        let counted = || banks.tally();
        let standby = &mut self.standby;
        let run = windows.run(&mut self.skeleton, plan, standby, in_flight, counted);
        // Earlier results remain right: continue without this window.
        if let (Err(error), false) = (run, self.refused) {
            self.refusal = Some(error);
            self.refused = true;
        }
    }

    /// Continue at a cost below the ceiling.
    fn hold_cost(&mut self) {
        let Some(cost) = &mut self.cost else {
            return;
        };
        let mut attached = Attached::All;
        if let Some(windows) = &mut self.windows {
            attached = windows.attached();
            cost.can_release(windows.can_release());
            if let Some(walks) = windows.take_walks() {
                cost.saw_walks(&walks);
            }
        }
        let Some(step) = cost.run(attached, || self.banks.traffic()) else {
            return;
        };
        if let Some(data) = self.skeleton.maps.bss_data.as_mut() {
            data.rate_divisor = step.rate;
        }
        if let Some(windows) = &mut self.windows {
            windows.want(step.one_of, step.released);
        }
    }

    /// Return, once, why a program could not be attached again for a window. The next window tries
    /// again, and the summary counts those that failed.
    pub fn take_refusal(&mut self) -> Option<Error> {
        self.refusal.take()
    }

    /// Return whether the cost is held below [`Options::max_cost`]; the kernel reports it only with
    /// CAP_SYS_ADMIN.
    #[must_use]
    pub fn holds_cost(&self) -> bool {
        self.cost.is_some()
    }

    /// Return the time for which the ring need not be read. While no record comes, the next one
    /// wakes us.
    fn until_records(
        &mut self,
        on_message: &mut impl FnMut(Message),
    ) -> Result<Option<Duration>, Error> {
        if self.ring.is_none() {
            return Ok(None);
        }
        if !self.records_come {
            if let Some(data) = self.skeleton.maps.bss_data.as_mut() {
                data.reader_sleeps = true;
            }
            fence(Ordering::SeqCst);
            // Look again: records that came before this setting wake no reader.
            self.take_records(on_message)?;
        }
        Ok(Some(self.wakeups.patience(self.records_come)))
    }

    fn take_records(&mut self, on_message: &mut impl FnMut(Message)) -> Result<(), Error> {
        let Some(ring) = &self.ring else {
            return Ok(());
        };
        let mut some = false;
        let mut on_message = |message| {
            some = true;
            on_message(message);
        };
        let older = self.waiting.is_some().then_some(&mut self.older);
        let nics = self.nics.as_mut();
        let read = |take: &mut dyn FnMut(&Record)| ring.read(take);
        hand_over(read, self.offset, nics, older, &mut on_message)?;
        self.records_come = some;
        Ok(())
    }

    fn refresh_clock(&mut self) -> Result<(), Error> {
        let measured = clock::measure()
            .map_err(io::Error::from)
            .tried("read the clocks")?;
        if let Some(data) = self.skeleton.maps.bss_data.as_mut() {
            data.clock_offsets.realtime_minus_monotonic = measured.offset.delta().0;
            data.clock_offsets.tai_minus_realtime = measured.tai().delta().0;
        }
        self.offset = measured.offset;
        self.clock_read = Instant::now();
        Ok(())
    }

    /// Turn records on or off, if [`Options::record`] requested them; they are on at first.
    /// Messages that complete while they are off are counted all the same.
    pub fn record(&mut self, wanted: bool) {
        if let Some(data) = self.skeleton.maps.bss_data.as_mut() {
            data.recording = wanted;
        }
    }

    /// Return the results so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let banks = self.banks.read();
        let mut summary = histogram::summary(&banks, &self.plan);
        summary.interfaces =
            host_path::interfaces(&banks, &self.plan, &self.skeleton.maps.interfaces);
        summary.windows = self.windows.as_ref().and_then(Windows::summary);
        summary.cost = self.cost.as_ref().and_then(Control::summary);
        summary.tags = self.tags.then(|| histogram::tags(&banks));
        if let Some(nics) = &self.nics {
            nics.add_to(&mut summary, &banks);
        }
        summary.tx.begins_unseen = histogram::begins_unseen(&summary.tx);
        if let Some(data) = &self.skeleton.maps.bss_data {
            let [tx, rx] = &data.udp_drop_reasons;
            summary.tx.drop_reasons = drops::by_name(tx);
            summary.rx.drop_reasons = drops::by_name(rx);
        }
        summary.duration = Nanos::from(self.started.elapsed());
        if let Some(windows) = &self.windows {
            windows.state_errors(&mut summary, self.banks.tally());
        }
        summary.adopted = self.adopted.connections;
        let unreached = self.windows.as_ref().map_or(0, Windows::missed);
        summary.lost.not_adopted = self.adopted.missed + unreached;
        summary.lost.skipped = self.costs().iter().map(|(_, cost)| cost.skipped).sum();
        summary
    }

    /// Return the cost of each program that runs for messages, by its name.
    #[must_use]
    pub fn costs(&self) -> Vec<(String, ProgramCost)> {
        let programs = self.programs.iter().chain(&self.passing);
        programs
            .map(|(name, program)| (name.clone(), ProgramCost::of(program.as_fd())))
            .collect()
    }

    /// Wait until messages that are still in flight have completed, at most for `patience`.
    ///
    /// # Errors
    ///
    /// Those of [`Session::poll`].
    pub fn settle(
        &mut self,
        patience: Duration,
        on_message: &mut impl FnMut(Message),
    ) -> Result<(), Error> {
        let end = Instant::now() + patience;
        while self.summary().in_flight > 0 && Instant::now() < end {
            self.poll(Duration::from_millis(10), on_message)?;
        }
        Ok(())
    }

    /// Detach everything and take the marks off the sockets. [`Session::stop`] does so, too, but
    /// then a refusal is not reported.
    ///
    /// # Errors
    ///
    /// The first refusal of the kernel: sockets keep their marks until they are closed.
    pub fn give_back(&mut self) -> Result<(), Error> {
        self.detach();
        self.deselect()
    }

    /// Take the marks off the sockets, once.
    fn deselect(&mut self) -> Result<(), Error> {
        let mut ended = Ok(());
        if !std::mem::replace(&mut self.deselected, true) && self.plan.uses_bit() {
            let programs = &self.skeleton.progs;
            let data = &self.skeleton.maps.bss_data;
            let mut visited = || data.as_ref().map_or(0, |data| data.visited_sockets);
            ended = flow::deselect(&programs.deselect_flows, &self.netns, &mut visited);
            self.is_whole = ended.is_ok();
            #[cfg(feature = "series")]
            if self.plan.datagrams_call_back() {
                let datagrams = &programs.deselect_datagram_sockets;
                ended = ended.and(flow::deselect(datagrams, &self.netns, &mut visited));
            }
        }
        self.closing = None;
        ended
    }

    /// Detaches everything, takes the marks off the sockets and gives the final numbers.
    ///
    /// # Errors
    ///
    /// Those of [`Session::poll`], for the remaining records.
    pub fn stop(mut self, on_message: &mut impl FnMut(Message)) -> Result<Summary, Error> {
        let duration = Nanos::from(self.started.elapsed());
        let now = clock::monotonic_now();
        self.detach();
        if let Some(ring) = &self.ring {
            let nics = self.nics.as_mut();
            let read = |take: &mut dyn FnMut(&Record)| ring.empty(take);
            hand_over(read, self.offset, nics, None, on_message)?;
        }
        if let Some(nics) = &mut self.nics {
            let groups = &mut self.groups;
            nics.finish(&mut |message, wanted| settle(groups, message, wanted, on_message))?;
        }
        // The caller may have asked before: give_back().
        let _ = self.deselect();
        let mut summary = self.summary();
        // Flows that were open are counted by now, where they have marks that lead to them.
        let segments = || self.banks.read().iter().map(|bank| bank.segments).sum();
        summary.tx.segments = self.plan.uses_bit().then(segments);
        summary.duration = duration;
        if let Some(windows) = &self.windows {
            let moved = self.is_whole.then(|| self.banks.moved());
            windows.settle(&mut summary, self.banks.tally(), moved, now);
        }
        let groups = self.groups.as_mut();
        summary.groups = groups
            .map(|groups| groups.finish(&self.skeleton.maps, &self.plan))
            .transpose()?;
        Ok(summary)
    }

    /// Return descriptors of the programs that run for messages, by name, to measure their cost.
    #[must_use]
    pub fn programs(&self) -> Vec<(String, BorrowedFd<'_>)> {
        let programs = self.programs.iter().chain(&self.passing);
        programs
            .map(|(name, program)| (name.clone(), program.as_fd()))
            .collect()
    }

    /// Return the number of instructions that the verifier processed per loaded program, by its
    /// name.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the kernel does not report it, as before Linux 5.16.
    pub fn verified(&self) -> Result<Vec<(String, u32)>, Error> {
        verified::of(self.skeleton.object())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // No caller is left to tell.
        let _ = self.give_back();
    }
}

/// Make messages of the records that `read` gives. Those that a NIC was asked to stamp are held.
/// Sockets of adopted connections are `older` than the measurement.
fn hand_over(
    read: impl FnOnce(&mut dyn FnMut(&Record)) -> Result<(), Error>,
    offset: ClockOffset<Monotonic, Realtime>,
    mut nics: Option<&mut Nics>,
    mut older: Option<&mut FxHashSet<SocketCookie>>,
    on_message: &mut impl FnMut(Message),
) -> Result<(), Error> {
    let mut unknown = 0_u64;
    read(&mut |record| {
        let is_adopted = abi::is_adopted(&record.flow);
        if let Some(older) = older.as_mut().filter(|_| is_adopted) {
            older.insert(SocketCookie(record.flow.cookie));
        }
        match (abi::message(record, offset), &mut nics) {
            (Some(message), Some(nics)) if Nics::holds(record) => nics.hold(message, record),
            (Some(message), _) => on_message(message),
            (None, _) => unknown += 1,
        }
    })?;
    match unknown {
        0 => Ok(()),
        records => Err(Error::UnknownRecords { records }),
    }
}

/// A message is held no longer.
fn settle(
    groups: &mut Option<group::Table>,
    message: Message,
    wanted: bool,
    on_message: &mut impl FnMut(Message),
) {
    if let Some(groups) = groups {
        groups.add_held(&message);
    }
    if wanted {
        on_message(message);
    }
}
