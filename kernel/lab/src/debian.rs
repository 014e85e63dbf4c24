//! Debian's kernels: downloaded once, unpacked once, never installed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::apt::Apt;
use crate::arch::Arch;
use crate::cache;
use crate::igb::Igb;
use crate::kernel::Kernel;
use crate::nic;
use crate::package;
use crate::release::DebianKernel;

/// Time for which a kernel counts as the newest of its release without asking again.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// The folder of apt's lists, next to the kernel.
const APT: &str = "apt";

/// Return the newest kernel of the release; from the cache if it was the newest a day ago.
pub(crate) fn get(release: DebianKernel, arch: Arch) -> Result<Kernel> {
    ensure!(
        release.is_for(arch),
        "{release} is booted on {} alone",
        Arch::Amd64.name()
    );
    let folder = folder(release, arch);
    cache::make(&folder)?;
    let _lock = cache::lock(&folder)?;
    let current = folder.join("current");
    if !cache::is_fresh(&current, FRESH) {
        let uname = refresh(&folder, release, arch).with_context(|| format!("kernel {release}"))?;
        fs::write(&current, uname).context("cannot write to the cache")?;
    }
    let uname = fs::read_to_string(&current).context("cannot read the cache")?;
    let root = folder.join(&uname);
    let modules = root.join("usr/lib/modules").join(&uname);
    // Its place in the package changed with 6.19.
    let in_boot = root.join(format!("boot/vmlinuz-{uname}"));
    let image = if in_boot.exists() {
        in_boot
    } else {
        modules.join("vmlinuz")
    };
    Ok(Kernel {
        name: release.name().into(),
        arch,
        image,
        modules: Some(modules),
        nic: nic::build(&folder, APT, release, &uname)?,
        igb: match release {
            DebianKernel::Igb => Some(Igb::get()?),
            DebianKernel::Linux6_1 | DebianKernel::Linux6_12 | DebianKernel::Linux7_2 => None,
        },
    })
}

fn folder(release: DebianKernel, arch: Arch) -> PathBuf {
    let name = match arch {
        Arch::Amd64 => release.name().to_owned(),
        Arch::Arm64 => format!("{release}-{}", arch.name()),
    };
    cache::kernels().join(name)
}

/// Make the newest kernel of the release the only one in its folder. Return its `uname -r`.
fn refresh(folder: &Path, release: DebianKernel, arch: Arch) -> Result<String> {
    let apt = Apt::update(&folder.join(APT), release.archive(), release.suite(), arch)?;
    let mut packages = Vec::new();
    for prefix in release.packages() {
        packages.push(apt.newest(prefix, release)?);
    }
    let uname = packages[0]
        .trim_start_matches(release.packages()[0])
        .to_owned();
    if !folder.join(&uname).exists() {
        clear(folder)?;
        eprintln!("sockstamp-lab: getting {}", packages.join(", "));
        let work = tempfile::tempdir_in(folder).context("cannot write to the cache")?;
        apt.download(&packages, work.path())?;
        unpack(work.path(), &uname)?;
        fs::rename(work.path().join("root"), folder.join(&uname))
            .context("cannot write to the cache")?;
    }
    Ok(uname)
}

/// Remove older kernels, and leftovers of a killed lab.
fn clear(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).context("cannot read the cache")? {
        let path = entry.context("cannot read the cache")?.path();
        if path.is_dir() && !path.ends_with(APT) {
            fs::remove_dir_all(&path)
                .with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Unpack all packages in the folder into `root` next to them.
fn unpack(folder: &Path, uname: &str) -> Result<()> {
    let root = folder.join("root");
    cache::make(&root.join("usr/lib"))?;
    // Some packages have /lib, some /usr/lib; depmod looks into /lib.
    symlink("usr/lib", root.join("lib")).context("cannot write to the cache")?;
    for package in package::all(folder)? {
        package::extract(&package, &root)?;
    }
    let status = Command::new("/sbin/depmod")
        .arg("-b")
        .arg(&root)
        .arg(uname)
        .status();
    let status = status.context("cannot run depmod (package kmod)")?;
    ensure!(status.success(), "depmod: {status}");
    Ok(())
}
