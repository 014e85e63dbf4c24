//! Run the programs of the series in a guest.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::guest::{Guest, Time};
use crate::image::Image;
use crate::kernel::Kernel;

/// Scripts of the selftests are written for it.
const BASH: &str = "/usr/bin/bash";
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// Run a line of shell as root, in a guest with the programs and scripts of `home`; return its
/// output if it succeeds.
pub(crate) fn run(kernel: &Kernel, home: &Path, time: Time, line: &str) -> Result<String> {
    run_beside(kernel, home, &[], time, line)
}

/// Do the same, with further programs.
pub(crate) fn run_beside(
    kernel: &Kernel,
    home: &Path,
    programs: &[&Path],
    time: Time,
    line: &str,
) -> Result<String> {
    let mut image = Image::new(Arch::Amd64)?;
    image.modules(kernel)?;
    for program in programs {
        let name = program.file_name().context("a program has a name")?;
        image.host_file(program, &Path::new("/series").join(name))?;
    }
    image.host_file(Path::new(BASH), Path::new(BASH))?;
    let reading = || format!("cannot read {}", home.display());
    for entry in fs::read_dir(home).with_context(reading)? {
        let program = entry.with_context(reading)?.path();
        let mode = fs::metadata(&program)
            .with_context(reading)?
            .permissions()
            .mode();
        let Some(name) = program.file_name().filter(|_| mode & 0o111 != 0) else {
            continue;
        };
        image.host_file(&program, &Path::new("/series").join(name))?;
    }
    // The harness of the selftests mounts cgroups at /mnt, and looks for network namespaces in
    // /var/run.
    let script =
        format!("exec 2>&1\nmkdir -p /mnt /series\nln -s /run /var/run\ncd /series\n{line}\n");
    image.file("/lab/command", 0o644, script.into_bytes());
    let console = home.join(format!("{}.log", kernel.name));
    let guest = Guest {
        kernel,
        image: &image,
        machine: time.machine(),
        time_limit: TIME_LIMIT,
        console: &console,
    };
    let mut output = Vec::new();
    let status = guest.run(&mut output, std::io::sink())?;
    let output = String::from_utf8_lossy(&output).into_owned();
    if status != 0 {
        bail!("{line} ended with {status}:\n{output}");
    }
    Ok(output)
}
