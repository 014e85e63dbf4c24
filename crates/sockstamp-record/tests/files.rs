//! Recordings survive what happens to files.

use std::error::Error as _;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{MetadataExt, symlink};
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

fn durations() -> impl Strategy<Value = Option<Nanos>> {
    let nanos = prop_oneof![0..2_u64, 100..100_000_u64, any::<u64>()];
    proptest::option::of(nanos.prop_map(Nanos))
}

fn stamps() -> impl Strategy<Value = Stamps> {
    proptest::collection::vec(proptest::option::of(any::<u64>()), 12).prop_map(|nanos| {
        let stamp = |index: usize| nanos[index].map(Timestamp::from_nanos);
        Stamps {
            entry: stamp(0),
            queued: stamp(1),
            sched: stamp(2),
            sched_last: stamp(3),
            snd: stamp(4),
            snd_last: stamp(5),
            snd_hw: nanos[11].map(Timestamp::from_nanos),
            ack: stamp(6),
            rx_software: stamp(7),
            filled: stamp(8),
            ready: stamp(9),
            read: stamp(10),
        }
    })
}

fn addresses() -> impl Strategy<Value = SocketAddr> {
    (any::<IpAddr>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip.to_canonical(), port))
}

fn interfaces() -> impl Strategy<Value = Option<Interface>> {
    proptest::option::of((".{0,15}", any::<u32>(), any::<u32>()).prop_map(
        |(name, index, netns)| Interface {
            name: name.into(),
            index,
            netns: NetnsInode(netns),
        },
    ))
}

prop_compose! {
    fn flows()(
        netns in any::<u32>(), udp in any::<bool>(), local in addresses(), remote in addresses(),
        cookie in any::<u64>(),
    ) -> Flow {
        let protocol = if udp { Protocol::Udp } else { Protocol::Tcp };
        Flow { netns: NetnsInode(netns), protocol, local, remote, cookie: SocketCookie(cookie) }
    }
}

fn containers() -> impl Strategy<Value = Option<Arc<Container>>> {
    let container = (
        "[0-9a-f]{64}",
        any::<bool>(),
        proptest::option::of(any::<u32>()),
    );
    let container = container.prop_map(|(id, is_service, user)| Container {
        runtime: if is_service {
            Runtime::Systemd
        } else {
            Runtime::Docker
        },
        id: if is_service {
            format!("{}.service", &id[..9])
        } else {
            id
        },
        user,
    });
    proptest::option::of(container.prop_map(Arc::new))
}

prop_compose! {
    fn identities()(
        tx in any::<bool>(), flow in flows(), cgroup in any::<u64>(), pid in any::<u32>(),
        comm in ".{0,15}",
        first in interfaces(), last in interfaces(), verdict in 0..Verdict::COUNT,
        container in containers(), opened in proptest::option::of(any::<bool>()),
        cpu in proptest::option::of(any::<u16>()),
        unpaired in proptest::option::of(0..Unpaired::COUNT),
    ) -> Message {
        let mut message = message(0);
        message.container = container;
        message.opened = opened.map(|accepted| Opened::ALL[usize::from(accepted)]);
        message.cpu = cpu;
        message.unpaired = unpaired.map(|reason| Unpaired::ALL[reason]);
        message.direction = if tx { Direction::Tx } else { Direction::Rx };
        message.flow = flow;
        message.cgroup = CgroupId(cgroup);
        message.pid = pid;
        message.comm = comm.into();
        message.interfaces = Interfaces { first, last };
        message.verdict = Verdict::ALL[verdict];
        message
    }
}

prop_compose! {
    fn messages()(
        identity in identities(),
        numbers in (
            any::<u64>(), 1..=u32::MAX, any::<u32>(), any::<u32>(), any::<u32>(),
            0..=i64::MAX.cast_unsigned(),
        ),
        flags in any::<[bool; 2]>(),
        rtt in durations(), error in durations(), older in durations(), stamps in stamps(),
        stages in proptest::collection::vec(durations(), Stage::COUNT),
        parts in proptest::collection::vec(durations(), Part::COUNT),
    ) -> Message {
        let mut message = identity;
        (message.bytes, message.weight, message.retransmits, ..) = numbers;
        (.., message.repeats, message.seq_end, _) = numbers;
        message.time = Timestamp::from_nanos(numbers.5);
        [message.coalesced, message.ack_with_data] = flags;
        (message.min_rtt, message.clock_error) = (rtt, error);
        message.stages = StageMap::from_fn(|stage| stages[stage as usize]);
        message.parts = PartMap::from_fn(|part| parts[part as usize].filter(|_| !part.is_rest()));
        complete(&mut message);
        message.oldest_age = older;
        message.stamps = stamps;
        message
    }
}

/// Add the parts that are the rest of their stage, as messages of the kernel have them.
fn complete(message: &mut Message) {
    for rest in Part::ALL.into_iter().filter(|part| part.is_rest()) {
        let others: Nanos = message.parts.of(rest.stage()).map(|(_, part)| *part).sum();
        let stage = message.stages[rest.stage()].filter(|_| message.verdict.is_valid());
        message.parts[rest] = stage.map(|stage| stage.saturating_sub(others));
    }
}

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn messages_are_read_as_they_were_written(
        some in proptest::collection::vec(
            messages(),
            0..20,
        ), more in proptest::collection::vec(messages(), 1..5),
    ) {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        let mut writer = Writer::create(&path, &[]).unwrap();
        let mut reused = batch(&some);
        writer.write(&reused).unwrap();
        reused.clear();
        more.iter().for_each(|message| reused.push(message));
        writer.write(&reused).unwrap();
        writer.finish().unwrap();
        let all: Vec<_> = some.into_iter().chain(more).collect();
        prop_assert_eq!(sorted(read(&path).unwrap()), sorted(all));
    }
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
fn a_file_cut_off_anywhere_has_the_row_groups_before() {
    let (directory, lengths) = written(2);
    let path = directory.path().join("file");
    let whole = fs::read(&path).unwrap();
    let cut = directory.path().join("cut");
    // The bytes of the first row group are of the same kinds as those of the second.
    let first = usize::try_from(lengths[0]).unwrap();
    for length in (0..first).step_by(7).chain(first - 1..=whole.len()) {
        fs::write(&cut, &whole[..length]).unwrap();
        let groups = lengths.iter().filter(|&&end| end <= length as u64).count();
        match Reader::open(&cut) {
            Ok(reader) => assert_eq!(reader.rows(), 10 * groups as u64, "{length}"),
            Err(Error::NoFooter { .. }) => assert_eq!(groups, 0, "{length}"),
            Err(error) => panic!("{length}: {error}"),
        }
    }
}

#[test]
fn recover_cuts_bytes_after_the_last_row_group() {
    let (directory, lengths) = written(3);
    let path = directory.path().join("file");
    let whole = fs::read(&path).unwrap();
    assert_eq!(recover(&path).unwrap().after, whole.len() as u64);
    assert_eq!(fs::read(&path).unwrap(), whole);
    // Within the footer: the notes make the same.
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(recover(&path).unwrap().rows, 30);
    let again = fs::read(&path).unwrap();
    let notes = usize::try_from(lengths[2]).unwrap();
    assert!(again[..notes] == whole[..notes] && again.ends_with(b"PAR1"));
    // Within the third row group.
    let two = usize::try_from(lengths[1]).unwrap();
    fs::write(&path, &whole[..two + 1]).unwrap();
    let recovered = recover(&path).unwrap();
    assert_eq!(
        (recovered.rows, recovered.before, recovered.cut),
        (20, lengths[1] + 1, 1)
    );
    let cut = fs::read(&path).unwrap();
    assert_eq!(cut.len() as u64, recovered.after);
    assert!(cut[..two] == whole[..two]);
    // Other readers look for the footer of Parquet at the end.
    assert!(cut.ends_with(b"PAR1") && whole.ends_with(b"PAR1"));
    assert!(!whole[..two].ends_with(b"PAR1"));
    let read = read(&path).unwrap();
    assert_eq!(sorted(read), sorted((0..20).map(message).collect()));
    fs::write(&path, &whole[..100]).unwrap();
    assert!(matches!(
        recover(&path),
        Err(Error::NoFooter { length: 100, .. })
    ));
}

#[test]
fn a_file_that_is_written_is_neither_recovered_nor_written_by_another() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    let mut writer = Writer::create(&path, &[]).unwrap();
    writer.write(&batch(&[message(1)])).unwrap();
    let before = fs::read(&path).unwrap();
    for error in [
        recover(&path).unwrap_err(),
        Writer::create(&path, &[]).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Busy { .. }), "{error}");
        let told = error.to_string();
        assert!(told.ends_with("file is still being recorded"), "{told}");
    }
    assert_eq!(fs::read(&path).unwrap(), before);
    writer.write(&batch(&[message(2)])).unwrap();
    writer.finish().unwrap();
    assert_eq!(recover(&path).unwrap().rows, 2);
}

#[test]
fn a_new_file_takes_the_place_of_none_but_an_empty_one() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "a recording").unwrap();
    let error = Writer::create(&path, &[]).unwrap_err();
    let expected = format!("{} exists: name another, or remove it", path.display());
    assert_eq!(error.to_string(), expected);
    assert_eq!(fs::read(&path).unwrap(), b"a recording");
    fs::write(&path, "").unwrap();
    Writer::create(&path, &[]).unwrap().discard().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"");
    Writer::create(&path, &[]).unwrap().finish().unwrap();
    assert_eq!(Reader::open(&path).unwrap().rows(), 0);
    let other = directory.path().join("other");
    Writer::create(&other, &[]).unwrap().discard().unwrap();
    assert!(!other.exists());
}

/// As another user may put it there.
#[test]
fn no_link_is_followed_and_a_file_is_for_its_owner_alone() {
    let directory = tempdir().unwrap();
    let [precious, link] = ["precious", "link"].map(|name| directory.path().join(name));
    for target in [&precious, &directory.path().join("nothing")] {
        fs::write(&precious, "").unwrap();
        symlink(target, &link).unwrap();
        let error = Writer::create(&link, &[]).unwrap_err();
        let told = error.source().unwrap().to_string();
        assert_eq!(told, "it is a symbolic link");
        assert_eq!(fs::read(&precious).unwrap(), b"");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        fs::remove_file(&link).unwrap();
    }
    // Its directory may be replaced, too: what is removed is what was created.
    let [real, moved] = ["real", "moved"].map(|name| directory.path().join(name));
    fs::create_dir(&real).unwrap();
    let path = real.join("precious");
    let writer = Writer::create(&path, &[]).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    fs::rename(&real, &moved).unwrap();
    symlink(directory.path(), &real).unwrap();
    writer.discard().unwrap();
    assert!(precious.exists() && !moved.join("precious").exists());
}

#[test]
fn a_batch_beyond_the_limit_leaves_the_file_as_it_was() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    let mut writer = Writer::create(&path, &[]).unwrap();
    assert!(
        writer
            .write_within(&batch(&[message(1)]), u64::MAX)
            .unwrap()
    );
    let most = writer.length();
    assert!(!writer.write_within(&batch(&[message(2)]), most).unwrap());
    let error = writer.write(&batch(&[message(3)])).unwrap_err();
    assert!(matches!(error, Error::Cut { .. }), "{error}");
    writer.add_fact("lost", "2".to_owned());
    let (rows, bytes) = writer.finish().unwrap();
    assert!(rows == 1 && bytes <= most, "{rows}, {bytes} of {most}");
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
    assert!(fs::read(&path).unwrap().ends_with(b"PAR1"));
    assert_eq!(read(&path).unwrap(), [message(1)]);
    assert_eq!(Reader::open(&path).unwrap().fact("lost"), Some("2"));
}

/// Each row group costs the same, however many there are.
#[test]
fn a_long_recording_loses_its_unfinished_row_group_alone() {
    const GROUPS: u64 = 150;
    let (directory, lengths) = written(GROUPS);
    let path = directory.path().join("file");
    let whole = fs::metadata(&path).unwrap().len();
    let footer = whole - lengths[lengths.len() - 1];
    let costs: Vec<_> = lengths.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(costs.iter().all(|cost| *cost < costs[0] + 200), "{costs:?}");
    assert!(footer < GROUPS * costs[0], "{footer}");

    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(lengths[lengths.len() - 1] - 1).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.rows(), (GROUPS - 1) * 10);
    assert_eq!(reader.fact("host"), Some("here"));
    assert_eq!(recover(&path).unwrap().rows, (GROUPS - 1) * 10);
    let expected = (0..(GROUPS - 1) * 10).map(message).collect();
    assert_eq!(sorted(read(&path).unwrap()), sorted(expected));
}

#[test]
fn facts_may_be_added_until_the_end() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    let mut writer = Writer::create(&path, &[]).unwrap();
    writer.add_fact("lost", "7".to_owned());
    drop(writer);
    assert_eq!(Reader::open(&path).unwrap().fact("lost"), Some("7"));
}

#[test]
fn a_note_that_leads_back_to_itself_is_no_footer() {
    let (directory, lengths) = written(1);
    let path = directory.path().join("file");
    let mut bytes = fs::read(&path).unwrap();
    let end = usize::try_from(lengths[0]).unwrap();
    bytes.truncate(end);
    let before = end - 16..end - 8;
    let first = u64::from_le_bytes(bytes[before.clone()].try_into().unwrap());
    for (back, rows) in [
        (first, 10),
        (lengths[0], 0),
        (first - 1, 0),
        (u64::MAX, 0),
        (0, 0),
    ] {
        bytes[before.clone()].copy_from_slice(&back.to_le_bytes());
        fs::write(&path, &bytes).unwrap();
        // The empty footer of the begin is left.
        assert_eq!(Reader::open(&path).unwrap().rows(), rows, "{back}");
    }
}

/// The decoder would take memory for all elements first.
#[test]
fn a_footer_whose_lists_claim_too_much_is_none() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    // Field 4, a list of structures: 2^28 row groups.
    let mut bytes = b"PAR1\x49\xfc\x80\x80\x80\x80\x01".to_vec();
    bytes.resize(8 << 20, 0);
    let length = u32::try_from(bytes.len() - 4).unwrap();
    bytes.extend(length.to_le_bytes());
    bytes.extend(b"PAR1");
    fs::write(&path, &bytes).unwrap();
    assert!(matches!(Reader::open(&path), Err(Error::NoFooter { .. })));
}

#[test]
fn a_flipped_bit_is_an_error_or_changes_values_but_never_panics() {
    let (directory, _) = written(2);
    let path = directory.path().join("file");
    let whole = fs::read(&path).unwrap();
    let mut refused = 0;
    for at in (0..whole.len()).step_by(7) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&path, &flipped).unwrap();
        refused += u32::from(read(&path).is_err());
    }
    assert!(refused > 0);
}

/// `join` waited for ever for what comes after the end of time, and a chart had no place for a
/// group without messages.
#[test]
fn times_before_1970_and_messages_that_stand_for_none_are_impossible() {
    let directory = tempdir().unwrap();
    type Change = fn(&mut Message);
    let changes: [(&str, Change); 2] = [
        ("time_ns", |message| {
            message.time = Timestamp::from_nanos(u64::MAX)
        }),
        ("weight", |message| message.weight = 0),
    ];
    for (column, change) in changes {
        let path = directory.path().join(column);
        let mut rows = [message(1), message(2)];
        change(&mut rows[1]);
        let mut writer = Writer::create(&path, &[]).unwrap();
        writer.write(&batch(&rows)).unwrap();
        writer.finish().unwrap();
        let told = read(&path).unwrap_err().to_string();
        let expected = format!("column {column}: it has an impossible value");
        assert!(told.ends_with(&expected), "{told}");
    }
}

#[test]
fn a_pipe_and_a_sparse_file_are_refused_at_once() {
    let directory = tempdir().unwrap();
    let [pipe, sparse] = ["pipe", "sparse"].map(|name| directory.path().join(name));
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::File::create(&sparse).unwrap().set_len(1 << 42).unwrap();
    let begun = Instant::now();
    for error in [
        Reader::open(&pipe).unwrap_err(),
        recover(&pipe).unwrap_err(),
    ] {
        let told = error.to_string();
        assert!(told.ends_with("pipe: it is not a regular file"), "{told}");
    }
    for error in [
        Reader::open(&sparse).unwrap_err(),
        recover(&sparse).unwrap_err(),
    ] {
        assert!(matches!(error, Error::NoFooter { .. }), "{error}");
    }
    assert!(!has_footer(&sparse).unwrap());
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(fs::metadata(&sparse).unwrap().len(), 1 << 42);
}

/// Rows that are all alike take almost no room, but as long as others.
#[test]
fn more_rows_than_bytes_are_refused() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    let mut rows = Batch::new();
    while !rows.is_full() {
        rows.push(&message(1));
    }
    let mut writer = Writer::create(&path, &[]).unwrap();
    writer.write(&rows).unwrap();
    let told = loop {
        writer.write(&rows).unwrap();
        if let Err(error) = Reader::open(&path) {
            break error.to_string();
        }
        assert!(writer.groups() < 64);
    };
    assert!(
        told.ends_with("it has more rows than a recording of its length"),
        "{told}"
    );
}

#[test]
fn damage_is_reported_with_its_file_and_place() {
    let (directory, _) = written(1);
    let path = directory.path().join("file");
    let empty = Writer::create(
        &directory.path().join("empty"),
        &[("host", "here".to_owned())],
    )
    .unwrap();
    let begin = usize::try_from(empty.bytes()).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[begin..begin + 36].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let error = read(&path).unwrap_err().to_string();
    let expected = format!("file: damaged at byte {begin}: column direction");
    assert!(error.contains(&expected), "{error}");
}

#[test]
fn other_files_are_refused() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "PAR1".repeat(10_000)).unwrap();
    assert!(matches!(
        Reader::open(&path),
        Err(Error::NoFooter { length: 40_000, .. })
    ));
    assert!(matches!(
        Reader::open(directory.path()),
        Err(Error::Foreign { .. })
    ));
}

/// Return the reason why a file is refused, with its name.
fn refusal(path: &Path) -> String {
    match Reader::open(path) {
        Err(error @ Error::Foreign { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Write a Parquet file of another program: these columns, with these facts, without rows.
fn foreign(path: &Path, schema: &str, facts: &[(&str, &str)]) {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let facts = facts
        .iter()
        .map(|(key, value)| KeyValue::new((*key).to_owned(), (*value).to_owned()));
    let properties = WriterProperties::builder().set_key_value_metadata(Some(facts.collect()));
    let file = fs::File::create(path).unwrap();
    let writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build())).unwrap();
    writer.close().unwrap();
}

/// Return our columns in Parquet's language, each as `change` has it.
fn schema(change: impl Fn(&str, String) -> String) -> String {
    let columns = columns().into_iter().map(|column| {
        let repetition = if column.optional {
            "optional"
        } else {
            "required"
        };
        let (kind, annotation) = match column.kind {
            Kind::Integer => ("int64", ""),
            Kind::Flag => ("boolean", ""),
            Kind::Text => ("binary", " (utf8)"),
            Kind::Bytes => ("binary", ""),
        };
        let line = format!("{repetition} {kind} {}{annotation};", column.name);
        change(&column.name, line)
    });
    format!("message message {{ {} }}", columns.collect::<String>())
}

#[test]
fn files_of_other_programs_are_refused_with_the_reason() {
    const VERSION: (&str, &str) = ("sockstamp.schema", "1");
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    let ours = |_: &str, line: String| line;
    for (schema, facts, reason) in [
        (
            "message other { required int64 id; optional double price; }".to_owned(),
            &[][..],
            "it is a Parquet file, but no recording of sockstamp",
        ),
        (
            schema(ours),
            &[],
            "it is a Parquet file, but no recording of sockstamp",
        ),
        (
            schema(ours),
            &[("sockstamp.schema", "2")],
            "its columns have version \"2\"; this sockstamp reads version 1",
        ),
        (
            schema(ours),
            &[("sockstamp.packets", "1")],
            "it is a Parquet file, but no recording of sockstamp",
        ),
        (
            schema(|name, line| {
                if name == "weight" {
                    String::new()
                } else {
                    line
                }
            }),
            &[VERSION],
            "it has no column weight",
        ),
        (
            schema(|_, line| line.replace("int64 time_ns", "double time_ns")),
            &[VERSION],
            "its column time_ns has another type",
        ),
        (
            schema(|_, line| {
                line.replace("required boolean pipelined", "optional boolean pipelined")
            }),
            &[VERSION],
            "its column pipelined has another type",
        ),
        (
            schema(|_, line| line.replace("optional int64 cpu", "repeated int64 cpu")),
            &[VERSION],
            "its column cpu has another type",
        ),
    ] {
        foreign(&path, &schema, facts);
        assert_eq!(refusal(&path), format!("{}: {reason}", path.display()));
    }
    // Columns that a later program added are passed over.
    let more = |name: &str, line: String| match name {
        "bytes" => format!("{line} optional group more {{ required double one; }}"),
        _ => line,
    };
    foreign(&path, &schema(more), &[VERSION]);
    assert_eq!(read(&path).unwrap(), []);
}

/// Written before there were the columns `container`, `opened` and `cpu`.
#[test]
fn a_file_of_an_earlier_program_is_read() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/without-containers.parquet");
    let messages: Vec<_> = (0..3).map(message).collect();
    assert_eq!(sorted(read(&file).unwrap()), sorted(messages));
}

#[test]
fn a_container_of_another_form_is_an_impossible_value() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("file");
    let mut named = message(1);
    named.container = "nginx.service".parse().ok().map(Arc::new);
    let mut writer = Writer::create(&path, &[]).unwrap();
    writer.write(&batch(&[named])).unwrap();
    writer.finish().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let name = b"nginx.service";
    let place = bytes
        .windows(name.len())
        .position(|bytes| bytes == name)
        .unwrap();
    bytes[place..place + name.len()].copy_from_slice(b"nginx_service");
    fs::write(&path, bytes).unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(
        error.contains("column container: it has an impossible value"),
        "{error}"
    );
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

#[test]
fn a_full_disk_loses_no_finished_row_group() {
    const OTHERS: u64 = 64 << 10;
    let (directory, lengths) = written(1);
    let full = directory.path().join("full");
    let room = lengths[0] * 5 / 2 + OTHERS;
    fs::create_dir(&full).unwrap();
    let mounted = std::process::Command::new("mount")
        .args([
            "-t",
            "tmpfs",
            "-o",
            &format!("size={}", room.div_ceil(4096) * 4096),
            "none",
        ])
        .arg(&full)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("SKIP a_full_disk_loses_no_finished_row_group: it needs root, to mount a tmpfs");
        return;
    }
    let path = full.join("file");
    let others = full.join("others");
    fs::write(&others, vec![1; usize::try_from(OTHERS).unwrap()]).unwrap();
    let mut writer = Writer::create(&path, &[]).unwrap();
    let mut failed = None;
    for group in 0..20 {
        let messages: Vec<_> = (group * 10..group * 10 + 10).map(message).collect();
        if let Err(error) = writer.write(&batch(&messages)) {
            failed = Some((group, error));
            break;
        }
    }
    // Its footer needs some room.
    fs::remove_file(others).unwrap();
    writer.add_fact("lost", "7".to_owned());
    drop(writer);
    let read = Reader::open(&path).map(|reader| {
        let lost = reader.fact("lost").map(str::to_owned);
        (reader.rows(), reader.unread(), lost)
    });
    // There is no room for even the first footer of another.
    let _ = fs::write(full.join("rest"), vec![1; usize::try_from(room).unwrap()]);
    let other = full.join("other");
    let refused = Writer::create(&other, &[]).is_err() && !other.exists();
    std::process::Command::new("umount")
        .arg(&full)
        .status()
        .unwrap();
    let (groups, error) = failed.expect("the disk was too large");
    assert!(error.is_full(), "{error}");
    assert_eq!(read.unwrap(), (groups * 10, 0, Some("7".to_owned())));
    assert!(refused);
}
