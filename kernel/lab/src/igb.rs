//! The machine of a guest with NICs that stamp what they send, and the programs of PTP for it. What
//! this host lacks is of Debian's packages, unpacked and never installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::apt::Apt;
use crate::arch::Arch;
use crate::cache;
use crate::package;
use crate::release::Archive;

/// QEMU has the device since 8.0, and Debian 12 has 7.2.
const DEVICE: &str = "igb";
/// The kernel's module for it.
pub(crate) const DRIVER: &str = "igb";

/// Packages of a suite, in a folder of their own.
struct Packages {
    suite: &'static str,
    names: &'static [&'static str],
}

const EMULATOR: Packages = Packages {
    suite: "bookworm-backports",
    names: &["qemu-system-x86", "qemu-system-data", "seabios"],
};
const FIRMWARE: [&str; 2] = ["usr/share/qemu", "usr/share/seabios"];
const PTP: Packages = Packages {
    suite: "bookworm",
    names: &["linuxptp"],
};
const PTP_PROGRAMS: [&str; 2] = ["usr/sbin/ptp4l", "usr/sbin/pmc"];
/// The NICs, each on a port of its own, joined by a hub.
const NICS: usize = 2;

/// The emulator, and programs for the guest.
#[derive(Debug)]
pub(crate) struct Igb {
    qemu: PathBuf,
    /// The folder with the emulator's packages; none where it is installed.
    root: Option<PathBuf>,
    programs: Vec<Program>,
}

/// A program, and where the guest has it.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) host: PathBuf,
    pub(crate) guest: PathBuf,
}

impl Igb {
    /// Return the machine; from the cache, if it was unpacked before.
    pub(crate) fn get() -> Result<Igb> {
        let installed = PathBuf::from(Arch::Amd64.qemu());
        let root = match emulates(&installed) {
            true => None,
            false => Some(EMULATOR.unpacked()?),
        };
        let qemu = match &root {
            Some(root) => root.join("usr/bin").join(&installed),
            None => installed,
        };
        ensure!(emulates(&qemu), "{} emulates no {DEVICE}", qemu.display());
        let ptp = PTP.unpacked()?;
        let program = |path: &str| Program {
            host: ptp.join(path),
            guest: Path::new("/").join(path),
        };
        Ok(Igb {
            qemu,
            root,
            programs: PTP_PROGRAMS.into_iter().map(program).collect(),
        })
    }

    pub(crate) fn programs(&self) -> impl Iterator<Item = &Program> {
        self.programs.iter()
    }

    /// Return the emulator with the NICs.
    pub(crate) fn qemu(&self) -> Command {
        let mut command = Command::new(&self.qemu);
        for folder in self
            .root
            .iter()
            .flat_map(|root| FIRMWARE.map(|share| root.join(share)))
        {
            command.arg("-L").arg(folder);
        }
        for number in 0..NICS {
            let port = format!("pcie-root-port,id=port{number},slot={number},chassis={number}");
            let device = format!("{DEVICE},bus=port{number},netdev=nic{number},romfile=");
            command
                .args(["-netdev", &format!("hubport,id=nic{number},hubid=0")])
                .args(["-device", &port])
                .args(["-device", &device]);
        }
        command
    }
}

impl Packages {
    /// Return the folder with the packages.
    fn unpacked(&self) -> Result<PathBuf> {
        let folder = cache::igb();
        cache::make(&folder)?;
        let _lock = cache::lock(&folder)?;
        let root = folder.join(self.names[0]);
        if !root.exists() {
            let lists = folder.join("apt").join(self.suite);
            let apt = Apt::update(&lists, Archive::Main, self.suite, Arch::Amd64)?;
            eprintln!("sockstamp-lab: getting {}", self.names.join(", "));
            let work = tempfile::tempdir_in(&folder).context("cannot write to the cache")?;
            let names: Vec<String> = self.names.iter().map(|name| (*name).to_owned()).collect();
            apt.download(&names, work.path())?;
            let unpacked = work.path().join("root");
            cache::make(&unpacked)?;
            for package in package::all(work.path())? {
                package::extract(&package, &unpacked)?;
            }
            fs::rename(&unpacked, &root).context("cannot write to the cache")?;
        }
        Ok(root)
    }
}

/// Return true if the emulator runs and has the device: it lists the options of one that it has,
/// and succeeds either way.
fn emulates(qemu: &Path) -> bool {
    let output = Command::new(qemu)
        .args(["-machine", "none", "-device", &format!("{DEVICE},help")])
        .stdin(Stdio::null())
        .output();
    output.is_ok_and(|output| {
        output
            .stdout
            .starts_with(format!("{DEVICE} options").as_bytes())
    })
}
