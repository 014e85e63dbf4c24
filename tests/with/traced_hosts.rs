//! Hosts in which one thing happens, and the messages that `sockstamp trace` saw of it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::{Trace, number, start, wait_until};
use serde_json::Value;
use testbed::{Family, Host, Link, LinkConfig, Process, TcpInfo};

/// A pause clearly longer than sending or reading itself.
pub const PAUSE: Duration = Duration::from_millis(50);

/// The delay of a link that is clearly longer too.
pub const ONE_WAY: Duration = Duration::from_millis(20);

/// Sleeps for [`PAUSE`].
pub fn pause() {
    thread::sleep(PAUSE);
}

/// `trace` of what happens in `host`, as JSON in the file `output`.
pub fn trace_into(output: &Path, host: &Host) -> Process {
    let output = output.to_str().unwrap();
    start(&[
        "trace",
        "--every",
        "--max-cost=none",
        "--format",
        "json",
        "--netns",
        host.netns_name(),
        "-o",
        output,
    ])
}

/// One host whose two programs talk over its loopback, watched.
pub struct Loopback {
    pub host: Host,
    trace: Trace,
}

impl Loopback {
    pub fn new() -> Loopback {
        Loopback::with(&[])
    }

    /// Watched with further options.
    pub fn with(options: &[&str]) -> Loopback {
        let host = Host::new("corner").unwrap();
        let trace = Trace::start(&[&["--netns", host.netns_name()], options].concat());
        Loopback { host, trace }
    }

    pub fn connect(&self) -> Connection {
        Connection::new(&self.host, &self.host, Ipv4Addr::LOCALHOST.into())
    }

    pub fn finish(self) -> Messages {
        Messages::new(self.trace.finish())
    }
}

/// The check of a case's messages, when all have been measured.
pub type Check = Box<dyn FnOnce(&Messages)>;

/// A case: its traffic.
pub type Case = fn(&Loopback) -> Check;

/// Make the traffic of all cases in one measurement, whose start costs more than they do, and check
/// it afterwards. The last name that is printed is that of a failed case.
pub fn share(cases: &[(&str, Case)]) {
    let setup = Loopback::new();
    let mut checks = Vec::new();
    for (name, case) in cases {
        println!("{name}");
        checks.push((name, case(&setup)));
    }
    let messages = setup.finish();
    for (name, check) in checks {
        println!("{name}: its messages");
        check(&messages);
    }
}

/// Do [`share`](crate::traced_hosts::share()) with functions, with their names.
#[macro_export]
macro_rules! share {
    ($($case:ident),+ $(,)?) => {
        $crate::traced_hosts::share(&[
            $((stringify!($case), $case as $crate::traced_hosts::Case)),+
        ])
    };
}

/// A client and a server on a link with known behaviour; the client is watched.
pub struct Wire {
    pub link: Link,
    pub client: Host,
    server: Host,
    pub trace: Trace,
}

impl Wire {
    pub fn new(config: LinkConfig) -> Wire {
        let client = Host::new("client").unwrap();
        let server = Host::new("server").unwrap();
        let link = Link::relay(&client, &server, config).unwrap();
        let trace = Trace::start(&["--netns", client.netns_name()]);
        Wire {
            link,
            client,
            server,
            trace,
        }
    }

    pub fn connect(&self) -> Connection {
        Connection::new(&self.client, &self.server, self.link.address_b(Family::V4))
    }

    pub fn finish(self) -> Messages {
        Messages::new(self.trace.finish())
    }
}

/// Both ends of a connection, which send every message at once.
pub struct Connection {
    pub client: TcpStream,
    pub server: TcpStream,
    pub client_address: SocketAddr,
    pub server_address: SocketAddr,
}

impl Connection {
    /// Connect to a fresh port of `address`.
    pub fn new(client: &Host, server: &Host, address: IpAddr) -> Connection {
        let listener = server.tcp_listen(SocketAddr::new(address, 0)).unwrap();
        Connection::to(client, &listener, address)
    }

    /// Connect to `address` at the port of `listener`.
    pub fn to(client: &Host, listener: &TcpListener, address: IpAddr) -> Connection {
        let port = listener.local_addr().unwrap().port();
        let client = client.tcp_connect(SocketAddr::new(address, port)).unwrap();
        let (server, client_address) = listener.accept().unwrap();
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        Connection {
            client_address: canonical(client_address),
            server_address: canonical(client.peer_addr().unwrap()),
            client,
            server,
        }
    }
}

/// Return the address as messages show it: v4-mapped addresses as IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Wait until everything that was sent has been acknowledged.
pub fn wait_acknowledged(socket: impl AsFd) {
    wait_until("everything is acknowledged", || {
        let info = TcpInfo::of(&socket).unwrap();
        info.unacked == 0 && info.notsent_bytes == 0
    });
}

/// The output of `trace`.
#[derive(Debug)]
pub struct Messages(Vec<Message>);

impl Messages {
    pub fn new(messages: Vec<Value>) -> Messages {
        Messages(messages.into_iter().map(Message).collect())
    }

    /// Messages that any socket sent.
    pub fn sent(&self) -> Vec<&Message> {
        self.0
            .iter()
            .filter(|message| message.0["direction"] == "tx")
            .collect()
    }

    /// Messages that the socket with this local address sent.
    pub fn sent_from(&self, local: SocketAddr) -> Vec<&Message> {
        self.of("tx", "local", local)
    }

    /// Messages that were read from the socket with this local address.
    pub fn read_at(&self, local: SocketAddr) -> Vec<&Message> {
        self.of("rx", "local", local)
    }

    /// Messages that were sent to this address.
    pub fn sent_to(&self, remote: SocketAddr) -> Vec<&Message> {
        self.of("tx", "remote", remote)
    }

    /// Messages that came from this address.
    pub fn read_from(&self, remote: SocketAddr) -> Vec<&Message> {
        self.of("rx", "remote", remote)
    }

    /// Assert that this server read one request, and sent one response.
    pub fn assert_answered(&self, server: SocketAddr, request: usize, response: usize) {
        assert_eq!(outline(&self.read_at(server)), [(request as u64, "valid")]);
        assert_eq!(
            outline(&self.sent_from(server)),
            [(response as u64, "valid")]
        );
    }

    fn of(&self, direction: &str, end: &str, address: SocketAddr) -> Vec<&Message> {
        let address = address.to_string();
        let is_of_it =
            |message: &&Message| message.0["direction"] == direction && message.0[end] == address;
        self.0.iter().filter(is_of_it).collect()
    }
}

/// A line of `trace --format json`.
#[derive(Debug)]
pub struct Message(Value);

impl Message {
    pub fn bytes(&self) -> u64 {
        number(&self.0["bytes"])
    }

    pub fn verdict(&self) -> &str {
        self.0["verdict"].as_str().unwrap()
    }

    pub fn is_coalesced(&self) -> bool {
        self.is("coalesced")
    }

    /// Return true if it has this mark.
    pub fn is(&self, mark: &str) -> bool {
        self.0[mark].as_bool().unwrap()
    }

    pub fn number(&self, field: &str) -> u64 {
        number(&self.0[field])
    }

    pub fn stage(&self, stage: &str) -> Duration {
        Duration::from_nanos(number(&self.0["stages"][stage]))
    }

    /// No time where it has no such part.
    pub fn part(&self, stage: &str, part: &str) -> Duration {
        Duration::from_nanos(self.0["parts"][stage][part].as_u64().unwrap_or(0))
    }

    /// Return true if it has this stage, whose time may be 0.
    pub fn has_stage(&self, stage: &str) -> bool {
        !self.0["stages"][stage].is_null()
    }

    pub fn stamp(&self, stamp: &str) -> Duration {
        Duration::from_nanos(number(&self.0["stamps"][stamp]))
    }

    /// The name and namespace of the "first" or "last" interface of its path.
    pub fn interface(&self, which: &str) -> (&str, u64) {
        let interface = &self.0["interfaces"][which];
        (
            interface["name"].as_str().unwrap(),
            number(&interface["netns"]),
        )
    }

    pub fn oldest_age(&self) -> Option<Duration> {
        self.0["oldest_age_ns"].as_u64().map(Duration::from_nanos)
    }
}

/// Bytes and verdicts, for comparison.
pub fn outline<'a>(messages: &[&'a Message]) -> Vec<(u64, &'a str)> {
    messages
        .iter()
        .map(|message| (message.bytes(), message.verdict()))
        .collect()
}
