//! Waits in JSON: those that did not end by data, and those that go on.

use serde::Serialize;
use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::flow::{Opened, canonical};
use sockstamp_model::name::Name;
use sockstamp_model::wait::{End, Evidence, Kind, Wait};

/// A wait, whether it ended or not.
#[derive(Debug, Serialize)]
pub(crate) struct Waiting<'a> {
    kind: Kind,
    pid: u32,
    comm: &'a Name,
    protocol: &'static str,
    local: String,
    remote: String,
    netns: u32,
    cookie: u64,
    opened: Option<Opened>,
    since_ns: Timestamp<Monotonic>,
    bytes: u64,
    evidence: &'a Evidence,
}

impl<'a> From<&'a Wait> for Waiting<'a> {
    fn from(wait: &'a Wait) -> Self {
        Self {
            kind: wait.kind,
            pid: wait.pid,
            comm: &wait.comm,
            protocol: wait.flow.protocol.name(),
            local: canonical(wait.flow.local).to_string(),
            remote: canonical(wait.flow.remote).to_string(),
            netns: wait.flow.netns.0,
            cookie: wait.flow.cookie.0,
            opened: wait.opened,
            since_ns: wait.since,
            bytes: wait.bytes,
            evidence: &wait.evidence,
        }
    }
}

/// One wait that did not end by data.
#[derive(Debug, Serialize)]
pub struct Json<'a> {
    #[serde(flatten)]
    waiting: Waiting<'a>,
    end: End,
    lasted_ns: Nanos,
}

impl<'a> From<&'a Wait> for Json<'a> {
    fn from(wait: &'a Wait) -> Self {
        Self {
            waiting: wait.into(),
            end: wait.end,
            lasted_ns: wait.lasted,
        }
    }
}
