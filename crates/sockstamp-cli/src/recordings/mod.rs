//! The files of a recording.

mod beside;
pub(crate) mod findings;
mod next;
pub(crate) mod provenance;
mod served;
pub(crate) mod span;
pub(crate) mod waits;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sockstamp_bpf::packets;
use sockstamp_host::places::Places;
use sockstamp_model::clock::{Nanos, Realtime, Timestamp};
use sockstamp_model::message::Message;
use sockstamp_model::summary::Lost;
use sockstamp_print::output::{is_capture, is_parquet};
use sockstamp_print::progress::Progress;
use sockstamp_print::wrong_use::WrongUse;
use sockstamp_record::recover::has_footer;
use sockstamp_record::{Detail, PacketReader, Reader};
use sockstamp_run::escape;

use crate::options::choice::Choice;
use crate::options::source::Source;

pub(crate) use beside::{MESSAGES, PACKETS, WAITS, packets_beside, waits_beside};

/// The fact that names a recording: all of its files have the same.
pub(crate) const RECORDING: &str = "recording";

/// The fact that names the host that measured.
const HOST: &str = "host";
/// The moment at which the recording ended, in nanoseconds since 1970; its last file has it.
pub(crate) const ENDED: &str = "ended";

/// The fact that says which messages were recorded: those that took longer, in nanoseconds. Absent
/// if all were.
pub(crate) const SLOW_ONLY: &str = "slower_than_ns";

/// The place of a number of losses.
type Loss = fn(&mut Lost) -> &mut u64;
/// The facts that say what a recording lacks, by the reason; absent if its writer was killed. The
/// first one is as old as recordings are. A recording has no groups, and so no losses of them.
pub(crate) const LOST: [(&str, Loss); 11] = [
    ("lost", |lost| &mut lost.ring),
    ("lost_evicted", |lost| &mut lost.evicted),
    ("lost_unmatched", |lost| &mut lost.unmatched),
    ("lost_flows", |lost| &mut lost.flows),
    ("lost_mptcp", |lost| &mut lost.mptcp),
    ("lost_host_path", |lost| &mut lost.host_path),
    ("lost_neighbours", |lost| &mut lost.neighbours),
    ("lost_turned_away", |lost| &mut lost.turned_away),
    ("lost_datagrams", |lost| &mut lost.datagrams),
    ("lost_skipped", |lost| &mut lost.skipped),
    ("lost_not_adopted", |lost| &mut lost.not_adopted),
];
/// A number of packets that a recording lacks.
type Lack = fn(packets::Lost) -> u64;
/// The facts that say how many packets it lacks, by the reason.
pub(crate) const LOST_PACKETS: [(&str, Lack); 5] = [
    ("lost_ring", |lost| lost.ring),
    ("lost_headers", |lost| lost.headers),
    ("lost_fragments", |lost| lost.fragments),
    ("lost_flows", |lost| lost.flows),
    ("lost_forgotten", |lost| lost.forgotten),
];
/// The fact that says how many packets were measured, and could not be written. Absent if all were.
pub(crate) const UNWRITTEN: &str = "lost_unwritten";

/// A choice of slow messages: what is counted are these alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlowOnly {
    /// Each took longer than this; the largest of several recordings.
    pub(crate) limit: Nanos,
    /// True if other files have all messages.
    some_have_all: bool,
}

/// The words stand in a sentence.
impl fmt::Display for SlowOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.some_have_all {
            "of some files, "
        } else {
            ""
        };
        write!(
            f,
            "{of}only messages that took longer than {} were recorded (--slow): counts and \
             percentiles are those of slow messages",
            self.limit
        )
    }
}

/// Recordings that are read, several times if needed.
pub(crate) struct Recordings {
    readers: Vec<Reader>,
    choice: Choice,
}

impl Recordings {
    /// Open files, and those of directories, to read all of them.
    #[cfg(test)]
    pub(crate) fn open(paths: &[PathBuf]) -> Result<Self> {
        Self::chosen(paths, Choice::default())
    }

    /// Open files, and those of directories, to read these rows.
    pub(crate) fn chosen(paths: &[PathBuf], choice: Choice) -> Result<Self> {
        let readers = open(&all_files(paths)?)?;
        span::refuse_outside(&readers, &choice)?;
        Ok(Self { readers, choice })
    }

    /// Return the path of the file, if there is one.
    pub(crate) fn only(&self) -> Option<&Path> {
        match &self.readers[..] {
            [only] => Some(only.path()),
            _ => None,
        }
    }

    /// Open what a source names, if that is recordings.
    pub(crate) fn named(source: &Source) -> Result<Option<Self>> {
        let read = || Self::chosen(&source.files, source.choice());
        (!source.files.is_empty()).then(read).transpose()
    }

    /// Return true if rows may be left out.
    pub(crate) fn is_part(&self) -> bool {
        !self.choice.is_all()
    }

    /// Return the moment before which no row is read.
    pub(crate) fn from(&self) -> Option<Timestamp<Realtime>> {
        self.choice.from
    }

    /// Return what the recordings lack, as far as their writers came to note it.
    pub(crate) fn lost(&self) -> Lost {
        lost_of(&self.readers)
    }

    /// Return true if one host has recorded all of it.
    fn are_of_one_host(&self) -> bool {
        let mut hosts = self.readers.iter().map(|reader| reader.fact(HOST));
        let first = hosts.next().flatten();
        first.is_some() && hosts.all(|host| host == first)
    }

    /// Return when a recording ended, or what is read of it: known of a single one that noted it.
    fn ended(&self) -> Option<Timestamp<Realtime>> {
        let mut names = self.readers.iter().map(|reader| reader.fact(RECORDING));
        let first = names.next().flatten()?;
        if names.any(|name| name != Some(first)) {
            return None;
        }
        let ended = |reader: &Reader| reader.fact(ENDED)?.parse().ok();
        let ended = Timestamp::from_nanos(self.readers.iter().find_map(ended)?);
        Some(self.choice.to.map_or(ended, |to| ended.min(to)))
    }

    /// Return the network namespaces of the host that measured.
    pub(crate) fn places(&self) -> Places {
        let recorded = |recording: &Reader| Places::recorded(|key| recording.fact(key));
        Places::of_all(self.readers.iter().map(recorded))
    }

    /// Return the choice of `record --slow`, if any file has it.
    pub(crate) fn slow_only(&self) -> Option<SlowOnly> {
        let chosen = |recording: &Reader| recording.fact(SLOW_ONLY)?.parse().ok();
        let times: Vec<u64> = self.readers.iter().filter_map(chosen).collect();
        Some(SlowOnly {
            limit: Nanos(*times.iter().max()?),
            some_have_all: times.len() < self.readers.len(),
        })
    }

    /// Pass each message, with these columns.
    pub(crate) fn each(
        &self,
        detail: Detail,
        mut take: impl FnMut(&Message) -> Result<()>,
    ) -> Result<()> {
        // A choice is by columns that durations alone do not have.
        let detail = match self.is_part() {
            true => detail.max(Detail::Dimensions),
            false => detail,
        };
        let names = self.processes();
        let mut progress = Progress::new(self.readers.iter().map(Reader::rows).sum())?;
        self.readers.iter().try_for_each(|recording| {
            recording.each(detail, |message| {
                progress.step()?;
                match self.choice.has(message, names.of(message.pid)) {
                    true => take(message),
                    false => Ok(()),
                }
            })
        })
    }
}

impl Recordings {
    /// Pass each message in the order of its time within a row group: rows there are in the order
    /// of their flows. One file comes after another.
    pub(crate) fn in_order(
        &self,
        detail: Detail,
        mut take: impl FnMut(&Message) -> Result<()>,
    ) -> Result<()> {
        let names = self.processes();
        let mut progress = Progress::new(self.readers.iter().map(Reader::rows).sum())?;
        for recording in &self.readers {
            let mut groups = recording.groups();
            let mut rest = groups.next().unwrap_or(0);
            let mut group = Vec::new();
            recording.each(detail, |message| {
                progress.step()?;
                if self.choice.has(message, names.of(message.pid)) {
                    group.push(message.clone());
                }
                rest = rest.saturating_sub(1);
                if rest > 0 {
                    return Ok(());
                }
                rest = groups.next().unwrap_or(0);
                group.sort_by_key(|message: &Message| message.time);
                group.drain(..).try_for_each(|message| take(&message))
            })?;
        }
        Ok(())
    }
}

/// Return what the recordings of these files lack, as far as their writers came to note it.
fn lost_of<'a>(files: impl IntoIterator<Item = &'a Reader>) -> Lost {
    let mut sum = Lost::default();
    for recording in files {
        for (key, loss) in LOST {
            let count = recording.fact(key).and_then(|count| count.parse().ok());
            let all = loss(&mut sum);
            *all = all.saturating_add(count.unwrap_or(0));
        }
    }
    sum
}

/// Open files; report rows that their writers had no time to finish.
pub(crate) fn open(files: &[PathBuf]) -> Result<Vec<Reader>> {
    let readers: Result<Vec<_>, _> = files.iter().map(|path| Reader::open(path)).collect();
    let readers = readers?;
    readers.iter().for_each(tell_what_is_unread);
    Ok(readers)
}

fn tell_what_is_unread(recording: &Reader) {
    if recording.unread() > 0 {
        escape::complain(format_args!(
            "{}: its last {} bytes belong to no whole messages: the recording was killed, \
             or the file was cut short",
            recording.path().display(),
            recording.unread()
        ));
    }
}

/// Return the packets that a recording lacks.
pub(crate) fn lost_packets(recording: &PacketReader) -> packets::Lost {
    let [ring, headers, fragments, flows, forgotten] = LOST_PACKETS.map(|(key, _)| {
        let count = recording.fact(key).and_then(|count| count.parse().ok());
        count.unwrap_or(0)
    });
    packets::Lost {
        ring,
        headers,
        fragments,
        flows,
        forgotten,
    }
}

/// Return these files, and all of these directories, each once.
pub(crate) fn all_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let files: Result<Vec<_>> = paths.iter().map(|path| files(path)).collect();
    Ok(without_duplicates(files?.concat()))
}

/// Return the device and the inode of a file: all of its names and links share them.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = path.metadata().ok()?;
    Some((file.dev(), file.ino()))
}

/// Keep the first name of each file, so that its messages count once. Names without a file stay:
/// opening them says what is wrong.
fn without_duplicates(mut files: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut known = HashSet::new();
    files.retain(|path| identity(path).is_none_or(|file| known.insert(file)));
    files
}

/// Return the path, or all files of a recording below it by time:
/// `date=…/hour=…/host=…/….parquet`. Files that were left before their first footer have nothing to
/// read, and are reported.
pub(crate) fn files(path: &Path) -> Result<Vec<PathBuf>> {
    below(path, &|path| {
        Ok(has_extension(path, &[MESSAGES]) && is_begun(path)?)
    })
}

/// Return these files, and those of messages, packets and waits of these directories, each once;
/// also those that were left before their first footer.
pub(crate) fn every_file(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let wanted = |path: &Path| Ok(has_extension(path, &[MESSAGES, PACKETS, WAITS]));
    let files: Result<Vec<_>> = paths.iter().map(|path| below(path, &wanted)).collect();
    Ok(without_duplicates(files?.concat()))
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    let of = |extension: &OsStr| extensions.iter().any(|wanted| extension == *wanted);
    path.extension().is_some_and(of)
}

/// Return the path, or the wanted files below it.
fn below(path: &Path, wanted: &dyn Fn(&Path) -> Result<bool>) -> Result<Vec<PathBuf>> {
    const LEVELS: usize = 3;
    if !path.is_dir() {
        refuse_others(path)?;
        return Ok(vec![path.to_owned()]);
    }
    let mut directories = vec![path.to_owned()];
    let (mut files, mut others) = (Vec::new(), Vec::new());
    for _ in 0..=LEVELS {
        for directory in std::mem::take(&mut directories) {
            let found = Listed::of(&directory, wanted)?;
            directories.extend(found.directories);
            files.extend(found.files);
            others.extend(found.others);
        }
    }
    if files.is_empty() {
        bail!("{} contains no recording{}", path.display(), named(&others));
    }
    if !others.is_empty() {
        escape::complain(format_args!(
            "{}: {} left out{}",
            path.display(),
            match others.len() {
                1 => "a recording is".to_owned(),
                count => format!("{count} recordings are"),
            },
            named(&others)
        ));
    }
    files.sort();
    Ok(without_duplicates(files))
}

/// Tell how recordings of other names are read, if there are any.
fn named(others: &[PathBuf]) -> String {
    match others.first() {
        Some(other) => format!(
            ": names end in .{MESSAGES} there; name others, as in {}",
            escape::quoted_path(other)
        ),
        None => String::new(),
    }
}

/// Refuse a pattern that matched nothing, which a shell leaves as it is, the number of a second
/// process, standard input, and captures.
fn refuse_others(path: &Path) -> Result<()> {
    let text = path.to_string_lossy();
    if text == "-" && !path.exists() {
        let told = "a recording is read from its end, and standard input has none: write FILE";
        return Err(WrongUse(told.to_owned()).into());
    }
    if is_capture(path) {
        bail!(
            "{text} is a capture, and no recording: tcpdump -r {}",
            escape::quoted_path(path)
        );
    }
    if path.exists() {
        return Ok(());
    }
    if text.contains(" > ") || text.contains(" < ") {
        bail!("{text} is no file: a condition is of sockstamp diff --fail-if, which compares two");
    }
    if text.parse::<u32>().is_ok() {
        bail!("no recording {text}: several processes are one word, as in --pid 1,{text}");
    }
    let folder = path.parent().filter(|folder| folder.is_dir());
    match folder {
        Some(folder) if text.contains(['*', '?']) => bail!(
            "no file is named {text}: write {}, which has all below it",
            escape::quoted_path(folder)
        ),
        _ => Ok(()),
    }
}

/// Contents of a directory. A link to a directory is reported and left out: it may lead back.
#[derive(Default)]
struct Listed {
    directories: Vec<PathBuf>,
    files: Vec<PathBuf>,
    /// Recordings without the name of one.
    others: Vec<PathBuf>,
}

impl Listed {
    fn of(directory: &Path, wanted: &dyn Fn(&Path) -> Result<bool>) -> Result<Self> {
        let failed = || format!("cannot read {}", directory.display());
        let mut listed = Self::default();
        for entry in directory.read_dir().with_context(failed)? {
            listed.add(entry.with_context(failed)?.path(), wanted)?;
        }
        Ok(listed)
    }

    fn add(&mut self, path: PathBuf, wanted: &dyn Fn(&Path) -> Result<bool>) -> Result<()> {
        if path.is_dir() {
            match path.is_symlink() {
                true => tell_that_a_link_is_left_out(&path),
                false => self.directories.push(path),
            }
        } else if wanted(&path)? {
            self.files.push(path);
        } else if !has_extension(&path, &[MESSAGES, PACKETS, WAITS]) && is_parquet(&path) {
            self.others.push(path);
        }
        Ok(())
    }
}

fn tell_that_a_link_is_left_out(path: &Path) {
    escape::complain(format_args!(
        "{} is left out: it is a link to a directory; name that directory to read it",
        path.display()
    ));
}

fn is_begun(path: &Path) -> Result<bool> {
    let is_begun = has_footer(path)?;
    if !is_begun {
        escape::complain(format_args!(
            "{} is left out: it ends before its first footer",
            path.display()
        ));
    }
    Ok(is_begun)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use sockstamp_model::clock::Timestamp;
    use sockstamp_model::fixture;
    use sockstamp_model::flow::SocketCookie;
    use sockstamp_model::stage::Direction;
    use sockstamp_record::{Batch, Writer};
    use tempfile::tempdir;

    use super::*;

    #[test]
    fn a_file_that_was_left_at_its_begin_costs_no_others() {
        let directory = tempdir().unwrap();
        let [good, bad] = ["good", "bad"].map(|name| {
            let path = directory.path().join(name).with_extension(MESSAGES);
            Writer::create(&path, &[]).unwrap().finish().unwrap();
            path
        });
        let whole = fs::read(&bad).unwrap();
        for length in [0, 4, 100, whole.len() - 1] {
            fs::write(&bad, &whole[..length]).unwrap();
            let found = files(directory.path()).unwrap();
            assert_eq!(found, std::slice::from_ref(&good), "{length}");
            // By its name, it is what the user wants.
            assert!(Recordings::open(std::slice::from_ref(&bad)).is_err());
        }
        fs::remove_file(&good).unwrap();
        let told = files(directory.path()).unwrap_err().to_string();
        assert!(told.contains("contains no recording"), "{told}");
        fs::write(directory.path().join("before.ss"), "PAR1").unwrap();
        let told = files(directory.path()).unwrap_err().to_string();
        assert!(
            told.contains("names end in .parquet there; name others, as in "),
            "{told}"
        );
        assert!(told.contains("/before.ss"), "{told}");
    }

    #[test]
    fn a_file_with_several_names_is_read_once() {
        let directory = tempdir().unwrap();
        let whole = directory.path().to_owned();
        let [file, link] = ["a", "b"].map(|name| whole.join(name).with_extension(MESSAGES));
        Writer::create(&file, &[]).unwrap().finish().unwrap();
        symlink(&file, &link).unwrap();
        let back = whole.join("back");
        symlink(&whole, &back).unwrap();
        assert_eq!(files(&whole).unwrap(), std::slice::from_ref(&file));
        // By its name, a link to a directory is what the user wants.
        assert_eq!(files(&back).unwrap(), [back.join("a.parquet")]);
        let named = [link.clone(), file, whole.clone(), link.clone(), back];
        assert_eq!(all_files(&named).unwrap(), [link]);
        let missing = [whole.join("missing"), whole.join("missing")];
        assert_eq!(all_files(&missing).unwrap(), missing);
    }

    #[test]
    fn messages_of_a_row_group_come_in_the_order_of_their_time() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("a.parquet");
        let mut writer = Writer::create(&path, &[]).unwrap();
        for minute in 0..2 {
            let mut batch = Batch::new();
            for second in 0..60 {
                for cookie in 1..=2 {
                    let mut message = fixture::message(Direction::Tx);
                    message.flow.cookie = SocketCookie(cookie);
                    let seconds = 1_700_000_000 + 60 * minute + second;
                    message.time = Timestamp::from_nanos(1_000_000_000 * seconds + cookie);
                    batch.push(&message);
                }
            }
            writer.write(&batch).unwrap();
        }
        writer.finish().unwrap();
        let mut times = Vec::new();
        let recordings = Recordings::open(std::slice::from_ref(&path)).unwrap();
        let read = recordings.in_order(Detail::All, |message| {
            times.push(message.time);
            Ok(())
        });
        read.unwrap();
        assert!(times.len() == 240 && times.is_sorted());
    }

    #[test]
    fn a_folder_is_recovered_with_its_packets_and_waits() {
        let directory = tempdir().unwrap();
        let hour = directory.path().join("date=2026-11-22/hour=19/host=a");
        fs::create_dir_all(&hour).unwrap();
        let wanted = ["1.packets", "1.parquet", "1.waits"].map(|name| hour.join(name));
        wanted.iter().for_each(|path| fs::write(path, "").unwrap());
        fs::write(hour.join("notes"), "").unwrap();
        let found = every_file(&[directory.path().to_owned()]).unwrap();
        assert_eq!(found, wanted);
    }

    /// Opening it to read would wait for a writer, which never comes.
    #[test]
    fn a_pipe_is_no_capture_and_nobody_waits_for_its_writer() {
        let directory = tempdir().unwrap();
        let [pipe, capture] = ["pipe", "capture"].map(|name| directory.path().join(name));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(!is_capture(&pipe));
        fs::write(&capture, [0x0a, 0x0d, 0x0d, 0x0a]).unwrap();
        assert!(is_capture(&capture));
    }

    #[test]
    fn a_choice_of_slow_messages_is_told() {
        let directory = tempdir().unwrap();
        let [all, slow, slower] = [None, Some("1000000"), Some("50000000")].map(|time| {
            let path = directory.path().join(time.unwrap_or("all"));
            let facts: Vec<_> = time
                .map(|time| (SLOW_ONLY, time.to_owned()))
                .into_iter()
                .collect();
            Writer::create(&path, &facts).unwrap().finish().unwrap();
            path
        });
        let told = |files: &[PathBuf]| {
            let slow_only = Recordings::open(files).unwrap().slow_only();
            slow_only.map(|slow_only| slow_only.to_string())
        };
        assert_eq!(told(std::slice::from_ref(&all)), None);
        let expected = "only messages that took longer than 50.0 ms were recorded \
                        (--slow): counts and percentiles are those of slow messages";
        assert_eq!(told(&[slow, slower.clone()]).as_deref(), Some(expected));
        let expected = format!("of some files, {expected}");
        assert_eq!(told(&[all, slower]), Some(expected));
    }

    #[test]
    fn each_recording_has_packets_of_its_own() {
        for (messages, packets) in [
            ("redis.parquet", "redis.packets"),
            ("file", "file.packets"),
            ("run.1", "run.1.packets"),
            ("run.2", "run.2.packets"),
            ("run.2.packets", "run.2.packets"),
        ] {
            assert_eq!(packets_beside(Path::new(messages)), Path::new(packets));
        }
    }
}
