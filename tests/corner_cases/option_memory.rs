//! State in sockets is paid from the memory that a socket has for options, and so are sends without
//! a copy until they are complete: 20 kB before Linux 6.8 (`sock_omalloc()`, net/core/sock.c).

use std::net::{IpAddr, SocketAddr};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::SndBufForce;
use socket2::SockRef;
use sockstamp::zerocopy::{Options, ZeroCopySender};
use testbed::{Family, Host, Link};
use with::traced_hosts::Connection;
use with::{Stat, number};

/// Larger than what two calls of TCP may share (`msg_zerocopy_realloc()`, net/core/skbuff.c).
const OF_TCP: usize = 400_000;
const OF_UDP: usize = 100;
/// More than any kernel has memory for.
const MANY: usize = 2000;

/// Return how many sends without a copy the kernel takes before the first is complete.
fn taken(socket: &SockRef<'_>, bytes: usize) -> usize {
    socket.set_nonblocking(true).unwrap();
    ZeroCopySender::<_, Vec<u8>>::new(&**socket, Options::default()).unwrap();
    let data = vec![7; bytes];
    for count in 0..MANY {
        match socket.send_with_flags(&data, libc::MSG_ZEROCOPY) {
            Ok(sent) => assert_eq!(sent, bytes, "after {count}"),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ENOBUFS), "{error}");
                return count;
            }
        }
    }
    panic!("{MANY} sends were taken");
}

/// The peer does not read.
fn taken_of_tcp(host: &Host) -> usize {
    let connection = Connection::new(host, host, [127, 0, 0, 1].into());
    let socket = SockRef::from(&connection.client);
    setsockopt(&connection.client, SndBufForce, &(100 << 20)).unwrap();
    // The state comes with the first message.
    socket.send(&[7]).unwrap();
    taken(&socket, OF_TCP)
}

/// No host has the address, so packets wait.
fn taken_of_udp(host: &Host, link: &Link) -> usize {
    let IpAddr::V4(peer) = link.address_b(Family::V4) else {
        unreachable!("asked for IPv4");
    };
    let mut nobody = peer.octets();
    nobody[3] ^= 0x10;
    let here = SocketAddr::new(link.address_a(Family::V4), 0);
    let socket = host.udp_bind(here).unwrap();
    // The state comes with the first packet.
    socket
        .send_to(&[7], SocketAddr::new(peer.into(), 7))
        .unwrap();
    socket.connect(SocketAddr::new(nobody.into(), 7)).unwrap();
    taken(&SockRef::from(&socket), OF_UDP)
}

#[test]
fn sends_without_a_copy_find_almost_as_much_memory_by_tcp_and_half_of_it_by_udp() {
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::veth(&a, &b).unwrap();
    // Before Linux 6.8 it is of the whole host, and has this value.
    let _ = a.set_sysctl("net.core.optmem_max", "20480");
    let alone = [taken_of_tcp(&a), taken_of_udp(&a, &link)];
    let stat = Stat::start(&["--netns", a.netns_name()]);
    let measured = [taken_of_tcp(&a), taken_of_udp(&a, &link)];
    let report = stat.finish();
    println!("{alone:?} sends alone, {measured:?} measured");
    assert!(number(&report["tx"]["messages"]) > 0, "{report}");
    assert!(
        measured[0] * 10 >= alone[0] * 9,
        "TCP: {measured:?} of {alone:?}"
    );
    assert!(
        measured[1] * 2 >= alone[1],
        "UDP: {measured:?} of {alone:?}"
    );
}
