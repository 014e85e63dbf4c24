//! Under sudo, what is built here stays the user's.

use std::env;
use std::path::Path;
use std::process::Command;

/// Give the user the files that root has made in the folders of cargo and rustup.
pub(super) fn give_back(target: &Path) {
    let (Ok(user), Ok(group)) = (env::var("SUDO_UID"), env::var("SUDO_GID")) else {
        return;
    };
    let status = Command::new("find")
        .arg(target)
        .args(env::var_os("RUSTUP_HOME"))
        .args(["-uid", "0", "-exec", "chown", "-h"])
        .args([&format!("{user}:{group}"), "{}", "+"])
        .status();
    if !status.is_ok_and(|status| status.success()) {
        eprintln!("xtask: some files in {} are root's now", target.display());
    }
}
