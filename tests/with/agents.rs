//! Agents in the background, and their figures.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use testbed::{Host, PATIENCE, Process};

use super::{sockstamp, wait_attached};

/// Start an agent in a host and return when it measures and listens.
pub fn start(host: &Host, address: SocketAddr) -> Process {
    let mut command = host.command(sockstamp());
    command.args(["agent", "--listen", &address.to_string()]);
    let mut agent = Process::spawn(command).unwrap();
    wait_attached(&mut agent);
    host.wait_for_port(address, PATIENCE).unwrap();
    agent
}

/// Request the figures of the agent at the other end of a connection.
pub fn scrape(mut connection: TcpStream) {
    connection
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
