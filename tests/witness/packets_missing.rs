//! Each packet that `pcap` does not write is counted, by the reason.

use std::thread;
use std::time::Duration;

use testbed::{Host, Link};
use with::pcap::Pcap;
use with::skip;

/// Send frames of IPv4 by a packet socket: DEVICE, then the bytes of each in hexadecimal digits.
const FRAMES: &str = "
import socket, sys
frames = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
for frame in sys.argv[2:]:
    frames.sendto(bytes.fromhex(frame), (sys.argv[1], 0x0800, 0, 0, b'\\xff' * 6))
";

/// Return the report of `pcap` about packets of a host that sends these frames.
fn said_of(frames: &[&str]) -> String {
    let hosts = [Host::new("a").unwrap(), Host::new("b").unwrap()];
    let link = Link::veth(&hosts[0], &hosts[1]).unwrap();
    let pcap = Pcap::start(&["--netns", hosts[0].netns_name()]);
    let arguments = [&["-c", FRAMES, link.interface_a()], frames].concat();
    hosts[0].run("python3", &arguments).unwrap();
    pcap.finish().1
}

#[test]
fn headers_that_are_cut_off_are_counted() {
    // Ten bytes of a header of 20, and a header of IP without that of UDP.
    let frames = [
        "45000014000000004011",
        "4500001c000000004011000001020304010203050001",
    ];
    let said = said_of(&[frames[0], frames[1], frames[0]]);
    assert!(
        said.contains("\nsockstamp: 3 packets are missing: their headers"),
        "{said}"
    );
    assert_eq!(said.matches("missing").count(), 1, "{said}");
}

#[test]
fn fragments_without_their_first_are_counted() {
    // At offsets 8 and 16 of a datagram.
    let frames = ["0001", "0002"]
        .map(|offset| format!("4500001c0007{offset}4011000001020304010203050000000000000000"));
    let said = said_of(&[&frames[0], &frames[1]]);
    assert!(
        said.contains("\nsockstamp: 2 packets are missing: they are fragments"),
        "{said}"
    );
    assert_eq!(said.matches("missing").count(), 1, "{said}");
}

#[test]
fn sockets_without_room_for_their_maker_are_counted() {
    let host = Host::new("a").unwrap();
    // Memory of sockets for options: what programs keep with a socket is charged there.
    if host.set_sysctl("net.core.optmem_max", "0").is_err() {
        let test = "packets_missing::sockets_without_room_for_their_maker_are_counted";
        return skip(test, "Linux 6.9 has this limit per namespace");
    }
    let pcap = Pcap::start(&["--netns", host.netns_name()]);
    let _sockets = [0; 4].map(|_| host.udp_bind("127.0.0.1:0".parse().unwrap()).unwrap());
    let (_, said) = pcap.finish();
    assert!(
        said.contains("\nsockstamp: 4 packets are missing: there was no room"),
        "{said}"
    );
}

#[test]
fn flows_that_are_forgotten_for_others_are_counted() {
    const FLOWS: u16 = 40_000;
    const ROOM: u64 = 32_768;
    let host = Host::new("a").unwrap();
    let pcap = Pcap::start(&["--netns", host.netns_name()]);
    let socket = host.udp_bind("127.0.0.1:0".parse().unwrap()).unwrap();
    for port in 1..=FLOWS {
        // Ports without a listener.
        socket.send_to(b"hello", ("127.0.0.1", port)).unwrap();
    }
    thread::sleep(Duration::from_millis(100));
    let (_, said) = pcap.finish();
    let line = said
        .lines()
        .find(|line| line.contains("flows were forgotten"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    let count: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    // The kernel makes room for some more than one at a time.
    assert!(
        (u64::from(FLOWS) - ROOM..u64::from(FLOWS) - ROOM / 2).contains(&count),
        "{line}"
    );
}
