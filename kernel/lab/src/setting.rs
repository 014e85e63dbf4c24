//! Define the options of any guest: its kernel and its files.

use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;
use clap::Args;

use crate::arch::Arch;
use crate::choice::Choice;
use crate::guest::{Machine, Time};
use crate::image::Image;
use crate::kernel::Kernel;

/// The kernel and the files.
#[derive(Debug, Args)]
pub(crate) struct Setting {
    /// 6.1, 6.12 or 7.2 of Debian's; igb, Debian's with NICs; patched or stock, built here from
    /// kernel/series; or the path of an image
    #[arg(long)]
    kernel: Choice,
    /// The processor
    #[arg(long, value_enum, default_value_t)]
    arch: Arch,
    /// File or program to have in the guest, there at the same path if none is given
    #[arg(long = "file", value_name = "HOST[:GUEST]")]
    files: Vec<Given>,
    /// Hide the kernel's BTF: /sys/kernel/btf is empty
    #[arg(long)]
    without_btf: bool,
    /// Let a nanosecond pass for each instruction, on one CPU: times are the same whatever the host
    /// does
    #[arg(long)]
    count_instructions: bool,
    /// The number of CPUs [default: 2; 1 where instructions are counted]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=255))]
    cpus: Option<u32>,
}

impl Setting {
    /// Return the machine.
    pub(crate) fn machine(&self) -> Machine {
        let time = match self.count_instructions {
            true => Time::Instructions,
            false => Time::Host,
        };
        let usual = time.machine();
        Machine {
            cpus: self.cpus.unwrap_or(usual.cpus),
            ..usual
        }
    }

    /// The kernel, and an image with the files.
    pub(crate) fn prepare(&self) -> Result<(Kernel, Image)> {
        let kernel = self.kernel.get(self.arch)?;
        let mut image = Image::new(self.arch)?;
        image.modules(&kernel)?;
        for file in &self.files {
            image.host_file(&file.host, &file.guest)?;
        }
        if self.without_btf {
            image.file("/lab/without-btf", 0o644, Vec::new());
        }
        Ok((kernel, image))
    }
}

/// A file of this host for the guest.
#[derive(Debug, Clone)]
struct Given {
    host: PathBuf,
    guest: PathBuf,
}

impl FromStr for Given {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Given> {
        let (host, guest) = text.split_once(':').unwrap_or((text, text));
        Ok(Given {
            host: host.into(),
            guest: std::path::absolute(guest)?,
        })
    }
}
