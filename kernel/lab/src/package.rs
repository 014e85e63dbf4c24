//! Packages of Debian, unpacked without being installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The packages that a folder has.
pub(crate) fn all(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut packages = Vec::new();
    for entry in fs::read_dir(folder).context("cannot read the cache")? {
        let path = entry.context("cannot read the cache")?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            packages.push(path);
        }
    }
    Ok(packages)
}

/// Unpacks all of it but its documentation.
pub(crate) fn extract(package: &Path, root: &Path) -> Result<()> {
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
            "--exclude=./usr/share/doc",
            "--exclude=./usr/share/man",
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
