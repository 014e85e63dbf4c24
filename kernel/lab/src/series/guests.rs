//! Run the programs of the series in a guest.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::guest::{Guest, Time};
use crate::image::Image;
use crate::kernel::Kernel;

/// Built with the kernel.
const PROGRAMS: [&str; 2] = ["test_progs", "count"];
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// Runs a line of shell as root, beside the programs of `home`; its output, if it succeeds.
pub(crate) fn run(kernel: &Kernel, home: &Path, time: Time, line: &str) -> Result<String> {
    let mut image = Image::new()?;
    for program in PROGRAMS {
        image.host_file(&home.join(program), &Path::new("/series").join(program))?;
    }
    // The harness of the selftests mounts cgroups at /mnt, and looks for network namespaces in
    // /var/run.
    let script = format!("exec 2>&1\nmkdir -p /mnt\nln -s /run /var/run\ncd /series\n{line}\n");
    image.file("/lab/command", 0o644, script.into_bytes());
    let console = home.join(format!("{}.log", kernel.name));
    let guest = Guest {
        kernel,
        image: &image,
        time,
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
