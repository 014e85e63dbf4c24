//! TCP connections and their peers.

use std::collections::HashSet;
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

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
