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

use crate::capture::{Capture, Packet};
use crate::common::{self, hooks};
use crate::tagged::stop;

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
    let status = std::process::Command::new("ip").args(inside).status().unwrap();
    assert!(status.success());
}

/// Send in bulk. Return the packets with data that the receiver's stack got.
fn received(options: Options, sent: Sent) -> Vec<Packet> {
    let hosts = [Host::new("first").unwrap(), Host::new("second").unwrap()];
    let link = Link::veth(&hosts[0], &hosts[1]).unwrap();
    link.coalesce().unwrap();
    if sent == Sent::One {
        let most = ["link", "set", "dev", link.interface_a(), "gso_max_segs", "1"];
        hosts[0].run("ip", &most).unwrap();
        wait_for_more(&hosts[1], link.interface_b());
    }
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("recording");
    let recorder = (options != Options::Naive).then(|| {
        let mut command = std::process::Command::new(common::sockstamp());
        command.args(["record", "--in-step", "2^16", "-o"]).arg(&path);
        command.args((options == Options::Tags).then_some("--tag"));
        command.args(hooks()).args(["--netns", hosts[0].netns_name()]);
        let mut process = testbed::Process::spawn(command).unwrap();
        common::wait_attached(&mut process);
        process
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
    packets.into_iter().filter(|packet| packet.length > 0).collect()
}

/// Return how many segments a packet has that the stack gets.
fn segments(options: Options, sent: Sent) -> f64 {
    let packets = received(options, sent);
    let naive = packets.iter().filter(|packet| packet.tcp.unwrap().is_naive);
    let naive = naive.count();
    assert_eq!(
        naive,
        if options == Options::Naive {
            packets.len()
        } else {
            0
        }
    );
    let bytes: usize = packets.iter().map(|packet| packet.length as usize).sum();
    #[expect(clippy::cast_precision_loss, reason = "some millions")]
    let segments = bytes as f64 / SEGMENT as f64 / packets.len() as f64;
    println!("{options:?}, packets of {sent:?}: {segments:.1} segments together");
    segments
}

#[test]
fn tags_leave_segments_together_that_an_option_in_each_keeps_apart() {
    testbed::within_attempts(|| {
        let all = [Options::None, Options::Tags, Options::Naive];
        let [none, tags, naive] = all.map(|options| segments(options, Sent::One));
        assert!(naive < 1.1, "different options were put together: {naive}");
        // The length of a row varies from run to run.
        match none > 2.0 && tags > none * 0.5 {
            true => Ok(()),
            false => Err(format!("{none} segments together, {tags} with tags")),
        }
    });
}

#[test]
fn the_copies_of_an_option_that_tso_makes_are_put_together() {
    let naive = segments(Options::Naive, Sent::Many);
    assert!(naive > 2.0, "copies of one option were kept apart: {naive}");
}
