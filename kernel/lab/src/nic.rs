//! Build the module of `nic/` for a kernel of Debian's, with its headers.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::apt::Apt;
use crate::arch::Arch;
use crate::cache;
use crate::package;
use crate::release::DebianKernel;

const SOURCE: &str = include_str!("../nic/sockstamp_nic.c");
const KBUILD: &str = "obj-m := sockstamp_nic.o\n";

/// Return the module, built from what is in the tree. `folder` has the kernel, and apt's lists in a
/// folder of this name.
pub(crate) fn build(
    folder: &Path,
    lists: &str,
    release: DebianKernel,
    uname: &str,
) -> Result<Option<PathBuf>> {
    let Some(packages) = release.headers(uname) else {
        return Ok(None);
    };
    let root = folder.join(uname).join("headers");
    let headers = format!("usr/src/linux-headers-{uname}");
    if !root.exists() {
        let apt = Apt::update(
            &folder.join(lists),
            release.archive(),
            release.suite(),
            Arch::Amd64,
        )?;
        let work = tempfile::tempdir_in(folder).context("cannot write to the cache")?;
        let unpacked = work.path().join("root");
        get(&apt, &packages, work.path(), &unpacked)?;
        mend(&unpacked.join(&headers).join("Makefile"), &root)?;
        fs::rename(&unpacked, &root).context("cannot write to the cache")?;
    }
    // Another worktree may have another source, and use its module while this one is built.
    let place = folder.join(uname).join(format!("nic-{:016x}", key()));
    let module = place.join("sockstamp_nic.ko");
    if !module.exists() {
        cache::make(&place)?;
        fs::write(place.join("sockstamp_nic.c"), SOURCE).context("cannot write to the cache")?;
        fs::write(place.join("Kbuild"), KBUILD).context("cannot write to the cache")?;
        make(&root.join(headers), &place)?;
    }
    Ok(Some(module))
}

/// The name of a build of this source.
fn key() -> u64 {
    let mut hasher = DefaultHasher::new();
    (SOURCE, KBUILD).hash(&mut hasher);
    hasher.finish()
}

/// Unpack the packages.
fn get(apt: &Apt, packages: &[String], work: &Path, unpacked: &Path) -> Result<()> {
    cache::make(unpacked)?;
    apt.download(packages, work)?;
    for package in package::all(work)? {
        package::extract(&package, unpacked)?;
    }
    Ok(())
}

/// The Makefile names the place where the package would be installed: put this one there.
fn mend(makefile: &Path, root: &Path) -> Result<()> {
    let text = fs::read_to_string(makefile).context("cannot read the headers")?;
    let here = format!("{}/usr/src/", root.display());
    fs::write(makefile, text.replace("/usr/src/", &here)).context("cannot write to the cache")
}

/// BTF of modules needs pahole, and nothing reads it here.
fn make(headers: &Path, place: &Path) -> Result<()> {
    let mut make = Command::new("make");
    make.arg("-C").arg(headers);
    make.arg(format!("M={}", place.display()));
    make.args(["CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"]);
    let output = make.output().context("cannot run make")?;
    ensure!(
        output.status.success(),
        "cannot build the module: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
