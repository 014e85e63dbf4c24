//! A next hop that answers late to its address (ARP, neighbour discovery): what waits for that is
//! neither paced nor in the network. tcpdump shows when each packet left.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use socket2::{Domain, SockRef, Socket, Type};
use testbed::{Family, Host, Link, within_attempts};
use with::capture::{Capture, Packet, TCP, UDP};
use with::expected::{ms, within};
use with::{Stat, Trace, clock, number, of_direction, over_both_families};

over_both_families!(check);

/// The next hop does not answer for this long.
const SILENT: Duration = Duration::from_millis(500);
/// The time that a packet then waits at least: the program needs some of the time until it sends.
const LEAST: u64 = ms(300);
/// Longest time of the kernel before and after that wait, on a busy machine.
const SLACK: u64 = ms(3);
const PORT: u16 = 7000;

fn check(family: Family) {
    let hosts = Hosts::new(family);
    within_attempts(|| hosts.tcp("cubic"));
    within_attempts(|| hosts.tcp("bbr"));
    within_attempts(|| hosts.udp());
}

/// Waits that have room: NEIGHBOUR_SOCKETS.
const ROOM: u16 = 1024;
/// Connections that wait at the same time.
const MANY: u16 = 1500;
/// Next hops of theirs: each keeps some hundred packets (`unres_qlen_bytes`).
const HOPS: u8 = 50;

/// The wait of each connection that opens is told, or counted as lost.
#[test]
fn waits_without_room_are_counted() {
    within_attempts(|| {
        let hosts = Hosts::new(Family::V4);
        let hops = hosts.further_hops();
        let any = SocketAddr::from(([0; 4], PORT));
        let listener = hosts.server.tcp_listen(any).unwrap();
        // Nobody accepts.
        SockRef::from(&listener).listen(i32::from(MANY)).unwrap();
        let stat = Stat::start(&["--netns", hosts.client.netns_name()]);
        let opening = hosts.while_mute(|| hosts.connect_to(&hops));
        thread::sleep(SILENT);
        let report = stat.finish();
        drop(opening);
        // After a second, a connection may open by another SYN than the one that waited.
        if number(&report["connections"]["syns_again"]) > 0 {
            return Err("SYNs were sent again".to_owned());
        }
        let waited = number(&report["tx"]["parts"]["conn.handshake"]["neighbour"]["count"]);
        let lost = number(&report["lost"]["neighbours"]);
        // The server takes no more than a thousand packets at once (netdev_max_backlog): some
        // connections are not opened in time.
        let opened = number(&report["connections"]["opened"]);
        let known = waited + lost;
        assert!((opened..=MANY.into()).contains(&known), "{report}");
        assert!(lost >= u64::from(MANY - ROOM), "{report}");
        Ok(())
    });
}

struct Hosts {
    client: Host,
    server: Host,
    link: Link,
    family: Family,
}

/// A send or a connect as the program and tcpdump saw it.
#[derive(Debug)]
struct Seen {
    begun: u64,
    left: u64,
}

impl Hosts {
    fn new(family: Family) -> Hosts {
        let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
        let link = Link::veth(&client, &server).unwrap();
        // The kernel asks ten times a second, and does not give up.
        for version in ["ipv4", "ipv6"] {
            let settings = format!("net.{version}.neigh.{}", link.interface_a());
            client
                .set_sysctl(&format!("{settings}.retrans_time_ms"), "100")
                .unwrap();
            client
                .set_sysctl(&format!("{settings}.mcast_solicit"), "50")
                .unwrap();
        }
        Hosts {
            client,
            server,
            link,
            family,
        }
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::new(self.link.address_b(self.family), PORT)
    }

    /// Let the client forget the server's link address, and the server not answer for a while, in
    /// which `f` runs.
    fn unanswered<T>(&self, f: impl FnOnce() -> T) -> T {
        let prefix = match self.family {
            Family::V4 => 24,
            Family::V6 => 64,
        };
        let address = format!("{}/{prefix}", self.address().ip());
        let of_device = |verb| ["address", verb, &address, "dev", self.link.interface_b()];
        self.server.run("ip", &of_device("del")).unwrap();
        self.client
            .run("ip", &["neigh", "flush", "dev", self.link.interface_a()])
            .unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(SILENT);
                let words = [&of_device("add")[..], &["nodad"]].concat();
                self.server.run("ip", &words).unwrap();
            });
            f()
        })
    }

    /// Give the server more addresses, and return them.
    fn further_hops(&self) -> Vec<SocketAddr> {
        let IpAddr::V4(first) = self.link.address_b(Family::V4) else {
            unreachable!("it was asked for one of IPv4")
        };
        let [a, b, c, _] = first.octets();
        (0..HOPS)
            .map(|number| {
                let hop = IpAddr::from([a, b, c, 100 + number]);
                let words = ["address", "add", &format!("{hop}/24"), "dev"];
                let words = [&words[..], &[self.link.interface_b()]].concat();
                self.server.run("ip", &words).unwrap();
                SocketAddr::new(hop, PORT)
            })
            .collect()
    }

    /// Do something while the server answers to none of its addresses.
    fn while_mute<T>(&self, work: impl FnOnce() -> T) -> T {
        let ignore = format!("net.ipv4.conf.{}.arp_ignore", self.link.interface_b());
        self.server.set_sysctl(&ignore, "8").unwrap();
        let done = work();
        thread::sleep(SILENT / 2);
        self.server.set_sysctl(&ignore, "0").unwrap();
        done
    }

    /// Begin to connect to each of these in turn.
    fn connect_to(&self, hops: &[SocketAddr]) -> Vec<Socket> {
        let connect = |hop: &SocketAddr| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let begun = socket.connect(&(*hop).into()).unwrap_err();
            assert_eq!(begun.raw_os_error(), Some(libc::EINPROGRESS), "{begun}");
            socket
        };
        let all = hops.iter().cycle().take(MANY.into());
        self.client.enter(|| all.map(connect).collect())
    }

    /// A connect and a message wait for the address; a message after each does not.
    fn tcp(&self, congestion: &str) -> Result<(), String> {
        let listener = self.server.tcp_listen(self.address()).unwrap();
        let capture = Capture::start(&self.client, self.link.interface_a(), "tcp");
        let target = ["--netns", self.client.netns_name()];
        let (trace, connects) = (Trace::start(&target), Trace::start(&target));
        let stat = Stat::start(&target);
        let (mut client, connecting) = self.unanswered(|| self.connect(congestion));
        let (mut server, _) = listener.accept().unwrap();
        exchange(&mut client, &mut server, 100);
        let sending = self.unanswered(|| exchange(&mut client, &mut server, 101));
        exchange(&mut client, &mut server, 102);
        let (messages, report) = (trace.finish(), stat.finish());
        let opened = connects.finish_connections();
        let packets = capture.finish();
        let left = |length| when_left(&packets, TCP, length);
        let syn = Seen {
            begun: connecting,
            left: packets[0].time,
        };
        waited(&opened[0], "conn.handshake", &syn)?;
        let sent = of_direction(&messages, "tx");
        let late = Seen {
            begun: sending,
            left: left(101),
        };
        waited(of_length(&sent, 101), "tx.queue", &late)?;
        for length in [100, 102] {
            let message = of_length(&sent, length);
            assert_eq!(neighbour(message, "tx.queue"), 0, "{message}");
        }
        let parts = &report["tx"]["parts"];
        for stage in ["tx.queue", "conn.handshake"] {
            assert_eq!(parts[stage]["neighbour"]["count"], 1, "{report}");
        }
        Ok(())
    }

    /// Connect, and return when that began.
    fn connect(&self, congestion: &str) -> (TcpStream, u64) {
        self.client.enter(|| {
            let domain = Domain::for_address(self.address());
            let socket = Socket::new(domain, Type::STREAM, None).unwrap();
            socket.set_tcp_congestion(congestion.as_bytes()).unwrap();
            let begun = clock::now();
            socket.connect(&self.address().into()).unwrap();
            (socket.into(), begun)
        })
    }

    /// Datagrams, connected and not: the first of each waits, the second does not.
    fn udp(&self) -> Result<(), String> {
        let receiver = self.server.udp_bind(self.address()).unwrap();
        let any = SocketAddr::new(self.link.address_a(self.family), 0);
        let sender = self.client.udp_bind(any).unwrap();
        let capture = Capture::start(&self.client, self.link.interface_a(), "udp");
        let trace = Trace::start(&["--netns", self.client.netns_name(), "udp"]);
        let mut begun = Vec::new();
        let mut buffer = [0; 200];
        for connected in [false, true] {
            let length = 100 + 10 * usize::from(connected);
            if connected {
                sender.connect(self.address()).unwrap();
            }
            let send = |length: usize| match connected {
                true => sender.send(&vec![0; length]).unwrap(),
                false => sender.send_to(&vec![0; length], self.address()).unwrap(),
            };
            // The programs that follow datagrams come with the first.
            send(length);
            receiver.recv(&mut buffer).unwrap();
            self.unanswered(|| {
                begun.push(clock::now());
                send(length + 1);
                receiver.recv(&mut buffer).unwrap();
            });
            send(length + 2);
            receiver.recv(&mut buffer).unwrap();
        }
        let messages = trace.finish();
        let packets = capture.finish();
        let sent = of_direction(&messages, "tx");
        for (begun, length) in begun.into_iter().zip([101, 111]) {
            let seen = Seen {
                begun,
                left: when_left(&packets, UDP, length),
            };
            waited(of_length(&sent, length), "tx.queue", &seen)?;
            let known = of_length(&sent, length + 1);
            assert!(known["stages"]["tx.queue"].is_null(), "{known}");
        }
        Ok(())
    }
}

/// Send bytes there, and a byte back. Return when that began.
fn exchange(client: &mut TcpStream, server: &mut TcpStream, length: usize) -> u64 {
    let begun = clock::now();
    client.write_all(&vec![0; length]).unwrap();
    server.read_exact(&mut vec![0; length]).unwrap();
    server.write_all(&[0]).unwrap();
    client.read_exact(&mut [0]).unwrap();
    begun
}

fn when_left(packets: &[Packet], protocol: u8, length: u64) -> u64 {
    let is_it = |packet: &&Packet| {
        packet.protocol == protocol
            && packet.destination.port() == PORT
            && u64::from(packet.length) == length
    };
    packets.iter().find(is_it).unwrap().time
}

fn of_length<'a>(messages: &[&'a Value], length: u64) -> &'a Value {
    let is_it = |message: &&&Value| number(&message["bytes"]) == length;
    messages.iter().find(is_it).unwrap()
}

fn neighbour(message: &Value, stage: &str) -> u64 {
    message["parts"][stage]["neighbour"].as_u64().unwrap_or(0)
}

/// Check that the wait is that of the packet, from the program's call until it left.
fn waited(message: &Value, stage: &str, seen: &Seen) -> Result<(), String> {
    assert_eq!(message["verdict"], "valid", "{message}");
    let elapsed = seen.left - seen.begun;
    let waited = neighbour(message, stage);
    assert!(waited <= elapsed, "{seen:?}: {message}");
    assert!(elapsed > LEAST, "{seen:?}");
    within(
        format!("the rest of {seen:?} in {message}"),
        elapsed - waited,
        0..=SLACK,
    )
}
