//! Messages of runtimes' interfaces: the container runtime interface of Kubernetes (k8s.io/cri-api,
//! `pkg/apis/runtime/v1/api.proto`), and containerd's own (containerd, `api/services`).

use std::fmt;

use sockstamp_host::container::Details;
use sockstamp_metrics::wire::{Field, Fields, fields};
use sockstamp_model::name::Name;

/// Return a container's status, in Kubernetes' interface.
pub(super) const STATUS: &str = "/runtime.v1.RuntimeService/ContainerStatus";
/// Return containerd's namespaces, and a container in one of them.
pub(super) const NAMESPACES: &str = "/containerd.services.namespaces.v1.Namespaces/List";
pub(super) const CONTAINER: &str = "/containerd.services.containers.v1.Containers/Get";

/// Bytes of a name, at most: images have the longest, and those end at some 500.
const LONGEST: usize = 1024;

/// An answer that does not fit the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The answer is about another container, or about none.
    Container,
    /// A name is too long.
    Name(usize),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container => write!(f, "the answer is not about the container"),
            Self::Name(bytes) => write!(f, "a name has {bytes} bytes"),
        }
    }
}

impl std::error::Error for Wrong {}

/// Write the request for a container: in both interfaces its id is the first field.
pub(super) fn request(id: &str) -> Fields {
    Fields::new().text(1, id)
}

/// Read a `ContainerStatusResponse`. kubelet writes the pod into the labels of its containers.
pub(super) fn of_status(id: &str, answer: &[u8]) -> Result<Details, Wrong> {
    let status = about(id, answer)?;
    let image = last(status, 8);
    let asked_for = last(image, 18);
    let image = if asked_for.is_empty() {
        last(image, 1)
    } else {
        asked_for
    };
    let label = |key| label(status, 12, key);
    Ok(Details {
        name: name(last(last(status, 2), 1))?,
        image: name(image)?,
        pod: name(label("io.kubernetes.pod.name"))?,
        namespace: name(label("io.kubernetes.pod.namespace"))?,
    })
}

/// Read a `GetContainerResponse`. nerdctl writes its names into labels, too.
pub(super) fn of_containerd(id: &str, answer: &[u8]) -> Result<Details, Wrong> {
    let container = about(id, answer)?;
    let label = |key| label(container, 2, key);
    let of_pod = name(label("io.kubernetes.container.name"))?;
    Ok(Details {
        name: of_pod.or(name(label("nerdctl/name"))?),
        image: name(last(container, 3))?,
        pod: name(label("io.kubernetes.pod.name"))?,
        namespace: name(label("io.kubernetes.pod.namespace"))?,
    })
}

/// Read the names in a `ListNamespacesResponse`.
pub(super) fn namespaces(answer: &[u8]) -> Vec<String> {
    let names = all(answer, 1).map(|namespace| last(namespace, 1));
    names
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

/// Return the container that an answer is about: its first field, whose first field is the id.
fn about<'a>(id: &str, answer: &'a [u8]) -> Result<&'a [u8], Wrong> {
    let container = last(answer, 1);
    match last(container, 1) == id.as_bytes() {
        true => Ok(container),
        false => Err(Wrong::Container),
    }
}

/// Return the value of a key in a map (protobuf.dev, "Maps").
fn label<'a>(message: &'a [u8], map: u32, key: &str) -> &'a [u8] {
    let mut entries = all(message, map);
    let entry = entries.find(|entry| last(entry, 1) == key.as_bytes());
    entry.map(|entry| last(entry, 2)).unwrap_or_default()
}

/// Return the field, empty where there is none: of several the last one counts.
fn last(message: &[u8], field: u32) -> &[u8] {
    all(message, field).last().unwrap_or_default()
}

fn all(message: &[u8], wanted: u32) -> impl Iterator<Item = &[u8]> {
    fields(message).filter_map(move |(field, value)| match value {
        Field::Bytes(bytes) if field == wanted => Some(bytes),
        _ => None,
    })
}

fn name(bytes: &[u8]) -> Result<Option<Name>, Wrong> {
    match bytes.len() {
        0 => Ok(None),
        1..=LONGEST => Ok(Some(bytes.into())),
        more => Err(Wrong::Name(more)),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const ID: &str =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn labels(message: Fields, map: u32, labels: &[(&str, &str)]) -> Fields {
        labels.iter().fold(message, |message, (key, value)| {
            message.message(map, &Fields::new().text(1, key).text(2, value))
        })
    }

    fn details(of: [&str; 4]) -> Details {
        let [name, image, pod, namespace] =
            of.map(|text| Some(Name::from(text)).filter(|name| !name.is_empty()));
        Details {
            name,
            image,
            pod,
            namespace,
        }
    }

    /// The answer about a container that kubelet started.
    pub(in super::super) fn status(id: &str, name: &str) -> Fields {
        let status = Fields::new()
            .text(1, id)
            .message(2, &Fields::new().text(1, name).number(2, 3))
            .number(3, 1)
            .number(4, 1_700_000_000_000_000_000)
            .message(8, &Fields::new().text(1, "docker.io/library/nginx:1.27"))
            .text(9, "docker.io/library/nginx@sha256:77");
        let of_pod = [
            ("app", "web"),
            ("io.kubernetes.pod.name", "web-7d4b"),
            ("io.kubernetes.pod.namespace", "default"),
        ];
        Fields::new().message(1, &labels(status, 12, &of_pod))
    }

    #[test]
    fn a_status_has_the_names_of_a_container_and_its_pod() {
        let answer = status(ID, "nginx");
        let expected = details([
            "nginx",
            "docker.io/library/nginx:1.27",
            "web-7d4b",
            "default",
        ]);
        assert_eq!(of_status(ID, answer.bytes()), Ok(expected));
        // A later kubelet also passes on what the pod asks for.
        let image = Fields::new().text(1, "sha256:77").text(18, "nginx:1.27");
        let newer = Fields::new().message(1, &Fields::new().text(1, ID).message(8, &image));
        let expected = details(["", "nginx:1.27", "", ""]);
        assert_eq!(of_status(ID, newer.bytes()), Ok(expected));
    }

    #[test]
    fn containerd_has_the_names_of_nerdctl_and_of_kubelet() {
        let container = || {
            Fields::new()
                .text(1, ID)
                .text(3, "docker.io/library/nginx:1.27")
        };
        let answer = |of: &[(&str, &str)]| {
            let container = labels(container(), 2, of).message(5, &Fields::new().text(1, "spec"));
            of_containerd(ID, Fields::new().message(1, &container).bytes()).unwrap()
        };
        let image = "docker.io/library/nginx:1.27";
        assert_eq!(answer(&[]), details(["", image, "", ""]));
        assert_eq!(
            answer(&[("nerdctl/name", "web")]),
            details(["web", image, "", ""])
        );
        let of_kubelet = [
            ("io.kubernetes.container.name", "nginx"),
            ("io.kubernetes.pod.name", "web-7d4b"),
            ("io.kubernetes.pod.namespace", "default"),
        ];
        assert_eq!(
            answer(&of_kubelet),
            details(["nginx", image, "web-7d4b", "default"])
        );
        let two = ["k8s.io", "moby"]
            .into_iter()
            .fold(Fields::new(), |list, name| {
                list.message(1, &Fields::new().text(1, name))
            });
        assert_eq!(namespaces(two.bytes()), ["k8s.io", "moby"]);
    }

    #[test]
    fn answers_about_other_containers_and_endless_names_are_refused() {
        assert_eq!(
            of_status(ID, status("another", "x").bytes()),
            Err(Wrong::Container)
        );
        assert_eq!(of_status(ID, b""), Err(Wrong::Container));
        assert_eq!(of_containerd(ID, b"\xff\xff"), Err(Wrong::Container));
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(
            of_status(ID, status(ID, &long).bytes()),
            Err(Wrong::Name(LONGEST + 1))
        );
        let whole = status(ID, "nginx").into_bytes();
        for end in 0..whole.len() {
            // Cut off anywhere: no panic, and no other container's name.
            let _ = of_status(ID, &whole[..end]);
        }
    }
}
