//! Waits that go on, one line each.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::Serialize;
use sockstamp_bpf::stuck::{Open, OpenUnix};
use sockstamp_explain::diagnosis::tree::Node;
use sockstamp_explain::diagnosis::{self, Why};
use sockstamp_host::{netns, places};
use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::{NetnsInode, canonical};
use sockstamp_model::name::Name;
use sockstamp_model::wait::{Connection, Evidence, Kind, Wait};

use crate::colour::Brush;
use crate::findings::reasons;
use crate::interfaces::own_namespace;
use crate::numbers::counted;
use crate::paragraph::wrapped;
use crate::peers::Peer;
use crate::waits::{Server, Waiting};

/// The other reading of a request that an event loop has not answered.
const PUSHES: &str = ", or pushes when it has something";

/// The queue of a service takes no more.
const FULL: &str = ", and its queue is full (ss -lx)";

/// Columns of a process and its name.
const WHO: usize = 22;

/// The network namespaces of waits, by their names: those of containers take a look at every
/// process.
#[derive(Debug, Default)]
pub struct Places {
    home: NetnsInode,
    names: BTreeMap<NetnsInode, Name>,
}

impl Places {
    /// Look the names up if a wait is in another network namespace than we are.
    pub fn of<'a>(waits: impl IntoIterator<Item = &'a Wait>) -> Self {
        Self::of_namespaces(waits.into_iter().map(|wait| wait.flow.netns))
    }

    /// Do the same for the namespaces of waits.
    pub fn of_namespaces(mut namespaces: impl Iterator<Item = NetnsInode>) -> Self {
        let home = own_namespace();
        let elsewhere = namespaces.any(|netns| netns != home);
        let names = match elsewhere {
            true => netns::names(),
            false => BTreeMap::new(),
        };
        Self { home, names }
    }

    /// Do the same for short lines: if all waits are in one namespace, it needs no name.
    pub fn of_several(namespaces: impl Iterator<Item = NetnsInode> + Clone) -> Self {
        let mut others = namespaces.clone();
        match others.next() {
            Some(home) if others.all(|other| other == home) => Self {
                home,
                names: BTreeMap::new(),
            },
            _ => Self::of_namespaces(namespaces),
        }
    }

    /// Take those of a recording.
    pub fn recorded(places: &places::Places) -> Self {
        Self {
            home: places.home,
            names: places.names.clone(),
        }
    }

    fn suffix(&self, netns: NetnsInode) -> String {
        netns::seen_from(netns, self.home, &self.names)
    }
}

/// Return the line of a wait: its age, whose it is, for whom and what it waits.
pub fn line(open: &Open, places: &Places, brush: Brush) -> String {
    let wait = &open.wait;
    // The process' end is there; the peer's may be anywhere.
    let who = format!(
        "{}/{}{}",
        wait.pid,
        wait.comm,
        places.suffix(wait.flow.netns)
    );
    put(open.at_least, wait.lasted, &who, &Sentence(open), brush)
}

/// Return the line of a wait at a Unix socket.
pub fn unix_line(open: &OpenUnix, places: &Places, brush: Brush) -> String {
    let wait = &open.wait;
    let who = format!("{}/{}{}", wait.pid, wait.comm, places.suffix(wait.netns));
    put(open.at_least, wait.lasted, &who, &UnixSentence(open), brush)
}

fn put(at_least: bool, age: Nanos, who: &str, what: &dyn fmt::Display, brush: Brush) -> String {
    let bound = if at_least { ">" } else { "" };
    let age = format!("{:>9}", format!("{bound}{age}"));
    format!("{}  {who:<WHO$}  {what}", brush.bold(&age))
}

/// Return what is behind a wait, as paragraphs: what it is as far as it shows by itself, and what
/// to do about it.
pub fn why(wait: &Wait) -> Vec<String> {
    let (node, about) = diagnosis::why(wait);
    let is = wrapped("   it shows:", node.about().is.split(' '), "");
    [is].into_iter().chain(reasons(&about)).collect()
}

/// The state of a process that waits.
struct Sentence<'a>(&'a Open);

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wait = &self.0.wait;
        let [local, peer] = [wait.flow.local, wait.flow.remote].map(canonical);
        match wait.kind {
            Kind::Connect => write!(f, "connects to {peer}: {}", syns(&wait.evidence)),
            Kind::Accept => write!(f, "has not accepted {} on {local}", connections(wait)),
            Kind::Greeting => write!(f, "waits for the first word of {peer}"),
            Kind::Answer => write!(f, "waits for an answer of {peer}{}", self.question()),
            Kind::Rest | Kind::Request => write!(f, "waits for a missing segment of {peer}"),
            Kind::Service => {
                let or = if self.0.or_pushed_to { PUSHES } else { "" };
                write!(f, "has not answered {peer} on {local}{or}")
            }
            Kind::Room => write!(f, "waits for room to send to {peer}: {}", queue(wait)),
            Kind::Acknowledgement => write!(f, "has sent to {peer}: {}", queue(wait)),
            Kind::Read => {
                let bytes = Bytes(wait.bytes);
                write!(f, "has not read {bytes} of {peer} on {local}")
            }
        }
    }
}

/// The state of a process that waits at a Unix socket.
struct UnixSentence<'a>(&'a OpenUnix);

impl fmt::Display for UnixSentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.0;
        let at = match open.wait.service.is_empty() {
            true => "a socket without a name",
            false => &open.wait.service.to_string(),
        };
        let count = open.count;
        let full = if open.is_full { FULL } else { "" };
        match open.wait.kind {
            // A recording does not have the number.
            Kind::Accept if count == 0 => write!(f, "has not accepted connections on {at}"),
            Kind::Connect if count == 0 => write!(f, "connects to {at}"),
            Kind::Room if count == 0 => write!(f, "waits for room to send to {at}"),
            Kind::Accept => write!(f, "has not accepted {} on {at}", of_connections(count)),
            Kind::Connect => {
                let connections = of_connections(count);
                write!(f, "connects to {at}: {connections} not accepted{full}")
            }
            Kind::Room => {
                let messages = counted(count.into(), "message");
                write!(
                    f,
                    "waits for room to send to {at}: {messages} not read{full}"
                )
            }
            _ if count > 0 => write!(
                f,
                "waits for an answer of {at}, which has not read the question"
            ),
            _ => write!(f, "waits for an answer of {at}"),
        }
    }
}

impl Sentence<'_> {
    fn question(&self) -> String {
        let mut text = String::new();
        if self.0.or_pushed_to {
            text += " or to be pushed to";
        }
        if self.0.wait.bytes > 0 {
            // Writing to a String does not fail.
            let _ = write!(text, ": {}", queue(&self.0.wait));
        }
        text
    }
}

/// Bytes on their way, and what holds them.
fn queue(wait: &Wait) -> String {
    let mut text = Bytes(wait.bytes).to_string();
    let Some(connection) = &wait.evidence.connection else {
        return text;
    };
    let reason = match connection {
        _ if wait.evidence.window_closed.is_some() => ", its window is closed".to_owned(),
        connection if connection.unacknowledged == 0 => format!(" unsent{}", kept(connection)),
        connection => format!(" not acknowledged{}", sent_again(connection)),
    };
    text += &reason;
    text
}

/// The timer that tries again runs for a closed window, or where this host itself drops what TCP
/// sends: `tcp_write_wakeup()`, net/ipv4/tcp_output.c, v6.18.
fn kept(connection: &Connection) -> &'static str {
    let is_open = connection.peer_window >= connection.unsent;
    match connection.backoff > 0 && is_open {
        true => ", kept by this host: a firewall or a full queue drops them",
        false => "",
    }
}

fn sent_again(connection: &Connection) -> String {
    match connection.backoff {
        0 => String::new(),
        timeouts => format!(", sent again {}", times(timeouts.into())),
    }
}

fn syns(evidence: &Evidence) -> String {
    match evidence.syns {
        Some(0) => "no SYN leaves this host: a firewall or a full queue drops it".to_owned(),
        None | Some(1) => "one SYN, no answer".to_owned(),
        Some(syns) => format!("{syns} SYNs, no answer"),
    }
}

fn connections(wait: &Wait) -> String {
    of_connections(wait.members)
}

fn of_connections(count: u32) -> String {
    match count {
        1 => "a connection".to_owned(),
        count => format!("{count} connections"),
    }
}

fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

/// A number of bytes with three digits.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{} B", self.0),
            1_000..10_000 => write!(f, "{:.2} kB", bytes / 1e3),
            10_000..1_000_000 => write!(f, "{:.0} kB", bytes / 1e3),
            _ => write!(f, "{:.2} MB", bytes / 1e6),
        }
    }
}

/// A wait in JSON.
#[derive(Debug, Serialize)]
pub struct Json<'a> {
    #[serde(flatten)]
    waiting: Waiting<'a>,
    cgroup: u64,
    age_ns: Nanos,
    at_least: bool,
    or_pushed_to: bool,
    count: u32,
    /// The program at the other end, on this host, if its state keeps the wait from ending.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<&'a Peer>,
    /// The process behind a Unix socket, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<Server<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<Node>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<Why>,
}

impl<'a> Json<'a> {
    /// The node of the tree, and what is known of that, if asked.
    pub fn new(open: &'a Open, peer: Option<&'a Peer>, why: bool) -> Self {
        let wait = &open.wait;
        let (node, why) = why.then(|| diagnosis::why(wait)).unzip();
        Self {
            waiting: wait.into(),
            cgroup: wait.cgroup.0,
            age_ns: wait.lasted,
            at_least: open.at_least,
            or_pushed_to: open.or_pushed_to,
            count: wait.members,
            peer,
            server: None,
            node,
            why,
        }
    }

    /// Do the same for a wait at a Unix socket.
    pub fn of_unix(open: &'a OpenUnix, peer: Option<&'a Peer>) -> Self {
        let wait = &open.wait;
        Self {
            waiting: Waiting::from(wait),
            cgroup: wait.cgroup.0,
            age_ns: wait.lasted,
            at_least: open.at_least,
            or_pushed_to: false,
            count: open.count.max(1),
            peer,
            server: Server::of(wait),
            node: None,
            why: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Timestamp;
    use sockstamp_model::flow::{CgroupId, Flow, Protocol, SocketCookie};
    use sockstamp_model::wait::{End, UnixWait};

    use super::*;

    fn open(kind: Kind) -> Open {
        let wait = Wait {
            kind,
            flow: Flow {
                netns: own_namespace(),
                protocol: Protocol::Tcp,
                local: "[::ffff:10.0.0.1]:40000".parse().unwrap(),
                remote: "10.0.0.2:5432".parse().unwrap(),
                cookie: SocketCookie(1),
            },
            opened: None,
            cgroup: CgroupId(0),
            pid: 7,
            comm: Name::from("psql"),
            since: Timestamp::from_nanos(1),
            lasted: Nanos::from_millis(12_400),
            inside: Nanos::from_millis(12_400),
            end: End::Open,
            members: 3,
            bytes: 0,
            evidence: Evidence {
                connection: Some(Connection::default()),
                ..Evidence::default()
            },
        };
        Open {
            wait,
            at_least: false,
            or_pushed_to: false,
        }
    }

    fn told(open: &Open) -> String {
        line(open, &Places::of([&open.wait]), Brush::default())
    }

    #[test]
    fn a_line_has_the_age_the_process_the_peer_and_the_thing_that_it_waits_for() {
        assert_eq!(
            told(&open(Kind::Answer)),
            "   12.4 s  7/psql                  waits for an answer of 10.0.0.2:5432"
        );
        let mut pushed = open(Kind::Answer);
        pushed.or_pushed_to = true;
        assert!(told(&pushed).ends_with("of 10.0.0.2:5432 or to be pushed to"));
        let mut service = open(Kind::Service);
        assert!(told(&service).ends_with("has not answered 10.0.0.2:5432 on 10.0.0.1:40000"));
        service.or_pushed_to = true;
        assert!(told(&service).ends_with("on 10.0.0.1:40000, or pushes when it has something"));
        let accept = told(&open(Kind::Accept));
        assert!(accept.ends_with("has not accepted 3 connections on 10.0.0.1:40000"));
    }

    #[test]
    fn a_namespace_is_that_of_the_process_and_not_of_its_peer() {
        let mut away = open(Kind::Answer);
        away.wait.flow.netns = NetnsInode(7);
        let names = BTreeMap::from([(NetnsInode(7), Name::from("shop"))]);
        let home = own_namespace();
        let text = line(&away, &Places { home, names }, Brush::default());
        assert_eq!(
            text,
            "   12.4 s  7/psql@shop             waits for an answer of 10.0.0.2:5432"
        );
    }

    #[test]
    fn a_wait_at_a_unix_socket_has_its_path_and_what_is_not_read() {
        let mut open = OpenUnix {
            wait: UnixWait {
                kind: Kind::Answer,
                service: Name::from("/run/db.sock"),
                server: None,
                netns: own_namespace(),
                cookie: SocketCookie(1),
                inode: 1,
                cgroup: CgroupId(0),
                pid: 7,
                comm: Name::from("psql"),
                is_new: false,
                since: Timestamp::from_nanos(1),
                lasted: Nanos::from_millis(12_400),
                inside: Nanos::from_millis(12_400),
                end: End::Open,
                bytes: 0,
            },
            at_least: true,
            count: 0,
            is_full: false,
        };
        let told = |open: &OpenUnix| unix_line(open, &Places::of([]), Brush::default());
        assert_eq!(
            told(&open),
            "  >12.4 s  7/psql                  waits for an answer of /run/db.sock"
        );
        open.count = 3;
        assert!(told(&open).ends_with("/run/db.sock, which has not read the question"));
        open.wait.kind = Kind::Connect;
        assert!(told(&open).ends_with("connects to /run/db.sock: 3 connections not accepted"));
        open.is_full = true;
        assert!(told(&open).ends_with("not accepted, and its queue is full (ss -lx)"));
        open.is_full = false;
        open.wait.kind = Kind::Accept;
        assert!(told(&open).ends_with("has not accepted 3 connections on /run/db.sock"));
        open.wait.kind = Kind::Room;
        assert!(told(&open).ends_with("room to send to /run/db.sock: 3 messages not read"));
    }

    #[test]
    fn bytes_that_do_not_get_through_have_the_reason_that_was_seen() {
        let mut room = open(Kind::Room);
        room.wait.bytes = 4_067_840;
        room.wait.evidence.window_closed = Some(Nanos(1));
        assert!(told(&room).ends_with("to 10.0.0.2:5432: 4.07 MB, its window is closed"));
        let mut sent = open(Kind::Acknowledgement);
        sent.wait.bytes = 34;
        let unacknowledged = Connection {
            unacknowledged: 34,
            backoff: 6,
            ..Connection::default()
        };
        sent.wait.evidence.connection = Some(unacknowledged);
        assert!(told(&sent).ends_with("34 B not acknowledged, sent again 6 times"));
    }

    #[test]
    fn a_syn_that_stays_here_is_not_said_to_be_unanswered() {
        let mut connect = open(Kind::Connect);
        connect.wait.evidence.syns = Some(2);
        assert!(told(&connect).ends_with("connects to 10.0.0.2:5432: 2 SYNs, no answer"));
        connect.wait.evidence.syns = Some(0);
        assert!(told(&connect).contains("no SYN leaves this host"));
    }

    #[test]
    fn bytes_that_this_host_drops_are_not_the_peers() {
        let mut room = open(Kind::Room);
        room.wait.bytes = 8;
        let connection = |backoff| Connection {
            unsent: 8,
            peer_window: 65_536,
            backoff,
            ..Connection::default()
        };
        room.wait.evidence.connection = Some(connection(0));
        assert!(told(&room).ends_with(": 8 B unsent"));
        room.wait.evidence.connection = Some(connection(4));
        assert!(told(&room).contains("8 B unsent, kept by this host"));
    }

    #[test]
    fn an_age_that_is_a_bound_says_so() {
        let mut unread = open(Kind::Read);
        unread.at_least = true;
        unread.wait.bytes = 128_512;
        let text = told(&unread);
        assert!(text.starts_with("  >12.4 s"), "{text}");
        assert!(text.contains("has not read 129 kB of 10.0.0.2:5432 on 10.0.0.1:40000"));
    }
}
