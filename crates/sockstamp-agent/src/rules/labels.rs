//! The labels that `by` chooses: dimensions of groups, and what runtimes say of their containers.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use sockstamp_host::container::Details;
use sockstamp_model::UnknownName;
use sockstamp_model::group::Dimension;
use sockstamp_model::name::Name;

/// A label of series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    /// By it the kernel separates groups.
    Dimension(Dimension),
    /// The label follows from the container.
    Detail(Detail),
    /// The host, as its cluster calls it.
    Node,
}

/// The names that runtimes give a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    Name,
    Image,
    Pod,
    Namespace,
}

const NODE: &str = "node";

impl Detail {
    pub(crate) const ALL: [Self; 4] = [Self::Name, Self::Image, Self::Pod, Self::Namespace];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Name => "container_name",
            Self::Image => "image",
            Self::Pod => "pod",
            Self::Namespace => "namespace",
        }
    }

    pub(crate) fn of(self, details: &Details) -> Option<&Name> {
        match self {
            Self::Name => details.name.as_ref(),
            Self::Image => details.image.as_ref(),
            Self::Pod => details.pod.as_ref(),
            Self::Namespace => details.namespace.as_ref(),
        }
    }
}

impl Label {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Dimension(dimension) => dimension.name(),
            Self::Detail(detail) => detail.name(),
            Self::Node => NODE,
        }
    }

    /// Return the dimension by which groups must be separated for it.
    pub(crate) const fn dimension(self) -> Option<Dimension> {
        match self {
            Self::Dimension(dimension) => Some(dimension),
            Self::Detail(_) => Some(Dimension::Container),
            Self::Node => None,
        }
    }

    /// Return the names that only these labels have.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        Detail::ALL.map(Detail::name).into_iter().chain([NODE])
    }
}

impl FromStr for Label {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        if text == NODE {
            return Ok(Self::Node);
        }
        let detail = Detail::ALL.into_iter().find(|detail| detail.name() == text);
        match detail {
            Some(detail) => Ok(Self::Detail(detail)),
            None => measured(text).map(Self::Dimension),
        }
    }
}

fn measured(name: &str) -> Result<Dimension, UnknownName> {
    let dimension: Dimension = name.parse()?;
    let is_measured = Dimension::MEASURED.contains(&dimension);
    is_measured.then_some(dimension).ok_or_else(|| UnknownName {
        what: "dimension of a measurement",
        name: name.to_owned(),
    })
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Label {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
