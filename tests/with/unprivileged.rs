//! The program as a user without privilege runs it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tempfile::TempDir;

/// The user and group `nobody` of Debian and Ubuntu.
pub const NOBODY: u32 = 65534;

/// A copy of the program where anybody can execute it: the target folder may be root's alone.
#[derive(Debug)]
pub struct Unprivileged {
    folder: TempDir,
}

impl Unprivileged {
    /// Copies it.
    pub fn new() -> Unprivileged {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        fs::copy(super::sockstamp(), folder.path().join("sockstamp")).unwrap();
        Unprivileged { folder }
    }

    /// Return a command that runs as `nobody`, without any capability.
    pub fn command(&self) -> Command {
        self.with_capabilities("-all")
    }

    /// Return a command that runs as `nobody` with these capabilities, in setpriv(1)'s syntax.
    pub fn with_capabilities(&self, capabilities: &str) -> Command {
        let mut command = Command::new("setpriv");
        let nobody = NOBODY.to_string();
        command
            .args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"])
            .args(["--inh-caps", capabilities, "--ambient-caps", capabilities])
            .args(["--bounding-set", capabilities])
            .arg(self.folder.path().join("sockstamp"));
        command
    }
}
