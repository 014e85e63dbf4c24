//! A container as a file of its runtime has it.

use sockstamp_model::name::Name;

/// Names that are kept of a container. People give it one, podman's networks some aliases.
pub(super) const NAMES: usize = 16;

/// Bytes of a name: those of images have 500 at most. Each series has it, so that a user could make
/// a scrape of any length.
pub(super) const LONGEST: usize = 1024;

/// Return whether a name may be kept.
pub(super) fn is_kept(name: &Name) -> bool {
    (1..=LONGEST).contains(&name.as_bytes().len())
}

/// Properties of a container, besides its id, as its runtime reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// The name that people gave it; in Kubernetes, the one that it has in its pod.
    pub name: Option<Name>,
    /// The image that it was made from, as the runtime was asked for it.
    pub image: Option<Name>,
    /// The pod of Kubernetes.
    pub pod: Option<Name>,
    /// The pod's namespace.
    pub namespace: Option<Name>,
}

impl Details {
    /// Take from others what is missing.
    pub(super) fn complete(&mut self, others: Self) {
        let Self {
            name,
            image,
            pod,
            namespace,
        } = others;
        for (mine, theirs) in [
            (&mut self.name, name),
            (&mut self.image, image),
            (&mut self.pod, pod),
            (&mut self.namespace, namespace),
        ] {
            if mine.is_none() {
                *mine = theirs.filter(is_kept);
            }
        }
    }

    /// Return the details in a name that kubelet gives to its containers, where runtimes keep no
    /// more: `k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT`.
    pub(super) fn in_name(name: &str) -> Option<Self> {
        match name.split('_').collect::<Vec<_>>().as_slice() {
            ["k8s", container, pod, namespace, _uid, _attempt] => Some(Self {
                name: Some((*container).into()),
                image: None,
                pod: Some((*pod).into()),
                namespace: Some((*namespace).into()),
            }),
            _ => None,
        }
    }
}

/// A container as one file has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: String,
    /// Names by which users may ask for it.
    pub(super) names: Vec<Name>,
    pub(super) details: Details,
}
