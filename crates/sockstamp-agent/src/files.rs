//! Read the files that the settings name.

use std::fs::{Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, bail};
use nix::fcntl::OFlag;
use nix::unistd::geteuid;
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
    inspected(path, most).map(|(content, _)| content)
}

/// Read a file that has a secret. Refuse one that others can write, and warn where others have the
/// secret as well.
pub(crate) fn secret(path: &Path, most: u64, what: &str) -> Result<Vec<u8>> {
    let (content, file) = inspected(path, most)?;
    if file.mode() & 0o002 != 0 {
        bail!(
            "{} can be written by others, so that they choose {what}: chmod 600 it",
            path.display()
        );
    }
    if let Some(why) = shared(file.mode(), file.uid(), what) {
        complain(format_args!("{} {why}", path.display()));
    }
    Ok(content)
}

/// Return who else has a secret by the mode and the owner of its file, and what to do.
fn shared(mode: u32, owner: u32, what: &str) -> Option<String> {
    let trusted = [0, geteuid().as_raw()];
    if mode & 0o004 != 0 {
        Some(format!(
            "can be read by others, so that they have {what}: chmod 600 it"
        ))
    } else if !trusted.contains(&owner) {
        Some(format!(
            "belongs to user {owner}, who has and chooses {what}: chown it to root"
        ))
    } else {
        None
    }
}

fn inspected(path: &Path, most: u64) -> Result<(Vec<u8>, Metadata)> {
    let failed = || format!("cannot read {}", path.display());
    // Without O_NONBLOCK, open() would wait until somebody writes to the pipe.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)
        .with_context(failed)?;
    let about = file.metadata().with_context(failed)?;
    if !about.is_file() {
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
    Ok((content, about))
}

/// Read a file of settings.
pub(crate) fn settings(path: &Path) -> Result<String> {
    let content = content(path, SETTINGS)?;
    String::from_utf8(content).with_context(|| format!("{} is not UTF-8", path.display()))
}

/// Read the token in a file.
pub(crate) fn token(path: Option<&Path>) -> Result<Option<String>> {
    let Some(path) = path else {
        return Ok(None);
    };
    let content = secret(path, TOKEN, "the token")?;
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
    fn who_else_has_a_secret_is_told() {
        let why = |mode, owner| shared(mode, owner, "the key").unwrap_or_default();
        assert_eq!(why(0o100_600, 0), "");
        assert_eq!(why(0o100_440, 0), "");
        assert!(why(0o100_644, 0).contains("read by others, so that they have the key"));
        assert!(why(0o100_600, 54_321).starts_with("belongs to user 54321, who has"));
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
