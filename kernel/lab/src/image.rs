//! Build the initramfs of a guest: busybox, the programs that tests call, modules, and requested
//! files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::BufWriter;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};

use crate::arch::Arch;
use crate::cpio::Writer;
use crate::igb::{self, Igb};
use crate::kernel::Kernel;
use crate::tree::Tree;
use crate::{libraries, modules};

/// Programs of this host, or of a tree of packages; a guest takes all others from busybox. (busybox
/// prefers its own to those in PATH when it starts a program.)
const PROGRAMS: [&str; 23] = [
    "chrt",
    "curl",
    "dig",
    "dnsmasq",
    "env",
    "ip",
    "iperf3",
    "nginx",
    "nice",
    "nsenter",
    "ping",
    "redis-benchmark",
    "redis-server",
    "prlimit",
    "setpriv",
    "sh",
    "sleep",
    "sockperf",
    "ss",
    "taskset",
    "tc",
    "timeout",
    "unshare",
];
const PROGRAM_FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
const BUSYBOX: &str = "/bin/busybox";
/// Debian's and Ubuntu's `/bin` is `/usr/bin`, and so on; so is a guest's.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

#[derive(Debug, Clone)]
enum Entry {
    Symlink(String),
    File { mode: u32, contents: Arc<[u8]> },
}

/// The content of the archive, by path without a leading slash. Copies are cheap.
#[derive(Debug, Clone, Default)]
pub(crate) struct Image {
    entries: BTreeMap<String, Entry>,
    /// The programs of another processor than this host's.
    tree: Option<Tree>,
}

impl Image {
    /// A guest without modules.
    pub(crate) fn new(arch: Arch) -> Result<Image> {
        let mut image = Image {
            tree: Tree::of(arch)?,
            ..Image::default()
        };
        for folder in MERGED {
            image.symlink(folder, &format!("usr/{folder}"));
        }
        image.file("/init", 0o755, include_bytes!("../guest/init.sh").to_vec());
        image.file(
            "/etc/passwd",
            0o644,
            include_bytes!("../guest/passwd").to_vec(),
        );
        image.file(
            "/etc/group",
            0o644,
            include_bytes!("../guest/group").to_vec(),
        );
        image.file(
            "/etc/hosts",
            0o644,
            b"127.0.0.1 localhost\n::1 localhost\n".to_vec(),
        );
        image.file(
            "/etc/nsswitch.conf",
            0o644,
            b"passwd: files\ngroup: files\nhosts: files\n".to_vec(),
        );
        image.busybox()?;
        for program in PROGRAMS {
            image.program(program)?;
        }
        Ok(image)
    }

    /// A file of this host, at the path where the guest shall have it. Programs come with their
    /// libraries.
    pub(crate) fn host_file(&mut self, host: &Path, guest: &Path) -> Result<()> {
        let reading = || format!("cannot read {}", host.display());
        let mode = fs::metadata(host)
            .with_context(reading)?
            .permissions()
            .mode();
        let mut contents = fs::read(host).with_context(reading)?;
        if is_elf(&contents) {
            self.libraries(host)?;
            if !is_installed(host) && self.tree.as_ref().is_none_or(|tree| !tree.has(host)) {
                contents = stripped(host, self.tree.as_ref())?;
            }
        }
        self.file(text(guest)?, mode, contents);
        Ok(())
    }

    fn libraries(&mut self, program: &Path) -> Result<()> {
        let found = match &self.tree {
            Some(tree) => tree.libraries(program)?,
            None => {
                let here = libraries::of(program)?.into_iter();
                here.map(|library| (library.clone(), library)).collect()
            }
        };
        for (library, file) in found {
            let contents =
                fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            self.file(text(&library)?, 0o755, contents);
        }
        Ok(())
    }

    /// The kernel's modules, by number in the order of loading, and ours, which tests load; and the
    /// programs for its NICs.
    pub(crate) fn modules(&mut self, kernel: &Kernel) -> Result<()> {
        if let Some(nic) = &kernel.nic {
            let contents =
                fs::read(nic).with_context(|| format!("cannot read {}", nic.display()))?;
            self.file("/lab/nic/sockstamp_nic.ko", 0o644, contents);
        }
        for program in kernel.igb.iter().flat_map(Igb::programs) {
            self.host_file(&program.host, &program.guest)?;
        }
        let Some(folder) = &kernel.modules else {
            return Ok(());
        };
        let drivers = kernel.igb.as_ref().map_or(&[][..], |_| &[igb::DRIVER]);
        let modules = modules::read(folder, kernel.arch, drivers)
            .with_context(|| format!("kernel {}", kernel.name))?;
        for (number, module) in modules.into_iter().enumerate() {
            self.file(
                &format!("/lab/modules/{number:03}-{}.ko", module.name),
                0o644,
                module.contents,
            );
        }
        Ok(())
    }

    /// A file by its contents.
    pub(crate) fn file(&mut self, path: &str, mode: u32, contents: Vec<u8>) {
        self.entries.insert(
            merged(path),
            Entry::File {
                mode,
                contents: contents.into(),
            },
        );
    }

    /// Write the archive.
    pub(crate) fn write(&self, to: &Path) -> Result<()> {
        let writing = || format!("cannot write {}", to.display());
        let file = File::create(to).with_context(writing)?;
        let mut archive = Writer::new(BufWriter::new(file));
        let mut folders = BTreeSet::new();
        for (path, entry) in &self.entries {
            let above: Vec<_> = Path::new(path).ancestors().skip(1).collect();
            for folder in above.into_iter().rev().filter_map(Path::to_str) {
                if !folder.is_empty() && folders.insert(folder) {
                    archive.directory(folder).with_context(writing)?;
                }
            }
            match entry {
                Entry::Symlink(target) => archive.symlink(path, target),
                Entry::File { mode, contents } => archive.file(path, *mode, contents),
            }
            .with_context(writing)?;
        }
        archive.finish().with_context(writing)
    }

    fn symlink(&mut self, path: &str, target: &str) {
        self.entries
            .insert(path.to_owned(), Entry::Symlink(target.to_owned()));
    }

    fn busybox(&mut self) -> Result<()> {
        let output = Command::new(BUSYBOX).arg("--list").output();
        let output =
            output.with_context(|| format!("cannot run {BUSYBOX} (package busybox-static)"))?;
        for applet in String::from_utf8_lossy(&output.stdout).lines() {
            self.symlink(&format!("usr/bin/{applet}"), BUSYBOX);
        }
        let busybox = self.place(Path::new(BUSYBOX));
        self.host_file(&busybox, Path::new(BUSYBOX))
    }

    /// Return where a file of the guest's system is on this host.
    fn place(&self, file: &Path) -> PathBuf {
        self.tree
            .as_ref()
            .map_or_else(|| file.to_owned(), |tree| tree.place(file))
    }

    /// Add it to /usr/bin, where it replaces busybox's.
    fn program(&mut self, name: &str) -> Result<()> {
        let mut places = PROGRAM_FOLDERS
            .iter()
            .map(|folder| self.place(&Path::new(folder).join(name)));
        let host = places.find(|path| path.exists());
        let host = host
            .with_context(|| format!("there is no program {name} here (scripts/deps.sh test)"))?;
        self.host_file(&host, &Path::new("/usr/bin").join(name))
    }
}

/// Return true for programs of packages, which have no debug information.
fn is_installed(program: &Path) -> bool {
    program.starts_with("/usr")
}

fn merged(path: &str) -> String {
    let path = path.trim_start_matches('/');
    let first = path.split('/').next();
    let is_link = path.contains('/') && first.is_some_and(|first| MERGED.contains(&first));
    if is_link {
        format!("usr/{path}")
    } else {
        path.to_owned()
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is not UTF-8", path.display()))
}

fn is_elf(contents: &[u8]) -> bool {
    contents.starts_with(b"\x7fELF")
}

/// Strip debug information, which is most of what cargo builds.
fn stripped(program: &Path, tree: Option<&Tree>) -> Result<Vec<u8>> {
    let output = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    let path: PathBuf = output.path().into();
    let strip = Command::new(tree.map_or("strip", Tree::strip))
        .arg("-o")
        .arg(&path)
        .arg(program)
        .status();
    let status = strip.context("cannot run strip (package binutils)")?;
    ensure!(status.success(), "strip {}: {status}", program.display());
    fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_the_root_are_followed() {
        assert_eq!(
            merged("/lib64/ld-linux-x86-64.so.2"),
            "usr/lib64/ld-linux-x86-64.so.2"
        );
        assert_eq!(merged("/usr/bin/ip"), "usr/bin/ip");
        assert_eq!(merged("/home/lib/x"), "home/lib/x");
    }
}
