//! Sockets that the kernel always copies from: raw and packet sockets.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::bind;
use socket2::{Domain, Protocol, Socket, Type};
use sockstamp::zerocopy::{Sent, Support, ZeroCopySender};
use testbed::{Host, PATIENCE};

use crate::common::{LOOPBACKS, always};

/// A protocol number for experiments (RFC 3692), which has no listener.
const PROTOCOL: i32 = 253;

/// Connected to its own host.
fn raw(address: IpAddr) -> Socket {
    let address = SocketAddr::new(address, 0);
    let socket = Socket::new(
        Domain::for_address(address),
        Type::RAW,
        Some(Protocol::from(PROTOCOL)),
    )
    .unwrap();
    socket.connect(&address.into()).unwrap();
    socket
}

/// Bound to the loopback interface.
fn packet(kind: Type) -> Socket {
    let socket = Socket::new(Domain::PACKET, kind, None).unwrap();
    let loopback = getifaddrs()
        .unwrap()
        .filter(|interface| interface.flags.contains(InterfaceFlags::IFF_LOOPBACK))
        .find_map(|interface| interface.address?.as_link_addr().copied())
        .unwrap();
    bind(socket.as_raw_fd(), &loopback).unwrap();
    socket
}

/// All that passes the host.
fn listener() -> Socket {
    let all = Protocol::from(i32::from(u16::try_from(libc::ETH_P_ALL).unwrap().to_be()));
    let listener = Socket::new(Domain::PACKET, Type::RAW, Some(all)).unwrap();
    listener.set_read_timeout(Some(PATIENCE)).unwrap();
    listener
}

/// The kind of the socket is found before anything of it is changed, and its messages are sent as
/// copies.
fn assert_copies(socket: Socket, message: Vec<u8>) {
    let mut listener = listener();
    let mut sender = ZeroCopySender::new(&socket, always()).unwrap();
    assert_eq!(sender.support(), Support::Unsupported);
    assert!(!sender.lends(message.len()));
    let payload = message[message.len() - 64..].to_vec();
    assert_eq!(sender.send(message.clone()).unwrap(), Sent::Copied(message));
    assert_eq!(
        (sender.counters().lent, sender.counters().not_asked),
        (0, 1)
    );
    let mut bytes = [0; 1000];
    let read = listener.read(&mut bytes).unwrap();
    assert!(bytes[..read].ends_with(&payload));
}

fn message() -> Vec<u8> {
    (0..200).collect()
}

#[test]
fn raw_sockets_copy() {
    let host = Host::new("raw").unwrap();
    for address in LOOPBACKS {
        host.enter(|| assert_copies(raw(address), message()));
    }
}

#[test]
fn raw_sockets_whose_sender_writes_the_header_copy() {
    let host = Host::new("header").unwrap();
    let mut packet = message();
    packet[..20].copy_from_slice(&[
        0x45, 0, 0, 200, 0, 1, 0, 0, 64, 253, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1,
    ]);
    host.enter(|| {
        let socket = raw(LOOPBACKS[0]);
        socket.set_header_included_v4(true).unwrap();
        assert_copies(socket, packet);
    });
}

#[test]
fn packet_sockets_copy() {
    let host = Host::new("packet").unwrap();
    for kind in [Type::RAW, Type::DGRAM] {
        host.enter(|| assert_copies(packet(kind), message()));
    }
}
