//! Read the files that the settings name.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, bail};
use nix::fcntl::OFlag;
use sockstamp_run::escape::complain;

/// Bytes of a file that has a token: far more than any needs.
pub(crate) const TOKEN: u64 = 64 << 10;
/// Bytes of a file that has certificates or a key: the authorities that a host trusts take a
/// quarter of it.
pub(crate) const PEM: u64 = 1 << 20;

/// Bytes of a file of settings: one with thousands of rules takes a quarter of it.
const SETTINGS: u64 = 1 << 20;

/// Read a file of at most so many bytes. Refuse all but regular files: a pipe would block the
/// measuring thread for ever, and some devices have no end.
pub(crate) fn content(path: &Path, most: u64) -> Result<Vec<u8>> {
    let failed = || format!("cannot read {}", path.display());
    // Without O_NONBLOCK, open() would wait until somebody writes to the pipe.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)
        .with_context(failed)?;
    if !file.metadata().with_context(failed)?.is_file() {
        bail!(
            "{} is not a regular file: name one that is, instead of a directory, pipe or device",
            path.display()
        );
    }
    let mut content = Vec::new();
    file.take(most + 1)
        .read_to_end(&mut content)
        .with_context(failed)?;
    if content.len() as u64 > most {
        bail!(
            "{} has more than {most} bytes: name a smaller file",
            path.display()
        );
    }
    Ok(content)
}

/// Read a file of settings.
pub(crate) fn settings(path: &Path) -> Result<String> {
    let content = content(path, SETTINGS)?;
    String::from_utf8(content).with_context(|| format!("{} is not UTF-8", path.display()))
}

/// Read the token in a file. Refuse a file that others can write, and warn about one that they can
/// read.
pub(crate) fn token(path: Option<&Path>) -> Result<Option<String>> {
    let Some(path) = path else {
        return Ok(None);
    };
    let content = content(path, TOKEN)?;
    let mode = path.metadata().map_or(0, |file| file.mode());
    if mode & 0o002 != 0 {
        bail!(
            "{} can be written by others, so that they choose the token: chmod 600 it",
            path.display()
        );
    }
    if mode & 0o004 != 0 {
        complain(format_args!(
            "{} can be read by others, so that they have the token: chmod 600 it",
            path.display()
        ));
    }
    let token = str::from_utf8(&content).unwrap_or_default().trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!(
            "{} has no token: write one line of visible characters",
            path.display()
        );
    }
    Ok(Some(token.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "1234").unwrap();
        assert_eq!(content(&file, 4).unwrap(), b"1234");
        let error = content(&file, 3).unwrap_err().to_string();
        assert!(error.contains("file has more than 3 bytes"), "{error}");
    }

    #[test]
    fn pipes_devices_and_directories_are_refused_at_once() {
        let folder = TempDir::new().unwrap();
        let pipe = folder.path().join("pipe");
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
            let error = content(path, TOKEN).unwrap_err().to_string();
            let expected = format!("{} is not a regular file", path.display());
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn a_token_that_others_can_write_is_refused() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, "0123456789abcdef\n").unwrap();
        for (mode, is_good) in [(0o600, true), (0o640, true), (0o644, true), (0o666, false)] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            let read = token(Some(&file));
            assert_eq!(read.is_ok(), is_good, "{mode:o}: {read:?}");
        }
    }

    #[test]
    fn settings_are_a_regular_file_of_bounded_size() {
        let folder = TempDir::new().unwrap();
        let [pipe, file] = ["pipe", "file"].map(|name| folder.path().join(name));
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        let error = settings(&pipe).unwrap_err().to_string();
        assert!(error.contains("pipe is not a regular file"), "{error}");
        fs::File::create(&file).unwrap().set_len(1 << 40).unwrap();
        let error = settings(&file).unwrap_err().to_string();
        assert!(error.contains("file has more than"), "{error}");
        fs::write(&file, "by = []").unwrap();
        assert_eq!(settings(&file).unwrap(), "by = []");
    }
}
