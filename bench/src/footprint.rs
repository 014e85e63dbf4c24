//! Measure the cost before the first message: the time to load and attach, and the memory of a
//! `sockstamp stat` that has measured.

use std::fs;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use crate::command;
use crate::condition::Condition;
use crate::effort::Effort;
use crate::load::{Load, Traffic};
use crate::paired::{Spread, in_turn, to_float, values};
use crate::report::{Budget, Report};

/// Flows to adopt; each end of a connection is one.
const FLOWS: usize = 10_000;
const TRAFFIC: Duration = Duration::from_millis(500);
/// Longer than any load time: the process counts as ready only once it has selected flows.
const STARTS_WITHIN: Duration = Duration::from_secs(2);

pub(crate) fn run(load: &mut Load, effort: Effort, report: &mut Report) -> Result<()> {
    let runs = in_turn(effort.rounds(5), [()], |()| start_and_stop(load))?.concat();
    for (name, seconds) in [
        (
            "footprint.start",
            values(&runs, |run| run.start.as_secs_f64()),
        ),
        (
            "footprint.start.cpu",
            values(&runs, |run| run.start_cpu.as_secs_f64()),
        ),
    ] {
        let budget = Some(Budget::AtMost(0.25));
        report.add(name, "s", Spread::of(&seconds), budget);
    }
    report.add(
        "footprint.stop",
        "s",
        Spread::of(&values(&runs, |run| run.stop.as_secs_f64())),
        None,
    );
    let adopted = in_turn(effort.rounds(5), [()], |()| adopt(load))?.concat();
    report.add(
        "footprint.adopt",
        "s",
        Spread::of(&adopted),
        Some(Budget::AtMost(1.0)),
    );
    let megabytes = in_turn(effort.rounds(1), [()], |()| resident(load))?.concat();
    report.add(
        "footprint.rss",
        "MB",
        Spread::of(&values(&megabytes, |both| both.0)),
        Some(Budget::AtMost(20.0)),
    );
    report.add(
        "footprint.rss.peak",
        "MB",
        Spread::of(&values(&megabytes, |both| both.1)),
        None,
    );
    Ok(())
}

/// The time of a start and of a stop.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: Duration,
    start_cpu: Duration,
    stop: Duration,
}

fn start_and_stop(load: &Load) -> Result<Run> {
    let (began, cpu_began) = (Instant::now(), cpu_time()?);
    let session = Condition::Selected.enter(load)?;
    let (start, start_cpu) = (began.elapsed(), cpu_time()? - cpu_began);
    let began = Instant::now();
    drop(session);
    Ok(Run {
        start,
        start_cpu,
        stop: began.elapsed(),
    })
}

/// Return the CPU time of this thread, which does all the work of a start.
fn cpu_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

/// Measure the time to select this many existing flows. They are idle, because the time does not
/// depend on traffic.
fn adopt(load: &mut Load) -> Result<f64> {
    load.open_idle(FLOWS / 2)?;
    let mut state = Condition::Selected.enter(load)?;
    let adopted = state.session().map(|session| session.adopted());
    load.close_idle()?;
    match adopted {
        Some(adopted) if adopted.connections >= FLOWS as u64 => Ok(adopted.took.as_secs_f64()),
        _ => bail!("of {FLOWS} flows not all were adopted: {adopted:?}"),
    }
}

/// Memory now, and at its highest: loading takes more than measuring.
fn resident(load: &mut Load) -> Result<(f64, f64)> {
    let mut stat = Stat::start(load)?;
    thread::sleep(STARTS_WITHIN);
    load.unattended(Traffic::RequestResponse, TRAFFIC)?;
    let status = fs::read_to_string(format!("/proc/{}/status", stat.0.id()));
    let status = status.context("sockstamp stat has ended")?;
    let resident = megabytes(&status, "VmRSS:").zip(megabytes(&status, "VmHWM:"));
    stat.end()?;
    resident.context("/proc does not show the memory of the process")
}

/// The value of a field of proc_pid_status(5), which are in units of 1024 bytes.
fn megabytes(status: &str, field: &str) -> Option<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(to_float(kilobytes) * 1024.0 / 1e6)
}

/// A `sockstamp stat` of the load, from the directory that we are in.
struct Stat(Child);

impl Stat {
    fn start(load: &Load) -> Result<Self> {
        let mut command = command::sockstamp()?;
        command
            .args(["stat", "--cgroup"])
            .arg(load.cgroup())
            .stdout(Stdio::null());
        Ok(Self(command.spawn().context("cannot run sockstamp stat")?))
    }

    fn end(&mut self) -> Result<()> {
        kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGINT)?;
        let status = self.0.wait()?;
        if !status.success() {
            bail!("sockstamp stat ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Stat {
    fn drop(&mut self) {
        // Does nothing to a child that was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_its_unit() {
        let status = "Name:\tstat\nVmHWM:\t    2000 kB\nVmRSS:\t    1000 kB\n";
        assert_eq!(megabytes(status, "VmRSS:"), Some(1.024));
        assert_eq!(megabytes(status, "VmSwap:"), None);
    }
}
