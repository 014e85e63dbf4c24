//! Recordings survive what happens to files.

mod any;
mod cut_off;
mod foreign;
mod hostile;
mod places;

use std::error::Error as _;
use std::fs::{self, Permissions};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::container::{Container, Runtime};
use sockstamp_model::fixture::Traffic;
use sockstamp_model::flow::{CgroupId, Flow, NetnsInode, Opened, Protocol, SocketCookie};
use sockstamp_model::interface::Interface;
use sockstamp_model::message::{Interfaces, Message, Stamps};
use sockstamp_model::name::Name;
use sockstamp_model::part::{Part, PartMap};
use sockstamp_model::stage::{Direction, Stage, StageMap};
use sockstamp_model::unpaired::Unpaired;
use sockstamp_model::verdict::Verdict;
use sockstamp_record::recover::{has_footer, recover};
use sockstamp_record::schema::{Kind, columns};
use sockstamp_record::{Batch, Error, Reader, Rows, Writer};
use tempfile::{TempDir, tempdir};

fn message(number: u64) -> Message {
    Message {
        direction: Direction::Tx,
        flow: Flow {
            netns: NetnsInode(4_026_531_840),
            protocol: Protocol::Tcp,
            local: "10.0.0.1:443".parse().unwrap(),
            remote: "10.0.0.2:50000".parse().unwrap(),
            cookie: SocketCookie(number % 3),
        },
        cgroup: CgroupId(1),
        container: None,
        opened: None,
        group: None,
        pid: 1,
        comm: Name::from("redis-server"),
        cpu: None,
        bytes: number,
        weight: 1,
        retransmits: 0,
        repeats: 0,
        coalesced: false,
        ack_with_data: true,
        unpaired: None,
        min_rtt: None,
        clock_error: None,
        nic_bound: None,
        seq_end: 5,
        stages: StageMap::from_fn(|stage| (stage == Stage::TxCopy).then_some(Nanos(number))),
        parts: PartMap::from_fn(|part| (part == Part::Copy).then_some(Nanos(number))),
        stamps: Stamps::default(),
        oldest_age: None,
        time: Timestamp::from_nanos(1_790_000_000_000_000_000 + number),
        interfaces: Interfaces::default(),
        verdict: Verdict::Valid,
    }
}

fn batch(messages: &[Message]) -> Batch {
    let mut batch = Batch::new();
    messages.iter().for_each(|message| batch.push(message));
    batch
}

fn read(path: &Path) -> Result<Vec<Message>, Error> {
    Reader::open(path)?.messages().collect()
}

/// Write row groups of ten messages each; return the file's directory, and its length after each.
fn written(groups: u64) -> (TempDir, Vec<u64>) {
    let directory = tempdir().unwrap();
    let mut writer = Writer::create(
        &directory.path().join("file"),
        &[("host", "here".to_owned())],
    )
    .unwrap();
    let mut lengths = Vec::new();
    for group in 0..groups {
        let messages: Vec<_> = (group * 10..group * 10 + 10).map(message).collect();
        writer.write(&batch(&messages)).unwrap();
        lengths.push(writer.bytes());
    }
    let (rows, length) = writer.finish().unwrap();
    assert_eq!(rows, groups * 10);
    assert!(
        lengths.iter().all(|&group| group < length),
        "{lengths:?} {length}"
    );
    (directory, lengths)
}

/// Order messages as no file does: by all that they are.
fn sorted(mut messages: Vec<Message>) -> Vec<Message> {
    messages.sort_by_cached_key(|message| format!("{message:?}"));
    messages
}

#[test]
fn messages_of_a_flow_keep_their_order() {
    let (directory, _) = written(2);
    let read = read(&directory.path().join("file")).unwrap();
    for flow in 0..3 {
        let bytes: Vec<_> = read
            .iter()
            .filter(|message| message.flow.cookie.0 == flow)
            .map(|message| message.bytes)
            .collect();
        assert!(bytes.is_sorted(), "{bytes:?}");
    }
}

#[test]
fn names_that_are_not_utf8_have_the_text_that_json_has() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    let mut writer = Writer::create(&path, &[]).unwrap();
    let mut hostile = message(1);
    hostile.comm = Name::from(&b"\xff\x1b]0;x"[..]);
    writer.write(&batch(&[hostile])).unwrap();
    drop(writer);
    assert_eq!(read(&path).unwrap()[0].comm, Name::from("\\xff\x1b]0;x"));
}

#[test]
fn a_message_of_real_traffic_takes_at_most_24_bytes() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    let mut writer = Writer::create(&path, &[]).unwrap();
    let mut batch = Batch::new();
    let mut traffic = Traffic::default();
    while !batch.is_full() {
        batch.push(&traffic.next().unwrap());
    }
    writer.write(&batch).unwrap();
    let (rows, bytes) = writer.finish().unwrap();
    let per_message = bytes as f64 / rows as f64;
    eprintln!("{per_message:.2} bytes per message");
    // docs/recordings.md has the figure.
    assert!((17.8..18.8).contains(&per_message), "{per_message}");
    // All of it is there.
    let expected: Vec<_> = Traffic::default().take(batch.len()).collect();
    let mut found = read(&path).unwrap();
    found.sort_by_key(|message| message.time);
    assert!(found == expected);
}
