//! Debian's kernels.

use std::fmt;

use crate::arch::Arch;

/// A kernel of Debian's by its first two numbers, and where Debian has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DebianKernel {
    /// Debian 12.
    Linux6_1,
    /// Debian 12, its newer kernel; the one of Debian 13.
    Linux6_12,
    /// Debian 13 with its backports.
    Linux7_2,
    /// Debian 13 with its backports, in the build for machines: it has drivers of NICs, of which
    /// the guest has two.
    Igb,
}

/// An archive of Debian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Archive {
    Main,
    Security,
}

impl DebianKernel {
    pub(crate) const ALL: [DebianKernel; 4] = [
        DebianKernel::Linux6_1,
        DebianKernel::Linux6_12,
        DebianKernel::Linux7_2,
        DebianKernel::Igb,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            DebianKernel::Linux6_1 => "6.1",
            DebianKernel::Linux6_12 => "6.12",
            DebianKernel::Linux7_2 => "7.2",
            DebianKernel::Igb => "igb",
        }
    }

    /// Return the first two numbers of its version.
    pub(crate) fn numbers(self) -> &'static str {
        match self {
            DebianKernel::Linux6_1 | DebianKernel::Linux6_12 | DebianKernel::Linux7_2 => {
                self.name()
            }
            DebianKernel::Igb => "7.3",
        }
    }

    /// Return the end of the names of its packages. Debian builds kernels for clouds without most
    /// drivers.
    pub(crate) fn flavour(self) -> &'static str {
        match self {
            DebianKernel::Linux6_1 | DebianKernel::Linux6_12 | DebianKernel::Linux7_2 => "-cloud",
            DebianKernel::Igb => "",
        }
    }

    /// Return true if the lab boots it on this processor.
    pub(crate) fn is_for(self, arch: Arch) -> bool {
        self != DebianKernel::Igb || arch == Arch::Amd64
    }

    pub(crate) fn archive(self) -> Archive {
        match self {
            DebianKernel::Linux6_1 | DebianKernel::Linux6_12 => Archive::Security,
            DebianKernel::Linux7_2 | DebianKernel::Igb => Archive::Main,
        }
    }

    pub(crate) fn suite(self) -> &'static str {
        match self {
            DebianKernel::Linux6_1 | DebianKernel::Linux6_12 => "bookworm-security",
            DebianKernel::Linux7_2 | DebianKernel::Igb => "trixie-backports",
        }
    }

    /// Return the prefixes, before the version, of the packages with the kernel and its modules.
    /// Since 6.19 linux-image is empty, and these have the kernel, its modules and their lists.
    pub(crate) fn packages(self) -> &'static [&'static str] {
        match self {
            DebianKernel::Linux6_1 | DebianKernel::Linux6_12 => &["linux-image-"],
            DebianKernel::Linux7_2 | DebianKernel::Igb => {
                &["linux-binary-", "linux-modules-", "linux-base-"]
            }
        }
    }

    /// Return the packages with which modules for a kernel are built on Debian 12, by its
    /// `uname -r`; none where that is not tried.
    pub(crate) fn headers(self, uname: &str) -> Option<[String; 3]> {
        let version = uname.strip_suffix("-cloud-amd64")?;
        match self {
            DebianKernel::Linux6_12 => Some([
                format!("linux-headers-{uname}"),
                format!("linux-headers-{version}-common"),
                format!("linux-kbuild-{version}"),
            ]),
            // The first is older than what the module needs; the tools of the other want a newer
            // libc.
            DebianKernel::Linux6_1 | DebianKernel::Linux7_2 | DebianKernel::Igb => None,
        }
    }
}

impl fmt::Display for DebianKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
