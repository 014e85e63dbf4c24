//! The containers of messages that are measured.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashMap;
use sockstamp_host::cgroup::{self, DIRECTORIES};
use sockstamp_model::container::Container;
use sockstamp_model::flow::CgroupId;

/// Cgroups that are remembered. Any user with a cgroup may make more in it.
const MOST: usize = 65_536;
/// Rests after a walk of the hierarchy, in units of the time that it took: messages wait meanwhile.
const REST: u32 = 4;

/// Finds containers by their cgroups. Each cgroup is looked up once, when its first message comes:
/// the kernel gives no number of a cgroup twice.
#[derive(Debug)]
pub struct Containers {
    /// `None` where there is no cgroup2.
    cgroup2: Option<PathBuf>,
    known: FxHashMap<CgroupId, Option<Arc<Container>>>,
    rests_until: Instant,
}

impl Containers {
    /// Begin without any. Without a hierarchy there are no containers.
    #[must_use]
    pub fn of_host() -> Self {
        Self::below(cgroup::mount())
    }

    fn below(cgroup2: Option<PathBuf>) -> Self {
        Self {
            cgroup2,
            known: FxHashMap::default(),
            rests_until: Instant::now(),
        }
    }

    /// Return the container of a cgroup. During a rest, one that is not known yet has none.
    pub fn of(&mut self, cgroup: CgroupId) -> Option<Arc<Container>> {
        if let Some(known) = self.known.get(&cgroup) {
            return known.clone();
        }
        let root = self.cgroup2.as_deref()?;
        let begun = Instant::now();
        if begun < self.rests_until {
            return None;
        }
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let found = cgroup::paths(root, BTreeSet::from([cgroup.0]), DIRECTORIES);
        let found = found.into_iter().find_map(|(_, found)| found);
        let container = found.and_then(|found| found.container).map(Arc::new);
        self.known.insert(cgroup, container.clone());
        self.rests_until = Instant::now() + begun.elapsed() * REST;
        container
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::time::Duration;

    use tempfile::tempdir;

    use super::*;

    /// A walk sees directories alone, so that any hierarchy of them will do.
    #[test]
    fn a_cgroup_is_looked_up_once_and_not_during_a_rest() {
        let root = tempdir().unwrap();
        let make = |path: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(&path).unwrap();
            CgroupId(fs::metadata(path).unwrap().ino())
        };
        let nginx = make("system.slice/nginx.service");
        let shell = make("user.slice");
        let late = make("system.slice/late.service");
        let mut containers = Containers::below(Some(root.path().to_owned()));
        let mut of = |cgroup| {
            let container = containers.of(cgroup);
            containers.rests_until = Instant::now();
            container.map(|container| container.to_string())
        };
        assert_eq!(of(nginx).as_deref(), Some("nginx.service"));
        assert_eq!(of(shell), None);
        fs::remove_dir(root.path().join("system.slice/nginx.service")).unwrap();
        assert_eq!(of(nginx).as_deref(), Some("nginx.service"));

        containers.rests_until = Instant::now() + Duration::from_secs(3600);
        assert_eq!(containers.of(late), None);
        containers.rests_until = Instant::now();
        assert!(containers.of(late).is_some());
    }

    #[test]
    fn without_a_hierarchy_there_are_no_containers() {
        assert_eq!(Containers::below(None).of(CgroupId(1)), None);
    }
}
