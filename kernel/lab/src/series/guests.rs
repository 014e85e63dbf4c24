//! Run the programs of the series in a guest.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::guest::{Guest, Time};
use crate::image::Image;
use crate::kernel::Kernel;

const TIME_LIMIT: Duration = Duration::from_secs(600);

/// Runs a shell script as root, beside programs of `home`; its output, if it succeeds.
pub(crate) fn run(
    kernel: &Kernel,
    home: &Path,
    programs: &[&str],
    time: Time,
    script: &str,
) -> Result<String> {
    let mut image = Image::new()?;
    for program in programs {
        image.host_file(&home.join(program), &Path::new("/series").join(program))?;
    }
    // The harness of the selftests mounts cgroups at /mnt, and looks for network namespaces in
    // /var/run.
    let command = format!(
        "exec 2>&1
mkdir -p /mnt
ln -s /run /var/run
cd /series
{script}
"
    );
    image.file("/lab/command", 0o644, command.into_bytes());
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
        bail!("{} ended with {status}:\n{output}", programs.join(" "));
    }
    Ok(output)
}
