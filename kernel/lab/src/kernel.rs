//! Kernels: downloaded once, unpacked once, never installed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::apt::Apt;
use crate::cache;
use crate::debian::DebianKernel;

/// How long a kernel is the newest of its version without asking again.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// The folder of apt's lists, beside the kernel.
const APT: &str = "apt";

/// An unpacked kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) version: DebianKernel,
    /// With its file system below: `boot`, `usr/lib/modules`.
    root: PathBuf,
    /// What `uname -r` says.
    release: String,
}

impl Kernel {
    /// The newest package of a version; from the cache if it was the newest a day ago.
    pub(crate) fn get(version: DebianKernel) -> Result<Kernel> {
        let folder = cache::folder().join(version.name());
        cache::make(&folder)?;
        let _lock = cache::lock(&folder)?;
        let current = folder.join("current");
        if !cache::is_fresh(&current, FRESH) {
            let release = refresh(&folder, version).with_context(|| format!("kernel {version}"))?;
            fs::write(&current, release).context("cannot write to the cache")?;
        }
        let release = fs::read_to_string(&current).context("cannot read the cache")?;
        Ok(Kernel {
            version,
            root: folder.join(&release),
            release,
        })
    }

    /// The image to boot. Its place in the package changed with 6.19.
    pub(crate) fn image(&self) -> PathBuf {
        let in_boot = self.root.join(format!("boot/vmlinuz-{}", self.release));
        if in_boot.exists() {
            in_boot
        } else {
            self.modules().join("vmlinuz")
        }
    }

    /// The folder with modules.dep.
    pub(crate) fn modules(&self) -> PathBuf {
        self.root.join("usr/lib/modules").join(&self.release)
    }
}

/// Gets these kernels, or all, into the cache.
pub(crate) fn fetch(versions: &[DebianKernel]) -> Result<()> {
    let wanted = if versions.is_empty() {
        &DebianKernel::ALL
    } else {
        versions
    };
    for version in wanted {
        let kernel = Kernel::get(*version)?;
        println!("{version}: {}", kernel.root.display());
    }
    Ok(())
}

/// Makes the newest kernel of the version the only one in its folder. Returns its release.
fn refresh(folder: &Path, version: DebianKernel) -> Result<String> {
    let apt = Apt::update(&folder.join(APT), version)?;
    let mut packages = Vec::new();
    for prefix in version.packages() {
        packages.push(apt.newest(prefix, version)?);
    }
    let release = packages[0].trim_start_matches(version.packages()[0]).to_owned();
    if !folder.join(&release).exists() {
        clear(folder)?;
        eprintln!("sockstamp-lab: getting {}", packages.join(", "));
        let work = tempfile::tempdir_in(folder).context("cannot write to the cache")?;
        apt.download(&packages, work.path())?;
        unpack(work.path(), &release)?;
        fs::rename(work.path().join("root"), folder.join(&release)).context("cannot write to the cache")?;
    }
    Ok(release)
}

/// Of older kernels, and of what a lab that was killed left behind.
fn clear(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).context("cannot read the cache")? {
        let path = entry.context("cannot read the cache")?.path();
        if path.is_dir() && !path.ends_with(APT) {
            fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// All packages in the folder, into `root` beside them.
fn unpack(folder: &Path, release: &str) -> Result<()> {
    let root = folder.join("root");
    cache::make(&root.join("usr/lib"))?;
    // Some packages have /lib, some /usr/lib; depmod looks into /lib.
    symlink("usr/lib", root.join("lib")).context("cannot write to the cache")?;
    for entry in fs::read_dir(folder).context("cannot read the cache")? {
        let path = entry.context("cannot read the cache")?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            extract(&path, &root)?;
        }
    }
    let status = Command::new("/sbin/depmod")
        .arg("-b")
        .arg(&root)
        .arg(release)
        .status();
    let status = status.context("cannot run depmod (package kmod)")?;
    ensure!(status.success(), "depmod: {status}");
    Ok(())
}

fn extract(package: &Path, root: &Path) -> Result<()> {
    let mut contents = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run dpkg-deb")?;
    let pipe = contents.stdout.take().context("no output of dpkg-deb")?;
    let tar = Command::new("tar")
        .args([
            "--extract",
            "--keep-directory-symlink",
            "--no-same-owner",
            "--exclude=./usr/share",
            "-C",
        ])
        .arg(root)
        .stdin(pipe)
        .status()
        .context("cannot run tar")?;
    let dpkg = contents.wait().context("cannot wait for dpkg-deb")?;
    ensure!(
        dpkg.success() && tar.success(),
        "cannot unpack {}",
        package.display()
    );
    Ok(())
}
