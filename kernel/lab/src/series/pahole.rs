//! pahole, which writes the kernel's BTF: this host's, or a newer one where it is too old.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::apt::Apt;
use crate::arch::Arch;
use crate::release::Archive;
use crate::{cache, package};

/// Documentation/process/changes.rst of 7.3. Debian 12 has 1.24.
const NEEDED: [u32; 2] = [1, 26];

/// The suite whose pahole is new enough. Its C library is newer than Debian 12's, so it is
/// included.
const SUITE: &str = "trixie";
const PACKAGES: [&str; 9] = [
    "pahole",
    "libbpf1",
    "libbz2-1.0",
    "libc6",
    "libdw1t64",
    "libelf1t64",
    "liblzma5",
    "libzstd1",
    "zlib1g",
];
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// The program to call.
pub(crate) fn get(folder: &Path) -> Result<PathBuf> {
    let output = Command::new("pahole").arg("--version").output();
    if output.is_ok_and(|output| is_new_enough(&String::from_utf8_lossy(&output.stdout))) {
        return Ok("pahole".into());
    }
    let program = folder.join("pahole/run");
    if !program.exists() {
        fetch(folder).context("pahole")?;
    }
    Ok(program)
}

/// `v1.30`
fn is_new_enough(version: &str) -> bool {
    let numbers = version.trim().trim_start_matches('v').split('.');
    numbers
        .map_while(|number| number.parse().ok())
        .collect::<Vec<u32>>()
        >= NEEDED.to_vec()
}

fn fetch(folder: &Path) -> Result<()> {
    let apt = Apt::update(
        &folder.join("apt-of-pahole"),
        Archive::Main,
        SUITE,
        Arch::Amd64,
    )?;
    eprintln!("sockstamp-lab: getting pahole of {SUITE}");
    let work = tempfile::tempdir_in(folder).context("cannot write to the cache")?;
    apt.download(&PACKAGES.map(str::to_owned), work.path())?;
    let root = work.path().join("root");
    cache::make(&root)?;
    for package in package::all(work.path())? {
        package::extract(&package, &root)?;
    }
    let place = folder.join("pahole");
    let run = root.join("run");
    fs::write(&run, wrapper(&place)).context("cannot write to the cache")?;
    fs::set_permissions(&run, fs::Permissions::from_mode(0o755))
        .context("cannot write to the cache")?;
    fs::rename(&root, &place).context("cannot write to the cache")
}

/// Run it by its own dynamic loader, with its own libraries.
fn wrapper(place: &Path) -> String {
    let libraries = place.join(LIBRARIES);
    format!(
        "#!/bin/sh\nexec '{0}/ld-linux-x86-64.so.2' --library-path '{0}' '{1}/usr/bin/pahole' \"$@\"\n",
        libraries.display(),
        place.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert!(is_new_enough("v1.26\n"));
        assert!(is_new_enough("v1.130"));
        assert!(is_new_enough("v2.0"));
        assert!(!is_new_enough("v1.24\n"));
        assert!(!is_new_enough(""));
    }
}
