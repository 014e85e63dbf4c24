//! Find a container's cgroup by an id or a name.
//!
//! Ids, and the names of services, are in the paths of cgroups. Other names are looked up in the
//! state files of docker and podman, and in the names of kubelet's log files, at their default
//! paths; no runtime is contacted. [`details`] also reads images and pods from these files, and
//! from those of containerd.

mod file;
mod names;

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, Metadata};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use sockstamp_model::container::{Container, Runtime, container_of};
use sockstamp_model::flow::CgroupId;
use sockstamp_model::name::Name;

use self::file::entries;
use self::names::{DOCKER, KUBERNETES, Names, PODMAN, Wanted};
pub use self::names::{Details, details};
use crate::cgroup;
use crate::walk::walk;

/// A container that was requested by its id or name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its runtime and id.
    pub container: Container,
    /// The directory of its cgroup.
    pub cgroup: PathBuf,
    /// A user, or a container, gave its own cgroup this name: the runtimes of the host know nothing
    /// of it.
    pub claimed: bool,
}

impl Found {
    /// Return a process that runs in it.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        first_process(&self.cgroup)
    }
}

/// Find the one container that `wanted` means.
///
/// # Errors
///
/// If there is none, or more than one.
pub fn find(wanted: &str) -> Result<Found> {
    let root = cgroup::root()?;
    let mut candidates = Vec::new();
    collect(&root, cgroup::DIRECTORIES, &mut candidates);
    let mut by_user = Wanted::new();
    for Candidate { container, .. } in &candidates {
        let ids = by_user.entry(container.user).or_default();
        ids.insert(container.id.clone());
    }
    let of_root = by_user.remove(&None).map(|ids| (None, ids));
    let mut unread = learn(of_root.into_iter().collect(), &mut candidates);
    // Claims rank after any container of root's: no file of a user's delays it.
    let is_of_root = |found: &Candidate| !found.is_claimed() && found.rank(wanted).is_some();
    if !candidates.iter().any(is_of_root) {
        unread.extend(learn(by_user, &mut candidates));
    }
    let found = choose(wanted, &candidates, &unread)?;
    Ok(Found {
        container: found.container.clone(),
        cgroup: root.join(&found.cgroup),
        claimed: found.is_claimed(),
    })
}

/// Give these containers the names that files have for them; return the files that could not be
/// read.
fn learn(wanted: Wanted, candidates: &mut [Candidate]) -> Vec<String> {
    let names = Names::read(wanted);
    for candidate in candidates {
        let Container { user, id, .. } = &candidate.container;
        candidate.names.extend(names.of(*user, id));
    }
    names.unread
}

/// Return the containers and services of these cgroups, within a directory or on the host. One that
/// is not found by a walk of bounded length has none.
///
/// # Errors
///
/// If no hierarchy is mounted, and none can be.
pub fn of_cgroups(
    wanted: &BTreeSet<CgroupId>,
    within: Option<&Path>,
) -> Result<HashMap<CgroupId, Option<Container>>> {
    let root = cgroup::root()?;
    let within = within.map(|within| within.strip_prefix(&root).unwrap_or(within));
    let top = Path::new("/").join(within.unwrap_or(Path::new("")));
    let ids = wanted.iter().map(|cgroup| cgroup.0).collect();
    let found = cgroup::paths(&root, ids, cgroup::DIRECTORIES).into_iter();
    let container = |found: cgroup::Cgroup| {
        let is_within = Path::new(OsStr::from_bytes(found.path.as_bytes())).starts_with(&top);
        found.container.filter(|_| is_within)
    };
    Ok(found
        .map(|(id, found)| (CgroupId(id), found.and_then(container)))
        .collect())
}

/// Find a process in the cgroup or below it.
fn first_process(cgroup: &Path) -> Option<u32> {
    // Skip 0: it stands for a process of another pid namespace (cgroups(7)).
    let processes = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    let mut ids = processes.lines().filter_map(|line| line.parse().ok());
    ids.find(|id| *id > 0).or_else(|| {
        entries(cgroup)
            .filter(|path| path.is_dir())
            .find_map(|path| first_process(&path))
    })
}

/// A container and its names.
#[derive(Debug)]
struct Candidate {
    container: Container,
    names: Vec<Name>,
    /// The path from the root of the hierarchy.
    cgroup: PathBuf,
    /// The container is inside another one.
    nested: bool,
}

/// The rank of an answer: root's containers before those that only claim the id or name.
type Rank = (bool, Fit);

/// The match of a container with the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Prefix,
    Exact,
}

impl Candidate {
    /// The name of its cgroup was chosen by a user, or from within a container.
    fn is_claimed(&self) -> bool {
        self.nested || self.container.user.is_some()
    }

    fn rank(&self, wanted: &str) -> Option<Rank> {
        self.fit(wanted.as_bytes())
            .map(|fit| (!self.is_claimed(), fit))
    }

    fn fit(&self, wanted: &[u8]) -> Option<Fit> {
        let id = [self.container.id.as_str(), unit_stem(&self.container)].map(str::as_bytes);
        let called = || id.into_iter().chain(self.names.iter().map(Name::as_bytes));
        if called().any(|name| name == wanted) {
            Some(Fit::Exact)
        } else if called().any(|name| name.starts_with(wanted)) {
            Some(Fit::Prefix)
        } else {
            None
        }
    }
}

/// `nginx` of `nginx.service`.
fn unit_stem(container: &Container) -> &str {
    match container.runtime {
        Runtime::Systemd => container.id.trim_end_matches(".service"),
        _ => &container.id,
    }
}

/// Prefer root's containers to claims, and exact matches to prefixes.
fn choose<'a>(
    wanted: &str,
    candidates: &'a [Candidate],
    unread: &[String],
) -> Result<&'a Candidate> {
    let rank = |candidate: &Candidate| candidate.rank(wanted);
    let best = candidates.iter().filter_map(rank).max();
    let fitting: Vec<_> = candidates
        .iter()
        .filter(|candidate| best.is_some() && rank(candidate) == best)
        .collect();
    match fitting.as_slice() {
        [] => bail!(
            "no container {wanted}: none of {} cgroups of containers has an id, service or name that begins with it \
             (names: {DOCKER}, {PODMAN}, {KUBERNETES}){}",
            candidates.len(),
            unread
                .iter()
                .take(LISTED)
                .map(|file| format!("; not read: {file}"))
                .collect::<String>()
        ),
        [one] => Ok(one),
        several => bail!("{wanted} is ambiguous: {}", list(several)),
    }
}

/// The most that an error lists.
const LISTED: usize = 8;

fn list(candidates: &[&Candidate]) -> String {
    let mut text = String::new();
    for candidate in candidates.iter().take(LISTED) {
        let separator = if text.is_empty() { "" } else { ", " };
        let names = match candidate.names.as_slice() {
            [] => String::new(),
            names => {
                let names: Vec<_> = names.iter().map(Name::to_string).collect();
                format!(" ({})", names.join(", "))
            }
        };
        // Ignore the result: writing to a string cannot fail.
        let _ = write!(text, "{separator}{}{names}", candidate.container);
    }
    match candidates.len().checked_sub(LISTED) {
        Some(more @ 1..) => text + &format!(" and {more} more"),
        _ => text,
    }
}

/// Properties that a cgroup inherits from its ancestors.
#[derive(Debug, Clone, Default)]
struct Place {
    container: Option<Container>,
    /// The cgroup is in a container, not only in a service.
    contained: bool,
    /// The user that may make cgroups there: delegation is the ownership of a directory
    /// (cgroups(7), "Cgroups delegation: delegating a hierarchy to a less privileged user").
    user: Option<u32>,
}

/// Collect the cgroups of containers: the outermost of each, in a walk of at most this many
/// directories.
fn collect(root: &Path, directories: usize, found: &mut Vec<Candidate>) {
    walk(
        root,
        Place::default(),
        directories,
        |path, metadata, above| ControlFlow::Continue(inspect(path, metadata, above, found)),
    );
}

/// Add the container of a cgroup, unless the one that it is in is the same.
fn inspect(path: &Path, metadata: &Metadata, within: &Place, found: &mut Vec<Candidate>) -> Place {
    let container = container_of(OsStr::as_bytes(path.as_os_str()));
    if let Some(own) = container
        .clone()
        .filter(|own| Some(own) != within.container.as_ref())
    {
        found.push(Candidate {
            container: Container {
                // Root's own slice is as good as the system's.
                user: own.user.or(within.user).filter(|&user| user != 0),
                ..own
            },
            names: Vec::new(),
            cgroup: path.to_owned(),
            nested: within.contained,
        });
    }
    let is_container = |own: &Container| own.runtime != Runtime::Systemd;
    Place {
        contained: container.as_ref().is_some_and(is_container),
        user: within
            .user
            .or(Some(metadata.uid()).filter(|&user| user != 0)),
        container,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const OTHER: &str = "0123fedcba9876543210fedcba9876543210fedcba9876543210fedcba987654";

    fn candidate(runtime: Runtime, id: &str, names: &[&str]) -> Candidate {
        Candidate {
            container: Container {
                runtime,
                id: id.to_owned(),
                user: None,
            },
            names: names.iter().map(|&name| name.into()).collect(),
            cgroup: id.into(),
            nested: false,
        }
    }

    fn host() -> Vec<Candidate> {
        vec![
            candidate(Runtime::Docker, ID, &["web"]),
            candidate(Runtime::Podman, OTHER, &["web-db"]),
            candidate(Runtime::Systemd, "nginx.service", &[]),
            candidate(Runtime::Systemd, "nginx-exporter.service", &[]),
        ]
    }

    #[test]
    fn an_id_a_name_or_the_beginning_of_one_is_enough() {
        let host = host();
        for (wanted, index) in [
            (ID, 0),
            ("01234", 0),
            ("0123f", 1),
            ("web", 0),
            ("web-", 1),
            ("nginx", 2),
            ("nginx.service", 2),
            ("nginx-", 3),
        ] {
            assert_eq!(
                choose(wanted, &host, &[]).unwrap().cgroup,
                host[index].cgroup,
                "{wanted}"
            );
        }
    }

    #[test]
    fn an_ambiguous_name_is_refused_with_the_candidates() {
        let error = choose("0123", &host(), &[]).unwrap_err().to_string();
        assert_eq!(
            error,
            "0123 is ambiguous: docker/0123456789ab (web), podman/0123fedcba98 (web-db)"
        );
        let many: Vec<_> = (0..20)
            .map(|n| candidate(Runtime::Systemd, &format!("worker@{n}.service"), &[]))
            .collect();
        let error = choose("worker", &many, &[]).unwrap_err().to_string();
        assert!(error.ends_with("worker@7.service and 12 more"), "{error}");
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_places_searched() {
        let error = choose("mail", &host(), &["a list: too long".to_owned()])
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("no container mail: ")
                && error.contains("none of 4 cgroups")
                && error.ends_with("; not read: a list: too long"),
            "{error}"
        );
    }

    #[test]
    fn containers_of_root_rank_before_claims_of_users() {
        let claimed = |runtime, id: &str, names: &[&str]| {
            let mut claimed = candidate(runtime, id, names);
            claimed.container.user = Some(1000);
            claimed.cgroup = Path::new("user").join(id);
            claimed
        };
        let mut host = host();
        host.insert(0, claimed(Runtime::Podman, ID, &["web", "web-db", "mail"]));
        host.insert(0, claimed(Runtime::Systemd, "nginx.service", &[]));
        let inside = Candidate {
            nested: true,
            cgroup: Path::new("inside").join(ID),
            ..candidate(Runtime::Docker, ID, &["web"])
        };
        host.insert(0, inside);
        for (wanted, cgroup) in [
            (ID, ID),
            ("web", ID),
            ("web-d", OTHER),
            ("nginx", "nginx.service"),
            ("mail", &format!("user/{ID}")),
        ] {
            let found = choose(wanted, &host, &[]).unwrap();
            assert_eq!(found.cgroup, Path::new(cgroup), "{wanted}");
            assert_eq!(found.is_claimed(), wanted == "mail");
        }
    }

    #[test]
    fn cgroups_that_users_make_hide_no_container_of_roots() {
        let root = tempfile::tempdir().unwrap();
        let make = |path: &str, owner| {
            let path = root.path().join(path);
            fs::create_dir_all(&path).unwrap();
            std::os::unix::fs::chown(path, Some(owner), None).unwrap();
        };
        make("user", 1000);
        for number in 0..100 {
            make(&format!("user/{number}"), 1000);
        }
        make(&format!("user/0/docker-{OTHER}.scope"), 1000);
        make(&format!("system.slice/a/b/docker-{ID}.scope"), 0);
        let mut found = Vec::new();
        collect(root.path(), 20, &mut found);
        let ids: Vec<_> = found.iter().map(|found| &found.container.id).collect();
        assert_eq!(ids, [ID]);
        found.clear();
        collect(root.path(), 1000, &mut found);
        assert_eq!(found[1].container.user, Some(1000));
    }
}
