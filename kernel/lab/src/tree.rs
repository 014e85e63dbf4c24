//! Programs of another processor than this host's: packages of Debian, unpacked into a tree, and
//! never run here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::apt;
use crate::arch::Arch;
use crate::cache;
use crate::release::Archive;

/// The suite whose C library the cross compiler links with.
const SUITE: &str = "bookworm";
/// Packages with the programs of a guest (image.rs), tcpdump, and libraries of what cargo builds.
const PACKAGES: [&str; 16] = [
    "bind9-dnsutils",
    "busybox-static",
    "coreutils",
    "curl",
    "dash",
    "dnsmasq-base",
    "iperf3",
    "iproute2",
    "iputils-ping",
    "libgcc-s1",
    "nginx-light",
    "redis-server",
    "redis-tools",
    "sockperf",
    "tcpdump",
    "util-linux",
];
const LIBRARY_FOLDERS: [&str; 2] = ["lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu"];
const LOADER: &str = "/lib/ld-linux-aarch64.so.1";

/// An unpacked system.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Return the system of a processor, unpacked once; none for this host's own.
    pub(crate) fn of(arch: Arch) -> Result<Option<Tree>> {
        if arch == Arch::Amd64 {
            return Ok(None);
        }
        let folder = cache::trees();
        cache::make(&folder)?;
        let _lock = cache::lock(&folder)?;
        let root = folder.join(format!("{SUITE}-{}", arch.name()));
        if !root.exists() {
            let work = tempfile::tempdir_in(&folder).context("cannot write to the cache")?;
            let unpacked = work.path().join("root");
            unpack(arch, &unpacked)?;
            fs::rename(&unpacked, &root).context("cannot write to the cache")?;
        }
        Ok(Some(Tree { root }))
    }

    /// Return the program that strips what is compiled for it.
    pub(crate) fn strip(&self) -> &'static str {
        "aarch64-linux-gnu-strip"
    }

    /// Return where a file of the system is on this host. A link to an absolute path leads within
    /// the tree.
    pub(crate) fn place(&self, file: &Path) -> PathBuf {
        let place = self.root.join(file.strip_prefix("/").unwrap_or(file));
        match fs::read_link(&place) {
            Ok(target) if target.is_absolute() => self.place(&target),
            _ => place,
        }
    }

    pub(crate) fn has(&self, file: &Path) -> bool {
        file.starts_with(&self.root)
    }

    /// Return the shared libraries that a program needs, and the loader: their paths in the guest
    /// and on this host.
    pub(crate) fn libraries(&self, program: &Path) -> Result<BTreeMap<PathBuf, PathBuf>> {
        let mut found = BTreeMap::new();
        let mut open = vec![program.to_owned()];
        while let Some(file) = open.pop() {
            for name in needed(&file)? {
                let (guest, host) = self
                    .library(&name)
                    .with_context(|| format!("{} needs {name}", file.display()))?;
                if found.insert(guest, host.clone()).is_none() {
                    open.push(host);
                }
            }
        }
        if !found.is_empty() {
            found.insert(LOADER.into(), self.place(Path::new(LOADER)));
        }
        Ok(found)
    }

    fn library(&self, name: &str) -> Option<(PathBuf, PathBuf)> {
        let mut places = LIBRARY_FOLDERS.map(|folder| Path::new("/").join(folder).join(name));
        let guest = places.iter_mut().find(|path| self.place(path).exists())?;
        Some((guest.clone(), self.place(guest)))
    }
}

/// Unpacks the packages and all that they depend on, and runs none of their scripts.
fn unpack(arch: Arch, root: &Path) -> Result<()> {
    eprintln!("sockstamp-lab: getting programs for {}", arch.name());
    let status = Command::new("mmdebstrap")
        .args(["--quiet", "--variant=extract", "--skip=check/qemu"])
        .arg(format!("--architectures={}", arch.name()))
        .arg(format!("--include={}", PACKAGES.join(",")))
        .arg(SUITE)
        .arg(root)
        .arg(apt::site(Archive::Main)?)
        .status();
    let status = status.context("cannot run mmdebstrap (package mmdebstrap)")?;
    ensure!(status.success(), "mmdebstrap: {status}");
    Ok(())
}

/// Return the names of the libraries that a program names itself.
fn needed(file: &Path) -> Result<Vec<String>> {
    let output = Command::new("readelf")
        .env("LC_ALL", "C")
        .args(["--wide", "--dynamic"])
        .arg(file)
        .output();
    let output = output.context("cannot run readelf (package binutils)")?;
    ensure!(
        output.status.success(),
        "readelf cannot read {}",
        file.display()
    );
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Lines `0x0000000000000001 (NEEDED) Shared library: [NAME]`.
fn parse(readelf: &str) -> Vec<String> {
    let name = |line: &str| {
        let (_, name) = line.split_once("(NEEDED)")?.1.split_once('[')?;
        name.strip_suffix(']').map(str::to_owned)
    };
    readelf.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_libraries_are_found() {
        let readelf = "\nDynamic section at offset 0x1 contains 3 entries:\n\
             \x20 Tag        Type                         Name/Value\n\
             \x20 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]\n\
             \x20 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]\n\
             \x20 0x000000000000000c (INIT)               0x1000\n";
        assert_eq!(parse(readelf), ["libgcc_s.so.1", "libc.so.6"]);
        assert!(parse("\nThere is no dynamic section in this file.\n").is_empty());
    }
}
