//! podman's list of containers. A user may fill it with anything: only entries of wanted
//! containers are kept, and of each only some names.

use std::collections::BTreeSet;
use std::fmt;
use std::io;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, SeqAccess, Visitor};
use sockstamp_model::name::Name;

use super::entry::{Details, Entry, NAMES};

/// Entries that are kept of a list. One container may have several.
const ENTRIES: usize = 4096;

/// Parse a list of objects with `id` and `names` (containers/storage, containers.go).
pub(super) fn podman(list: &[u8], wanted: &BTreeSet<String>) -> io::Result<Vec<Entry>> {
    let mut parser = serde_json::Deserializer::from_slice(list);
    let entries = Entries(wanted).deserialize(&mut parser)?;
    parser.end()?;
    Ok(entries)
}

struct Entries<'a>(&'a BTreeSet<String>);

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = Vec<Entry>;

    fn deserialize<D: Deserializer<'de>>(self, list: D) -> Result<Vec<Entry>, D::Error> {
        list.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = Vec<Entry>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of containers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Entry>, A::Error> {
        let mut kept = Vec::new();
        while let Some(listed) = list.next_element::<Listed>()? {
            if kept.len() < ENTRIES && self.0.contains(&listed.id) {
                kept.push(listed.into());
            }
        }
        Ok(kept)
    }
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    #[serde(default)]
    names: Option<FirstNames>,
    #[serde(default)]
    metadata: Option<String>,
}

/// The first [`NAMES`] of a list.
#[derive(Default)]
struct FirstNames(Vec<String>);

impl<'de> Deserialize<'de> for FirstNames {
    fn deserialize<D: Deserializer<'de>>(list: D) -> Result<Self, D::Error> {
        list.deserialize_seq(Self::default())
    }
}

impl<'de> Visitor<'de> for FirstNames {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Self, A::Error> {
        while self.0.len() < NAMES {
            match list.next_element()? {
                Some(name) => self.0.push(name),
                None => return Ok(self),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self)
    }
}

/// podman and CRI-O keep the name of the image in `metadata`, which is JSON as text.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Metadata {
    image_name: Option<String>,
}

impl From<Listed> for Entry {
    fn from(listed: Listed) -> Self {
        let names = listed.names.unwrap_or_default().0;
        let first = names.first();
        let mut details = first
            .and_then(|name| Details::in_name(name))
            .unwrap_or_else(|| Details {
                name: first.map(|name| name.as_str().into()),
                ..Details::default()
            });
        // Other programs that use the storage keep other things there.
        let metadata = listed.metadata;
        let metadata = metadata.and_then(|text| serde_json::from_str::<Metadata>(&text).ok());
        details.image = metadata
            .and_then(|metadata| metadata.image_name)
            .map(Name::from);
        Self {
            id: listed.id,
            names: names.into_iter().map(Name::from).collect(),
            details,
        }
    }
}
