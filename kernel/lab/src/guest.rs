//! A guest: QEMU with a kernel, an image, and four serial lines.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::arch::Arch;
use crate::image::Image;
use crate::kernel::Kernel;

/// A kernel that panics ends the guest.
const MACHINE: [&str; 5] = ["-m", "2G", "-no-reboot", "-nodefaults", "-nographic"];
/// The kernel takes a timer that is emulated on a busy host for a broken one, and its clock for one
/// that is not to be relied on.
const KERNEL_PARAMETERS: &str =
    "mitigations=off panic=-1 no_timer_check tsc=reliable sockstamp.lab";
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The source of time in a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    /// The host's clock. CPUs are emulated on those of the host: slow, and standing still when the
    /// host does something else.
    Host,
    /// A nanosecond for each instruction; a CPU that idles is at its next timer at once, and
    /// several CPUs take turns. The same on every host, whatever else it does
    /// (docs/devel/tcg-icount.rst of QEMU 7.2).
    Instructions,
}

impl Time {
    fn parameters(self) -> &'static [&'static str] {
        match self {
            Time::Host => &["-accel", "tcg,thread=multi"],
            Time::Instructions => &[
                "-accel",
                "tcg,thread=single",
                "-icount",
                "shift=0,sleep=off",
            ],
        }
    }

    /// Return the machine of this time with as many CPUs as it usually has.
    pub(crate) fn machine(self) -> Machine {
        let cpus = match self {
            Time::Host => 2,
            Time::Instructions => 1,
        };
        Machine { time: self, cpus }
    }
}

/// The emulated machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine {
    pub(crate) time: Time,
    pub(crate) cpus: u32,
}

/// The purpose of a guest.
#[derive(Debug)]
pub(crate) struct Guest<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) image: &'a Image,
    pub(crate) machine: Machine,
    /// The time after which it is killed.
    pub(crate) time_limit: Duration,
    /// The file for its console.
    pub(crate) console: &'a Path,
}

impl Guest<'_> {
    /// Boot, run the command of the image, and return its exit status. Its output goes to `stdout`
    /// and `stderr`.
    pub(crate) fn run(
        &self,
        mut stdout: impl Write + Send,
        mut stderr: impl Write + Send,
    ) -> Result<u8> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let status = folder.path().join("status");
        let mut command = qemu(self.kernel, self.image, self.machine, folder.path())?;
        let lines = [
            format!("file,id=console,path={}", self.console.display()),
            "stdio,id=stdout,signal=off".into(),
            "file,id=stderr,path=/dev/stderr,append=on".into(),
            format!("file,id=status,path={}", status.display()),
        ];
        for line in lines {
            command.args(["-chardev", &line]);
        }
        command.args(serial(self.kernel.arch));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut qemu = command
            .spawn()
            .with_context(|| cannot_run(self.kernel.arch))?;
        let pipes = (qemu.stdout.take(), qemu.stderr.take());
        let in_time = thread::scope(|scope| {
            scope.spawn(|| pipes.0.map(|mut pipe| io::copy(&mut pipe, &mut stdout)));
            scope.spawn(|| pipes.1.map(|mut pipe| io::copy(&mut pipe, &mut stderr)));
            wait(&mut qemu, self.time_limit)
        })?;
        let status = fs::read_to_string(&status).unwrap_or_default();
        match status.trim().parse() {
            Ok(status) => Ok(status),
            Err(_) if in_time => bail!("the guest ended by itself; {}", self.last_words()),
            Err(_) => bail!(
                "the guest took more than {} s; {}",
                self.time_limit.as_secs(),
                self.last_words()
            ),
        }
    }

    fn last_words(&self) -> String {
        let bytes = fs::read(self.console).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        format!(
            "its console is in {} and ends with\n{}",
            self.console.display(),
            lines[end_of_interest(&lines)..].join("\n")
        )
    }
}

/// Return the line after the kernel's report of its death, or the end.
fn end_of_interest(lines: &[&str]) -> usize {
    // Signs written by die(), panic() and __warn() (arch/x86/kernel/dumpstack.c, kernel/panic.c of
    // 7.2).
    const SIGNS: [&str; 4] = ["Oops", "BUG:", "Kernel panic", "cut here"];
    let dying = |line: &&str| SIGNS.iter().any(|sign| line.contains(sign));
    let last = lines.len().saturating_sub(40);
    lines
        .iter()
        .position(dying)
        .map_or(last, |first| first.min(last))
}

/// Boots, with the console on this terminal, until the guest powers off.
pub(crate) fn interactive(kernel: &Kernel, image: &Image, machine: Machine) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let mut command = qemu(kernel, image, machine, folder.path())?;
    let status = command.args(["-serial", "mon:stdio"]).status();
    let status = status.with_context(|| cannot_run(kernel.arch))?;
    ensure!(status.success(), "QEMU: {status}");
    Ok(())
}

fn cannot_run(arch: Arch) -> String {
    format!("cannot run QEMU (package {})", arch.package())
}

/// Return what gives the guest its console, and ttyS1 to ttyS3 for the other lines. The board of
/// arm64 has one line, so that the others are on the bus, behind one that nobody uses.
fn serial(arch: Arch) -> Vec<String> {
    let line = |id: &str| ["-serial".to_owned(), format!("chardev:{id}")];
    let on_bus = |id: &str| ["-device".to_owned(), format!("pci-serial,chardev={id}")];
    let others = ["stdout", "stderr", "status"];
    let lines = match arch {
        Arch::Amd64 => [line("console")]
            .into_iter()
            .chain(others.map(line))
            .collect(),
        Arch::Arm64 => {
            let unused = ["-chardev".to_owned(), "null,id=unused".to_owned()];
            let first = [line("console"), unused, on_bus("unused")];
            first
                .into_iter()
                .chain(others.map(on_bus))
                .collect::<Vec<_>>()
        }
    };
    lines.concat()
}

/// Without serial lines.
fn qemu(kernel: &Kernel, image: &Image, machine: Machine, folder: &Path) -> Result<Command> {
    let initrd = folder.join("initrd");
    image.write(&initrd)?;
    let arch = kernel.arch;
    let parameters = format!("console={} {KERNEL_PARAMETERS}", arch.console());
    let mut command = match &kernel.igb {
        Some(igb) => igb.qemu(),
        None => Command::new(arch.qemu()),
    };
    command
        .args(arch.board())
        .args(MACHINE)
        .args(machine.time.parameters())
        .args(["-smp", &machine.cpus.to_string()])
        .args(["-append", &parameters]);
    command
        .arg("-kernel")
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(initrd);
    Ok(command)
}

/// Return true if it ended within the time; kill it otherwise.
fn wait(child: &mut Child, time_limit: Duration) -> Result<bool> {
    let begin = Instant::now();
    while begin.elapsed() < time_limit {
        if child.try_wait().context("cannot wait for QEMU")?.is_some() {
            return Ok(true);
        }
        thread::sleep(POLL_INTERVAL);
    }
    child.kill().context("cannot end QEMU")?;
    child.wait().context("cannot wait for QEMU")?;
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_death_of_a_kernel_is_reported_whole() {
        let mut lines = vec!["booting"; 50];
        assert_eq!(end_of_interest(&lines), 10);
        lines[4] = "[    2.2] Oops: general protection fault";
        assert_eq!(end_of_interest(&lines), 4);
        lines[4] = "booting";
        lines[45] = "[    2.2] Kernel panic - not syncing: Fatal exception in interrupt";
        assert_eq!(end_of_interest(&lines), 10);
    }
}
