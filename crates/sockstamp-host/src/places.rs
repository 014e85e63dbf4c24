//! Network namespaces as people know them: those of the host that measured.

use std::collections::BTreeMap;

use sockstamp_model::flow::NetnsInode;
use sockstamp_model::name::Name;

use crate::netns;

/// The facts of a recording that have them.
const HOME: &str = "own_netns";
const NAMES: &str = "netns_names";

/// The namespace that needs no name, and the names of the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The namespace of the program that measured; 0, which none has, if that is unknown.
    pub home: NetnsInode,
    /// The names of others.
    pub names: BTreeMap<NetnsInode, Name>,
}

impl Places {
    /// Return those of this host, now.
    #[must_use]
    pub fn here() -> Self {
        Self {
            home: netns::own().unwrap_or_default(),
            names: netns::names(),
        }
    }

    /// Return the facts that a recording keeps of them: its reader may be another host.
    #[must_use]
    pub fn facts(&self) -> [(&'static str, String); 2] {
        let names = self.names.iter();
        let names = names.map(|(netns, name)| (netns.0.to_string(), name.to_string().into()));
        let names = serde_json::Value::Object(names.collect());
        [(HOME, self.home.0.to_string()), (NAMES, names.to_string())]
    }

    /// Return those of a recording, by its facts; an older one has none.
    pub fn recorded<'a>(fact: impl Fn(&str) -> Option<&'a str>) -> Self {
        let names = fact(NAMES).and_then(|names| serde_json::from_str(names).ok());
        let names: BTreeMap<String, String> = names.unwrap_or_default();
        let names = names
            .into_iter()
            .filter_map(|(netns, name)| Some((NetnsInode(netns.parse().ok()?), Name::from(name))));
        let home = fact(HOME).and_then(|home| home.parse().ok());
        Self {
            home: NetnsInode(home.unwrap_or_default()),
            names: names.collect(),
        }
    }

    /// Return those of several recordings; of two hosts, none, and of two names the first.
    #[must_use]
    pub fn of_all(recorded: impl IntoIterator<Item = Self>) -> Self {
        let mut recorded = recorded.into_iter();
        let mut all = recorded.next().unwrap_or_default();
        for other in recorded {
            if other.home != all.home {
                return Self::default();
            }
            for (netns, name) in other.names {
                all.names.entry(netns).or_insert(name);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(home: u32, names: &[(u32, &str)]) -> Places {
        let names = names.iter();
        Places {
            home: NetnsInode(home),
            names: names
                .map(|(netns, name)| (NetnsInode(*netns), Name::from(*name)))
                .collect(),
        }
    }

    #[test]
    fn facts_come_back_as_they_were() {
        let written = places(7, &[(8, "blue"), (9, "a\"b")]);
        let facts = written.facts();
        let fact = |key: &str| {
            let fact = facts.iter().find(|fact| fact.0 == key);
            fact.map(|fact| fact.1.as_str())
        };
        assert_eq!(Places::recorded(fact), written);
        assert_eq!(Places::recorded(|_| None), Places::default());
    }

    #[test]
    fn recordings_of_two_hosts_have_no_names_in_common() {
        let first = places(7, &[(8, "blue")]);
        let later = places(7, &[(8, "green"), (9, "red")]);
        let of_all = |recorded: &[&Places]| Places::of_all(recorded.iter().copied().cloned());
        let both = places(7, &[(8, "blue"), (9, "red")]);
        assert_eq!(of_all(&[&first, &later]), both);
        assert_eq!(of_all(&[&first, &places(1, &[])]), Places::default());
        assert_eq!(of_all(&[]), Places::default());
    }
}
