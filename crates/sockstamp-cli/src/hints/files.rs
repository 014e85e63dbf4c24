//! Files by what they hold.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Extensions of captures, which are no recordings.
pub(super) const CAPTURES: [&str; 2] = [".pcapng", ".pcap"];

/// Return true for the name of a recording: by its extension, or by what the file begins with.
pub(super) fn is_recording(word: &str) -> bool {
    // To open a pipe is to wait for its other end.
    let is_file = || Path::new(word).metadata().is_ok_and(|file| file.is_file());
    let begins = || {
        let mut begin = [0; 4];
        let read = File::open(word).and_then(|mut file| file.read_exact(&mut begin));
        read.is_ok() && begin == *b"PAR1"
    };
    word.ends_with(".parquet") || is_file() && begins()
}
