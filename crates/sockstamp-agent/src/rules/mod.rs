//! Rules: labels, rates and thresholds for groups that match.

pub(crate) mod labels;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::de::{Deserializer, Error as _};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use sockstamp_bpf::GroupCap;
use sockstamp_host::container::Details;
use sockstamp_metrics::Labels;
use sockstamp_metrics::catalogue;
use sockstamp_metrics::ledger::Naming;
use sockstamp_model::group::{Dimension, GroupKey};
use sockstamp_model::name::Name;

use self::labels::{Detail, Label};
use crate::names::Names;
use crate::values::{parsed, some_duration, some_rate};

/// A rule. The first that matches a group holds for it.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    #[serde(rename = "match")]
    pub(crate) matches: Match,
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "labels"
    )]
    labels: BTreeMap<String, String>,
    /// Messages measured per second, flow and direction.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "some_rate")]
    sample: Option<NonZeroU32>,
    /// Hand over each message that was slower, regardless of other settings.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "some_duration"
    )]
    pub(crate) slow: Option<Duration>,
    /// Measure no message, and have no series.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    off: bool,
}

impl Rule {
    /// Return true if it turns all groups off that no earlier rule matches.
    pub(crate) fn turns_all_off(&self) -> bool {
        self.off && self.matches.is_of_all()
    }

    /// Return the messages of a group that are measured.
    pub(crate) fn cap(rule: Option<&Self>) -> GroupCap {
        match rule {
            Some(Self { off: true, .. }) => GroupCap::Off,
            Some(Self {
                sample: Some(cap), ..
            }) => GroupCap::Rate(*cap),
            _ => GroupCap::Common,
        }
    }
}

/// The conditions of a rule. All that are given must hold.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Match {
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<Pattern>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<Pattern>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<Pattern>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<Ports>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<Prefix>,
    #[serde(skip_serializing_if = "Option::is_none")]
    netns: Option<Pattern>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_name: Option<Pattern>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<Pattern>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<Pattern>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<Pattern>,
}

impl Match {
    /// The dimensions that the rule uses.
    pub(crate) fn dimensions(&self) -> impl Iterator<Item = Dimension> {
        let looks = [
            (
                Dimension::Container,
                self.container.is_some() || self.needs_details(),
            ),
            (Dimension::Cgroup, self.cgroup.is_some()),
            (Dimension::Comm, self.comm.is_some()),
            (Dimension::Port, self.port.is_some()),
            (Dimension::Peer, self.peer.is_some()),
            (Dimension::Netns, self.netns.is_some()),
        ];
        looks
            .into_iter()
            .filter(|(_, looks)| *looks)
            .map(|(dimension, _)| dimension)
    }

    /// Return true if every group matches.
    fn is_of_all(&self) -> bool {
        let patterns = [&self.container, &self.cgroup, &self.comm, &self.netns];
        let details = self.details().map(|(pattern, _)| pattern);
        let mut texts = patterns.into_iter().chain(details).flatten();
        self.port.is_none() && self.peer.is_none() && texts.all(Pattern::is_of_all)
    }

    fn details(&self) -> [(&Option<Pattern>, Detail); 4] {
        [
            (&self.container_name, Detail::Name),
            (&self.image, Detail::Image),
            (&self.pod, Detail::Pod),
            (&self.namespace, Detail::Namespace),
        ]
    }

    /// Return true if it depends on what runtimes say of the container.
    pub(crate) fn needs_details(&self) -> bool {
        self.details().iter().any(|(pattern, _)| pattern.is_some())
    }

    fn fits(&self, key: &GroupKey, details: &Details) -> bool {
        let mut of_details = self.details().into_iter();
        of_details.all(|(pattern, detail)| {
            let text = detail.of(details).map(Name::to_string).unwrap_or_default();
            pattern.as_ref().is_none_or(|pattern| pattern.fits(&text))
        }) && self.fits_key(key)
    }

    fn fits_key(&self, key: &GroupKey) -> bool {
        let text = |pattern: &Option<Pattern>, dimension| {
            pattern
                .as_ref()
                .is_none_or(|pattern| pattern.fits(&label(key, dimension)))
        };
        text(&self.container, Dimension::Container)
            && text(&self.cgroup, Dimension::Cgroup)
            && text(&self.comm, Dimension::Comm)
            && text(&self.netns, Dimension::Netns)
            && self
                .port
                .as_ref()
                .is_none_or(|ports| key.port.is_some_and(|port| ports.0.contains(&port)))
            && self
                .peer
                .as_ref()
                .is_none_or(|prefix| key.peer.is_some_and(|peer| prefix.contains(peer)))
    }
}

/// Text in which `*` matches anything.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
struct Pattern(String);

impl Pattern {
    fn is_of_all(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|byte| byte == b'*')
    }

    fn fits(&self, text: &str) -> bool {
        let mut pieces = self.0.split('*');
        let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else {
            return false;
        };
        let mut pieces: Vec<_> = pieces.collect();
        let Some(last) = pieces.pop() else {
            return rest.is_empty();
        };
        // The leftmost place leaves the most text for the later pieces.
        for piece in pieces {
            let Some(at) = rest.find(piece) else {
                return false;
            };
            rest = &rest[at + piece.len()..];
        }
        rest.ends_with(last)
    }
}

/// A port, or a range of them.
#[derive(Debug, Clone, PartialEq)]
struct Ports(RangeInclusive<u16>);

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self(first..=last)),
            _ => Err(format!(
                "{text:?} is neither a port nor a range such as \"8000-8099\""
            )),
        }
    }
}

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a port, or a range such as \"8000-8099\"")]
        enum Either {
            Port(u16),
            Range(String),
        }
        match Either::deserialize(deserializer)? {
            Either::Port(port) => Ok(Self(port..=port)),
            Either::Range(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

impl Serialize for Ports {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{}-{}", self.0.start(), self.0.end()))
    }
}

/// Addresses with the same leading bits.
#[derive(Debug, Clone, PartialEq)]
struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(mine), IpAddr::V4(theirs)) => {
                let differing = mine.to_bits() ^ theirs.to_bits();
                differing.leading_zeros() >= self.length.into()
            }
            (IpAddr::V6(mine), IpAddr::V6(theirs)) => {
                let differing = mine.to_bits() ^ theirs.to_bits();
                differing.leading_zeros() >= self.length.into()
            }
            _ => false,
        }
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is neither an address nor a network such as \"10.0.0.0/8\"");
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        (length <= most)
            .then_some(Self { address, length })
            .ok_or_else(wrong)
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer)
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{}/{}", self.address, self.length))
    }
}

fn labels<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let labels = BTreeMap::<String, String>::deserialize(deserializer)?;
    match labels.keys().find_map(|name| complaint(name)) {
        Some(complaint) => Err(D::Error::custom(complaint)),
        None => Ok(labels),
    }
}

/// Say why a label may not have this name.
fn complaint(name: &str) -> Option<String> {
    let fits = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let begins_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if !begins_well || !name.chars().all(fits) || name.starts_with("__") {
        return Some(format!(
            "{name:?} is no name of a label: use letters, digits and _"
        ));
    }
    let own = catalogue::ALL.iter().flat_map(|metric| metric.labels);
    let dimensions = Dimension::ALL.map(Dimension::name);
    let mut taken = own
        .chain(&dimensions)
        .chain(&["le", "quantile", "otel_metric_overflow"])
        .copied()
        .chain(Label::names());
    taken
        .any(|label| label == name)
        .then(|| format!("the label {name} has a meaning of its own"))
}

/// The value that series show for a dimension; empty where there is none.
fn label(key: &GroupKey, dimension: Dimension) -> String {
    let value = match dimension {
        Dimension::Container => key.container.as_ref().map(ToString::to_string),
        Dimension::Comm => key.comm.as_ref().map(ToString::to_string),
        other => key.value(other),
    };
    value.unwrap_or_default()
}

/// Names groups by their dimensions and rules.
#[derive(Debug)]
pub(crate) struct Namer<'a> {
    pub(crate) by: &'a [Label],
    pub(crate) rules: &'a [Rule],
    /// The mount point of cgroups.
    pub(crate) cgroups: PathBuf,
    /// The names that runtimes give containers, if anything depends on them.
    pub(crate) names: Option<&'a Names>,
    /// The name of this host.
    pub(crate) node: &'a str,
    /// Groups of whose container nothing is known yet wait, for a while.
    pub(crate) waits: bool,
}

impl<'a> Namer<'a> {
    /// Return the rule that holds for a group.
    pub(crate) fn rule(&self, key: &GroupKey) -> Option<&'a Rule> {
        let details = self.details(key).unwrap_or_default();
        self.rules
            .iter()
            .find(|rule| rule.matches.fits(key, &details))
    }

    /// Return what runtimes say of the group's container; `None` while it is looked for.
    pub(crate) fn details(&self, key: &GroupKey) -> Option<Arc<Details>> {
        match (self.names, &key.container) {
            (Some(names), Some(container)) => names.of(&container.to_string()),
            _ => Some(Arc::default()),
        }
    }
}

impl Naming for Namer<'_> {
    fn is_awaited(&self, key: &GroupKey) -> bool {
        self.waits && self.details(key).is_none()
    }

    fn is_left_out(&self, key: &GroupKey) -> bool {
        self.rule(key).is_some_and(|rule| rule.off)
    }

    fn labels(&self, key: &GroupKey) -> Labels {
        let details = self.details(key).unwrap_or_default();
        let own = self.by.iter().map(|&by| {
            let value = match by {
                Label::Dimension(dimension) => label(key, dimension),
                Label::Detail(detail) => {
                    detail.of(&details).map(Name::to_string).unwrap_or_default()
                }
                Label::Node => self.node.to_owned(),
            };
            (Cow::Borrowed(by.name()), labels::bounded(value))
        });
        let mut labels: Labels = own.collect();
        let added = self.rule(key).into_iter().flat_map(|rule| &rule.labels);
        labels.extend(added.map(|(name, value)| (Cow::Owned(name.clone()), value.clone())));
        labels
    }

    /// Clients come and go while their service lives: series with such labels end when nothing
    /// happens any more.
    fn is_alive(&self, key: &GroupKey) -> bool {
        let of_service = |by: &Label| match by {
            Label::Dimension(dimension) => {
                use Dimension::{Cgroup, Container, Netns, Proto};
                matches!(dimension, Cgroup | Container | Netns | Proto)
            }
            Label::Detail(_) | Label::Node => true,
        };
        if !self.by.iter().all(of_service) {
            return false;
        }
        let path = key.cgroup.as_ref().and_then(|cgroup| cgroup.path.as_ref());
        path.is_some_and(|path| {
            let path = path.exact();
            self.cgroups.join(path.trim_start_matches('/')).is_dir()
        })
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::flow::{NetnsInode, Protocol};
    use sockstamp_model::group::{GroupCgroup, GroupNetns};

    use super::*;
    use crate::config::Config;

    fn key(container: &str, port: u16, peer: &str) -> GroupKey {
        GroupKey {
            container: Some(container.into()),
            port: Some(port),
            peer: peer.parse().ok(),
            proto: Some(Protocol::Tcp),
            ..GroupKey::default()
        }
    }

    fn namer(config: &Config) -> Namer<'_> {
        Namer {
            by: &config.by,
            rules: &config.rules,
            cgroups: PathBuf::new(),
            names: None,
            node: "here",
            waits: true,
        }
    }

    fn labels_of(config: &str, key: &GroupKey) -> Vec<String> {
        let config: Config = toml::from_str(config).unwrap();
        let labels = namer(&config).labels(key);
        labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    #[test]
    fn a_rule_that_turns_everything_off_is_told_from_others() {
        let turns_all_off = |rule: &str| toml::from_str::<Rule>(rule).unwrap().turns_all_off();
        for all in [
            "{}",
            "{ container = \"*\" }",
            "{ image = \"**\", comm = \"*\" }",
        ] {
            assert!(
                turns_all_off(&format!("match = {all}\noff = true")),
                "{all}"
            );
            assert!(!turns_all_off(&format!("match = {all}")), "{all}");
        }
        for some in [
            "{ container = \"\" }",
            "{ container = \"a*\" }",
            "{ port = \"0-65535\" }",
        ] {
            assert!(
                !turns_all_off(&format!("match = {some}\noff = true")),
                "{some}"
            );
        }
    }

    #[test]
    fn the_first_rule_that_matches_gives_its_labels() {
        let config = r#"
            [[rule]]
            match = { container = "web-*.service", port = 443 }
            labels = { team = "web", tls = "yes" }
            [[rule]]
            match = { peer = "10.1.0.0/16" }
            labels = { team = "inside" }
        "#;
        let web = key("web-1.service", 443, "10.1.2.3");
        assert_eq!(
            labels_of(config, &web),
            [
                "container=web-1.service",
                "proto=tcp",
                "team=web",
                "tls=yes"
            ]
        );
        let inside = key("web-1.service", 80, "::ffff:10.1.2.3");
        assert_eq!(
            labels_of(config, &inside),
            ["container=web-1.service", "proto=tcp", "team=inside"]
        );
        assert_eq!(
            labels_of(config, &key("", 443, "10.2.0.0")),
            ["container=", "proto=tcp"]
        );
    }

    /// Of a container, four details; a rule may match each of them.
    #[test]
    fn rules_match_what_runtimes_say_of_containers() {
        let details = Details {
            name: Some("nginx".into()),
            image: Some("docker.io/library/nginx:1.27".into()),
            pod: Some("web-7d4b".into()),
            namespace: None,
        };
        let fits = |condition: &str| {
            let rule: Rule = toml::from_str(&format!("match = {{ {condition} }}")).unwrap();
            assert_eq!(
                rule.matches.dimensions().collect::<Vec<_>>(),
                [Dimension::Container]
            );
            assert!(rule.matches.needs_details());
            rule.matches.fits(&key("0123", 80, "10.0.0.1"), &details)
        };
        assert!(fits("container_name = \"nginx\"") && !fits("container_name = \"web\""));
        assert!(fits("image = \"*/nginx:*\"") && !fits("image = \"*/redis:*\""));
        assert!(fits("pod = \"web-*\"") && !fits("pod = \"db-*\""));
        assert!(fits("namespace = \"\"") && !fits("namespace = \"default\""));
        assert!(!fits("image = \"*/nginx:*\", namespace = \"default\""));
    }

    #[test]
    fn the_host_has_its_name_as_a_label() {
        let labels = labels_of("by = [\"node\", \"image\"]", &key("a.service", 1, "::1"));
        assert_eq!(labels, ["node=here", "image="]);
    }

    #[test]
    fn a_star_stands_for_anything() {
        let fits = |pattern: &str, text| Pattern(pattern.to_owned()).fits(text);
        for (pattern, text) in [
            ("a", "a"),
            ("*", ""),
            ("a*", "a"),
            ("*b*", "abc"),
            ("a*c*c", "abcc"),
            ("a*a", "aa"),
        ] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("a", "ab"),
            ("a*a", "a"),
            ("*b", "abc"),
            ("a*c*c", "abc"),
            ("", "a"),
        ] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn prefixes_compare_their_own_family_alone() {
        let contains = |prefix: &str, address: &str| {
            let prefix: Prefix = prefix.parse().unwrap();
            prefix.contains(address.parse().unwrap())
        };
        assert!(contains("10.0.0.0/8", "10.255.0.1") && !contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("0.0.0.0/0", "1.2.3.4") && !contains("0.0.0.0/0", "::1"));
        assert!(
            contains("fd00::/8", "fdff::1") && contains("::1", "::1") && !contains("::1", "::2")
        );
        for wrong in ["10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_first_rule_that_matches_sets_the_cap_and_the_threshold() {
        let config = r#"
            [[rule]]
            match = { netns = "blue" }
            off = true
            [[rule]]
            match = { port = 443 }
            sample = "5/s"
            slow = "20ms"
        "#;
        let config: Config = toml::from_str(config).unwrap();
        assert_eq!(
            toml::from_str::<Config>(&toml::to_string(&config).unwrap()).unwrap(),
            config
        );
        let namer = namer(&config);
        let blue = GroupKey {
            netns: Some(GroupNetns {
                inode: NetnsInode(7),
                name: Some("blue".into()),
            }),
            ..key("", 443, "10.0.0.1")
        };
        assert_eq!(Rule::cap(namer.rule(&blue)), GroupCap::Off);
        assert!(namer.is_left_out(&blue));
        let web = key("", 443, "10.0.0.1");
        let rule = namer.rule(&web);
        assert_eq!(Rule::cap(rule), GroupCap::Rate(NonZeroU32::new(5).unwrap()));
        assert_eq!(
            rule.and_then(|rule| rule.slow),
            Some(Duration::from_millis(20))
        );
        let other = namer.rule(&key("", 80, "10.0.0.1"));
        assert!(other.is_none() && Rule::cap(other) == GroupCap::Common);
    }

    #[test]
    fn no_label_of_a_series_is_longer_than_its_bound() {
        let cgroup = GroupCgroup {
            id: 1,
            path: Some(b"/\xff".repeat(2000).as_slice().into()),
        };
        let key = GroupKey {
            cgroup: Some(cgroup),
            ..GroupKey::default()
        };
        let labels = labels_of("by = [\"cgroup\"]", &key);
        assert!(labels[0].starts_with("cgroup=/\\xff/"), "{labels:?}");
        assert!(labels[0].len() < 600, "{labels:?}");
    }

    #[test]
    fn labels_keep_clear_of_names_with_a_meaning() {
        let label = |name: &str| {
            let text = format!("[[rule]]\nmatch = {{}}\nlabels = {{ {name} = \"x\" }}");
            toml::from_str::<Config>(&text).map_err(|error| error.message().to_owned())
        };
        assert!(label("stage").unwrap_err().contains("a meaning of its own"));
        assert!(label("__a").unwrap_err().contains("no name of a label"));
        assert!(label("image").is_err() && label("node").is_err());
        assert!(label("\"a-b\"").is_err() && label("team").is_ok());
    }
}
