//! A kernel that guests boot, wherever it comes from.

use std::path::PathBuf;

use crate::arch::Arch;
use crate::igb::Igb;

/// A kernel, ready to boot.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// `6.12`, `patched`.
    pub(crate) name: String,
    pub(crate) arch: Arch,
    pub(crate) image: PathBuf,
    /// The folder with modules.dep; none where everything is built in.
    pub(crate) modules: Option<PathBuf>,
    /// The module of `nic/`, built for it; none where Debian has no headers that are built here.
    pub(crate) nic: Option<PathBuf>,
    /// The machine with two NICs, where the guest has them.
    pub(crate) igb: Option<Igb>,
}
