//! Listeners and connections of MPTCP. Since Go 1.24 every listener of Go's `net` is one.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use testbed::Host;
use with::traced_hosts::{Connection, Messages, wait_acknowledged};
use with::{Stat, Trace, number};

const LOCALHOSTS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];
const REQUEST: usize = 100;
const RESPONSE: usize = 200;

fn host() -> Host {
    let host = Host::new("corner").unwrap();
    host.set_sysctl("net.mptcp.enabled", "1").unwrap();
    host
}

fn socket(address: IpAddr) -> Socket {
    let domain = Domain::for_address(SocketAddr::new(address, 0));
    Socket::new(domain, Type::STREAM, Some(Protocol::MPTCP)).unwrap()
}

fn listen(host: &Host, address: IpAddr) -> TcpListener {
    host.enter(|| {
        let socket = socket(address);
        socket.bind(&SocketAddr::new(address, 0).into()).unwrap();
        socket.listen(16).unwrap();
        socket.into()
    })
}

fn connect(host: &Host, listener: &TcpListener) -> TcpStream {
    let server = listener.local_addr().unwrap();
    host.enter(|| {
        let socket = socket(server.ip());
        socket.connect(&server.into()).unwrap();
        socket.into()
    })
}

/// A request and its response.
fn talk(client: &mut TcpStream, server: &mut TcpStream) {
    client.write_all(&[0; REQUEST]).unwrap();
    server.read_exact(&mut [0; REQUEST]).unwrap();
    server.write_all(&[0; RESPONSE]).unwrap();
    client.read_exact(&mut [0; RESPONSE]).unwrap();
}

/// Talks over a connection of plain TCP to a listener of MPTCP.
fn talk_plainly(host: &Host, listener: &TcpListener, address: IpAddr) -> Connection {
    let mut connection = Connection::to(host, listener, address);
    talk(&mut connection.client, &mut connection.server);
    wait_acknowledged(&connection.server);
    connection
}

fn assert_answered(trace: Trace, server: SocketAddr) {
    Messages::new(trace.finish()).assert_answered(server, REQUEST, RESPONSE);
}

fn own_process() -> String {
    std::process::id().to_string()
}

/// The kernel clones a socket to which no file leads (`mptcp_stream_accept()`, v6.18).
#[test]
fn by_pid_plain_tcp_that_an_older_mptcp_listener_accepts_is_measured() {
    for new_only in [&[][..], &["--new-only"]] {
        let host = host();
        let listeners = LOCALHOSTS.map(|address| (listen(&host, address), address));
        let pid = own_process();
        let trace = Trace::start(&[&["-p", &pid], new_only].concat());
        let connections =
            listeners.map(|(listener, address)| talk_plainly(&host, &listener, address));
        let messages = Messages::new(trace.finish());
        for connection in &connections {
            messages.assert_answered(connection.server_address, REQUEST, RESPONSE);
        }
    }
}

#[test]
fn by_pid_plain_tcp_that_waited_for_an_older_mptcp_listener_is_measured() {
    let host = host();
    let listener = listen(&host, LOCALHOSTS[0]);
    let mut client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let trace = Trace::start(&["-p", &own_process()]);
    let (mut server, _) = listener.accept().unwrap();
    talk(&mut client, &mut server);
    wait_acknowledged(&server);

    assert_answered(trace, listener.local_addr().unwrap());
}

#[test]
fn by_pid_plain_tcp_that_a_newer_mptcp_listener_accepts_is_measured() {
    let host = host();
    let trace = Trace::start(&["-p", &own_process()]);
    let listener = listen(&host, LOCALHOSTS[0]);
    let connection = talk_plainly(&host, &listener, LOCALHOSTS[0]);
    assert_answered(trace, connection.server_address);
}

/// Sends of MPTCP come by no hook (`mptcp_sendmsg()`, v6.18): subflows are not selected, and
/// counted.
#[test]
fn connections_of_mptcp_are_counted_and_not_measured() {
    let pid = own_process();
    for by_pid in [false, true] {
        let host = host();
        let listener = listen(&host, LOCALHOSTS[0]);
        let target = match by_pid {
            true => ["-p", &pid],
            false => ["--netns", host.netns_name()],
        };
        let stat = Stat::start(&target);
        let mut client = connect(&host, &listener);
        let (mut server, _) = listener.accept().unwrap();
        talk(&mut client, &mut server);

        let report = stat.finish();
        assert_eq!(
            number(&report["lost"]["mptcp"]),
            2,
            "by pid: {by_pid}: {report}"
        );
        assert_eq!(number(&report["tx"]["messages"]), 0, "{report}");
        assert_eq!(number(&report["rx"]["messages"]), 0, "{report}");
        let connections = &report["connections"];
        assert_eq!(number(&connections["opened"]), 0, "{connections}");
        assert_eq!(number(&connections["accepted"]), 0, "{connections}");
        assert_eq!(connections["failed"], serde_json::json!({}));
    }
}

/// The witness is the kernel's own count of the queue, and the caller of connect().
#[test]
fn connections_that_an_mptcp_listener_does_not_accept_wait() {
    let host = host();
    for address in LOCALHOSTS {
        let listener = listen(&host, address);
        let clients: Vec<_> = (0..3).map(|_| connect(&host, &listener)).collect();
        let local = listener.local_addr().unwrap();
        let line = format!("has not accepted {} connections on {local}", clients.len());
        let options = ["stuck", "--slow", "10ms", "--netns", host.netns_name()];
        let look = || {
            let output = Command::new(with::sockstamp()).args(options).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        // Longer than the limit.
        thread::sleep(Duration::from_millis(50));
        let waiting = look();
        assert!(waiting.contains(&line), "{waiting}");
        for _ in &clients {
            drop(listener.accept().unwrap());
        }
        assert!(!look().contains("has not accepted"), "{}", look());
    }
}
