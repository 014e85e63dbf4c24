//! Containers and services, as the paths of their cgroups name them.

use std::fmt;
use std::str::FromStr;

use crate::UnknownName;

/// Digits of a container's id: docker, containerd's CRI plugin, CRI-O and podman draw 256 random
/// bits.
pub const ID_LENGTH: usize = 64;
/// Digits of it that people and tools show.
const SHORT_ID_LENGTH: usize = 12;

/// The runtime that made a container's cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Runtime {
    /// Docker Engine.
    Docker,
    /// containerd, by its CRI plugin or nerdctl.
    Containerd,
    /// CRI-O.
    CriO,
    /// podman.
    Podman,
    /// A runtime of Kubernetes that the path does not show: its cgroup driver is `cgroupfs`.
    Kubernetes,
    /// systemd: a service, whose id is the name of the unit.
    Systemd,
}

impl Runtime {
    /// Every runtime.
    pub const ALL: [Self; 6] = [
        Self::Docker,
        Self::Containerd,
        Self::CriO,
        Self::Podman,
        Self::Kubernetes,
        Self::Systemd,
    ];

    /// The name used in options, metrics and JSON, such as `"cri-o"`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Containerd => "containerd",
            Self::CriO => "cri-o",
            Self::Podman => "podman",
            Self::Kubernetes => "kubernetes",
            Self::Systemd => "systemd",
        }
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A container, or a service of systemd.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Container {
    /// The runtime.
    pub runtime: Runtime,
    /// 64 hexadecimal digits; of a service, the name of its unit (`nginx.service`).
    pub id: String,
    /// The user in whose systemd slice it is. There the user names cgroups, so the id is only that
    /// user's claim.
    pub user: Option<u32>,
}

impl Container {
    fn new(runtime: Runtime, id: &str) -> Self {
        Self {
            runtime,
            id: id.to_owned(),
            user: None,
        }
    }

    /// The id, prefixed with the user who claims it: `user-1000/nginx.service`.
    #[must_use]
    pub fn qualified_id(&self) -> String {
        match self.user {
            Some(user) => format!("user-{user}/{}", self.id),
            None => self.id.clone(),
        }
    }

    /// The runtime and the whole id: `docker/` and 64 digits, or `nginx.service`; below a user's
    /// slice after `user-1000/`. [`FromStr`] reads it.
    #[must_use]
    pub fn full_name(&self) -> String {
        let user = self
            .user
            .map_or_else(String::new, |user| format!("user-{user}/"));
        match self.runtime {
            Runtime::Systemd => format!("{user}{}", self.id),
            runtime => format!("{user}{runtime}/{}", self.id),
        }
    }

    /// The id as it is usually shown: its first 12 digits; the whole name of a service.
    #[must_use]
    pub fn short_id(&self) -> &str {
        match self.runtime {
            Runtime::Systemd => &self.id,
            _ => self.id.get(..SHORT_ID_LENGTH).unwrap_or(&self.id),
        }
    }
}

/// Read a [`full_name`](Container::full_name), and nothing else.
impl FromStr for Container {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        parse(name).ok_or_else(|| UnknownName {
            what: "container",
            name: name.to_owned(),
        })
    }
}

fn parse(name: &str) -> Option<Container> {
    let (user, rest) = match name.strip_prefix("user-") {
        Some(claimed) if claimed.contains('/') => {
            let (user, rest) = claimed.split_once('/')?;
            (Some(user.parse().ok()?), rest)
        }
        _ => (None, name),
    };
    let found = match rest.split_once('/') {
        Some((runtime, id)) => {
            let mut runtimes = Runtime::ALL.into_iter();
            let runtime = runtimes.find(|known| known.name() == runtime)?;
            (runtime != Runtime::Systemd && is_id(id)).then(|| Container::new(runtime, id))
        }
        None => unit(rest).filter(|unit| unit.id == rest),
    };
    found.map(|found| Container { user, ..found })
}

/// Print `docker/0123456789ab`, or `nginx.service`; below a user's slice,
/// `user-1000/podman/0123456789ab`.
impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self
            .user
            .map_or_else(String::new, |user| format!("user-{user}/"));
        match self.runtime {
            Runtime::Systemd => f.pad(&format!("{user}{}", self.id)),
            runtime => f.pad(&format!("{user}{runtime}/{}", self.short_id())),
        }
    }
}

/// The container that a cgroup belongs to, by the cgroup's path from the root of the hierarchy.
///
/// Nested containers count as the innermost. A service counts only outside containers: services
/// inside a container belong to it. Processes that supervise a container (`conmon`) are not in it.
#[must_use]
pub fn container_of(cgroup: impl AsRef<[u8]>) -> Option<Container> {
    let mut in_kubernetes = false;
    let mut parent = "";
    let mut user = None;
    let (mut container, mut service) = (None, None);
    for name in cgroup.as_ref().split(|&byte| byte == b'/') {
        // No runtime makes a name that is no UTF-8, but a user may, on the way to one that a
        // runtime makes.
        let name = str::from_utf8(name).unwrap_or_default();
        in_kubernetes |= name.starts_with("kubepods");
        container = scope(name)
            .or_else(|| bare(name, parent, in_kubernetes))
            .or(container);
        service = unit(name).or(service);
        user = user.or_else(|| user_slice(name, parent));
        parent = name;
    }
    container
        .or(service)
        .map(|found| Container { user, ..found })
}

/// Parse a user's slice. systemd.special(7), "user.slice": processes of a user are below
/// `user.slice/user-UID.slice`, which root makes.
fn user_slice(name: &str, parent: &str) -> Option<u32> {
    let id = name.strip_prefix("user-")?.strip_suffix(".slice")?;
    (parent == "user.slice").then(|| id.parse().ok()).flatten()
}

/// Parse a scope of systemd's drivers (`docker-ID.scope`), of CRI-O and podman (`crio-ID`), or of
/// containerd with systemd's names (`...slice:cri-containerd:ID`).
fn scope(name: &str) -> Option<Container> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let (prefix, id) = name.rsplit_once(['-', ':'])?;
    let prefix = prefix.rsplit(':').next()?;
    let runtime = match prefix {
        "docker" => Runtime::Docker,
        "cri-containerd" | "nerdctl" => Runtime::Containerd,
        "crio" => Runtime::CriO,
        "libpod" => Runtime::Podman,
        _ => return None,
    };
    is_id(id).then(|| Container::new(runtime, id))
}

/// Parse a directory of the `cgroupfs` drivers, named by the id alone.
fn bare(name: &str, parent: &str, in_kubernetes: bool) -> Option<Container> {
    let runtime = match parent {
        "docker" => Runtime::Docker,
        _ if in_kubernetes => Runtime::Kubernetes,
        _ => return None,
    };
    is_id(name).then(|| Container::new(runtime, name))
}

fn is_id(text: &str) -> bool {
    text.len() == ID_LENGTH
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// systemd puts `_` before a name that could be a file of the kernel's, such as `memory.service`
/// (`cg_escape()`, src/basic/cgroup-util.c, v252).
fn unit(name: &str) -> Option<Container> {
    let unit = name.strip_prefix('_').unwrap_or(name);
    let stem = unit.strip_suffix(".service")?;
    let is_unit = !stem.is_empty() && stem.bytes().all(may_be_in_unit);
    is_unit.then(|| Container::new(Runtime::Systemd, unit))
}

/// The characters of a unit's name (`VALID_CHARS`, src/basic/unit-name.c, v252). No other directory
/// is of systemd, so that no id has a character that does not show as itself.
fn may_be_in_unit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";

    fn assert_found(path: &str, runtime: Runtime, id: &str) {
        assert_eq!(
            container_of(path),
            Some(Container::new(runtime, id)),
            "{path}"
        );
    }

    #[test]
    fn a_full_name_is_read_as_it_was_written_and_no_other() {
        for runtime in Runtime::ALL {
            for user in [None, Some(1000)] {
                let id = if runtime == Runtime::Systemd {
                    "nginx.service"
                } else {
                    ID
                };
                let container = Container {
                    user,
                    ..Container::new(runtime, id)
                };
                assert_eq!(container.full_name().parse(), Ok(container));
            }
        }
        // A unit may have the name of a user's prefix.
        assert!("user-1.service".parse::<Container>().is_ok());
        for other in [
            "",
            "nginx",
            "_memory.service",
            "systemd/nginx.service",
            "docker/0123",
            "user-/a.service",
            "user-x/a.service",
            "user-1/user-2/a.service",
        ] {
            assert!(other.parse::<Container>().is_err(), "{other}");
        }
    }

    #[test]
    fn each_runtime_and_driver_has_its_form() {
        let pod = "kubepods-burstable-pod1b2c_3d.slice";
        for (path, runtime) in [
            (format!("/system.slice/docker-{ID}.scope"), Runtime::Docker),
            (format!("/docker/{ID}"), Runtime::Docker),
            (
                format!("/kubepods.slice/kubepods-burstable.slice/{pod}/cri-containerd-{ID}.scope"),
                Runtime::Containerd,
            ),
            (
                format!("/system.slice/containerd.service/{pod}:cri-containerd:{ID}"),
                Runtime::Containerd,
            ),
            (
                format!("/system.slice/nerdctl-{ID}.scope"),
                Runtime::Containerd,
            ),
            (
                format!("/kubepods.slice/{pod}/crio-{ID}.scope"),
                Runtime::CriO,
            ),
            (
                format!("/kubepods/besteffort/pod1b2c-3d/crio-{ID}"),
                Runtime::CriO,
            ),
            (
                format!("/kubepods/burstable/pod1b2c-3d/{ID}"),
                Runtime::Kubernetes,
            ),
            (format!("/machine.slice/libpod-{ID}.scope"), Runtime::Podman),
            (format!("/libpod_parent/libpod-{ID}"), Runtime::Podman),
            (
                format!("/libpod_parent/{OTHER}/libpod-{ID}"),
                Runtime::Podman,
            ),
        ] {
            assert_found(&path, runtime, ID);
            // Test paths from the mount point and from the root, and with cgroups that the
            // container made inside.
            assert_found(path.trim_start_matches('/'), runtime, ID);
            assert_found(&format!("{path}/container/workers"), runtime, ID);
        }
    }

    #[test]
    fn services_are_named_by_their_unit() {
        for (path, unit) in [
            ("/system.slice/nginx.service", "nginx.service"),
            ("/system.slice/nginx.service/workers", "nginx.service"),
            (
                "/system.slice/system-getty.slice/getty@tty1.service",
                "getty@tty1.service",
            ),
            (
                "/user.slice/user@0.service/app.slice/app.service",
                "app.service",
            ),
            ("/system.slice/_memory.service", "memory.service"),
        ] {
            assert_found(path, Runtime::Systemd, unit);
        }
    }

    #[test]
    fn the_innermost_container_counts_and_no_service_inside() {
        let nested = format!("/docker/{ID}/docker/{OTHER}");
        assert_found(&nested, Runtime::Docker, OTHER);
        let service = format!("/system.slice/docker-{ID}.scope/system.slice/nginx.service");
        assert_found(&service, Runtime::Docker, ID);
        let below = format!("/system.slice/containerd.service/docker-{ID}.scope");
        assert_found(&below, Runtime::Docker, ID);
    }

    #[test]
    fn a_container_is_found_below_a_cgroup_of_any_name() {
        let path = [b"/caf\xe9/docker-", ID.as_bytes(), b".scope"].concat();
        assert_eq!(
            container_of(path),
            Some(Container::new(Runtime::Docker, ID))
        );
    }

    #[test]
    fn other_cgroups_are_no_containers() {
        let (short, upper) = (&ID[1..], ID.to_uppercase());
        for path in [
            "",
            "/",
            "/docker",
            "/user.slice/user-0.slice/session-3.scope",
            "/system.slice/.service",
            &format!("/system.slice/docker-{short}.scope"),
            &format!("/system.slice/docker-{upper}.scope"),
            &format!("/system.slice/other-{ID}.scope"),
            &format!("/machine.slice/libpod-conmon-{ID}.scope"),
            &format!("/machine.slice/crio-conmon-{ID}.scope"),
            &format!("/libpod_parent/{ID}"),
            &format!("/{ID}"),
            &format!("docker-{ID}é.scope"),
            "/user.slice/evil\u{1b}[2J.service",
            "/user.slice/zero\u{200b}width.service",
        ] {
            assert_eq!(container_of(path), None, "{path}");
        }
    }

    #[test]
    fn containers_of_users_are_distinguished_from_those_of_root() {
        let slice = "/user.slice/user-1000.slice/user@1000.service";
        for (path, qualified) in [
            (
                format!("{slice}/app.slice/nginx.service"),
                "user-1000/nginx.service".to_owned(),
            ),
            (
                format!("{slice}/user.slice/libpod-{ID}.scope"),
                format!("user-1000/{ID}"),
            ),
            // A name below the first is meaningless.
            (
                format!("{slice}/user.slice/user-0.slice/docker-{ID}.scope"),
                format!("user-1000/{ID}"),
            ),
            (format!("/user-1000.slice/docker-{ID}.scope"), ID.to_owned()),
            (format!("/system.slice/docker-{ID}.scope"), ID.to_owned()),
        ] {
            assert_eq!(
                container_of(&path).unwrap().qualified_id(),
                qualified,
                "{path}"
            );
        }
        let container = container_of(format!("{slice}/libpod-{ID}.scope")).unwrap();
        assert_eq!(container.to_string(), "user-1000/podman/0123456789ab");
    }

    #[test]
    fn containers_print_short() {
        let container = Container::new(Runtime::CriO, ID);
        assert_eq!(container.short_id(), "0123456789ab");
        assert_eq!(container.to_string(), "cri-o/0123456789ab");
        let service = Container::new(Runtime::Systemd, "systemd-timesyncd.service");
        assert_eq!(service.to_string(), "systemd-timesyncd.service");
        let names: std::collections::BTreeSet<_> = Runtime::ALL.map(Runtime::name).into();
        assert_eq!(names.len(), Runtime::ALL.len());
    }
}
