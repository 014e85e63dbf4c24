//! The recordings of both hosts, and their join.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use sockstamp_demo::wait_until_it_measures;
use tempfile::TempDir;
use testbed::Process;

use crate::topology::Topology;

const TIMEOUT: Duration = Duration::from_secs(30);
const NAMES: [&str; 2] = ["client", "server"];
/// Namespaces of one machine have one host name, unless they are given their own.
const NAMED: &str = "echo $0 >/proc/sys/kernel/hostname && exec \"$@\"";

/// The recordings, and the processes that write them.
pub(crate) struct Recordings {
    processes: [Process; 2],
    directory: TempDir,
}

impl Recordings {
    /// Begin, and return when both hosts measure.
    pub(crate) fn start(program: &Path, topology: &Topology) -> Result<Self> {
        let directory = tempfile::tempdir().context("cannot make a directory")?;
        let start = |host: usize| {
            let mut command = Command::new("unshare");
            command
                .args(["--uts", "sh", "-c", NAMED, NAMES[host]])
                .arg(program);
            command.args(["record", "--every", "--max-cost=none", "--netns"]);
            command.args([topology.hosts[host].netns_name(), "-o"]);
            command.arg(path(&directory, host)).arg("tcp");
            println!(
                "{}$ sockstamp record --every -o {}.parquet tcp",
                NAMES[host], NAMES[host]
            );
            Process::spawn(command)
        };
        let mut processes = [start(0)?, start(1)?];
        for process in &mut processes {
            wait_until_it_measures(process)?;
        }
        Ok(Self {
            processes,
            directory,
        })
    }

    pub(crate) fn end(&mut self) -> Result<()> {
        for process in &mut self.processes {
            process.signal(Signal::SIGINT)?;
            let status = process.wait_status(TIMEOUT)?;
            ensure!(status.success(), "sockstamp: {}", process.stderr());
        }
        Ok(())
    }
}

fn path(directory: &TempDir, host: usize) -> PathBuf {
    directory.path().join(format!("{}.parquet", NAMES[host]))
}

/// Print the whole lives of the messages.
pub(crate) fn print_lives(program: &Path, recordings: &Recordings) -> Result<()> {
    println!("$ sockstamp join --nat client.parquet server.parquet");
    let status = join(program, recordings)
        .status()
        .context("cannot run sockstamp")?;
    ensure!(status.success(), "sockstamp join failed");
    Ok(())
}

/// Return the per cent that a stage has of the time from the client, and of that from the server.
pub(crate) fn shares(program: &Path, recordings: &Recordings, stage: &str) -> Result<[f64; 2]> {
    let mut command = join(program, recordings);
    let output: Output = command
        .args(["--format", "json"])
        .stderr(Stdio::inherit())
        .output()?;
    let joined: Value =
        serde_json::from_slice(&output.stdout).context("sockstamp join printed no JSON")?;
    let share = |direction: usize| {
        let direction = &joined["directions"][direction];
        let stage = direction["stages"][stage]["sum_ns"].as_f64()?;
        Some(100.0 * stage / direction["total"]["sum_ns"].as_f64()?)
    };
    let [there, back] = [0, 1].map(|direction| share(direction).context("no message was joined"));
    Ok([there?, back?])
}

fn join(program: &Path, recordings: &Recordings) -> Command {
    let mut command = Command::new(program);
    command.args(["join", "--nat"]);
    command.args([0, 1].map(|host| path(&recordings.directory, host)));
    command
}
