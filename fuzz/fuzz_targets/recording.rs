//! `Reader` and `PacketReader`: a recording in which bytes were replaced, or that was cut off, is
//! read up to an error that names it, or to its end.
//!
//! The input is changes of a recording. The first byte chooses the kind, and whether the file is
//! cut at the place that the next three bytes give. Then three bytes are a place, and one byte is
//! its new value.

#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use sockstamp_fuzz::recordings;
use sockstamp_record::recover::recover;
use sockstamp_record::{Error, PacketReader, Reader};

/// Rows of our recordings: a file that claims more in its row groups is damaged.
const ROWS: usize = 1 << 20;

struct Fixture {
    path: PathBuf,
    recordings: [Vec<u8>; 2],
}

fn fixture() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("sockstamp-fuzz-{}", std::process::id()));
        let recordings = recordings(&path);
        Fixture { path, recordings }
    })
}

fn place(bytes: &[u8], length: usize) -> usize {
    let place = bytes
        .iter()
        .rev()
        .fold(0, |place, byte| place << 8 | usize::from(*byte));
    place % length
}

fn changed(file: &[u8], changes: &[u8], is_cut: bool) -> Vec<u8> {
    let (cut, changes) = changes.split_at(changes.len().min(3));
    let mut file = file.to_vec();
    for change in changes.chunks_exact(4) {
        let place = place(&change[..3], file.len());
        file[place] = change[3];
    }
    if is_cut {
        file.truncate(place(cut, file.len()));
    }
    file
}

fuzz_target!(|input: &[u8]| {
    let [kind, changes @ ..] = input else { return };
    let Fixture { path, recordings } = fixture();
    let is_packets = kind & 1 == 1;
    let file = changed(&recordings[usize::from(is_packets)], changes, kind & 2 == 2);
    fs::write(path, file).expect("room for a file");
    let read = match is_packets {
        false => Reader::open(path).map(|reader| count(reader.messages(), path)),
        true => PacketReader::open(path).map(|reader| count(reader.ways(), path)),
    };
    match read {
        Ok(rows) => assert!(rows <= ROWS),
        Err(error) => assert_names(&error, path),
    }
    if let Ok(recovered) = recover(path) {
        assert_eq!(
            fs::metadata(path).expect("it was written").len(),
            recovered.after
        );
    }
});

fn count<T>(rows: impl Iterator<Item = Result<T, Error>>, path: &Path) -> usize {
    let errors = rows.map(|row| row.err().inspect(|error| assert_names(error, path)));
    errors.count()
}

fn assert_names(error: &Error, path: &Path) {
    let error = error.to_string();
    assert!(
        error.contains(path.to_str().expect("it is text")),
        "{error}"
    );
}
