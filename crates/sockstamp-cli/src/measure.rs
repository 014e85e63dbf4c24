//! Run a session until its end, for `stat` and `trace`.

use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;
use sockstamp_bpf::packets::{self, Lost};
use sockstamp_bpf::plan::Plan;
use sockstamp_bpf::probe;
use sockstamp_bpf::{Ceiling, Grouped, Options, Packets, Sampling, Session, drop_capabilities};
use sockstamp_explain::diagnosis::Owners;
use sockstamp_host::quota::Quotas;
use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::group::Grouping;
use sockstamp_model::message::Message;
use sockstamp_model::packet::Packet;
use sockstamp_model::summary::Summary;

use crate::command::{Prepared, Running};
use crate::containers::Containers;
use crate::escape::complain;
use crate::measuring::Measuring;
use crate::target::{self, Target};

/// The target and the end of a measurement.
pub(crate) struct Measurement<'a> {
    pub(crate) target: &'a Target,
    pub(crate) command: &'a [std::ffi::OsString],
    pub(crate) duration: Option<Duration>,
    pub(crate) recorded: Recorded,
    pub(crate) groups: Option<Grouping>,
    pub(crate) tag: bool,
    pub(crate) measuring: &'a Measuring,
}

/// The messages that an observer gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recorded {
    None,
    /// Some slow messages among the measured ones: enough to find their owners.
    Notable,
    All,
    /// Messages that took longer; every message is measured.
    SlowerThan(Duration),
}

impl Recorded {
    /// A message that took less than this is no matter for a diagnosis.
    const NOTABLE: Nanos = Nanos(1_000_000);
    /// Room for a thousand records.
    const NOTABLE_BYTES: u32 = 512 << 10;

    fn slower_than(self) -> Option<Duration> {
        match self {
            Self::SlowerThan(time) => Some(time),
            Self::None | Self::Notable | Self::All => None,
        }
    }
}

impl Measurement<'_> {
    pub(crate) fn options(&self) -> Result<Options> {
        let defaults = Options::default();
        let mut options = Options {
            target: target::resolve(self.target)?,
            record: self.recorded != Recorded::None,
            // The cgroup of a command is empty before it runs.
            new_only: self.target.new_only || !self.command.is_empty(),
            host_path: self.measuring.host_path,
            max_flows: self.measuring.max_flows,
            memory: u64::from(self.measuring.max_memory) << 20,
            groups: self.groups.clone().map(Grouped::by),
            hooks: self.measuring.hooks.into(),
            entry: self.measuring.entry.into(),
            sampling: self.measuring.sampling(self.recorded.slower_than()),
            sched: !self.measuring.no_sched,
            causes: !self.measuring.no_causes,
            on_demand: defaults.on_demand.filter(|_| self.waits_for_demand()),
            slower_than: self.recorded.slower_than().map(Nanos::from),
            tag: self.tag,
            windows: self.measuring.windows,
            max_cost: self.ceiling(),
            hol: self.measuring.hol(),
            nic_stamps: self.measuring.nic_stamps.and_then(NonZeroU32::new),
            ring_bytes: self.measuring.buffer.next_power_of_two() << 20,
            ..defaults
        };
        if self.recorded == Recorded::Notable {
            options.notable = true;
            options.slower_than = Some(Recorded::NOTABLE);
            options.ring_bytes = Recorded::NOTABLE_BYTES;
        }
        Ok(options)
    }

    /// Make the cgroup of the command, if there is one, and name it as the target.
    pub(crate) fn prepare(&self, options: &mut Options) -> Result<Option<Prepared>> {
        if self.command.is_empty() {
            return Ok(None);
        }
        let prepared = Prepared::new(self.command)?;
        options.target.cgroup = Some(prepared.cgroup().to_owned());
        Ok(Some(prepared))
    }

    /// A measurement that delivers messages keeps its rate, unless the user says otherwise. A
    /// command has not started yet, so its cost is unknown.
    fn ceiling(&self) -> Option<Ceiling> {
        let sampling = self.measuring.sampling(self.recorded.slower_than());
        let governed = matches!(self.recorded, Recorded::None | Recorded::Notable);
        let limited = governed || sampling == Sampling::Every;
        self.measuring.ceiling(limited && self.command.is_empty())
    }

    /// A command's first datagram may be its only one.
    fn waits_for_demand(&self) -> bool {
        self.command.is_empty() && !self.measuring.attach_all
    }
}

/// Receives the results of a measurement while it runs.
pub(crate) trait Observer {
    /// Take a message, if messages were requested.
    fn message(&mut self, message: &Message);

    /// Do the work due after each round of messages; return false to end the measurement.
    fn round_is_over(&mut self) -> bool;

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

impl Observer for Owners {
    fn message(&mut self, message: &Message) {
        self.record(message);
    }

    fn round_is_over(&mut self) -> bool {
        true
    }
}

/// The result of a measurement.
pub(crate) struct Outcome {
    pub(crate) summary: Summary,
    /// The command's status, if there was one.
    pub(crate) status: Option<ExitStatus>,
    /// The moments at which measuring began, for a command with its first instruction, and ended.
    pub(crate) began: Timestamp<Monotonic>,
    pub(crate) ended: Timestamp<Monotonic>,
}

pub(crate) fn now() -> Result<Timestamp<Monotonic>> {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
    Ok(Timestamp::from_nanos(Nanos::from(now).0))
}

/// Time for messages in flight to be acknowledged after the command's end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Signals that end a measurement or that are for its command, and the signal of the command's end.
/// poll(2) can wait for their pipe together with other descriptors.
pub(crate) type Signals = SignalDelivery<UnixStream, WithOrigin>;

pub(crate) fn catch_signals(signals: &[i32]) -> Result<Signals> {
    let (read, write) = UnixStream::pair()?;
    Ok(SignalDelivery::with_pipe(
        read,
        write,
        WithOrigin::default(),
        signals,
    )?)
}
/// Measure until the command, the duration, the user or the observer ends it.
pub(crate) fn run(measurement: &Measurement<'_>, observer: &mut impl Observer) -> Result<Outcome> {
    let mut options = measurement.options()?;
    let mut signals = catch_signals(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD])
        .context("cannot catch signals")?;
    // Check this first, so that the error names the missing privileges, not a cgroup.
    let facts = probe::facts();
    Plan::new(&facts, &options.request())?;
    let prepared = measurement.prepare(&mut options)?;
    let quotas = Quotas::of_host();
    let mut session = Session::start_with(facts, &options)?;
    tell_what_is_left_alone(&session, &options)?;
    let mut packets = match observer.wants_packets() {
        true => Some(Packets::start(&packets_of(&options))?),
        false => None,
    };
    let mut containers = observer.wants_containers().then(Containers::of_host);
    let began = now()?;
    let mut running = prepared.map(Prepared::start).transpose()?;
    // Declared after the session, so it is dropped first on every exit.
    let dropped = drop_capabilities()?;
    let deadline = measurement
        .duration
        .map(|duration| Instant::now() + duration);

    let mut status = None;
    loop {
        let mut left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let mut others = vec![signals.get_read().as_fd()];
        if let Some(packets) = &mut packets {
            let patience = packets.patience();
            left = Some(left.map_or(patience, |left| left.min(patience)));
            others.push((*packets).as_fd());
        }
        session.wait(left, &others, &mut |message| {
            tell(observer, &mut containers, message);
        })?;
        if let Some(refusal) = session.take_refusal() {
            complain_of(refusal);
        }
        if let Some(packets) = &mut packets {
            packets.wait(Some(Duration::ZERO), &[], &mut |packet| {
                observer.packet(packet)
            })?;
        }
        if !observer.round_is_over() || deadline.is_some_and(|deadline| Instant::now() >= deadline)
        {
            break;
        }
        if let Some(running) = &mut running {
            status = running.ended()?;
        }
        if status.is_some() || interrupted(&mut signals, running.as_ref()) {
            break;
        }
    }
    // Time that passes while we read maps and wait for stragglers is no part of the measurement.
    let ended = now()?;
    let duration = session.summary().duration;
    let throttled = quotas_of(measurement).most_used_since(&quotas);
    if status.is_some() {
        session.settle(PATIENCE, &mut |message| {
            tell(observer, &mut containers, message);
        })?;
    }
    drop(dropped);
    if let Some(packets) = packets {
        let lost = packets.stop(&mut |packet| observer.packet(packet))?;
        observer.lost_packets(lost);
    }
    give_back(&mut session);
    let mut summary = session.stop(&mut |message| {
        tell(observer, &mut containers, message);
    })?;
    summary.duration = duration;
    summary.throttled = throttled;
    observer.round_is_over();
    if let (Some(running), None) = (&mut running, status) {
        status = Some(outlive(running, &mut signals)?);
    }
    Ok(Outcome {
        summary,
        status,
        began,
        ended,
    })
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
    if target.pids.is_empty() && target.comms.is_empty() {
        return Quotas::of_host();
    }
    let mut pids = target.pids.clone();
    pids.extend(target::processes_named(&target.comms));
    Quotas::of_processes(&pids)
}

/// End what programs do, and report marks that stay on sockets.
pub(crate) fn give_back(session: &mut Session) {
    if let Err(refusal) = session.give_back() {
        let refusal = anyhow::Error::from(refusal);
        complain(format_args!(
            "sockets stay marked until they are closed: {refusal:#}"
        ));
    }
}

/// Report that a measuring window is left out.
pub(crate) fn complain_of(refusal: sockstamp_bpf::Error) {
    let refusal = anyhow::Error::from(refusal);
    complain(format_args!("a measuring window is left out: {refusal:#}"));
}

/// Report what is silently left unmeasured, or unlimited.
///
/// # Errors
///
/// If every message is wanted below a ceiling, and the cost is unknown.
pub(crate) fn tell_what_is_left_alone(session: &Session, options: &Options) -> Result<()> {
    if !options.new_only && !session.plan().namespaces && target::is_elsewhere(&options.target)? {
        complain(
            "existing connections in other network namespaces are not measured: CAP_SYS_ADMIN is missing",
        );
    }
    for name in target::names_without_process(&options.target.comms) {
        complain(format_args!("no process is named {name} yet"));
    }
    if let (true, Err(reason)) = (options.request().udp, &session.plan().udp) {
        complain(format_args!("UDP is not measured: {reason}"));
    }
    if options.max_cost.is_some() && !session.holds_cost() {
        if options.sampling == Sampling::Every {
            bail!(
                "whether every message can be measured below the ceiling is unknown: the kernel reports the cost \
                 only with CAP_SYS_ADMIN; --max-cost none measures at any cost"
            );
        }
        complain("the cost is not limited: the kernel reports it only with CAP_SYS_ADMIN");
    }
    if options.nic_stamps.is_some() && !session.plan().spares_nics() {
        complain("--nic-stamps changes nothing: no NIC stamps sends here");
    }
    Ok(())
}

/// Wait for a command that the measurement did not last for; signals are still its.
pub(crate) fn outlive(running: &mut Running, signals: &mut Signals) -> Result<ExitStatus> {
    loop {
        if let Some(status) = running.ended()? {
            return Ok(status);
        }
        let mut watched = [PollFd::new(signals.get_read().as_fd(), PollFlags::POLLIN)];
        match poll(&mut watched, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("cannot wait for the command"),
        }
        interrupted(signals, Some(running));
    }
}

/// Return true if a signal ends the measurement. With a command, signals are for the command: one
/// from the terminal has reached it already, any other is passed on.
pub(crate) fn interrupted(signals: &mut Signals, running: Option<&Running>) -> bool {
    for origin in signals.pending().filter(|origin| origin.signal != SIGCHLD) {
        let Some(running) = running else { return true };
        let from_terminal = origin.cause == Cause::Kernel;
        if let (false, Ok(signal)) = (from_terminal, Signal::try_from(origin.signal)) {
            running.signal(signal);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

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
