//! The processors of guests, by Debian's names for them.

use clap::ValueEnum;

/// A processor, as QEMU emulates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Arch {
    #[default]
    Amd64,
    Arm64,
}

impl Arch {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Arch::Amd64 => "amd64",
            Arch::Arm64 => "arm64",
        }
    }

    pub(crate) fn qemu(self) -> &'static str {
        match self {
            Arch::Amd64 => "qemu-system-x86_64",
            Arch::Arm64 => "qemu-system-aarch64",
        }
    }

    /// Return the package with that program.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Arch::Amd64 => "qemu-system-x86",
            Arch::Arm64 => "qemu-system-arm",
        }
    }

    /// Return the board and the processor. Without two features amd64 kernels copy by words: QEMU
    /// emulates a string instruction element by element, and a start of sockstamp takes a tenth
    /// less. Pointers of arm64 kernels are signed by an algorithm that is cheap to emulate.
    pub(crate) fn board(self) -> [&'static str; 4] {
        match self {
            Arch::Amd64 => ["-M", "q35", "-cpu", "max,-erms,-fsrm"],
            Arch::Arm64 => ["-M", "virt", "-cpu", "max,pauth-impdef=on"],
        }
    }

    /// Return the device that is the kernel's console from the first line on.
    pub(crate) fn console(self) -> &'static str {
        match self {
            Arch::Amd64 => "ttyS0",
            Arch::Arm64 => "ttyAMA0",
        }
    }
}
