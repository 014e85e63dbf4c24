use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, lchown};

use sockstamp_model::fixture;
use sockstamp_model::stage::Direction;
use sockstamp_record::{PacketReader, Reader};
use tempfile::TempDir;

use super::*;
use crate::recordings::{PACKETS, Recordings};

const ALL: Limits = Limits {
    file_bytes: u64::MAX,
    file_time: Duration::MAX,
    file_groups: usize::MAX,
    all_bytes: None,
    free_bytes: 0,
};

fn messages(count: u64) -> Batch {
    let mut batch = Batch::new();
    (0..count).for_each(|_| batch.push(&fixture::message(Direction::Tx)));
    batch
}

/// Record this many batches of ten messages each, and packets with each.
fn recorded(limits: Limits, batches: u64) -> (TempDir, Place) {
    let directory = TempDir::new().unwrap();
    let mut place = Place::new(directory.path(), true, limits, Choice::default()).unwrap();
    for _ in 0..batches {
        place.write(&messages(10)).unwrap();
        place.write_packets(&Packets::default()).unwrap();
    }
    (directory, place)
}

fn files(directory: &TempDir) -> Vec<PathBuf> {
    crate::recordings::files(directory.path()).unwrap()
}

fn rows(files: &[PathBuf]) -> Vec<u64> {
    let rows = |path: &PathBuf| Reader::open(path).unwrap().rows();
    files.iter().map(rows).collect()
}

#[test]
fn a_file_ends_with_its_row_groups_and_has_its_packets_beside_it() {
    let limits = Limits {
        file_groups: 4,
        ..ALL
    };
    let (directory, mut place) = recorded(limits, 9);
    place.end().unwrap();
    let files = files(&directory);
    let mut rows = rows(&files);
    rows.sort_unstable();
    assert_eq!(rows, [10, 40, 40], "unless an hour has ended meanwhile");
    assert_eq!((place.messages.rows, place.messages.files), (90, 3));
    for file in &files {
        let packets = PacketReader::open(&file.with_extension(PACKETS)).unwrap();
        assert_eq!(packets.rows(), 0);
    }
    let all = fs::read_dir(files[0].parent().unwrap()).unwrap().count();
    assert_eq!(all, 2 * files.len());
}

#[test]
fn a_file_ends_with_its_size() {
    let limits = Limits {
        file_bytes: 1,
        ..ALL
    };
    let (directory, mut place) = recorded(limits, 3);
    place.end().unwrap();
    let rows = rows(&files(&directory));
    // Each batch of messages, and of packets, finds the file before it over.
    assert_eq!(rows.iter().sum::<u64>(), 30);
    assert!(rows.len() >= 3, "{rows:?}");
}

#[test]
fn rows_that_waited_stay_in_their_hour_and_a_file_without_rows_goes() {
    let directory = TempDir::new().unwrap();
    let mut place = Place::new(directory.path(), true, ALL, Choice::default()).unwrap();
    let hour = place.current.as_ref().unwrap().hour;
    // No message came in the first hour.
    place.begin_next((hour - 2) * HOUR).unwrap();
    place.write(&messages(10)).unwrap();
    // A batch of this hour is written after it.
    place.begin_another().unwrap();
    place.write(&messages(5)).unwrap();
    place.begin_next((hour - 1) * HOUR).unwrap();
    place.write(&messages(1)).unwrap();
    assert_eq!(place.current.as_ref().unwrap().hour, hour - 1);
    place.end().unwrap();
    let files = files(&directory);
    assert_eq!((place.messages.files, files.len()), (3, 3));
    let of = |hour: u64| {
        let [date, hour, _] = utc(hour * HOUR);
        let parent = directory.path().join(format!("date={date}/hour={hour}"));
        let files = files.iter().filter(|file| file.starts_with(&parent));
        rows(&files.cloned().collect::<Vec<_>>())
            .iter()
            .sum::<u64>()
    };
    assert_eq!([hour - 2, hour - 1, hour].map(of), [15, 1, 0]);
}

#[test]
fn devices_and_directories_cannot_be_files_of_rows() {
    for path in ["/dev/null", "/dev/full"] {
        let place = Place::new(Path::new(path), false, ALL, Choice::default());
        let told = place.unwrap_err().to_string();
        let expected = format!("{path} is not a regular file");
        assert!(told.starts_with(&expected), "{told}");
    }
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("file");
    fs::create_dir(packets_beside(&path)).unwrap();
    let place = Place::new(&path, true, ALL, Choice::default());
    let told = place.unwrap_err().to_string();
    assert!(
        told.contains("file.packets is not a regular file"),
        "{told}"
    );
    assert!(!path.exists());
}

#[test]
fn a_directory_that_others_can_change_is_refused() {
    let directory = TempDir::new().unwrap();
    let theirs = directory.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    lchown(&theirs, Some(54_321), None).unwrap();
    for path in [theirs.clone(), theirs.join("new/")] {
        let place = Place::new(&path, true, ALL, Choice::default());
        let told = place.unwrap_err().to_string();
        assert!(told.contains("theirs belongs to user 54321"), "{told}");
    }
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
}

#[test]
fn packets_that_could_not_be_written_are_noted_apart() {
    let (directory, mut place) = recorded(ALL, 1);
    place.missing.packets = 5;
    let lost = packets::Lost {
        ring: 2,
        ..packets::Lost::default()
    };
    place.note_lost(Lost::default(), lost);
    place.end().unwrap();
    let packets = files(&directory)[0].with_extension(PACKETS);
    let packets = PacketReader::open(&packets).unwrap();
    assert_eq!(packets.fact("lost_ring"), Some("2"));
    assert_eq!(packets.fact(UNWRITTEN), Some("5"));
}

#[test]
fn the_oldest_files_go_with_their_packets() {
    let (_, place) = recorded(ALL, 1);
    let one = place.current.as_ref().unwrap().bytes();
    let limits = Limits {
        file_groups: 1,
        all_bytes: Some(4 * one),
        ..ALL
    };
    let (directory, mut place) = recorded(limits, 12);
    place.end().unwrap();
    let files = files(&directory);
    assert!((1..=4).contains(&files.len()), "{files:?}");
    assert_eq!(
        place.messages.removed + files.len() as u64,
        place.messages.files
    );
    for file in &files {
        assert!(file.with_extension(PACKETS).exists());
    }
    let all = fs::read_dir(files[0].parent().unwrap()).unwrap().count();
    assert_eq!(all, 2 * files.len());
}

#[test]
fn too_little_room_ends_a_recording_under_way() {
    let (directory, mut place) = recorded(ALL, 2);
    place.limits.free_bytes = u64::MAX;
    let told = place.write(&messages(10)).unwrap_err().to_string();
    assert!(told.contains("less than --min-free"), "{told}");
    drop(place);
    assert_eq!(rows(&files(&directory)), [20]);
}

#[test]
fn losses_are_in_the_last_file() {
    let (directory, mut place) = recorded(ALL, 1);
    let of_packets = packets::Lost {
        flows: 3,
        ..packets::Lost::default()
    };
    // Each kind has another number.
    let mut lost = Lost::default();
    for (number, (_, loss)) in (1..).zip(LOST) {
        *loss(&mut lost) = number;
    }
    assert_eq!((lost.ring, lost.not_adopted, lost.groups), (1, 11, 0));
    place.note_lost(lost, of_packets);
    place.end().unwrap();
    let file = &files(&directory)[0];
    assert_eq!(Reader::open(file).unwrap().fact("lost"), Some("1"));
    let recordings = Recordings::open(std::slice::from_ref(file)).unwrap();
    assert_eq!(recordings.lost(), lost);
    let packets = PacketReader::open(&file.with_extension(PACKETS)).unwrap();
    assert_eq!(crate::recordings::lost_packets(&packets), of_packets);
}

#[test]
fn files_that_exist_are_refused_and_stay() {
    let directory = TempDir::new().unwrap();
    let [file, packets] = ["night.parquet", "night.packets"].map(|name| {
        let path = directory.path().join(name);
        fs::write(&path, "last night").unwrap();
        path
    });
    let told = |has_packets| {
        let place = Place::new(&file, has_packets, ALL, Choice::default());
        place.unwrap_err().to_string()
    };
    for has_packets in [false, true] {
        let expected = format!("{} exists: name another, or remove it", packets.display());
        assert_eq!(told(has_packets), expected);
    }
    fs::remove_file(&packets).unwrap();
    for has_packets in [false, true] {
        let expected = format!("{} exists: name another, or remove it", file.display());
        assert_eq!(told(has_packets), expected);
    }
    assert_eq!(fs::read(&file).unwrap(), b"last night");
    assert!(!packets.exists());
    // As of mktemp(1).
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    Place::new(&file, true, ALL, Choice::default()).unwrap();
}

#[test]
fn too_little_room_at_the_start_leaves_no_file() {
    let directory = TempDir::new().unwrap();
    let limits = Limits {
        free_bytes: u64::MAX,
        ..ALL
    };
    let path = directory.path().join("file");
    assert!(Place::new(&path, true, limits, Choice::default()).is_err());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn recordings_into_one_directory_have_files_of_their_own() {
    let directory = TempDir::new().unwrap();
    let start = || Place::new(directory.path(), true, ALL, Choice::default()).unwrap();
    let mut places = [0; 4].map(|_| start());
    for place in &mut places {
        place.write(&messages(10)).unwrap();
        place.end().unwrap();
    }
    assert_eq!(rows(&files(&directory)), [10; 4]);
}

#[test]
fn a_file_that_was_moved_away_counts_as_removed() {
    let limits = Limits {
        file_groups: 1,
        ..ALL
    };
    let (directory, mut place) = recorded(limits, 3);
    for file in files(&directory) {
        if !place.current.as_ref().unwrap().messages.path().eq(&file) {
            fs::remove_file(file).unwrap();
        }
    }
    place.limits.all_bytes = Some(1);
    place.write(&messages(10)).unwrap();
    assert!(place.messages.removed >= 2, "{:?}", place.messages);
}

#[test]
fn a_single_file_stays_below_its_limit() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("file");
    let limits = Limits {
        all_bytes: Some(200_000),
        ..ALL
    };
    let mut place = Place::new(&path, true, limits, Choice::default()).unwrap();
    let mut written = 0;
    let told = loop {
        match place.write(&messages(10)) {
            Ok(()) => written += 10,
            Err(error) => break error.to_string(),
        }
    };
    assert!(told.contains("has reached --max-size"), "{told}");
    place.end().unwrap();
    let length = |path: &Path| path.metadata().unwrap().len();
    let all = length(&path) + length(&path.with_extension(PACKETS));
    assert!((100_000..=200_000).contains(&all), "{all}");
    let file = Reader::open(&path).unwrap();
    assert_eq!((file.rows(), file.unread()), (written, 0));
    assert_eq!(place.missing.messages, 10);
}

#[test]
fn the_choice_of_messages_is_in_the_file() {
    let directory = TempDir::new().unwrap();
    let choice = Choice {
        in_step: Some(16),
        slow_only: Some(Duration::from_millis(50)),
        ..Choice::default()
    };
    let path = directory.path().join("file");
    Place::new(&path, false, ALL, choice)
        .unwrap()
        .end()
        .unwrap();
    let file = Reader::open(&path).unwrap();
    assert_eq!(file.fact("in_step"), Some("16"));
    assert_eq!(file.fact(SLOW_ONLY), Some("50000000"));
}
