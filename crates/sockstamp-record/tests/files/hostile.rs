//! Files that claim what is not so.

use super::*;

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
