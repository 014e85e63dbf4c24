//! The files of a recording, one beside the other.

use std::path::{Path, PathBuf};

/// The extension of files with messages.
pub(crate) const MESSAGES: &str = "parquet";
/// The extension of files with waits.
pub(crate) const WAITS: &str = "waits";
/// The extension of files with packets.
pub(crate) const PACKETS: &str = "packets";

/// Return the file of packets beside a file of messages, which may be named itself.
pub(crate) fn packets_beside(messages: &Path) -> PathBuf {
    beside(messages, PACKETS)
}

/// Return the file of waits beside a file of messages.
pub(crate) fn waits_beside(messages: &Path) -> PathBuf {
    beside(messages, WAITS)
}

/// Return the file of this extension beside a file of messages, which may be named itself.
fn beside(messages: &Path, wanted: &str) -> PathBuf {
    match messages.extension() {
        Some(extension) if extension == wanted => messages.to_owned(),
        Some(extension) if extension == MESSAGES => messages.with_extension(wanted),
        // Names that differ after a dot only are those of different recordings.
        _ => {
            let mut path = messages.as_os_str().to_owned();
            path.push(".");
            path.push(wanted);
            path.into()
        }
    }
}
