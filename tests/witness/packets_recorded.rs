//! The packets of `record --packets`, against tcpdump and the messages of the same recording.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sockstamp_model::flow::Protocol;
use sockstamp_model::message::Message;
use sockstamp_model::packet::Way;
use sockstamp_model::stage::Direction;
use sockstamp_record::{PacketReader, Reader};
use tempfile::{NamedTempFile, TempDir, tempdir};
use testbed::{Family, Host, Link, Process, within_attempts};
use with::capture::Capture;
use with::guarded::Excuses;
use with::kernel_counts::wait_closed;
use with::pcap::{compare, fields, read, send};
use with::{end, sockstamp, start};

/// `sockstamp record --packets` in the background.
struct Recording {
    process: Process,
    directory: TempDir,
}

impl Recording {
    fn start(target: &[&str]) -> Self {
        let directory = tempdir().unwrap();
        let output = directory.path().join("file.parquet");
        let words = ["record", "--every", "--max-cost=none", "--packets", "-o"];
        let process = start(&[&words[..], &[output.to_str().unwrap()], target].concat());
        Self { process, directory }
    }

    /// End it. Return its messages, its packets, and its file.
    fn finish(self) -> (Vec<Message>, Vec<Way>, TempDir) {
        let said = end(self.process).stderr();
        assert!(!said.contains("missing"), "{said}");
        let [messages, packets] =
            ["file.parquet", "file.packets"].map(|name| self.directory.path().join(name));
        let messages = Reader::open(&messages)
            .unwrap()
            .messages()
            .collect::<Result<_, _>>();
        let packets = PacketReader::open(&packets)
            .unwrap()
            .ways()
            .collect::<Result<_, _>>();
        (messages.unwrap(), packets.unwrap(), self.directory)
    }
}

/// Write the packets of a recording as pcapng.
fn pcap(recording: &Path, options: &[&str]) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let mut command = Command::new(sockstamp());
    command
        .args(["pcap", "-r"])
        .arg(recording)
        .arg("-w")
        .arg(file.path())
        .args(options);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    file
}

fn payload(way: &Way) -> u64 {
    way.packet
        .headers()
        .map_or(0, |headers| headers.payload.into())
}

/// Return the message that a packet names.
fn named<'a>(messages: &'a [Message], way: &Way) -> Option<&'a Message> {
    let name = way.message?;
    let is_it = |message: &&Message| {
        (message.flow.cookie, message.time) == (name.cookie, name.time)
            && message.direction == way.packet.direction
    };
    messages.iter().find(is_it)
}

#[test]
fn a_recording_has_the_packets_of_tcpdump_with_their_messages() {
    let hosts = [Host::new("a").unwrap(), Host::new("b").unwrap()];
    let hosts = [&hosts[0], &hosts[1]];
    let link = Link::veth(hosts[0], hosts[1]).unwrap();
    within_attempts(|| {
        let recording = Recording::start(&["--netns", hosts[0].netns_name()]);
        let capture = Capture::start(hosts[0], link.interface_a(), "tcp");
        send(&link, hosts, Family::V4, &[100, 5000, 200_000]);
        hosts.into_iter().for_each(wait_closed);
        let seen = capture.finish();
        let (messages, ways, directory) = recording.finish();
        let sent = ways
            .iter()
            .filter(|way| way.packet.direction == Direction::Tx && payload(way) > 0);
        let mut carried: BTreeMap<u32, u64> = BTreeMap::new();
        for way in sent {
            let message = named(&messages, way).unwrap_or_else(|| panic!("{way:?}"));
            assert_eq!(Some(message.seq_end), way.message.unwrap().seq_end);
            *carried.entry(message.seq_end).or_default() += payload(way);
        }
        // By the sizes of the test's own writes.
        let mut sizes: Vec<_> = carried.into_values().collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [100, 5000, 200_000]);
        let file = directory.path().join("file.parquet");
        let plain = pcap(&file, &[]);
        compare(&seen, &read(plain.path()), Excuses::default())?;
        let all = pcap(&file, &["--all-stages"]);
        let rows = fields(all.path(), ["frame.time_epoch", "frame.comment"]);
        assert!(rows.len() > seen.len(), "{} of {}", rows.len(), seen.len());
        assert!(
            rows.is_sorted_by(|before, after| before[0] <= after[0]),
            "{rows:?}"
        );
        let of_messages = rows
            .iter()
            .filter(|row| row[1].contains(" message_cookie=") && row[1].contains(" seq_end="));
        assert!(of_messages.count() >= 6, "{rows:?}");
        Ok(())
    });
}

/// Each datagram has its own size, so that the test knows which message it is.
#[test]
fn packets_of_udp_name_their_messages() {
    let hosts = [Host::new("a").unwrap(), Host::new("b").unwrap()];
    let link = Link::veth(&hosts[0], &hosts[1]).unwrap();
    let bind = |host: &Host, ip| host.udp_bind(SocketAddr::new(ip, 0)).unwrap();
    let client = bind(&hosts[0], link.address_a(Family::V4));
    let server = bind(&hosts[1], link.address_b(Family::V4));
    client.connect(server.local_addr().unwrap()).unwrap();
    let sizes = [10, 1200, 3000, 9000].into_iter().chain(100..160);
    let sizes: Vec<usize> = sizes.collect();
    let recording = Recording::start(&[
        "--expert=attach=all",
        "--netns",
        hosts[0].netns_name(),
        "udp",
    ]);
    for &size in &sizes {
        let mut buffer = vec![7; 10_000];
        client.send(&buffer[..size]).unwrap();
        let (length, from) = server.recv_from(&mut buffer).unwrap();
        server.send_to(&buffer[..length], from).unwrap();
        client.recv(&mut buffer).unwrap();
    }
    let (messages, ways, directory) = recording.finish();
    for direction in Direction::ALL {
        let of = |message: &&Message| message.direction == direction;
        assert_eq!(messages.iter().filter(of).count(), sizes.len());
        let ways = ways.iter().filter(|way| way.packet.direction == direction);
        for way in ways.filter(|way| way.packet.flow.protocol == Protocol::Udp) {
            let headers = way.packet.headers().unwrap();
            let message = named(&messages, way);
            let message = message.unwrap_or_else(|| panic!("no message: {way:?}"));
            match headers.fragment {
                None => assert_eq!(message.bytes, payload(way), "{way:?}"),
                Some(offset) => assert!(
                    message.bytes >= u64::from(offset) + payload(way) - 8,
                    "{way:?}"
                ),
            }
        }
    }
    let rows = fields(
        pcap(&directory.path().join("file.parquet"), &[]).path(),
        ["frame.comment"],
    );
    assert!(
        rows.iter()
            .all(|[comment]| comment.contains(" message_time_ns=")),
        "{rows:?}"
    );
}

#[test]
fn packets_of_a_recording_that_is_killed_can_be_read() {
    let hosts = [Host::new("a").unwrap(), Host::new("b").unwrap()];
    let link = Link::veth(&hosts[0], &hosts[1]).unwrap();
    let mut recording = Recording::start(&["--netns", hosts[0].netns_name()]);
    let file = recording.directory.path().join("file.packets");
    let begun = Instant::now();
    while PacketReader::open(&file).unwrap().rows() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        send(&link, [&hosts[0], &hosts[1]], Family::V4, &[100; 10]);
        thread::sleep(Duration::from_millis(50));
    }
    recording.process.signal(Signal::SIGKILL).unwrap();
    recording
        .process
        .wait_status(Duration::from_secs(60))
        .unwrap();
    let rows = PacketReader::open(&file).unwrap().ways().count();
    assert!(rows > 0);
    // Its messages are another file.
    let told = Command::new(sockstamp())
        .arg("report")
        .arg(&file)
        .output()
        .unwrap();
    let told = String::from_utf8(told.stderr).unwrap();
    assert!(told.contains("no recording of sockstamp"), "{told}");
    // Cut anywhere.
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    let read = PacketReader::open(&file).unwrap().ways().count();
    assert!(read <= rows);
}
