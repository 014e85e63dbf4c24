//! Measure with a session until the end, for subcommands that print or keep its results.

use std::io::{self, IsTerminal};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Result;
use sockstamp_bpf::facts::Facts;
use sockstamp_bpf::nic;
use sockstamp_bpf::packets::{self, Lost};
use sockstamp_bpf::plan::Plan;
use sockstamp_bpf::probe;
use sockstamp_bpf::{Ceiling, Grouped, Options, Packets, Sampling, Session, drop_capabilities};
use sockstamp_host::quota::Quotas;
use sockstamp_host::{clock, netns};
use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::group::Grouping;
use sockstamp_model::message::Message;
use sockstamp_model::packet::Packet;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::{UnixWait, Wait, Waits};
use sockstamp_run::command::Spent;
use sockstamp_run::containers::Containers;
use sockstamp_run::escape::{complain, inform};
use sockstamp_run::life::Life;
use sockstamp_run::session::{complain_of, give_back, tell_what_is_left_alone};
use sockstamp_run::target::processes_named;

use crate::options::measuring::Measuring;
use crate::options::slow::SlowOnly;
use crate::options::target::Target;

/// The target and the end of a measurement.
pub(crate) struct Measurement<'a> {
    pub(crate) target: &'a Target,
    pub(crate) command: &'a [std::ffi::OsString],
    pub(crate) duration: Option<Duration>,
    pub(crate) recorded: Recorded,
    /// Waits that take longer are reported, if any.
    pub(crate) waits: Option<Nanos>,
    /// With those for answers over Unix sockets.
    pub(crate) unix: bool,
    pub(crate) groups: Option<Grouping>,
    pub(crate) tag: bool,
    pub(crate) measuring: &'a Measuring,
    /// The work under way, for somebody who waits before a terminal.
    pub(crate) told: Option<&'static str>,
}

/// The messages that an observer gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recorded {
    None,
    /// The slow ones among the measured messages: they are diagnosed one by one.
    Notable(Duration),
    All,
    /// Messages that are slower; every message is measured.
    SlowerThan(Duration),
}

impl Recorded {
    /// Room for a thousand records.
    const NOTABLE_BYTES: u32 = 512 << 10;

    /// Return all messages, or slow ones alone.
    pub(crate) fn slower_than(slow_only: SlowOnly) -> Self {
        slow_only.slow.map_or(Self::All, Self::SlowerThan)
    }

    /// Return the time above which messages alone are measured for; the others may be sampled.
    fn slow_only(self) -> Option<Duration> {
        match self {
            Self::SlowerThan(limit) => Some(limit),
            Self::None | Self::Notable(_) | Self::All => None,
        }
    }
}

impl Measurement<'_> {
    pub(crate) fn options(&self) -> Result<Options> {
        let defaults = Options::default();
        let expert = self.measuring.expert;
        let mut options = Options {
            target: self.target.resolve()?,
            record: self.recorded != Recorded::None,
            // The cgroup of a command is empty before it runs.
            new_only: self.target.new_only || !self.command.is_empty(),
            host_path: self.measuring.host_path,
            max_flows: self.measuring.max_flows,
            memory: u64::from(self.measuring.max_memory) << 20,
            groups: self.groups.clone().map(Grouped::by),
            hooks: expert.hooks,
            entry: expert.entry,
            sampling: self.measuring.sampling(self.recorded.slow_only()),
            sched: expert.sched,
            causes: expert.causes,
            on_demand: defaults.on_demand.filter(|_| self.waits_for_demand()),
            slow: self.recorded.slow_only().map(Nanos::from),
            waits: self.waits,
            unix: self.unix,
            tag: self.tag,
            windows: expert.windows,
            max_cost: self.ceiling(),
            hol: expert.hol,
            nic_stamps: self.nic_stamps(),
            nic_reads: self.measuring.nic_stamps.reads(),
            ring_bytes: self.measuring.buffer.next_power_of_two() << 20,
            ..defaults
        };
        if let Recorded::Notable(limit) = self.recorded {
            options.notable = true;
            options.slow = Some(limit.into());
            options.ring_bytes = Recorded::NOTABLE_BYTES;
        }
        Ok(options)
    }

    /// Where asking would take stamps from somebody, the measurement goes on without.
    fn nic_stamps(&self) -> Option<NonZeroU32> {
        nic::choose(self.measuring.nic_stamps).unwrap_or_else(|reason| {
            complain(format_args!("no NIC is asked for stamps: {reason}"));
            None
        })
    }

    /// A measurement that delivers messages keeps its rate, unless the user says otherwise. A
    /// command has not started yet, so its cost is unknown.
    fn ceiling(&self) -> Option<Ceiling> {
        let sampling = self.measuring.sampling(self.recorded.slow_only());
        let governed = matches!(self.recorded, Recorded::None | Recorded::Notable(_));
        let limited = governed || sampling == Sampling::Every;
        self.measuring.ceiling(limited && self.command.is_empty())
    }

    /// A command's first datagram may be its only one.
    fn waits_for_demand(&self) -> bool {
        self.command.is_empty() && !self.measuring.expert.attach_all
    }
}

/// Receives the results of a measurement while it runs.
pub(crate) trait Observer {
    /// Open what it needs with the privilege that measuring drops, once it is known that this host
    /// can measure.
    fn begin(&mut self) {}

    /// Take a message, if messages were requested.
    fn message(&mut self, message: &Message);

    /// Do the work due after each round of messages; return false to end the measurement.
    fn round_is_over(&mut self) -> bool;

    /// Take waits, if they were requested: at the end, those that are open among them.
    fn waits(&mut self, _: &Waits) {}

    /// Take waits as they end.
    fn ended(&mut self, _: &[Wait]) {}

    /// Take questions over Unix sockets that were slow, as they end.
    fn unix(&mut self, _: &[UnixWait]) {}

    /// Take the slow waits that are open: at the start, and a while before the end.
    fn open(&mut self, _: &[Wait]) {}

    /// Return true if a diagnosis is printed: its notes have what found no room.
    fn diagnoses(&self) -> bool {
        false
    }

    /// Return true if waits are wanted once they have ended.
    fn wants_ended_waits(&self) -> bool {
        false
    }

    /// Return the time between two looks at the counters, if these are wanted.
    fn interval(&self) -> Option<Duration> {
        None
    }

    /// Take the counters since the start, after each interval.
    fn interval_is_over(&mut self, _: &Summary) -> Result<()> {
        Ok(())
    }

    /// Return true if the containers of messages are wanted.
    fn wants_containers(&self) -> bool {
        false
    }

    /// Return true if packets are wanted in addition to messages.
    fn wants_packets(&self) -> bool {
        false
    }

    /// Take a packet at a stage.
    fn packet(&mut self, _: &Packet<'_>) {}

    /// Take the number of packets that were lost.
    fn lost_packets(&mut self, _: Lost) {}
}

/// Waits for the end.
impl Observer for () {
    fn message(&mut self, _: &Message) {}

    fn round_is_over(&mut self) -> bool {
        true
    }
}

/// Two observers of the same messages.
impl<A: Observer, B: Observer> Observer for (&mut A, &mut B) {
    fn begin(&mut self) {
        self.0.begin();
        self.1.begin();
    }

    fn message(&mut self, message: &Message) {
        self.0.message(message);
        self.1.message(message);
    }

    fn round_is_over(&mut self) -> bool {
        self.0.round_is_over() & self.1.round_is_over()
    }

    fn waits(&mut self, waits: &Waits) {
        self.0.waits(waits);
        self.1.waits(waits);
    }

    fn ended(&mut self, waits: &[Wait]) {
        self.0.ended(waits);
        self.1.ended(waits);
    }

    fn unix(&mut self, waits: &[UnixWait]) {
        self.0.unix(waits);
        self.1.unix(waits);
    }

    fn open(&mut self, waits: &[Wait]) {
        self.0.open(waits);
        self.1.open(waits);
    }

    fn diagnoses(&self) -> bool {
        self.0.diagnoses() || self.1.diagnoses()
    }

    fn wants_containers(&self) -> bool {
        self.0.wants_containers() | self.1.wants_containers()
    }

    fn interval(&self) -> Option<Duration> {
        self.0.interval().or(self.1.interval())
    }

    fn interval_is_over(&mut self, summary: &Summary) -> Result<()> {
        self.0.interval_is_over(summary)?;
        self.1.interval_is_over(summary)
    }
}

/// The result of a measurement.
pub(crate) struct Measured {
    pub(crate) summary: Summary,
    /// The command's status, if there was one.
    pub(crate) status: Option<ExitStatus>,
    /// A signal has ended it.
    pub(crate) interrupted: bool,
    /// The time that the command spent on CPUs, where the kernel tells.
    pub(crate) spent: Option<Spent>,
    /// The moments at which measuring began, for a command with its first instruction, and ended.
    pub(crate) began: Timestamp<Monotonic>,
    pub(crate) ended: Timestamp<Monotonic>,
}

/// A look at all sockets a while before the end: what is queued then, and has not left at the end,
/// waits for more than a second.
struct LastLook {
    is_wanted: bool,
    due: Option<Instant>,
}

impl LastLook {
    const BEFORE_END: Duration = Duration::from_millis(1200);

    fn of(measurement: &Measurement<'_>) -> Self {
        let is_long = |duration| duration >= 2 * Self::BEFORE_END;
        Self {
            is_wanted: measurement.waits.is_some() && measurement.duration.is_some_and(is_long),
            due: None,
        }
    }

    /// Return the time until the look, or else the end.
    fn until(&mut self, left: Option<Duration>) -> Option<Duration> {
        let before = left
            .filter(|_| self.is_wanted)?
            .checked_sub(Self::BEFORE_END);
        let now = Instant::now();
        let due = *self.due.get_or_insert(now + before.unwrap_or_default());
        Some(due.saturating_duration_since(now))
    }

    /// Return true once, when its time has come.
    fn is_due(&mut self) -> bool {
        let is_due = self.is_wanted && self.due.is_some_and(|due| due <= Instant::now());
        self.is_wanted &= !is_due;
        is_due
    }
}

/// The times at which an observer gets the counters.
struct Ticks {
    interval: Option<Duration>,
    due: Instant,
}

impl Ticks {
    fn of(observer: &impl Observer) -> Self {
        let interval = observer.interval();
        Self {
            interval,
            due: Instant::now() + interval.unwrap_or_default(),
        }
    }

    /// Return the time until the next one, or else the end.
    fn until(&self, left: Option<Duration>) -> Option<Duration> {
        let tick = self.due.saturating_duration_since(Instant::now());
        match self.interval {
            Some(_) => Some(left.map_or(tick, |left| left.min(tick))),
            None => left,
        }
    }

    /// Return true if one has come.
    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        match self.interval {
            Some(interval) if self.due <= now => {
                self.due = (self.due + interval).max(now);
                true
            }
            _ => false,
        }
    }
}

/// Time for messages in flight to be acknowledged after the end of the command, or of the target.
const PATIENCE: Duration = Duration::from_secs(1);

/// Measure until the command, the duration, the user or the observer ends it.
pub(crate) fn run(measurement: &Measurement<'_>, observer: &mut impl Observer) -> Result<Measured> {
    let mut options = measurement.options()?;
    let mut life = Life::new(measurement.duration)?;
    // Check this first, so that the error names the missing privileges, not a cgroup.
    let facts = probe::facts();
    Plan::new(&facts, &options.request())?;
    observer.begin();
    if let Some(cgroup) = life.prepare(measurement.command)? {
        options.target.cgroup = Some(cgroup);
    }
    let quotas = Quotas::of_host();
    let mut rounds = Rounds::start(measurement, facts, &options, observer)?;
    let began = clock::now()?;
    life.start()?;
    // Declared after the session, so it is dropped first on every exit.
    let dropped = drop_capabilities()?;
    rounds.begin()?;
    tell_how_it_ends(measurement);
    life.last(|left, signal| rounds.round(left, signal))?;
    // Time that passes while we read maps and wait for stragglers is no part of the measurement.
    let ended = clock::now()?;
    let spent = life.spent();
    let duration = rounds.session.summary().duration;
    let throttled = quotas_of(measurement).most_used_since(&quotas);
    rounds.end(life.has_ended())?;
    drop(dropped);
    let summary = rounds.stop()?;
    Ok(Measured {
        summary: Summary {
            duration,
            throttled,
            ..summary
        },
        interrupted: life.is_interrupted(),
        status: life.outlive()?,
        spent,
        began,
        ended,
    })
}

/// A measurement under way, and its observer.
struct Rounds<'a, O> {
    observer: &'a mut O,
    session: Session,
    packets: Option<Packets>,
    containers: Option<Containers>,
    last_look: LastLook,
    ticks: Ticks,
    /// Go on when the target has ended.
    keep: bool,
}

impl<'a, O: Observer> Rounds<'a, O> {
    fn start(
        measurement: &Measurement<'_>,
        facts: Facts,
        options: &Options,
        observer: &'a mut O,
    ) -> Result<Self> {
        let session = Session::start_with(facts, options)?;
        tell_what_is_left_alone(&session, options)?;
        let packets = match observer.wants_packets() {
            true => Some(Packets::start(&packets_of(options))?),
            false => None,
        };
        Ok(Self {
            session,
            packets,
            containers: observer.wants_containers().then(Containers::of_host),
            last_look: LastLook::of(measurement),
            ticks: Ticks::of(observer),
            keep: measurement.target.keep,
            observer,
        })
    }

    fn begin(&mut self) -> Result<()> {
        self.observer.open(&self.session.look()?);
        self.ticks = Ticks::of(self.observer);
        Ok(())
    }

    /// Do what a round of [`Life::last`] does.
    fn round(&mut self, left: Option<Duration>, signal: BorrowedFd<'_>) -> Result<bool> {
        self.wait(left, signal)?;
        if let Some(refusal) = self.session.take_refusal() {
            complain_of(refusal);
        }
        if let Some(objection) = self.session.take_nic_objection() {
            complain(format_args!(
                "no NIC is asked for stamps any more: {objection}"
            ));
        }
        if self.last_look.is_due() {
            self.observer.open(&self.session.look()?);
        }
        self.pass_waits_on();
        if self.ticks.is_due() {
            let mut summary = self.session.summary();
            summary.groups = self.session.groups()?;
            self.observer.interval_is_over(&summary)?;
        }
        if self.observer.wants_ended_waits() {
            self.observer.waits(&Waits {
                list: self.session.ended_waits(),
                unix: self.session.ended_unix_waits(),
                ..Waits::default()
            });
        }
        let ends = self.session.has_outlived_its_target() && !self.keep;
        Ok(self.observer.round_is_over() && !ends)
    }

    /// Wait for messages and packets, and pass them on.
    fn wait(&mut self, left: Option<Duration>, signal: BorrowedFd<'_>) -> Result<()> {
        let (observer, containers) = (&mut *self.observer, &mut self.containers);
        let mut left = self.ticks.until(self.last_look.until(left).or(left));
        let mut others = vec![signal];
        if let Some(packets) = &mut self.packets {
            let patience = packets.patience();
            left = Some(left.map_or(patience, |left| left.min(patience)));
            others.push((*packets).as_fd());
        }
        self.session.wait(left, &others, &mut |message| {
            tell(observer, containers, message);
        })?;
        if let Some(packets) = &mut self.packets {
            packets.wait(Some(Duration::ZERO), &[], &mut |packet| {
                observer.packet(packet)
            })?;
        }
        Ok(())
    }

    fn pass_waits_on(&mut self) {
        match self.session.new_waits() {
            [] => {}
            ended => self.observer.ended(ended),
        }
        match self.session.new_unix_waits() {
            [] => {}
            ended => self.observer.unix(ended),
        }
    }

    /// Take what was under way when the measurement ended.
    fn end(&mut self, has_ended: bool) -> Result<()> {
        let (observer, containers) = (&mut *self.observer, &mut self.containers);
        if has_ended || self.session.has_outlived_its_target() {
            self.session.settle(PATIENCE, &mut |message| {
                tell(observer, containers, message);
            })?;
        }
        self.session.confirm_waits()?;
        let waits = self.session.waits()?;
        if !observer.diagnoses() {
            for told in untold(&waits) {
                complain(format_args!("{told}"));
            }
        }
        observer.waits(&waits);
        Ok(())
    }

    /// End the session, with the capabilities that this takes.
    fn stop(mut self) -> Result<Summary> {
        let observer = self.observer;
        if let Some(packets) = self.packets {
            let lost = packets.stop(&mut |packet| observer.packet(packet))?;
            observer.lost_packets(lost);
        }
        give_back(&mut self.session);
        let summary = self.session.stop(&mut |message| {
            tell(observer, &mut self.containers, message);
        })?;
        observer.round_is_over();
        Ok(summary)
    }
}

/// Name the counts of waits that are too small for lack of room.
fn untold(waits: &Waits) -> impl Iterator<Item = String> {
    let counts = [
        (waits.untold, "waits are not counted by process and service"),
        (
            waits.untold_drops,
            "packets that this host dropped are not told",
        ),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    counts.map(|(count, what)| format!("{count} {what}: there was no room for more"))
}

/// Tell somebody before a terminal that it measures, and how to end it.
fn tell_how_it_ends(measurement: &Measurement<'_>) {
    let is_read = measurement.command.is_empty() && io::stderr().is_terminal();
    let Some(told) = measurement.told.filter(|_| is_read) else {
        return;
    };
    match measurement.duration {
        Some(duration) => inform(format_args!(
            "{told} for {}; Ctrl-C ends it earlier",
            Nanos::from(duration)
        )),
        None => inform(format_args!("{told} until Ctrl-C")),
    }
    if is_wider_than_here(measurement.target) {
        inform(format_args!(
            "all network namespaces of this host are measured, not this one alone, which \
             --netns NAME would be"
        ));
    }
}

/// Return true in a network namespace other than that of init, as of `ip netns exec`, if the target
/// is all namespaces: tools that read /proc/net see this one alone.
fn is_wider_than_here(target: &Target) -> bool {
    let is_everything = !target.processes.are_named()
        && target.cgroup.is_none()
        && target.container.is_none()
        && target.netns.is_empty()
        && target.interface.is_none();
    let of_init = netns::of_process(Path::new("/proc/1"));
    is_everything && of_init.is_some() && of_init != netns::own().ok()
}

/// Pass a message on, with its container if that is wanted.
fn tell(observer: &mut impl Observer, containers: &mut Option<Containers>, mut message: Message) {
    if let Some(containers) = containers {
        message.container = containers.of(message.cgroup);
    }
    observer.message(&message);
}

/// Request the packets of the same target.
fn packets_of(options: &Options) -> packets::Options {
    packets::Options {
        target: options.target.clone(),
        all_stages: true,
        // A message has some packets, each with its headers.
        ring_bytes: options.ring_bytes.saturating_mul(2),
        ..packets::Options::default()
    }
}

/// Read the CPU quotas that hold for the target, or all where it is no process.
fn quotas_of(measurement: &Measurement<'_>) -> Quotas {
    let target = measurement.target;
    if !measurement.command.is_empty() {
        // The command's cgroup is below ours.
        return Quotas::of_processes(&[std::process::id()]);
    }
    if !target.processes.are_named() {
        return Quotas::of_host();
    }
    let mut pids = target.processes.pids.clone();
    pids.extend(processes_named(&target.processes.comms));
    Quotas::of_processes(&pids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_found_no_room_are_told() {
        let waits = Waits {
            untold: 2,
            untold_drops: 30,
            ..Waits::default()
        };
        let told: Vec<_> = untold(&waits).collect();
        assert_eq!(
            told,
            [
                "2 waits are not counted by process and service: there was no room for more",
                "30 packets that this host dropped are not told: there was no room for more"
            ]
        );
        assert_eq!(untold(&Waits::default()).count(), 0);
    }

    #[test]
    fn packets_have_room_in_proportion_to_that_of_messages() {
        for (megabytes, expected) in [(8, 16), (64, 128), (1024, 2048)] {
            let options = Options {
                ring_bytes: megabytes << 20,
                ..Options::default()
            };
            assert_eq!(packets_of(&options).ring_bytes, expected << 20);
        }
    }
}
