//! Define where subcommands print, and in which format.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

/// The first bytes of a Parquet file.
const PARQUET: [u8; 4] = *b"PAR1";
/// The first bytes of a file of pcapng, and of pcap in either order of bytes.
const CAPTURES: [[u8; 4]; 5] = [
    [0x0a, 0x0d, 0x0d, 0x0a],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
];

/// Output formats of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people, times with units
    #[default]
    Text,
    /// JSON, all times in nanoseconds
    Json,
}

/// An output as long as somebody reads it: a reader that has seen enough is no failure. Measuring
/// ends once nobody reads.
pub struct Reported {
    output: BufWriter<Box<dyn Write>>,
    unread: bool,
}

impl fmt::Debug for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reported")
            .field("unread", &self.unread)
            .finish_non_exhaustive()
    }
}

impl Reported {
    /// Write to this.
    pub fn to(output: Box<dyn Write>) -> Self {
        Self {
            output: BufWriter::new(output),
            unread: false,
        }
    }

    /// True once the reader has gone.
    pub fn is_unread(&self) -> bool {
        self.unread
    }

    fn seen<T>(&mut self, result: io::Result<T>, otherwise: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.unread = true;
                Ok(otherwise)
            }
            result => result,
        }
    }
}

impl Write for Reported {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.unread {
            return Ok(bytes.len());
        }
        let written = self.output.write(bytes);
        self.seen(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.unread {
            return Ok(());
        }
        let flushed = self.output.flush();
        self.seen(flushed, ())
    }
}

/// Return true for the name of standard output.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Open the file that `-o` names, or standard output by `-`. An earlier file keeps its content
/// until something is written; a recording and a capture are refused.
pub fn create(path: &Path) -> Result<Box<dyn Write>> {
    if is_stdout(path) {
        return Ok(Box::new(BufWriter::new(io::stdout())));
    }
    refuse_measured(path)?;
    let destination = Destination::open(path);
    let destination = destination.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Box::new(BufWriter::new(destination)))
}

/// A file whose errors name it. The first write or flush empties it: a command that cannot be
/// started leaves an earlier file as it was. A new file without either is removed.
#[derive(Debug)]
struct Destination {
    path: PathBuf,
    file: File,
    is_new: bool,
    is_begun: bool,
}

impl Destination {
    fn open(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options.write(true);
        let (file, is_new) = match options.clone().create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (options.create(true).truncate(false).open(path)?, false)
            }
            created => (created?, true),
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            is_new,
            is_begun: false,
        })
    }

    /// Empty the file, unless that was done.
    fn begin(&mut self) -> io::Result<()> {
        if self.is_begun {
            return Ok(());
        }
        // A pipe or a device has nothing to empty.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.is_begun = true;
        Ok(())
    }

    fn named(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.begin().and_then(|()| self.file.write(bytes));
        written.map_err(|error| self.named(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.begin().and_then(|()| self.file.flush());
        flushed.map_err(|error| self.named(error))
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if self.is_new && !self.is_begun {
            // The reason why nothing was written is reported, not a file that remains.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Take a reader that has seen enough for no failure.
pub fn unless_unread(written: Result<()>) -> Result<()> {
    let is_unread = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    match written {
        Err(error) if error.downcast_ref::<io::Error>().is_some_and(is_unread) => Ok(()),
        written => written,
    }
}

/// Do the same as [`create`], but refuse to write over a file that is read.
pub fn create_beside(path: &Path, read: &[PathBuf]) -> Result<Box<dyn Write>> {
    refuse_if_read(path, read)?;
    create(path)
}

/// Refuse to write over what was measured: it is easily confused with an output, and nothing brings
/// it back.
fn refuse_measured(path: &Path) -> Result<()> {
    let kind = match first_bytes(path) {
        Some(PARQUET) => "a Parquet file, as recordings are",
        Some(begin) if CAPTURES.contains(&begin) => "a capture of packets",
        _ => return Ok(()),
    };
    bail!("{} is {kind}: name another file", path.display());
}

/// Return true for a file of pcap or pcapng.
pub fn is_capture(path: &Path) -> bool {
    first_bytes(path).is_some_and(|begin| CAPTURES.contains(&begin))
}

/// Return true for a file that begins as Parquet does.
pub fn is_parquet(path: &Path) -> bool {
    first_bytes(path) == Some(PARQUET)
}

/// Return what a regular file begins with.
fn first_bytes(path: &Path) -> Option<[u8; 4]> {
    // To open a pipe is to wait for its other end.
    let is_file = path.metadata().is_ok_and(|there| there.is_file());
    let mut file = is_file.then(|| File::open(path))?.ok()?;
    let mut begin = [0; 4];
    file.read_exact(&mut begin).ok()?;
    Some(begin)
}

/// Refuse a file that exists and holds something: what is no text takes a name of its own.
fn refuse_there(path: &Path) -> Result<()> {
    let holds_something = path
        .metadata()
        .is_ok_and(|there| there.is_file() && there.len() > 0);
    if holds_something {
        bail!("{} exists: name another, or remove it", path.display());
    }
    Ok(())
}

/// Open a file for what is no text, or standard output by `-`: only a new or an empty one.
pub fn create_new(path: &Path) -> Result<Box<dyn Write>> {
    refuse_measured(path)?;
    refuse_there(path)?;
    create(path)
}

fn refuse_if_read(path: &Path, read: &[PathBuf]) -> Result<()> {
    let file = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
    let known = file(path);
    if known.is_some() && read.iter().any(|read| file(read) == known) {
        bail!("{} is read: write to another file", path.display());
    }
    Ok(())
}

/// A file that is written over a longer time: it has its name once it is whole. What was there
/// remains until then, and nothing is left if writing ends early by an error. A signal that kills
/// leaves the unfinished file, `.PID.part` after its name.
#[derive(Debug)]
pub struct Unfinished {
    path: PathBuf,
    /// `None` where the path is no file, but a pipe, a device or `-`.
    temporary: Option<PathBuf>,
}

impl Unfinished {
    /// Begin, but refuse to write over a file that is read, a recording and a capture.
    pub fn new(path: &Path, read: &[PathBuf]) -> Result<Self> {
        if is_stdout(path) {
            return Ok(Self {
                path: path.to_owned(),
                temporary: None,
            });
        }
        refuse_if_read(path, read)?;
        refuse_measured(path)?;
        // The file that a symbolic link leads to is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let is_file = path.metadata().map_or(true, |there| there.is_file());
        let temporary = is_file.then(|| {
            let mut name = OsString::from(&path);
            name.push(format!(".{}.part", std::process::id()));
            PathBuf::from(name)
        });
        Ok(Self { path, temporary })
    }

    /// Begin what is no text: refuse a file that holds something, too.
    pub fn new_alone(path: &Path, read: &[PathBuf]) -> Result<Self> {
        let unfinished = Self::new(path, read)?;
        refuse_there(path)?;
        Ok(unfinished)
    }

    /// The path to write to.
    pub fn path(&self) -> &Path {
        self.temporary.as_deref().unwrap_or(&self.path)
    }

    /// Create the file to write to.
    pub fn create(&self) -> Result<BufWriter<File>> {
        self.open().map(BufWriter::new)
    }

    fn open(&self) -> Result<File> {
        let file = match &self.temporary {
            // The name can be guessed: a link there is not followed.
            Some(temporary) => File::create_new(temporary),
            None if is_stdout(&self.path) => {
                let stdout = io::stdout().as_fd().try_clone_to_owned();
                stdout.map(File::from)
            }
            None => File::create(&self.path),
        };
        file.with_context(|| format!("cannot write {}", self.path().display()))
    }

    /// Create the file to write to; its errors name it.
    pub fn destination(&self) -> Result<Box<dyn Write>> {
        Ok(Box::new(BufWriter::new(Destination {
            path: self.path.clone(),
            file: self.open()?,
            is_new: false,
            is_begun: true,
        })))
    }

    /// Give the file its name.
    pub fn finish(mut self) -> Result<()> {
        let Some(temporary) = self.temporary.take() else {
            return Ok(());
        };
        fs::rename(&temporary, &self.path)
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // The file may never have been created.
            let _ = fs::remove_file(temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::tempdir;

    use super::*;

    fn write(path: &Path, text: &str) -> Unfinished {
        let file = Unfinished::new(path, &[]).unwrap();
        file.create().unwrap().write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn a_file_has_its_name_once_it_is_whole() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("trace");
        drop(write(&path, "half"));
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
        let file = write(&path, "whole");
        assert!(!path.exists());
        file.finish().unwrap();
        drop(write(&path, "half of another"));
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(directory.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_file_keeps_its_content_until_something_is_written() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("trace");
        drop(create(&path).unwrap());
        assert!(!path.exists());
        fs::write(&path, "of yesterday").unwrap();
        let mut file = create(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"of yesterday");
        file.write_all(b"new").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"new");
        // An output without a line empties it, too.
        create(&path).unwrap().flush().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn an_error_of_writing_names_the_file() {
        let path = Path::new("/dev/full");
        for file in [
            create(path),
            Unfinished::new(path, &[]).unwrap().destination(),
        ] {
            let mut file = file.unwrap();
            let told = file.write_all(b"text").and_then(|()| file.flush());
            let told = told.unwrap_err();
            assert_eq!(told.kind(), io::ErrorKind::StorageFull);
            assert!(
                told.to_string().starts_with("/dev/full: No space"),
                "{told}"
            );
        }
    }

    #[test]
    fn links_stay_and_devices_are_written_to() {
        let directory = tempdir().unwrap();
        let [link, path] = ["link", "file"].map(|name| directory.path().join(name));
        fs::write(&path, "before").unwrap();
        symlink(&path, &link).unwrap();
        write(&link, "after").finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"after");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        write(Path::new("/dev/null"), "nothing").finish().unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
    }

    #[test]
    fn a_link_at_the_name_of_an_unfinished_file_is_not_followed() {
        let directory = tempdir().unwrap();
        let [path, victim] = ["file", "victim"].map(|name| directory.path().join(name));
        let unfinished = Unfinished::new(&path, &[]).unwrap();
        symlink(&victim, unfinished.path()).unwrap();
        assert!(unfinished.create().is_err() && unfinished.destination().is_err());
        assert!(!victim.exists());
    }

    #[test]
    fn a_recording_is_not_written_over() {
        let directory = tempdir().unwrap();
        let [recording, text] = ["recording", "text"].map(|name| directory.path().join(name));
        fs::write(&recording, "PAR1 and rows").unwrap();
        let refused = [
            create(&recording).err().unwrap(),
            Unfinished::new(&recording, &[]).unwrap_err(),
        ];
        for told in refused.map(|error| error.to_string()) {
            assert!(told.contains("recording is a Parquet file"), "{told}");
        }
        assert_eq!(fs::read(&recording).unwrap(), b"PAR1 and rows");
        for content in ["", "PA", "lines of yesterday"] {
            fs::write(&text, content).unwrap();
            assert!(create(&text).is_ok(), "{content}");
        }
    }

    #[test]
    fn a_capture_is_not_written_over() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("capture");
        for begin in CAPTURES {
            fs::write(&path, begin).unwrap();
            let refused = [
                create(&path).err(),
                create_new(&path).err(),
                Unfinished::new(&path, &[]).err(),
            ];
            for told in refused {
                let told = told.unwrap().to_string();
                assert!(
                    told.contains("is a capture of packets: name another file"),
                    "{told}"
                );
            }
            assert_eq!(fs::read(&path).unwrap(), begin);
        }
    }

    #[test]
    fn what_is_no_text_takes_a_new_or_an_empty_file() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        assert!(create_new(&path).is_ok() && Unfinished::new_alone(&path, &[]).is_ok());
        fs::write(&path, "").unwrap();
        assert!(create_new(&path).is_ok() && Unfinished::new_alone(&path, &[]).is_ok());
        fs::write(&path, "a script").unwrap();
        let refused = [
            create_new(&path).err(),
            Unfinished::new_alone(&path, &[]).err(),
        ];
        for told in refused {
            let told = told.unwrap().to_string();
            assert!(
                told.ends_with("file exists: name another, or remove it"),
                "{told}"
            );
        }
        assert_eq!(fs::read(&path).unwrap(), b"a script");
        assert!(create_new(Path::new("/dev/null")).is_ok());
    }

    #[test]
    fn a_file_that_is_read_is_not_written() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "before").unwrap();
        assert!(Unfinished::new(&path, std::slice::from_ref(&path)).is_err());
    }
}
