//! `--container`: from an id or a name to the container's cgroup.
//!
//! Ids, and the names of services, are in the paths of cgroups. Other names are looked up in the state
//! that docker and podman keep, and in the names of the log files that kubelet links, each where it is by
//! default; no runtime is asked.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use sockstamp_model::container::{Container, Runtime, container_of};

use crate::cgroup;

/// docker: a directory a container, named by its id.
const DOCKER: &str = "/var/lib/docker/containers";
/// podman as root: the list of its containers, below the root of its storage (containers-storage.conf(5)).
const PODMAN: &str = "/var/lib/containers/storage";
/// The same of a user, below the home directory.
const PODMAN_OF_USER: &str = ".local/share/containers/storage";
const PODMAN_LIST: &str = "overlay-containers/containers.json";
/// kubelet: a link `POD_NAMESPACE_CONTAINER-ID.log` for each container.
const KUBERNETES: &str = "/var/log/containers";

/// The directory of the cgroup of the one container that `wanted` means.
pub(crate) fn cgroup_of(wanted: &str) -> Result<PathBuf> {
    let root = cgroup::root()?;
    let mut candidates = Vec::new();
    collect(&root, "", None, &mut candidates);
    let names = names();
    for candidate in &mut candidates {
        candidate.names = names.get(&candidate.container.id).cloned().unwrap_or_default();
    }
    Ok(root.join(&choose(wanted, &candidates)?.cgroup))
}

/// A process of the one container that `wanted` means.
pub(crate) fn process_of(wanted: &str) -> Result<u32> {
    let cgroup = cgroup_of(wanted)?;
    first_process(&cgroup).with_context(|| format!("no process runs in container {wanted}"))
}

/// In the cgroup or below it.
fn first_process(cgroup: &Path) -> Option<u32> {
    // Of another pid namespace than ours it is 0: cgroups(7).
    let processes = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    let mut ids = processes.lines().filter_map(|line| line.parse().ok());
    ids.find(|id| *id > 0).or_else(|| {
        entries(cgroup)
            .filter(|path| path.is_dir())
            .find_map(|path| first_process(&path))
    })
}

/// A container and what it may be called by.
#[derive(Debug)]
struct Candidate {
    container: Container,
    names: Vec<String>,
    /// From the root of the hierarchy.
    cgroup: String,
}

/// How well a container fits what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Prefix,
    Exact,
}

impl Candidate {
    fn fit(&self, wanted: &str) -> Option<Fit> {
        let id = [self.container.id.as_str(), unit_stem(&self.container)];
        let called = || id.into_iter().chain(self.names.iter().map(String::as_str));
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

/// What fits exactly goes before what merely starts so.
fn choose<'a>(wanted: &str, candidates: &'a [Candidate]) -> Result<&'a Candidate> {
    let fits = |candidate: &Candidate| candidate.fit(wanted);
    let best = candidates.iter().filter_map(fits).max();
    let fitting: Vec<_> = candidates
        .iter()
        .filter(|candidate| best.is_some() && fits(candidate) == best)
        .collect();
    match fitting.as_slice() {
        [] => bail!(
            "no container {wanted}: no id, service or name among {} cgroups of containers starts so \
             (names: {DOCKER}, {PODMAN}, {KUBERNETES})",
            candidates.len()
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
            names => format!(" ({})", names.join(", ")),
        };
        // To a string nothing fails.
        let _ = write!(text, "{separator}{}{names}", candidate.container);
    }
    match candidates.len().checked_sub(LISTED) {
        Some(more @ 1..) => text + &format!(" and {more} more"),
        _ => text,
    }
}

/// The cgroups of containers below `directory`, whose path from the root is `path`: the outermost of each.
fn collect(directory: &Path, path: &str, within: Option<&Container>, found: &mut Vec<Candidate>) {
    // A cgroup that vanishes meanwhile has no container any more.
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
            continue;
        };
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = if path.is_empty() {
            name
        } else {
            format!("{path}/{name}")
        };
        let container = container_of(&path);
        if let Some(container) = container.clone().filter(|own| Some(own) != within) {
            found.push(Candidate {
                container,
                names: Vec::new(),
                cgroup: path.clone(),
            });
        }
        collect(&entry.path(), &path, container.as_ref(), found);
    }
}

/// By id, as far as they can be read.
fn names() -> BTreeMap<String, Vec<String>> {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut add = |id: &str, name: &str| {
        let of_id = names.entry(id.to_owned()).or_default();
        if !of_id.iter().any(|known| known == name) {
            of_id.push(name.to_owned());
        }
    };
    for directory in entries(Path::new(DOCKER)) {
        docker_name(&json(&directory.join("config.v2.json")), &mut add);
    }
    let homes = entries(Path::new("/home")).chain([PathBuf::from("/root")]);
    let of_users = homes.map(|home| home.join(PODMAN_OF_USER));
    for storage in of_users.chain([PODMAN.into()]) {
        podman_names(&json(&storage.join(PODMAN_LIST)), &mut add);
    }
    for link in entries(Path::new(KUBERNETES)) {
        let name = link.file_name().unwrap_or_default().to_string_lossy();
        kubernetes_name(&name, &mut add);
    }
    names
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// docker writes a name with the slash that its interface has (`config.v2.json`, moby container/container.go).
fn docker_name(config: &Value, add: &mut impl FnMut(&str, &str)) {
    if let (Some(id), Some(name)) = (config["ID"].as_str(), config["Name"].as_str()) {
        add(id, name.trim_start_matches('/'));
    }
}

/// A list of objects with `id` and `names` (containers/storage, containers.go).
fn podman_names(list: &Value, add: &mut impl FnMut(&str, &str)) {
    for container in list.as_array().into_iter().flatten() {
        let names = container["names"].as_array().into_iter().flatten();
        for name in names.filter_map(Value::as_str) {
            if let Some(id) = container["id"].as_str() {
                add(id, name);
            }
        }
    }
}

/// As `POD/CONTAINER`: no name in Kubernetes has an underscore.
fn kubernetes_name(file: &str, add: &mut impl FnMut(&str, &str)) {
    let parts = file.strip_suffix(".log").and_then(|stem| stem.rsplit_once('-'));
    let Some((front, id)) = parts else { return };
    if let [pod, _namespace, container] = front.split('_').collect::<Vec<_>>().as_slice() {
        add(id, &format!("{pod}/{container}"));
    }
}

/// The one that is within the other: a socket is in both only there.
pub(crate) fn inner(one: PathBuf, other: PathBuf) -> Result<PathBuf> {
    let canonical = |path: &Path| {
        fs::canonicalize(path).with_context(|| format!("cannot find the cgroup {}", path.display()))
    };
    let (first, second) = (canonical(&one)?, canonical(&other)?);
    if first.starts_with(&second) {
        Ok(one)
    } else if second.starts_with(&first) {
        Ok(other)
    } else {
        bail!(
            "no socket is in both {} and {}: neither cgroup is below the other",
            one.display(),
            other.display()
        )
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
            },
            names: names.iter().map(|&name| name.to_owned()).collect(),
            cgroup: id.to_owned(),
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
                choose(wanted, &host).unwrap().cgroup,
                host[index].cgroup,
                "{wanted}"
            );
        }
    }

    #[test]
    fn what_fits_several_is_refused_with_their_list() {
        let error = choose("0123", &host()).unwrap_err().to_string();
        assert_eq!(
            error,
            "0123 is ambiguous: docker/0123456789ab (web), podman/0123fedcba98 (web-db)"
        );
        let many: Vec<_> = (0..20)
            .map(|n| candidate(Runtime::Systemd, &format!("worker@{n}.service"), &[]))
            .collect();
        let error = choose("worker", &many).unwrap_err().to_string();
        assert!(error.ends_with("worker@7.service and 12 more"), "{error}");
    }

    #[test]
    fn what_fits_none_is_refused_with_the_places() {
        let error = choose("mail", &host()).unwrap_err().to_string();
        assert!(
            error.starts_with("no container mail: ") && error.contains("among 4 cgroups"),
            "{error}"
        );
    }

    fn found(read: impl Fn(&mut dyn FnMut(&str, &str))) -> Vec<(String, String)> {
        let mut found = Vec::new();
        read(&mut |id, name| found.push((id.to_owned(), name.to_owned())));
        found
    }

    #[test]
    fn each_runtime_keeps_names_in_its_own_way() {
        let docker = serde_json::json!({"ID": ID, "Name": "/web", "State": {"Running": true}});
        let podman = serde_json::json!([{"id": ID, "names": ["db", "db-alias"]}, {"id": OTHER}]);
        let pair = |name: &str| (ID.to_owned(), name.to_owned());
        assert_eq!(found(|mut add| docker_name(&docker, &mut add)), [pair("web")]);
        assert_eq!(
            found(|mut add| podman_names(&podman, &mut add)),
            [pair("db"), pair("db-alias")]
        );
        let link = format!("web-7d4b_default_nginx-sidecar-{ID}.log");
        assert_eq!(
            found(|mut add| kubernetes_name(&link, &mut add)),
            [pair("web-7d4b/nginx-sidecar")]
        );
        for nothing in [
            Value::Null,
            serde_json::json!([1]),
            serde_json::json!({"Name": 1}),
        ] {
            assert!(found(|mut add| docker_name(&nothing, &mut add)).is_empty());
            assert!(found(|mut add| podman_names(&nothing, &mut add)).is_empty());
        }
        assert!(found(|mut add| kubernetes_name("messages.log", &mut add)).is_empty());
    }
}
