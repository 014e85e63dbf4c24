//! The names of containers, from the files of runtimes. No runtime is contacted.
//!
//! Names kept by root's runtimes apply to every container. Names kept by a user's podman are that
//! user's claim, and apply only to containers below that user's cgroups.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{Uid, User};
use serde::Deserialize;
use sockstamp_model::name::Name;

use super::file::{self, entries};

/// docker: a directory a container, named by its id.
pub(super) const DOCKER: &str = "/var/lib/docker/containers";
const DOCKER_FILE: &str = "config.v2.json";
/// podman as root: the list of its containers, below the root of its storage
/// (containers-storage.conf(5)).
pub(super) const PODMAN: &str = "/var/lib/containers/storage";
const PODMAN_LIST: &str = "overlay-containers/containers.json";
/// The same file of a user, below the home directory.
const PODMAN_OF_USER: &str = ".local/share/containers/storage/overlay-containers/containers.json";
/// kubelet: a link `POD_NAMESPACE_CONTAINER-ID.log` for each container.
pub(super) const KUBERNETES: &str = "/var/log/containers";

/// Longest time to read a file.
const PATIENCE: Duration = Duration::from_secs(2);

/// The user that claims it; `None` is root.
type Source = Option<u32>;

/// Names of containers by id, and files that could not be read.
#[derive(Debug, Default)]
pub(super) struct Names {
    found: BTreeMap<(Source, String), Vec<Name>>,
    pub(super) unread: Vec<String>,
}

impl Names {
    /// Read all files that can be read; of users, only these.
    pub(super) fn read(users: &BTreeSet<u32>) -> Self {
        let of_users: Vec<_> = users
            .iter()
            .map(|&user| (user, file::in_time(PATIENCE, move || list_of_user(user))))
            .collect();
        let of_system = file::in_time(PATIENCE, || Ok(Self::of_system()));
        let mut names = of_system().unwrap_or_else(|error| Self {
            unread: vec![format!("the files of docker and podman: {error}")],
            ..Self::default()
        });
        for (user, list) in of_users {
            let read = list().and_then(|bytes| podman(&bytes));
            names.take(Some(user), &format!("the containers.json of user {user}"), read);
        }
        names
    }

    fn of_system() -> Self {
        let mut names = Self::default();
        for directory in entries(Path::new(DOCKER)) {
            let read = file::read(&directory, Path::new(DOCKER_FILE), ROOT).and_then(|bytes| docker(&bytes));
            names.take(None, &format!("{DOCKER_FILE} of {}", shown(&directory)), read);
        }
        let read =
            file::read(Path::new(PODMAN), Path::new(PODMAN_LIST), ROOT).and_then(|bytes| podman(&bytes));
        names.take(None, &format!("{PODMAN}/{PODMAN_LIST}"), read);
        for link in entries(Path::new(KUBERNETES)) {
            let name = link.file_name().unwrap_or_default().to_string_lossy();
            names.add(None, kubernetes(&name));
        }
        names
    }

    /// Ignore missing files.
    fn take(&mut self, source: Source, what: &str, read: io::Result<Vec<(String, Name)>>) {
        match read {
            Ok(found) => self.add(source, found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.unread.push(format!("{what}: {error}")),
        }
    }

    fn add(&mut self, source: Source, found: impl IntoIterator<Item = (String, Name)>) {
        for (id, name) in found {
            let of_id = self.found.entry((source, id)).or_default();
            if !of_id.contains(&name) {
                of_id.push(name);
            }
        }
    }

    /// Return the names of a container whose cgroup is this user's, or the system's.
    pub(super) fn of(&self, user: Source, id: &str) -> Vec<Name> {
        self.found
            .get(&(user, id.to_owned()))
            .cloned()
            .unwrap_or_default()
    }
}

const ROOT: u32 = 0;

fn shown(path: &Path) -> Name {
    path.file_name().unwrap_or_default().into()
}

fn list_of_user(user: u32) -> io::Result<Vec<u8>> {
    let entry = User::from_uid(Uid::from_raw(user))?;
    let home: PathBuf = entry.ok_or(io::ErrorKind::NotFound)?.dir;
    file::read(&home, Path::new(PODMAN_OF_USER), user)
}

/// docker writes a name with the slash that its interface has (`config.v2.json`, moby
/// container/container.go).
fn docker(config: &[u8]) -> io::Result<Vec<(String, Name)>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Config {
        #[serde(rename = "ID")]
        id: String,
        name: String,
    }
    let Config { id, name } = serde_json::from_slice(config)?;
    Ok(vec![(id, name.trim_start_matches('/').into())])
}

/// A list of objects with `id` and `names` (containers/storage, containers.go).
fn podman(list: &[u8]) -> io::Result<Vec<(String, Name)>> {
    #[derive(Deserialize)]
    struct Entry {
        id: String,
        #[serde(default)]
        names: Option<Vec<String>>,
    }
    let list: Vec<Entry> = serde_json::from_slice(list)?;
    let named = list.into_iter().flat_map(|Entry { id, names }| {
        let names = names.into_iter().flatten();
        names.map(move |name| (id.clone(), name.into()))
    });
    Ok(named.collect())
}

/// Parse `POD/CONTAINER`: no name in Kubernetes has an underscore.
fn kubernetes(file: &str) -> Option<(String, Name)> {
    let (front, id) = file.strip_suffix(".log")?.rsplit_once('-')?;
    match front.split('_').collect::<Vec<_>>().as_slice() {
        [pod, _namespace, container] => Some((id.to_owned(), format!("{pod}/{container}").into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_runtime_keeps_names_in_its_own_way() {
        let pair = |name: &str| ("0123".to_owned(), Name::from(name));
        let config = br#"{"ID":"0123","Name":"/web","State":{"Running":true}}"#;
        assert_eq!(docker(config).unwrap(), [pair("web")]);
        let list = br#"[{"id":"0123","names":["db","db-alias"],"image":"x"},{"id":"4567"},{"id":"89","names":null}]"#;
        assert_eq!(podman(list).unwrap(), [pair("db"), pair("db-alias")]);
        let link = "web-7d4b_default_nginx-sidecar-0123.log";
        assert_eq!(kubernetes(link), Some(pair("web-7d4b/nginx-sidecar")));
        assert_eq!(kubernetes("messages.log"), None);
    }

    #[test]
    fn a_file_that_no_runtime_would_write_is_an_error() {
        let nested = [&[b'['; 100_000][..], &[b']'; 100_000]].concat();
        for nothing in [&b"null"[..], b"[1]", br#"{"Name":1}"#, b"", b"\xff", &nested] {
            assert!(docker(nothing).is_err());
            assert!(podman(nothing).is_err());
        }
    }

    #[test]
    fn a_users_word_is_believed_for_that_users_containers_alone() {
        let mut names = Names::default();
        let podman = || podman(br#"[{"id":"0123","names":["web"]}]"#);
        names.take(Some(1000), "", podman());
        assert_eq!(names.of(Some(1000), "0123"), ["web"]);
        assert!(names.of(None, "0123").is_empty());
        assert!(names.of(Some(1001), "0123").is_empty());
        names.take(None, "", podman());
        assert_eq!(names.of(None, "0123"), ["web"]);
    }
}
