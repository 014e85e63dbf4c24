//! Every hook of a plan runs as often as the traffic that it is for passes: by the kernel's own
//! account. Root.

#[path = "../common/mod.rs"]
mod common;
mod cost;
mod every;
mod on_demand;
mod unselected;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use sockstamp_bpf::{Options, Session, Target};
use sockstamp_model::flow::NetnsInode;
use testbed::Host;

const REQUEST: [u8; 500] = [1; 500];
const DATAGRAMS: u64 = 10;

const IDLE: Duration = Duration::from_millis(200);

fn of_netns(host: &Host) -> Options {
    Options {
        target: Target {
            netns: vec![NetnsInode(u32::try_from(host.netns_inode()).unwrap())],
            ..Target::default()
        },
        ..Options::default()
    }
}

/// Open a connection within a host.
fn connected(host: &Host) -> (TcpStream, TcpStream) {
    let listener = host.tcp_listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Send requests and answers, each read by one call.
fn exchange((client, server): &mut (TcpStream, TcpStream), rounds: u64) {
    for _ in 0..rounds {
        pass(client, server);
        pass(server, client);
    }
}

fn pass(from: &mut TcpStream, to: &mut TcpStream) {
    from.write_all(&REQUEST).unwrap();
    let mut buffer = REQUEST;
    to.read_exact(&mut buffer).unwrap();
}

/// Poll for this time, and often enough to see what has come before it.
fn pause(session: &mut Session, time: Duration) {
    const LOOKS: usize = 3;
    let begun = Instant::now();
    let mut looks = 0;
    while begun.elapsed() < time || looks < LOOKS {
        session.poll(Duration::from_millis(10), &mut drop).unwrap();
        looks += 1;
    }
}
