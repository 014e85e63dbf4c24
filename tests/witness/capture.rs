//! The parser of captures, against tcpdump itself.

use std::io::{Read, Write};
use std::net::SocketAddr;

use testbed::{Host, Link};
use with::capture::{Capture, TCP, UDP};
use with::{FAMILIES, clock};

/// One packet of each kind, as tcpdump prints it too.
#[test]
fn a_parsed_capture_equals_tcpdumps_output() {
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::veth(&a, &b).unwrap();
    let capture = Capture::start(&b, link.interface_b(), "tcp or udp");
    let begun = clock::now();
    for family in FAMILIES {
        let to = SocketAddr::new(link.address_b(family), 0);
        let receiver = b.udp_bind(to).unwrap();
        let sender = a
            .udp_bind(SocketAddr::new(link.address_a(family), 0))
            .unwrap();
        sender
            .send_to(&[7; 3000], receiver.local_addr().unwrap())
            .unwrap();
        receiver.recv(&mut [0; 3000]).unwrap();
        let listener = b.tcp_listen(to).unwrap();
        let client = a.tcp_connect(listener.local_addr().unwrap()).unwrap();
        (&client).write_all(b"hello").unwrap();
        let (server, _) = listener.accept().unwrap();
        (&server).read_exact(&mut [0; 5]).unwrap();
    }
    let ended = clock::now();
    let path = capture.file().to_str().unwrap();
    let printed = a.run("tcpdump", &["-r", path, "-nn", "-q"]).unwrap();
    let packets = capture.finish();

    assert!(
        packets
            .iter()
            .all(|packet| (begun..ended + 1_000_000).contains(&packet.time))
    );
    for family in FAMILIES {
        let of = |protocol| {
            let packets = packets
                .iter()
                .filter(move |packet| packet.family == family && packet.protocol == protocol);
            packets.collect::<Vec<_>>()
        };
        let fragments = of(UDP);
        assert_eq!(
            fragments.iter().map(|packet| packet.length).sum::<u32>(),
            3000,
            "{fragments:?}"
        );
        assert!(fragments.iter().all(|packet| packet.id == fragments[0].id));
        assert_eq!(fragments[0].payload[..10], [7; 10]);
        let last = fragments.last().unwrap().fragment.unwrap();
        assert!(!last.more && last.offset > 0, "{fragments:?}");
        let segments = of(TCP);
        let syn = segments[0].tcp.unwrap();
        assert_eq!(syn.flags, 2, "{segments:?}");
        let data = segments.iter().find(|packet| packet.length > 0).unwrap();
        assert_eq!(data.payload, b"hello");
        assert_eq!(data.tcp.unwrap().seq, syn.seq.wrapping_add(1));
        let line = format!(
            "{}.{} > {}.{}: tcp 5",
            data.source.ip(),
            data.source.port(),
            data.destination.ip(),
            data.destination.port()
        );
        assert!(printed.contains(&line), "no {line} in {printed}");
    }
}
