//! TCP connections and their peers.

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;

use crate::sock_diag::{self, INET_DIAG_INFO, TCP_ESTABLISHED, TCP_LISTEN};

/// An established connection, as the kernel has it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Its own address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// The cgroup (version 2) that the socket was made in; 0 if unknown.
    pub cgroup: u64,
    /// The smallest round trip that TCP has seen over the last five minutes; `None` before the
    /// first.
    pub min_rtt: Option<Duration>,
    /// Something here listens on its port, so the peer opened it.
    pub accepted: bool,
}

/// Position of `tcpi_min_rtt` in `struct tcp_info` (include/uapi/linux/tcp.h), in microseconds; all
/// ones before the first (`minmax_reset()` in `tcp_init_sock()`).
const MIN_RTT: usize = 148;

/// Return the connections of the calling thread's network namespace.
///
/// # Errors
///
/// If the kernel does not list them.
pub fn here() -> Result<Vec<Connection>> {
    // A list takes a million instructions: the kernel looks at every slot of its table.
    if established() == Some(0) {
        return Ok(Vec::new());
    }
    let mut ports = HashSet::new();
    let mut found = Vec::new();
    let states = [TCP_ESTABLISHED, TCP_LISTEN];
    sock_diag::each(&states, INET_DIAG_INFO, &mut |entry| {
        let (Some(local), Some(remote)) = (entry.local(), entry.remote()) else {
            return;
        };
        if entry.state() == Some(TCP_LISTEN) {
            ports.insert(local.port());
            return;
        }
        let min_rtt = entry.attribute_word(INET_DIAG_INFO, MIN_RTT);
        found.push(Connection {
            local,
            remote,
            cgroup: entry.cgroup(),
            min_rtt: min_rtt
                .filter(|micros| *micros != u32::MAX)
                .map(|micros| Duration::from_micros(micros.into())),
            accepted: false,
        });
    })?;
    for connection in &mut found {
        connection.accepted = ports.contains(&connection.local.port());
    }
    Ok(found)
}

/// Return how many connections the calling thread's network namespace has now; `None` if the kernel
/// does not tell.
fn established() -> Option<u64> {
    counted(&fs::read_to_string("/proc/thread-self/net/snmp").ok()?)
}

/// Return `CurrEstab` (RFC 4022) of a file like /proc/net/snmp: a line of names for each protocol,
/// and one of values.
fn counted(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next()?.split(' '), lines.next()?.split(' '));
    let (_, value) = names.zip(values).find(|(name, _)| *name == "CurrEstab")?;
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_number_of_connections_is_read_by_its_name() {
        let snmp =
            "Ip: Forwarding CurrEstab\nIp: 1 9\nTcp: RtoMin CurrEstab InSegs\nTcp: 200 3 70\n";
        assert_eq!(counted(snmp), Some(3));
        assert_eq!(counted("Tcp: RtoMin CurrEstab\n"), None);
        assert_eq!(counted("Tcp: CurrEstab\nTcp: -1\n"), None);
    }

    /// The witness is the caller of connect().
    #[test]
    fn a_connection_is_counted_while_it_is_established() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(established().is_some_and(|count| count >= 2));
    }

    /// The witness is the caller of connect() and accept().
    #[test]
    fn both_ends_of_a_connection_are_distinguished() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(any).unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            client.write_all(b"x").unwrap();
            server.read_exact(&mut [0]).unwrap();
            let found = here().unwrap();
            let of = |socket: &TcpStream| {
                let local = socket.local_addr().unwrap();
                let mut of_it = found.iter().filter(|connection| connection.local == local);
                let connection = *of_it.next().unwrap();
                assert_eq!(connection.remote, socket.peer_addr().unwrap());
                assert!(
                    connection
                        .min_rtt
                        .is_some_and(|rtt| rtt < Duration::from_secs(1))
                );
                connection.accepted
            };
            assert!(!of(&client) && of(&server));
        }
    }
}
