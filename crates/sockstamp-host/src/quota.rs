//! CPU quotas of cgroups, and how often they were used up: `cpu.stat` of both versions of cgroups.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sockstamp_model::clock::Nanos;
use sockstamp_model::summary::Throttled;

use crate::walk::walk;
use crate::{cgroup, mounts};

/// More cgroups than most hosts have. Reading one takes some 20 µs.
const MOST: usize = 4096;

/// The counters of a cgroup's quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counters {
    periods: u64,
    throttled: u64,
    time: Nanos,
}

/// The quotas of a host at one moment, by their cgroup's path below the mount point.
#[derive(Debug, Clone, Default)]
pub struct Quotas {
    counters: BTreeMap<PathBuf, Counters>,
    cut: bool,
}

impl Quotas {
    /// Read those of all cgroups.
    #[must_use]
    pub fn of_host() -> Self {
        let mut quotas = Self::default();
        for hierarchy in hierarchies() {
            let mount = hierarchy.mount.clone();
            quotas.add(&hierarchy, &mount);
            let all = walk(&mount, (), MOST, |path, _, ()| {
                quotas.add(&hierarchy, &mount.join(path));
                ControlFlow::Continue(())
            });
            quotas.cut |= !all;
        }
        quotas
    }

    /// Read those that hold for these processes.
    #[must_use]
    pub fn of_processes(pids: &[u32]) -> Self {
        let mut quotas = Self::default();
        for hierarchy in hierarchies() {
            for path in pids.iter().filter_map(|pid| hierarchy.of_process(*pid)) {
                for cgroup in path.ancestors() {
                    quotas.add(&hierarchy, &hierarchy.mount.join(cgroup));
                }
            }
        }
        quotas
    }

    fn add(&mut self, hierarchy: &Hierarchy, directory: &Path) {
        let text = fs::read_to_string(directory.join("cpu.stat"));
        if let (Ok(text), Ok(path)) = (text, directory.strip_prefix(&hierarchy.mount)) {
            let counters = parse(&text);
            if counters.periods > 0 {
                self.counters.insert(path.to_owned(), counters);
            }
        }
    }

    /// Return the quota that was used up in most periods since `before`, if any was.
    #[must_use]
    pub fn most_used_since(&self, before: &Self) -> Option<Throttled> {
        let used = self.counters.iter().filter_map(|(path, now)| {
            let then = match before.counters.get(path) {
                Some(then) => *then,
                // This cgroup was not read then, and is not new.
                None if before.cut => return None,
                None => Counters::default(),
            };
            Some(Throttled {
                cgroup: Path::new("/").join(path).as_os_str().into(),
                periods: now.periods.saturating_sub(then.periods),
                throttled: now.throttled.saturating_sub(then.throttled),
                time: Nanos(now.time.0.saturating_sub(then.time.0)),
            })
        });
        let most = used.max_by_key(|used| used.throttled)?;
        (most.throttled > 0).then_some(most)
    }
}

/// Read `cpu.stat`: in nanoseconds in version 1, in microseconds in version 2.
fn parse(text: &str) -> Counters {
    let number = |name: &str| {
        let mut fields = text.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = fields.find(|(field, _)| *field == name)?;
        value.trim().parse::<u64>().ok()
    };
    let micros = number("throttled_usec").map(|time| time.saturating_mul(1000));
    Counters {
        periods: number("nr_periods").unwrap_or(0),
        throttled: number("nr_throttled").unwrap_or(0),
        time: Nanos(micros.or_else(|| number("throttled_time")).unwrap_or(0)),
    }
}

/// A mounted hierarchy that may have the `cpu` controller.
struct Hierarchy {
    mount: PathBuf,
    /// Version 1 names its controllers.
    first: bool,
}

impl Hierarchy {
    /// Find the cgroup of a process, from the mount point: cgroups(7), "/proc files".
    fn of_process(&self, pid: u32) -> Option<PathBuf> {
        self.in_lines(&fs::read(format!("/proc/{pid}/cgroup")).ok()?)
    }

    /// A user chooses names of cgroups, which may be no UTF-8.
    fn in_lines(&self, lines: &[u8]) -> Option<PathBuf> {
        lines.split(|byte| *byte == b'\n').find_map(|line| {
            let mut fields = line.splitn(3, |byte| *byte == b':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let mut controllers = controllers.split(|byte| *byte == b',');
            let ours = match self.first {
                true => controllers.any(|controller| controller == b"cpu"),
                false => controllers.eq([b""]),
            };
            let path = path.strip_prefix(b"/").unwrap_or(path);
            ours.then(|| OsStr::from_bytes(path).into())
        })
    }
}

fn hierarchies() -> Vec<Hierarchy> {
    let mut mounts = mounts::mounts().into_iter();
    let first = mounts.find(|mount| mount.is("cgroup") && mount.has("cpu"));
    let first = first.map(|mount| Hierarchy {
        mount: mount.path,
        first: true,
    });
    let second = cgroup::mount().map(|mount| Hierarchy {
        mount,
        first: false,
    });
    first.into_iter().chain(second).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_cpu_stat_are_read() {
        let first = "nr_periods 50\nnr_throttled 42\nthrottled_time 3100000\nnr_bursts 0\n";
        let second = "usage_usec 9\nnr_periods 50\nnr_throttled 42\nthrottled_usec 3100\n";
        let read = Counters {
            periods: 50,
            throttled: 42,
            time: Nanos(3_100_000),
        };
        assert_eq!([parse(first), parse(second)], [read; 2]);
        assert_eq!(parse("usage_usec 9\n"), Counters::default());
    }

    #[test]
    fn no_name_hides_the_cgroups_of_a_process() {
        let lines = b"5:memory:/m\n3:cpu,cpuacct:/a/\xff:b\n1:name=systemd:/s\n0::/c/\xfe\n";
        let found = |first| {
            let mount = PathBuf::new();
            Hierarchy { mount, first }.in_lines(lines).unwrap()
        };
        let expected = [b"a/\xff:b".as_slice(), b"c/\xfe"].map(OsStr::from_bytes);
        assert_eq!([found(true), found(false)], expected.map(PathBuf::from));
    }

    fn quotas(of: &[(&str, u64, u64)]) -> Quotas {
        let counters = of.iter().map(|(path, periods, throttled)| {
            let counters = Counters {
                periods: *periods,
                throttled: *throttled,
                time: Nanos(throttled * 1000),
            };
            (PathBuf::from(path), counters)
        });
        Quotas {
            counters: counters.collect(),
            cut: false,
        }
    }

    #[test]
    fn the_quota_that_was_used_up_most_often_since_the_start_is_reported() {
        let before = quotas(&[("old", 1000, 900)]);
        let after = quotas(&[("old", 1010, 901), ("new", 10, 4)]);
        let most = after.most_used_since(&before).unwrap();
        assert_eq!(most.time, Nanos(4000));
        assert_eq!(
            (most.cgroup, most.periods, most.throttled),
            ("/new".into(), 10, 4)
        );
        assert_eq!(before.most_used_since(&before), None);
        // A cgroup that may have existed before is not reported.
        let cut = Quotas {
            cut: true,
            ..before
        };
        assert_eq!(after.most_used_since(&cut).unwrap().cgroup, "/old");
    }
}
