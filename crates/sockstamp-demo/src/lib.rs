//! The start of sockstamp, for both demos.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use nix::unistd::geteuid;
use testbed::Process;

/// Longer than any start takes.
const START: Duration = Duration::from_secs(30);

/// The bit of CAP_NET_ADMIN, see capabilities(7).
const NET_ADMIN: u64 = 1 << 12;

/// Fail with a hint if this is not root.
pub fn need_root() -> Result<()> {
    ensure!(
        geteuid().is_root(),
        "namespaces and BPF programs need root: try `sudo` or `make run`"
    );
    Ok(())
}

/// Return the sockstamp that was built together with this program.
pub fn sockstamp() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's own path")?;
    let program = own.parent().unwrap_or(Path::new(".")).join("sockstamp");
    ensure!(program.exists(), "no {}: try `make run`", program.display());
    Ok(program)
}

/// Wait until sockstamp has attached its programs: it has no use for its capabilities then.
pub fn wait_until_it_measures(process: &mut Process) -> Result<()> {
    let begin = Instant::now();
    while has_net_admin(process.id())? {
        ensure!(
            process.is_running()?,
            "sockstamp ended: {}",
            process.stderr()
        );
        ensure!(begin.elapsed() < START, "sockstamp does not start");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn has_net_admin(pid: u32) -> Result<bool> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("sockstamp ended")?;
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .context("/proc has no CapEff")?;
    let mask = u64::from_str_radix(mask.trim(), 16).context("CapEff is not a number")?;
    Ok(mask & NET_ADMIN != 0)
}
