//! TCP Fast Open (RFC 7413): data in the SYN.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use nix::sys::socket::{setsockopt, sockopt::TcpFastOpenConnect};
use socket2::{Domain, Socket, Type};
use testbed::Host;
use with::traced_hosts::{Connection, Loopback, outline, wait_acknowledged};
use with::{Stat, number};

const WITH_SYN: usize = 100;
const AFTER: usize = 50;

/// Client and server, the latter without a socket option: tcp_fastopen in ip-sysctl.rst.
const BOTH: &str = "1027";

/// A connection whose first bytes go with the SYN if the client has a cookie of the server.
fn open(host: &Host, listener: &TcpListener) -> Connection {
    let server_address = listener.local_addr().unwrap();
    let client = host.enter(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        setsockopt(&socket, TcpFastOpenConnect, &true).unwrap();
        socket.connect(&server_address.into()).unwrap();
        assert_eq!(socket.send(&[0; WITH_SYN]).unwrap(), WITH_SYN);
        socket
    });
    let (server, client_address) = listener.accept().unwrap();
    Connection {
        client: client.into(),
        server,
        client_address,
        server_address,
    }
}

/// The first connection gets the cookie, the second one uses it.
fn open_with_cookie(host: &Host) -> Connection {
    host.set_sysctl("net.ipv4.tcp_fastopen", BOTH).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = host.tcp_listen(any).unwrap();
    let mut connection = open(host, &listener);
    connection.server.read_exact(&mut [0; WITH_SYN]).unwrap();
    drop(connection);
    open(host, &listener)
}

fn talk(connection: &mut Connection) {
    connection.server.read_exact(&mut [0; WITH_SYN]).unwrap();
    connection.client.write_all(&[0; AFTER]).unwrap();
    connection.server.read_exact(&mut [0; AFTER]).unwrap();
    connection.server.write_all(&[0; AFTER]).unwrap();
    connection.client.read_exact(&mut [0; AFTER]).unwrap();
    wait_acknowledged(&connection.server);
}

#[test]
fn data_with_the_syn_is_refused_and_what_follows_is_valid() {
    let setup = Loopback::new();
    let mut connection = open_with_cookie(&setup.host);
    talk(&mut connection);

    let messages = setup.finish();
    let after = (AFTER as u64, "valid");
    // The one for the cookie, which waited for the handshake.
    let before = (WITH_SYN as u64, "valid");
    let with_syn = (WITH_SYN as u64, "fast-open");
    assert_eq!(
        outline(&messages.sent_from(connection.client_address)),
        [after]
    );
    let read = messages.read_at(connection.server_address);
    assert_eq!(outline(&read), [before, with_syn, after]);
    assert_eq!(
        outline(&messages.sent_from(connection.server_address)),
        [after]
    );
    assert_eq!(
        outline(&messages.read_at(connection.client_address)),
        [after]
    );
}

#[test]
fn data_with_the_syn_is_counted_on_both_sides() {
    let host = Host::new("corner").unwrap();
    let stat = Stat::start(&["--netns", host.netns_name()]);
    talk(&mut open_with_cookie(&host));

    let report = stat.finish();
    assert_eq!(number(&report["verdicts"]["fast-open"]), 2, "{report}");
    // The first connection's message, which waited for the handshake, and one each way.
    assert_eq!(
        number(&report["tx"]["stages"]["tx.network"]["count"]),
        3,
        "{report}"
    );
    assert_eq!(
        number(&report["rx"]["stages"]["rx.app"]["count"]),
        3,
        "{report}"
    );
    let connections = &report["connections"];
    let counts = ["opened", "accepted", "syns_again"].map(|count| number(&connections[count]));
    assert_eq!(counts, [2, 2, 0], "{connections}");
    assert_eq!(connections["failed"], serde_json::json!({}));
}
