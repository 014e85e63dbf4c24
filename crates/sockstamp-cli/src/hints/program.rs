//! Words that are programs.

use std::env;
use std::os::unix::fs::PermissionsExt;

/// Return true if a shell would find the program.
pub(super) fn is_program(name: &str) -> bool {
    let executable = |path: std::path::PathBuf| {
        path.metadata()
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return executable(name.into());
    }
    env::var_os("PATH")
        .is_some_and(|paths| env::split_paths(&paths).any(|folder| executable(folder.join(name))))
}
