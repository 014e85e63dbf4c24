//! The names of containers, their images and pods, from the files of runtimes. No runtime is
//! contacted.
//!
//! Names kept by root's runtimes apply to every container. Names kept by a user's podman are that
//! user's claim, and apply only to containers below that user's cgroups.

mod entry;
mod list;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::unistd::{Uid, User};
use serde::Deserialize;
use sockstamp_model::container::ID_LENGTH;
use sockstamp_model::name::Name;

use super::file::{self, entries};
use entry::{Entry, NAMES, is_kept};

pub use entry::Details;

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
/// containerd: a directory per namespace of its own, in it one per container that runs, named by
/// its id, with the settings that its runtime got.
const CONTAINERD: &str = "/run/containerd/io.containerd.runtime.v2.task";
const CONTAINERD_FILE: &str = "config.json";

/// Longest time to read a file.
const PATIENCE: Duration = Duration::from_secs(2);
/// Users whose files are read at the same time.
const AT_ONCE: usize = 8;
/// The user that claims it; `None` is root.
pub(super) type Source = Option<u32>;

/// Ids of containers, by the user that claims them: no others are kept.
pub(super) type Wanted = BTreeMap<Source, BTreeSet<String>>;

/// Find what runtimes say of these containers, by their ids as
/// [`qualified_id`](sockstamp_model::container::Container::qualified_id) has them. Those of whom
/// nothing is known are left out.
#[must_use]
pub fn details(wanted: &BTreeSet<String>) -> BTreeMap<String, Details> {
    let known: Vec<_> = wanted
        .iter()
        .filter_map(|text| Some((text, parsed(text)?)))
        .collect();
    let mut wanted = Wanted::new();
    for (_, (user, id)) in &known {
        wanted.entry(*user).or_default().insert((*id).to_owned());
    }
    let mut names = Names::read(wanted);
    known
        .into_iter()
        .filter_map(|(text, (user, id))| {
            Some((text.clone(), names.details.remove(&(user, id.to_owned()))?))
        })
        .collect()
}

/// Parse the id of a container, not of a service, and the user whose claim it is.
fn parsed(qualified: &str) -> Option<(Source, &str)> {
    let (user, id) = match qualified.split_once('/') {
        Some((user, id)) => (Some(user.strip_prefix("user-")?.parse().ok()?), id),
        None => (None, qualified),
    };
    let is_id = id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some((user, id))
}

/// Names of containers by id, and files that could not be read.
#[derive(Debug, Default)]
pub(super) struct Names {
    found: BTreeMap<(Source, String), Vec<Name>>,
    details: BTreeMap<(Source, String), Details>,
    pub(super) unread: Vec<String>,
}

impl Names {
    /// Read what the files that can be read have about these containers: root's first, then those
    /// of some users at a time. A user's file that takes too long delays no more than that.
    pub(super) fn read(mut wanted: Wanted) -> Self {
        let mut names = match wanted.remove(&None) {
            Some(ids) => Self::of_system_in_time(ids),
            None => Self::default(),
        };
        let users: Vec<_> = wanted
            .into_iter()
            .filter_map(|(user, ids)| Some((user?, ids)))
            .collect();
        for turn in users.chunks(AT_ONCE) {
            let begun = Instant::now();
            let reads: Vec<_> = turn
                .iter()
                .map(|(user, ids)| (*user, begin_user(*user, ids.clone())))
                .collect();
            for (user, read) in reads {
                let left = PATIENCE.saturating_sub(begun.elapsed());
                let what = format!("the containers.json of user {user}");
                names.take(Some(user), &what, read.and_then(|read| read(left)));
            }
        }
        names
    }

    fn of_system_in_time(ids: BTreeSet<String>) -> Self {
        let read = file::in_time(move || Ok(Self::of_these(&ids)));
        read(PATIENCE).unwrap_or_else(|error| Self {
            unread: vec![format!("the files of docker and podman: {error}")],
            ..Self::default()
        })
    }

    /// Read what there is about these containers.
    fn of_these(ids: &BTreeSet<String>) -> Self {
        let mut names = Self::default();
        if ids.is_empty() {
            return names;
        }
        let namespaces: Vec<_> = entries(Path::new(CONTAINERD)).collect();
        for id in ids {
            names.take_docker(&Path::new(DOCKER).join(id));
            for namespace in &namespaces {
                let read = file::read(&namespace.join(id), Path::new(CONTAINERD_FILE), ROOT);
                let read = read.and_then(|bytes| containerd(id, &bytes));
                names.take(
                    None,
                    &format!("{CONTAINERD_FILE} of {id}"),
                    read.map(|entry| vec![entry]),
                );
            }
        }
        names.take_lists(ids);
        names
    }

    fn take_docker(&mut self, directory: &Path) {
        let read =
            file::read(directory, Path::new(DOCKER_FILE), ROOT).and_then(|bytes| docker(&bytes));
        let what = format!("{DOCKER_FILE} of {}", shown(directory));
        self.take(None, &what, read.map(|entry| vec![entry]));
    }

    /// Read the files that have all containers of a runtime.
    fn take_lists(&mut self, ids: &BTreeSet<String>) {
        let read = file::read(Path::new(PODMAN), Path::new(PODMAN_LIST), ROOT)
            .and_then(|bytes| list::podman(&bytes, ids));
        self.take(None, &format!("{PODMAN}/{PODMAN_LIST}"), read);
        for link in entries(Path::new(KUBERNETES)) {
            let name = link.file_name().unwrap_or_default().to_string_lossy();
            self.add(
                None,
                kubernetes(&name).filter(|entry| ids.contains(&entry.id)),
            );
        }
    }

    /// Ignore missing files.
    fn take(&mut self, source: Source, what: &str, read: io::Result<Vec<Entry>>) {
        match read {
            Ok(found) => self.add(source, found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.unread.push(format!("{what}: {error}")),
        }
    }

    fn add(&mut self, source: Source, found: impl IntoIterator<Item = Entry>) {
        for Entry { id, names, details } in found {
            let of_id = self.found.entry((source, id.clone())).or_default();
            for name in names.into_iter().filter(is_kept) {
                if of_id.len() < NAMES && !of_id.contains(&name) {
                    of_id.push(name);
                }
            }
            self.details
                .entry((source, id))
                .or_default()
                .complete(details);
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

/// Users whose files are being read. A read that never ends is not begun again.
static READING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Mark a user's file as being read, until it is dropped.
struct Reading(u32);

impl Reading {
    fn begin(user: u32) -> io::Result<Self> {
        let mut reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
        match reading.insert(user) {
            true => Ok(Self(user)),
            false => Err(io::Error::other("an earlier read of it has not ended")),
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
        reading.remove(&self.0);
    }
}

/// Begin to read and parse a user's list, and return the wait for it.
fn begin_user(
    user: u32,
    ids: BTreeSet<String>,
) -> io::Result<impl FnOnce(Duration) -> io::Result<Vec<Entry>>> {
    let reading = Reading::begin(user)?;
    Ok(file::in_time(move || {
        let _reading = reading;
        list::podman(&list_of_user(user)?, &ids)
    }))
}

fn list_of_user(user: u32) -> io::Result<Vec<u8>> {
    let entry = User::from_uid(Uid::from_raw(user))?;
    let home: PathBuf = entry.ok_or(io::ErrorKind::NotFound)?.dir;
    file::read(&home, Path::new(PODMAN_OF_USER), user)
}

/// docker writes a name with the slash that its interface has (`config.v2.json`, moby
/// container/container.go). Labels are those of kubelet where it runs containers by docker.
fn docker(config: &[u8]) -> io::Result<Entry> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct File {
        #[serde(rename = "ID")]
        id: String,
        name: String,
        #[serde(default)]
        config: Config,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "PascalCase", default)]
    struct Config {
        image: Option<String>,
        labels: Option<BTreeMap<String, String>>,
    }
    let File { id, name, config } = serde_json::from_slice(config)?;
    let name = Name::from(name.trim_start_matches('/'));
    let mut labels = config.labels.unwrap_or_default();
    let mut label = |name: &str| {
        labels
            .remove(&format!("io.kubernetes.{name}"))
            .map(Name::from)
    };
    let details = Details {
        name: label("container.name").or_else(|| Some(name.clone())),
        image: config.image.map(Name::from),
        pod: label("pod.name"),
        namespace: label("pod.namespace"),
    };
    Ok(Entry {
        id,
        names: vec![name],
        details,
    })
}

/// The annotations that containerd's CRI plugin adds (containerd pkg/cri/annotations).
fn containerd(id: &str, config: &[u8]) -> io::Result<Entry> {
    #[derive(Deserialize)]
    struct Config {
        #[serde(default)]
        annotations: BTreeMap<String, String>,
    }
    let Config { mut annotations } = serde_json::from_slice(config)?;
    let mut annotation = |name: &str| {
        let found = annotations.remove(&format!("io.kubernetes.cri.{name}"));
        found.map(Name::from)
    };
    Ok(Entry {
        id: id.to_owned(),
        names: Vec::new(),
        details: Details {
            name: annotation("container-name"),
            image: annotation("image-name"),
            pod: annotation("sandbox-name"),
            namespace: annotation("sandbox-namespace"),
        },
    })
}

/// Parse `POD_NAMESPACE_CONTAINER-ID.log`, and call the container `POD/CONTAINER`: no name in
/// Kubernetes has an underscore.
fn kubernetes(file: &str) -> Option<Entry> {
    let (front, id) = file.strip_suffix(".log")?.rsplit_once('-')?;
    match front.split('_').collect::<Vec<_>>().as_slice() {
        [pod, namespace, container] => Some(Entry {
            id: id.to_owned(),
            names: vec![format!("{pod}/{container}").into()],
            details: Details {
                name: Some((*container).into()),
                image: None,
                pod: Some((*pod).into()),
                namespace: Some((*namespace).into()),
            },
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(names: &[&str], details: [&str; 4]) -> Entry {
        let [name, image, pod, namespace] =
            details.map(|text| Some(Name::from(text)).filter(|name| !name.is_empty()));
        Entry {
            id: "0123".to_owned(),
            names: names.iter().map(|&name| name.into()).collect(),
            details: Details {
                name,
                image,
                pod,
                namespace,
            },
        }
    }

    fn podman(list: &[u8], wanted: &[&str]) -> io::Result<Vec<Entry>> {
        let wanted = wanted.iter().map(|&id| id.to_owned()).collect();
        list::podman(list, &wanted)
    }

    #[test]
    fn each_runtime_keeps_names_in_its_own_way() {
        let config =
            br#"{"ID":"0123","Name":"/web","State":{"Running":true},"Config":{"Image":"nginx:1.27","Labels":{}}}"#;
        assert_eq!(
            docker(config).unwrap(),
            entry(&["web"], ["web", "nginx:1.27", "", ""])
        );
        let config = br#"{"ID":"0123","Name":"/web","Config":{"Image":"","Labels":null}}"#;
        assert_eq!(docker(config).unwrap().details.name, Some("web".into()));
        let config = br#"{"ID":"0123","Name":"/k8s_nginx_web-7d4b_default_1-2_0","Config":{"Image":"sha256:77","Labels":{
            "io.kubernetes.container.name":"nginx","io.kubernetes.pod.name":"web-7d4b","io.kubernetes.pod.namespace":"default"}}}"#;
        assert_eq!(
            docker(config).unwrap(),
            entry(
                &["k8s_nginx_web-7d4b_default_1-2_0"],
                ["nginx", "sha256:77", "web-7d4b", "default"]
            )
        );

        let list = br#"[{"id":"0123","names":["db","db-alias"],"image":"x",
            "metadata":"{\"image-name\":\"docker.io/library/postgres:16\",\"name\":\"db\"}"},
            {"id":"4567","metadata":"x"},{"id":"89","names":null}]"#;
        let list = podman(list, &["0123", "4567", "89"]).unwrap();
        assert_eq!(
            list[0],
            entry(
                &["db", "db-alias"],
                ["db", "docker.io/library/postgres:16", "", ""]
            )
        );
        assert!(
            list[1..]
                .iter()
                .all(|entry| entry.details == Details::default())
        );
        let crio = br#"[{"id":"0123","names":["k8s_nginx_web-7d4b_default_1-2_0"]}]"#;
        assert_eq!(
            podman(crio, &["0123"]).unwrap()[0].details,
            entry(&[], ["nginx", "", "web-7d4b", "default"]).details
        );

        let spec = br#"{"ociVersion":"1.1.0","annotations":{"io.kubernetes.cri.container-name":"nginx",
            "io.kubernetes.cri.image-name":"docker.io/library/nginx:1.27","io.kubernetes.cri.sandbox-name":"web-7d4b",
            "io.kubernetes.cri.sandbox-namespace":"default"}}"#;
        assert_eq!(
            containerd("0123", spec).unwrap(),
            entry(
                &[],
                [
                    "nginx",
                    "docker.io/library/nginx:1.27",
                    "web-7d4b",
                    "default"
                ]
            )
        );
        assert_eq!(containerd("0123", b"{}").unwrap(), entry(&[], [""; 4]));

        let link = "web-7d4b_default_nginx-sidecar-0123.log";
        assert_eq!(
            kubernetes(link),
            Some(entry(
                &["web-7d4b/nginx-sidecar"],
                ["nginx-sidecar", "", "web-7d4b", "default"]
            ))
        );
        assert_eq!(kubernetes("messages.log"), None);
    }

    #[test]
    fn files_complete_each_other() {
        let mut names = Names::default();
        names.add(None, [entry(&["web"], ["web", "nginx", "", ""])]);
        names.add(None, [entry(&["a"], ["other", "", "pod", "default"])]);
        let details = &names.details[&(None, "0123".to_owned())];
        assert_eq!(
            *details,
            entry(&[], ["web", "nginx", "pod", "default"]).details
        );
    }

    #[test]
    fn ids_of_containers_are_looked_up_and_no_other_text() {
        let id = "0123456789abcdef".repeat(4);
        assert_eq!(parsed(&id), Some((None, &*id)));
        assert_eq!(parsed(&format!("user-1000/{id}")), Some((Some(1000), &*id)));
        for other in [
            "",
            "nginx.service",
            "../../etc",
            &format!("x/{id}"),
            &format!("{id}0"),
        ] {
            assert_eq!(parsed(other), None, "{other}");
        }
        assert!(details(&BTreeSet::from(["nginx.service".to_owned()])).is_empty());
    }

    #[test]
    fn a_file_that_no_runtime_would_write_is_an_error() {
        let nested = [&[b'['; 100_000][..], &[b']'; 100_000]].concat();
        for nothing in [
            &b"null"[..],
            b"[1]",
            br#"{"Name":1}"#,
            b"",
            b"\xff",
            &nested,
        ] {
            assert!(docker(nothing).is_err());
            assert!(podman(nothing, &["0123"]).is_err());
        }
    }

    #[test]
    fn settings_of_another_shape_are_an_error() {
        for nothing in [
            &b"null"[..],
            b"[1]",
            br#"{"annotations":[1]}"#,
            b"",
            b"\xff",
        ] {
            assert!(containerd("0123", nothing).is_err());
        }
    }

    #[test]
    fn a_users_word_is_believed_for_that_users_containers_alone() {
        let mut names = Names::default();
        let podman = || podman(br#"[{"id":"0123","names":["web"]}]"#, &["0123"]);
        names.take(Some(1000), "", podman());
        assert_eq!(names.of(Some(1000), "0123"), ["web"]);
        assert!(names.of(None, "0123").is_empty());
        assert!(names.of(Some(1001), "0123").is_empty());
        names.take(None, "", podman());
        assert_eq!(names.of(None, "0123"), ["web"]);
    }

    /// All names of one container, in a file of the greatest size: compared with each other, they
    /// would take minutes.
    #[test]
    fn very_many_names_of_one_container_take_no_time() {
        let names: Vec<_> = (0..450_000).map(|n| format!("\"{n:x}\"")).collect();
        let list = format!(r#"[{{"id":"0123","names":[{}]}}]"#, names.join(","));
        let begun = Instant::now();
        let mut names = Names::default();
        names.take(Some(1000), "", podman(list.as_bytes(), &["0123"]));
        assert!(begun.elapsed() < Duration::from_secs(5));
        let first: Vec<_> = (0..NAMES).map(|n| Name::from(&*format!("{n:x}"))).collect();
        assert_eq!(names.of(Some(1000), "0123"), first);
        // In entries of their own, they are no more.
        let entries: Vec<_> = (0..9999)
            .map(|n| format!(r#"{{"id":"0123","names":["{n:x}"]}}"#))
            .collect();
        let list = format!("[{}]", entries.join(","));
        let mut names = Names::default();
        names.take(Some(1000), "", podman(list.as_bytes(), &["0123"]));
        assert_eq!(names.of(Some(1000), "0123"), first);
    }

    #[test]
    fn a_very_long_name_of_a_container_or_an_image_is_none() {
        let long = "x".repeat(3_900_000);
        for (names, image, kept) in [
            (format!("[\"{long}\"]"), "web", (None, Some("web"))),
            (format!("[\"{long}\", \"web\"]"), "web", (None, Some("web"))),
            ("[\"web\"]".to_owned(), long.as_str(), (Some("web"), None)),
        ] {
            let metadata = format!("{{\"image-name\":\"{image}\"}}");
            let list = format!("[{{\"id\":\"0123\",\"names\":{names},\"metadata\":{metadata:?}}}]");
            let mut found = Names::default();
            found.take(Some(1000), "", podman(list.as_bytes(), &["0123"]));
            let of_id = found.of(Some(1000), "0123");
            assert!(of_id.iter().all(|name| *name == "web"), "{}", of_id.len());
            let details = &found.details[&(Some(1000), "0123".to_owned())];
            let kept = (kept.0.map(Name::from), kept.1.map(Name::from));
            assert_eq!((&details.name, &details.image), (&kept.0, &kept.1));
        }
    }

    #[test]
    fn of_very_many_containers_only_those_that_are_wanted_are_kept() {
        let entries: Vec<_> = (0..50_000)
            .map(|n| format!(r#"{{"id":"{n}","names":["n{n}"]}}"#))
            .collect();
        let list = format!("[{}]", entries.join(","));
        let kept = podman(list.as_bytes(), &["49999"]).unwrap();
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].names, ["n49999"]);
        let same = list.replace(r#"{"id":"1"#, r#"{"id":"x","was":"1"#);
        let kept = podman(same.as_bytes(), &["x"]).unwrap();
        assert_eq!(kept.len(), 4096);
    }

    #[test]
    fn a_read_that_has_not_ended_is_not_begun_again() {
        let reading = Reading::begin(54_321).unwrap();
        assert!(Reading::begin(54_321).is_err());
        assert!(Reading::begin(54_322).is_ok());
        drop(reading);
        assert!(Reading::begin(54_321).is_ok());
    }
}
