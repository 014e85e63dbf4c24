//! What the engine finds.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;
use sockstamp_model::clock::Nanos;
use sockstamp_model::name::Name;
use sockstamp_model::wait::End;

use super::contrast::Unlike;
use super::service_time::ServiceTime;
use super::slow::Role;
use super::tree::Node;

/// The version of the JSON of [`Diagnosis`]; raised when a key changes its meaning or is removed.
pub const JSON_VERSION: u32 = 1;

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// The state of these waits showed it.
    Is,
    /// A bound: it carries at least that much.
    MostOf,
    /// Two causes look the same from here; the sentence names both.
    Both,
    /// The largest part is known, its cause is not.
    CauseNotKnown,
}

/// Where time is lost, for whom, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The programs of this host that wait, or are waited for.
    pub programs: Vec<Name>,
    /// Their part in the connections.
    pub role: Role,
    /// The services: the peers' where the programs ask, else their own.
    pub services: Vec<SocketAddr>,
    /// The paths of those behind Unix sockets.
    #[serde(rename = "unix", skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<Name>,
    /// The peers that carry four fifths of it, up to three of them.
    pub peers: Vec<IpAddr>,
    /// The number of peers that carry four fifths of it.
    pub peer_count: usize,
    /// The deepest node of the tree that was seen.
    pub node: Node,
    /// The share of what is lost that the node carries.
    pub percent: u64,
    /// How the waits ended, where that is what was found.
    pub failure: Option<End>,
    /// Waits that lost at least what counts as slow, or that failed.
    pub count: u64,
    /// All waits of that kind, where they were counted.
    pub tried: Option<u64>,
    /// Stretches of time in which some of them were.
    pub occasions: usize,
    /// What they lost; a failure counts as a second.
    #[serde(rename = "lost_ns")]
    pub lost: Nanos,
    /// The median of their times.
    #[serde(rename = "typical_ns")]
    pub typical: Nanos,
    /// The longest.
    #[serde(rename = "worst_ns")]
    pub worst: Nanos,
    /// What they lost by node.
    pub parts: BTreeMap<Node, u64>,
    /// Others that do not lose it.
    pub unlike: Option<Unlike>,
    /// How sure it is.
    pub grade: Grade,
    /// All of that in words.
    pub sentence: String,
    /// The command that tells more.
    pub next: String,
    /// What stands behind it, and what to do.
    #[serde(flatten)]
    pub why: Why,
}

impl Finding {
    /// A finding by counts of the kernel alone, without waits.
    pub(super) fn of_counts(
        node: Node,
        role: Role,
        count: u64,
        lost: Nanos,
        sentence: String,
    ) -> Self {
        Self {
            programs: Vec::new(),
            role,
            services: Vec::new(),
            paths: Vec::new(),
            peers: Vec::new(),
            peer_count: 0,
            node,
            percent: 100,
            failure: None,
            count,
            tried: None,
            occasions: 0,
            lost,
            typical: Nanos::ZERO,
            worst: Nanos::ZERO,
            parts: BTreeMap::new(),
            unlike: None,
            grade: Grade::Is,
            sentence,
            next: node.about().next.to_owned(),
            why: Why::of(node),
        }
    }
}

/// What stands behind a finding, and what to do: of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Why {
    /// What of these waits was seen.
    pub evidence: &'static str,
    /// What looks the same from this host.
    pub alike: &'static str,
    /// Ways to confirm it.
    pub check: &'static str,
    /// Its usual cure.
    pub cure: &'static str,
}

impl Why {
    pub(super) const fn of(node: Node) -> Self {
        let about = node.about();
        Self {
            evidence: about.proof,
            alike: about.alike,
            check: about.check,
            cure: about.cure,
        }
    }
}

/// The findings of a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// Findings worth saying: the worst of each service first, then others of the same services.
    pub findings: Vec<Finding>,
    /// What may be a fault or not, in words.
    pub notes: Vec<String>,
    /// Where the time of slow requests went, by service of this host.
    pub services: Vec<ServiceTime>,
    /// The command that tells of findings that are not printed.
    #[serde(skip)]
    pub more: String,
}

impl Default for Diagnosis {
    fn default() -> Self {
        Self {
            findings: Vec::new(),
            notes: Vec::new(),
            services: Vec::new(),
            more: "stat --by peer,port".to_owned(),
        }
    }
}

/// As many findings are printed.
const PRINTED: usize = 3;

impl Diagnosis {
    /// Return those to print, and the number of others.
    #[must_use]
    pub fn printed(&self) -> (&[Finding], usize) {
        let printed = self.findings.len().min(PRINTED);
        (&self.findings[..printed], self.findings.len() - printed)
    }
}
