//! A guest to look around in.

use std::process::ExitCode;

use anyhow::Result;

use crate::guest;
use crate::setting::Setting;

/// Returns when the shell ends, or the user ends QEMU (Ctrl-A x).
pub(crate) fn run(setting: &Setting) -> Result<ExitCode> {
    let (kernel, mut image) = setting.prepare()?;
    image.file("/lab/interactive", 0o644, Vec::new());
    guest::interactive(&kernel, &image, setting.machine())?;
    Ok(ExitCode::SUCCESS)
}
