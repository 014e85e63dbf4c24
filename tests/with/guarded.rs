//! Packets that a kernel shows to no BPF program.
//!
//! A kernel that guards its first process may run no program while a task of that process is
//! current, even for packets that a softirq handles meanwhile, and count nothing of it. Such a
//! kernel also denies root any access to that process. tcpdump and the kernel's own trace events
//! see these packets, so a test can distinguish each missing one from a lost one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Trace events of the kernel at the places where programs see packets.
const EVENTS: [&str; 2] = ["net_dev_start_xmit", "netif_receive_skb"];
/// Longer than a packet takes from the place where tcpdump stamps it to the event, in nanoseconds,
/// also if an interrupt or the hypervisor comes in between. Each event excuses one packet alone.
const NEXT: u64 = 20_000_000;

/// Trace events of some interfaces, until [`Guarded::finish`].
#[derive(Debug)]
pub struct Guarded(Option<Instance>);

impl Guarded {
    /// Begin, on kernels that guard their first process. On others no packet is excused.
    pub fn start<const N: usize>(interfaces: [&str; N]) -> Self {
        let guards = fs::read_link("/proc/1/ns/net").is_err();
        Self(guards.then(|| Instance::start(&interfaces)))
    }

    /// Return the times of the packets that were handled while a task of the first process was
    /// current: CLOCK_MONOTONIC in nanoseconds.
    pub fn finish(self) -> Excuses {
        let times = self.0.map(|instance| {
            // Names of tasks may be any bytes.
            let trace = fs::read(instance.folder.join("trace")).unwrap();
            let trace = String::from_utf8_lossy(&trace);
            trace.lines().filter_map(time_in_first_process).collect()
        });
        Excuses(times.unwrap_or_default())
    }
}

/// Times of packets that no program can have seen.
#[derive(Debug, Default)]
pub struct Excuses(Vec<u64>);

impl Excuses {
    /// Return the number of these packets.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Return true, once for each of these packets, if tcpdump saw it at `time`.
    pub fn take(&mut self, time: u64) -> bool {
        // The two clocks are compared to less than a microsecond.
        let near = |at: &u64| (time.saturating_sub(1000)..time + NEXT).contains(at);
        let next = (self.0.iter().enumerate())
            .filter(|(_, at)| near(at))
            .min_by_key(|(_, at)| **at)
            .map(|(index, _)| index);
        next.map(|index| self.0.remove(index)).is_some()
    }
}

/// A line has the form `comm-tid (tgid) [cpu] flags seconds.micros: event: …`. The process is not
/// known of a task that has not been switched to since the trace began.
fn time_in_first_process(line: &str) -> Option<u64> {
    let (task, rest) = line.split_once(" [")?;
    let (task, process) = task.rsplit_once('(')?;
    let in_first = match process
        .trim_end()
        .trim_end_matches(')')
        .trim_start()
        .parse::<u32>()
    {
        Ok(process) => process == 1,
        Err(_) => {
            let thread: u32 = task.trim_end().rsplit_once('-')?.1.parse().ok()?;
            Path::new("/proc/1/task").join(thread.to_string()).exists()
        }
    };
    if !in_first {
        return None;
    }
    let time = rest.split_whitespace().nth(2)?.strip_suffix(':')?;
    let (seconds, micros) = time.split_once('.')?;
    let micros = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
    Some(micros * 1000)
}

/// An instance of the kernel's tracer, with a buffer of its own.
#[derive(Debug)]
struct Instance {
    mount: TempDir,
    folder: PathBuf,
}

impl Instance {
    fn start(interfaces: &[&str]) -> Self {
        let mount = TempDir::new().unwrap();
        run(Command::new("mount")
            .args(["-t", "tracefs", "tracefs"])
            .arg(mount.path()));
        let folder = mount
            .path()
            .join(format!("instances/sockstamp-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let set = |file: &str, value: &str| fs::write(folder.join(file), value).unwrap();
        set("trace_clock", "mono");
        // A thread that ends before the trace is read has no entry in /proc.
        set("options/record-tgid", "1");
        let names = interfaces.iter().map(|name| format!("name == \"{name}\""));
        let filter = names.collect::<Vec<_>>().join(" || ");
        for event in EVENTS {
            set(&format!("events/net/{event}/filter"), &filter);
            set(&format!("events/net/{event}/enable"), "1");
        }
        Self { mount, folder }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
        let _ = Command::new("umount").arg(self.mount.path()).status();
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
