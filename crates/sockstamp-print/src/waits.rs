//! Waits in JSON: those that did not end by data, and those that go on.

use std::sync::LazyLock;

use serde::Serialize;
use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::flow::{Opened, canonical};
use sockstamp_model::name::Name;
use sockstamp_model::wait::{End, Evidence, Kind, UnixWait, Wait, Waits};

/// The protocol of Unix sockets.
const UNIX: &str = "unix";

/// The evidence of waits on them: nothing but their ends is seen.
static NOTHING: LazyLock<Evidence> = LazyLock::new(Evidence::default);

/// A wait, whether it ended or not.
#[derive(Debug, Serialize)]
pub(crate) struct Waiting<'a> {
    kind: Kind,
    pid: u32,
    comm: &'a Name,
    protocol: &'static str,
    /// Empty for a Unix socket: one that asks has no name.
    local: String,
    /// The path of a service behind a Unix socket.
    remote: Remote<'a>,
    netns: u32,
    cookie: u64,
    opened: Option<Opened>,
    since_ns: Timestamp<Monotonic>,
    bytes: u64,
    evidence: &'a Evidence,
}

/// The end that is waited for.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Remote<'a> {
    Address(String),
    Path(&'a Name),
}

impl<'a> From<&'a Wait> for Waiting<'a> {
    fn from(wait: &'a Wait) -> Self {
        Self {
            kind: wait.kind,
            pid: wait.pid,
            comm: &wait.comm,
            protocol: wait.flow.protocol.name(),
            local: canonical(wait.flow.local).to_string(),
            remote: Remote::Address(canonical(wait.flow.remote).to_string()),
            netns: wait.flow.netns.0,
            cookie: wait.flow.cookie.0,
            opened: wait.opened,
            since_ns: wait.since,
            bytes: wait.bytes,
            evidence: &wait.evidence,
        }
    }
}

impl<'a> From<&'a UnixWait> for Waiting<'a> {
    fn from(wait: &'a UnixWait) -> Self {
        let opened = match wait.kind {
            Kind::Accept => Opened::Accepted,
            _ => Opened::Connected,
        };
        Self {
            kind: wait.kind,
            pid: wait.pid,
            comm: &wait.comm,
            protocol: UNIX,
            local: String::new(),
            remote: Remote::Path(&wait.service),
            netns: wait.netns.0,
            cookie: wait.cookie.0,
            opened: Some(opened),
            since_ns: wait.since,
            bytes: wait.bytes,
            evidence: &NOTHING,
        }
    }
}

/// One wait that did not end by data, or that no message shows.
#[derive(Debug, Serialize)]
pub struct Json<'a> {
    #[serde(flatten)]
    waiting: Waiting<'a>,
    end: End,
    lasted_ns: Nanos,
    /// The process behind a Unix socket, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<Server<'a>>,
}

/// A process that serves a Unix socket.
#[derive(Debug, Serialize)]
pub(crate) struct Server<'a> {
    pid: u32,
    comm: &'a Name,
}

impl<'a> Server<'a> {
    /// Return that of a wait, where it is known.
    pub(crate) fn of(wait: &'a UnixWait) -> Option<Self> {
        let (pid, comm) = wait.server.as_ref()?;
        Some(Self { pid: *pid, comm })
    }
}

impl<'a> Json<'a> {
    /// Return all that did not end by data, or that no message shows, those at Unix sockets last.
    #[must_use]
    pub fn of_all(waits: &'a Waits) -> Vec<Self> {
        let list = waits.list.iter().map(Self::from);
        list.chain(waits.unix.iter().map(Self::from)).collect()
    }
}

impl<'a> From<&'a UnixWait> for Json<'a> {
    fn from(wait: &'a UnixWait) -> Self {
        Self {
            waiting: wait.into(),
            end: wait.end,
            lasted_ns: wait.lasted,
            server: Server::of(wait),
        }
    }
}

impl<'a> From<&'a Wait> for Json<'a> {
    fn from(wait: &'a Wait) -> Self {
        Self {
            waiting: wait.into(),
            end: wait.end,
            lasted_ns: wait.lasted,
            server: None,
        }
    }
}
