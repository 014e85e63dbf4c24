//! Files that were cut off, and disks without room.

use super::*;

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
