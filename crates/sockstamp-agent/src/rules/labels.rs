//! The labels that `by` chooses: dimensions of groups, and what runtimes say of their containers.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
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

/// Bytes of a value. Users choose some, as the path of a cgroup. A group has hundreds of series, so
/// that long values would make a scrape too long for everybody.
const LONGEST: usize = 512;

/// Shorten a long value, and keep it apart from others that begin alike.
pub(super) fn bounded(value: String) -> String {
    if value.len() <= LONGEST {
        return value;
    }
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    let end = format!("…{:016x}", hasher.finish());
    let mut room = (0..=LONGEST - end.len()).rev();
    let at = room.find(|at| value.is_char_boundary(*at));
    value[..at.unwrap_or(0)].to_owned() + &end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_is_cut_and_differs_from_others_that_begin_alike() {
        let short = "é".repeat(LONGEST / 2);
        assert_eq!(bounded(short.clone()), short);
        for name in ["é", "\\xff"] {
            let long = name.repeat(4000);
            let values = [bounded(long.clone()), bounded(long.clone() + "/a")];
            assert!(values.iter().all(|value| value.len() <= LONGEST));
            assert!(values.iter().all(|value| long.starts_with(&value[..450])));
            assert_ne!(values[0], values[1]);
            assert_eq!(values[0], bounded(long));
        }
    }
}
