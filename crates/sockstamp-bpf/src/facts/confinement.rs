//! Surroundings that take the effect of capabilities away.

use std::fmt;

/// Something around this process that keeps programs from being loaded or run, whatever the kernel
/// can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confinement {
    /// A user namespace: the kernel asks for the capabilities of the first one.
    UserNamespace,
    /// A filter of system calls refuses bpf(2).
    Seccomp,
    /// Something else refuses bpf(2), although nothing is missing: a security module.
    SecurityModule,
    /// The kernel is locked down for confidentiality, and lets no program read its memory.
    Lockdown,
    /// `/sys` is not the kernel's.
    MaskedSys,
    /// The process may have no more descriptors than these.
    Descriptors(u64),
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UserNamespace => f.write_str(
                "in a user namespace the kernel counts no capability for BPF: run sockstamp in the first \
                 one, as root of the host (docker: --userns=host; podman: not rootless)",
            ),
            Self::Seccomp => f.write_str(
                "a seccomp filter refuses bpf(2): allow bpf and perf_event_open in it (docker, podman: \
                 --security-opt seccomp=unconfined, or --cap-add BPF --cap-add PERFMON)",
            ),
            Self::SecurityModule => f.write_str(
                "bpf(2) is refused though no capability is missing: see the log of the security module \
                 (`dmesg`, `ausearch -m avc`)",
            ),
            Self::Lockdown => f.write_str(
                "the kernel is locked down for confidentiality, so that no program may read its memory: \
                 boot it with lockdown=integrity or less",
            ),
            Self::MaskedSys => f.write_str(
                "/sys/kernel is hidden, and the kernel's BTF with it: mount sysfs at /sys (docker, \
                 podman: -v /sys:/sys:ro)",
            ),
            Self::Descriptors(most) => write!(
                f,
                "at most {most} descriptors may be open, and measuring takes up to 256: `ulimit -n 1024`"
            ),
        }
    }
}
