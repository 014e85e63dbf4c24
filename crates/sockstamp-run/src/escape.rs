//! The ways out of this program for text that others may have chosen. The lints of the crates of
//! programs keep all but these from standard output and standard error.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::panic::Location;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::fstat;
use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};
use sockstamp_model::line_limit::LineLimit;
use sockstamp_model::name::{Escaped, shows};

use crate::wording::in_words;

/// The importance of a line: syslog(3).
#[derive(Debug, Clone, Copy)]
enum Level {
    Error = 3,
    Warning = 4,
    Info = 6,
}

/// Lines of one place in the program within a minute, and those of all, of a program that runs for
/// long.
const LINES: (u32, u32) = (10, 100);

type Limit = LineLimit<&'static Location<'static>>;

/// `None` where lines are not limited.
static LIMIT: Mutex<Option<Limit>> = Mutex::new(None);

/// Lines of a log that nobody read, see [`lost_lines`].
static LOST: AtomicU64 = AtomicU64::new(0);

/// Bound the lines of a log from now on, and wait no more for its reader: who writes it measures.
pub fn limit_lines() {
    let (of_a_place, of_all) = LINES;
    *limit() = Some(LineLimit::new(of_a_place, of_all));
}

/// Return the number of lines that the log did not take: it was full.
pub fn lost_lines() -> u64 {
    LOST.load(Ordering::Relaxed)
}

fn limit() -> MutexGuard<'static, Option<Limit>> {
    LIMIT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Quote a word that a shell would read otherwise.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+^".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Quote the name of a file in a command that somebody may paste.
#[must_use]
pub fn quoted_path(path: &Path) -> String {
    // Quote first: what is escaped is not in quotes by accident.
    let name = quoted(&path.to_string_lossy());
    Escaped(name.as_bytes()).to_string()
}

/// Print one line on standard error, escaped: an error may quote a file name or an argument.
#[track_caller]
pub fn complain(text: impl fmt::Display) {
    print(Level::Warning, &text, Location::caller());
}

/// Print the error that ends the program.
#[track_caller]
pub fn fail(text: impl fmt::Display) {
    print(Level::Error, &text, Location::caller());
}

/// Print a line about what is as it was asked for.
#[track_caller]
pub fn inform(text: impl fmt::Display) {
    print(Level::Info, &text, Location::caller());
}

fn print(level: Level, text: &dyn fmt::Display, place: &'static Location<'static>) {
    // Locked until the line is written: another thread would fill the room that this one has found.
    let mut limit = limit();
    let line = || in_words(&text.to_string());
    let Some(lines) = &mut *limit else {
        drop(limit);
        put(&composed(level, &line()));
        return;
    };
    if let Some(left_out) = lines.admit(place, Instant::now()) {
        report(lines, left_out);
        write_at_once(level, &line());
    }
}

/// Report the lines that were left out since the last report, at the end of a program that bounds
/// them.
pub fn report_left_out() {
    if let Some(lines) = &mut *limit() {
        let left_out = lines.take_left_out();
        report(lines, left_out);
    }
}

fn report(lines: &mut Limit, left_out: u64) {
    if left_out == 0 {
        return;
    }
    let line = format!(
        "{left_out} lines were left out, of causes that had {} before",
        LINES.0
    );
    if !write_at_once(Level::Warning, &line) {
        lines.give_back(left_out);
    }
}

/// Return true if the log took the line; count it otherwise.
fn write_at_once(level: Level, text: &str) -> bool {
    let mut line = composed(level, text);
    cut(&mut line);
    let has_room = takes_more(io::stderr());
    if has_room {
        put(&line);
    } else {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
    has_room
}

fn composed(level: Level, text: &str) -> String {
    let priority = match goes_to_the_journal() {
        true => format!("<{}>", level as u8),
        false => String::new(),
    };
    format!("{priority}sockstamp: {}", Escaped(text.as_bytes()))
}

fn put(line: &str) {
    // Ignore the error: a broken standard error cannot be reported.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Leave as much of a line as a pipe takes at once (PIPE_BUF), with its end.
fn cut(line: &mut String) {
    const LONGEST: usize = 4096 - "…\n".len();
    if line.len() > LONGEST {
        let mut ends = (0..=LONGEST).rev();
        let end = ends.find(|at| line.is_char_boundary(*at));
        line.truncate(end.unwrap_or_default());
        line.push('…');
    }
}

/// Return whether standard error is the journal, which takes a line's priority from its beginning
/// (sd-daemon(3)): `JOURNAL_STREAM` has its device and inode (systemd.exec(5)).
fn goes_to_the_journal() -> bool {
    static JOURNAL: OnceLock<bool> = OnceLock::new();
    *JOURNAL.get_or_init(|| {
        let stream = std::env::var("JOURNAL_STREAM").ok();
        let standard_error = fstat(io::stderr()).ok();
        stream
            .zip(standard_error)
            .is_some_and(|(stream, found)| stream == format!("{}:{}", found.st_dev, found.st_ino))
    })
}

/// Do the same as [`complain`], unless standard error takes nothing now: a program that has to end
/// waits for no reader.
pub fn complain_unless_full(text: impl fmt::Display) {
    if takes_more(io::stderr()) {
        complain(text);
    }
}

/// Return true if an output takes a line at once. A pipe that polls as writable has room for
/// PIPE_BUF bytes.
pub(crate) fn takes_more(output: impl AsFd) -> bool {
    let mut watched = [PollFd::new(output.as_fd(), PollFlags::POLLOUT)];
    poll(&mut watched, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// Print lines on standard error, with hidden characters escaped.
pub fn complain_lines(text: &str) {
    for line in in_words(text).lines() {
        let _ = writeln!(io::stderr(), "{}", Escaped(line.as_bytes()));
    }
}

/// Write a JSON value. Its strings are exact; characters that do not show as themselves are
/// written `\uNNNN`, of which JSON itself demands the control characters of ASCII alone (RFC 8259,
/// section 7).
///
/// # Errors
///
/// If the output takes no more.
pub fn json(output: impl Write, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(
        output,
        Visible(CompactFormatter),
    ))
}

/// Return a JSON value as [`json`] writes it: a body of HTTP ends up in a terminal, too.
///
/// # Errors
///
/// If the value has no JSON.
pub fn to_json(value: &impl Serialize) -> serde_json::Result<String> {
    let mut output = Vec::new();
    json(&mut output, value)?;
    String::from_utf8(output).map_err(serde::ser::Error::custom)
}

struct Visible(CompactFormatter);

impl Formatter for Visible {
    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(|character| !shows(character)) {
            self.0.write_string_fragment(writer, &rest[..at])?;
            let mut characters = rest[at..].chars();
            for unit in characters.by_ref().take(1).flat_map(utf16) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = characters.as_str();
        }
        self.0.write_string_fragment(writer, rest)
    }

    fn write_char_escape<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        self.0.write_char_escape(writer, escape)
    }
}

/// Return one unit, or a surrogate pair.
fn utf16(character: char) -> impl Iterator<Item = u16> {
    let mut units = [0; 2];
    let length = character.encode_utf16(&mut units).len();
    units.into_iter().take(length)
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Command, Stdio};

    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    use super::*;

    fn written(value: &str) -> String {
        to_json(&value).unwrap()
    }

    #[test]
    fn json_shows_every_character_and_reads_back_exactly() {
        let hostile = "a\u{1b}\u{9b}2J\u{7f}\u{202e}é\u{e0041}\"\\\n服\u{feff}";
        let json = written(hostile);
        assert_eq!(
            json,
            r#""a\u001b\u009b2J\u007f\u202eé\udb40\udc41\"\\\n服\ufeff""#
        );
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), hostile);
    }

    #[test]
    fn json_without_hidden_characters_equals_that_of_serde_json() {
        for text in ["", "nginx", "größe µs \"quoted\" \\ /", "服务"] {
            assert_eq!(written(text), serde_json::to_string(text).unwrap());
        }
    }

    const LIMITED: &str = "SOCKSTAMP_TEST_LIMITED";

    /// Write more lines than a minute has, and report them while nobody reads and when somebody
    /// does.
    fn limited() {
        let mut input = io::stdin().lines();
        limit_lines();
        (0..15).for_each(|_| complain("a line"));
        let set = |flags| fcntl(io::stderr(), FcntlArg::F_SETFL(flags)).unwrap();
        set(OFlag::O_NONBLOCK);
        while io::stderr().write(b"x").is_ok() {}
        set(OFlag::empty());
        report_left_out();
        writeln!(io::stdout(), "\nfull").unwrap();
        input.next();
        report_left_out();
    }

    /// This test is two programs: the one that writes, and the one that reads.
    #[test]
    fn lines_that_were_left_out_are_reported_once_somebody_reads() {
        if env::var_os(LIMITED).is_some() {
            return limited();
        }
        const NAME: &str =
            "escape::tests::lines_that_were_left_out_are_reported_once_somebody_reads";
        let mut writer = Command::new(env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(LIMITED, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(writer.stdout.take().unwrap()).lines();
        assert!(output.any(|line| line.unwrap() == "full"));
        let mut log = writer.stderr.take().unwrap();
        let mut text = vec![0; 1 << 16];
        log.read_exact(&mut text).unwrap();
        drop(writer.stdin.take());
        log.read_to_end(&mut text).unwrap();
        assert!(output.all(|line| line.is_ok()) && writer.wait().unwrap().success());
        let text = String::from_utf8_lossy(&text);
        assert_eq!(text.matches("sockstamp: a line\n").count(), 10, "{text}");
        let told = "5 lines were left out, of causes that had 10 before\n";
        assert_eq!(text.matches(told).count(), 1, "{text}");
    }
}
