//! A process that holds a connection from before the measurement.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use testbed::{Cgroup, Host, PATIENCE, Process};

use crate::traced_hosts::{Messages, outline, wait_acknowledged};

/// Connect, print the port, and answer each byte with one.
const ANSWERS: &str = "
import socket, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
print(s.getsockname()[1], flush=True)
while s.recv(1):
    s.sendall(b'x')
";

/// Another process's end of a connection.
pub struct Answerer {
    pub process: Process,
    socket: TcpStream,
    pub address: SocketAddr,
}

impl Answerer {
    pub fn start(host: &Host, cgroup: Option<&Cgroup>) -> Answerer {
        let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let mut command = host.command("python3");
        command.args(["-c", ANSWERS, &port]);
        if let Some(cgroup) = cgroup {
            cgroup.start_in(&mut command).unwrap();
        }
        let mut process = Process::spawn(command).unwrap();
        process.wait_for_stdout("\n", PATIENCE).unwrap();
        let (socket, address) = listener.accept().unwrap();
        Answerer {
            process,
            socket,
            address,
        }
    }

    pub fn ask(&mut self) {
        self.socket.write_all(&[1]).unwrap();
        self.socket.read_exact(&mut [0]).unwrap();
        wait_acknowledged(&self.socket);
    }
}

/// Assert that all messages are the answerer's, and none of this process, which is not selected.
pub fn assert_only(messages: &Messages, measured: &Answerer, others: &[&Answerer]) {
    assert_eq!(outline(&messages.read_at(measured.address)), [(1, "valid")]);
    assert_eq!(
        outline(&messages.sent_from(measured.address)),
        [(1, "valid")]
    );
    assert_eq!(outline(&messages.sent_to(measured.address)), []);
    for other in others {
        assert_eq!(outline(&messages.read_at(other.address)), []);
        assert_eq!(outline(&messages.sent_from(other.address)), []);
    }
}
