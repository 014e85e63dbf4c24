//! Look for what confines this process.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use libbpf_rs::{ErrorKind, MapHandle, MapType, libbpf_sys};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statfs::{SYSFS_MAGIC, statfs};

use crate::facts::Confinement;
use crate::kernel::KERNEL;

/// Descriptors that a start may need at a time.
const DESCRIPTORS: u64 = 256;

/// Return all that is found. `may_load` says that no capability is missing.
pub(super) fn confinements(may_load: bool) -> BTreeSet<Confinement> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let map = read("/proc/self/uid_map");
    let is_nested = !map.is_empty() && is_user_namespace(&map);
    let refused = match may_load && !is_nested {
        true => refusal(&read("/proc/self/status")),
        false => None,
    };
    let lockdown = is_confidential(&read("/sys/kernel/security/lockdown"));
    [
        is_nested.then_some(Confinement::UserNamespace),
        refused,
        lockdown.then_some(Confinement::Lockdown),
        is_sys_masked().then_some(Confinement::MaskedSys),
        few_descriptors(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The first user namespace maps all users to themselves (user_namespaces(7)).
fn is_user_namespace(map: &str) -> bool {
    let mut fields = map.split_whitespace();
    fields.by_ref().take(3).ne(["0", "0", "4294967295"]) || fields.next().is_some()
}

/// Make a map, the least that bpf(2) can be asked for.
fn refusal(status: &str) -> Option<Confinement> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let made = MapHandle::create(MapType::Array, Some("sockstamp"), 4, 4, 1, &options);
    let error = made.err()?;
    let is_refused = error.kind() == ErrorKind::PermissionDenied
        || std::error::Error::source(&error)
            .and_then(|cause| cause.downcast_ref::<std::io::Error>())
            .is_some_and(|cause| cause.raw_os_error() == Some(Errno::ENOSYS as i32));
    is_refused.then(|| match is_filtered(status) {
        true => Confinement::Seccomp,
        false => Confinement::SecurityModule,
    })
}

/// 2 is a filter (proc_pid_status(5)).
fn is_filtered(status: &str) -> bool {
    let mode = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == "2")
}

/// The present state is in brackets (kernel_lockdown(7)).
fn is_confidential(lockdown: &str) -> bool {
    lockdown.contains("[confidentiality]")
}

fn is_sys_masked() -> bool {
    let is_sysfs = statfs("/sys/kernel").is_ok_and(|found| found.filesystem_type() == SYSFS_MAGIC);
    !is_sysfs && !Path::new(KERNEL).exists()
}

fn few_descriptors() -> Option<Confinement> {
    let (most, _) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    (most < DESCRIPTORS).then_some(Confinement::Descriptors(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_user_namespace_is_told_from_others() {
        assert!(!is_user_namespace("         0          0 4294967295\n"));
        assert!(is_user_namespace("         0       1000          1\n"));
        assert!(is_user_namespace("0 100000 65536\n65536 0 1\n"));
    }

    #[test]
    fn a_kernel_is_locked_down_by_what_is_in_brackets() {
        assert!(is_confidential("none integrity [confidentiality]\n"));
        assert!(!is_confidential("none [integrity] confidentiality\n"));
        assert!(!is_confidential(""));
    }

    #[test]
    fn a_filter_of_system_calls_is_seen_in_the_status() {
        assert!(is_filtered("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(!is_filtered("Seccomp:\t0\nSeccomp_filters:\t2\n"));
    }
}
