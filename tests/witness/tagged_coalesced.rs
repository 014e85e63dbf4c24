//! The receiver does not merge segments with different options (GRO); tcpdump shows the merged
//! packets. An option in each segment prevents merging if segments are sent one by one; the copies
//! that TSO makes of it are equal. A tag is in one segment, and changes nothing.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::thread;

use sockstamp_bpf::probe;
use sockstamp_model::flow::NetnsInode;
use testbed::{Family, Host, Link};
use testbed_bpf::naive::Naive;
use with::capture::{Capture, Packet};
use with::recording::record;
use with::tagged::stop;

const BYTES: usize = 8_000_000;
const CHUNK: usize = 16_384;
/// Bytes of a full segment: what is left of 1500 by IP, TCP and its time stamps.
const SEGMENT: usize = 1_448;

/// The writer of options on the sender.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Options {
    /// Recorded without tags.
    None,
    Tags,
    Naive,
}

/// Packets as TCP makes them: of many segments, or of one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sent {
    Many,
    One,
}

/// Have a device keep segments for 200 µs, in case that more come. It is seen in a file system that
/// `ip netns exec` mounts.
fn wait_for_more(host: &Host, device: &str) {
    let write = format!("echo 200000 >/sys/class/net/{device}/gro_flush_timeout");
    let inside = ["netns", "exec", host.netns_name(), "sh", "-c", &write];
    let status = std::process::Command::new("ip")
        .args(inside)
        .status()
        .unwrap();
    assert!(status.success());
}

/// Send in bulk, and check the options. Return the packets with data that the receiver's stack got.
fn received(options: Options, sent: Sent) -> Vec<Packet> {
    let hosts = [Host::new("first").unwrap(), Host::new("second").unwrap()];
    let link = Link::veth(&hosts[0], &hosts[1]).unwrap();
    link.coalesce().unwrap();
    if sent == Sent::One {
        let most = [
            "link",
            "set",
            "dev",
            link.interface_a(),
            "gso_max_segs",
            "1",
        ];
        hosts[0].run("ip", &most).unwrap();
        wait_for_more(&hosts[1], link.interface_b());
    }
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("recording");
    let recorder = (options != Options::Naive).then(|| {
        let tags = (options == Options::Tags).then_some("--tag");
        let options: Vec<&str> = ["--sample", "2^16"].into_iter().chain(tags).collect();
        record(&path, &hosts[0], &options)
    });
    let naive = (options == Options::Naive).then(|| {
        let root = probe::facts().cgroup2.unwrap();
        let netns = NetnsInode(hosts[0].netns_inode().try_into().unwrap());
        Naive::attach(&root, Some(netns)).unwrap()
    });
    let capture = Capture::start(&hosts[1], link.interface_b(), "tcp dst port 7000");
    let address = std::net::SocketAddr::new(link.address_b(Family::V4), 7000);
    let listener = hosts[1].tcp_listen(address).unwrap();
    let mut client = hosts[0].tcp_connect(address).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let sending = thread::spawn(move || {
        for _ in 0..BYTES / CHUNK {
            client.write_all(&[1; CHUNK]).unwrap();
        }
    });
    let mut read = 0;
    let mut room = vec![0; 1 << 18];
    while let Ok(length @ 1..) = server.read(&mut room) {
        read += length;
    }
    sending.join().unwrap();
    assert_eq!(read, BYTES / CHUNK * CHUNK, "{options:?}");
    let packets = capture.finish();
    drop(naive);
    let said = recorder.map(stop).unwrap_or_default();
    assert_eq!(said.contains("tags:"), options == Options::Tags, "{said}");
    options_are(&packets, options, &said);
    packets
        .into_iter()
        .filter(|packet| packet.length > 0)
        .collect()
}

/// Check who wrote options into these packets, and what the recorder said of tags.
fn options_are(packets: &[Packet], options: Options, said: &str) {
    let with_data = packets.iter().filter(|packet| packet.length > 0);
    let naive = with_data
        .clone()
        .filter(|packet| packet.tcp.unwrap().is_naive);
    // The packet may be the end of the handshake, which has no data.
    let tagged = packets
        .iter()
        .filter(|packet| packet.tcp.unwrap().tag.is_some());
    let counts = (naive.count(), tagged.count());
    match options {
        Options::None => assert_eq!(counts, (0, 0)),
        // A packet that is full when its turn comes has no room for the only tag.
        Options::Tags if said.contains("written 0, read 0, changed 0, without room 1,") => {
            assert_eq!(counts, (0, 0), "{said}");
        }
        Options::Tags => assert_eq!(counts, (0, 1), "one packet has the tag: {said}"),
        Options::Naive => assert_eq!(counts, (with_data.count(), 0)),
    }
}

/// Return the numbers of segments in the packets that the stack gets.
fn segments(options: Options, sent: Sent) -> Vec<usize> {
    let packets = received(options, sent);
    let segments: Vec<usize> = packets
        .iter()
        .map(|packet| (packet.length as usize).div_ceil(SEGMENT))
        .collect();
    let together = segments.iter().filter(|count| **count > 1).count();
    println!(
        "{options:?}, packets of {sent:?}: {} segments in {} packets, {together} of several",
        segments.iter().sum::<usize>(),
        packets.len(),
    );
    segments
}

/// The number of segments that come together depends on time; whether any do, does not. All but one
/// of a tagged stream are equal, as without tags.
#[test]
fn tags_leave_segments_together_that_an_option_in_each_keeps_apart() {
    let are_together = |options| segments(options, Sent::One).iter().any(|count| *count > 1);
    let all = [Options::None, Options::Tags, Options::Naive];
    assert_eq!(all.map(are_together), [true, true, false]);
}

#[test]
fn the_copies_of_an_option_that_tso_makes_are_put_together() {
    let naive = segments(Options::Naive, Sent::Many);
    let together = naive.iter().sum::<usize>() > 2 * naive.len();
    assert!(together, "copies of one option were kept apart: {naive:?}");
}
