//! Explain the last minutes by running `sockstamp explain` as a separate process: for a moment it
//! needs more memory than the agent has.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use sockstamp_model::name::Escaped;
use sockstamp_run::capabilities;
use sockstamp_run::escape::complain;
use sockstamp_run::wording::in_words;
use tokio::sync::oneshot;

use super::files::Files;
use crate::http::question::{Answered, Refusal};

/// More takes longer than a client waits.
const MOST: u64 = 32 << 20;

const NOTHING: &str = "no message was recorded yet\n";

/// An explanation is being made, or was just now: they take no more than half of the time.
static BUSY: AtomicBool = AtomicBool::new(false);

/// Answer a client, from a thread that waits for the process.
pub(super) fn explain(files: &mut Files, client: oneshot::Sender<Answered>) {
    // First: to have the newest messages, a file is ended.
    if BUSY.swap(true, Ordering::Acquire) {
        let why = "it is being explained, or was just now: ask again\n";
        refuse(client, Refusal::busy(why));
        return;
    }
    match files.newest(MOST) {
        Ok(newest) if newest.is_empty() => refuse(client, Refusal::unavailable(NOTHING)),
        Ok(newest) => return begin(newest, client),
        Err(error) => {
            let why = in_words(&format!("the files cannot be read: {error:#}\n"));
            refuse(client, Refusal::failed(why));
        }
    }
    BUSY.store(false, Ordering::Release);
}

/// The client may have gone.
fn refuse(client: oneshot::Sender<Answered>, why: Refusal) {
    let _ = client.send(Err(why));
}

/// Explain on a thread that then rests for as long.
fn begin(files: Vec<PathBuf>, client: oneshot::Sender<Answered>) {
    let explain = move || {
        capabilities::keep(&[]);
        let began = Instant::now();
        // The client may have gone.
        let _ = client.send(run(files));
        thread::sleep(began.elapsed());
        BUSY.store(false, Ordering::Release);
    };
    let thread = thread::Builder::new().name("explain".to_owned());
    if let Err(error) = thread.spawn(explain) {
        complain(format_args!(
            "nothing is explained: no thread starts: {error}"
        ));
        BUSY.store(false, Ordering::Release);
    }
}

/// Run it without the file that it cannot read, until it can read all: a file may be damaged, or
/// gone by now.
fn run(mut files: Vec<PathBuf>) -> Answered {
    let mut damaged = 0;
    while !files.is_empty() {
        let mut command = Command::new("/proc/self/exe");
        let output = command.args(["explain", "-r"]).args(&files).output();
        let output = output.map_err(|error| {
            Refusal::failed(in_words(&format!(
                "sockstamp explain does not start: {error}\n"
            )))
        })?;
        if output.status.success() {
            return Ok(noted(output.stdout, damaged).into());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        // The error is last.
        let error = said.lines().next_back().unwrap_or_default();
        let (unread, others) = divide(files, error);
        if unread.is_empty() {
            let status = output.status;
            return Err(Refusal::failed(format!(
                "sockstamp explain: {status}\n{said}"
            )));
        }
        let reason = error.trim_start_matches("sockstamp: ");
        complain(format_args!("left out of an explanation: {reason}"));
        damaged += unread.iter().filter(|file| file.exists()).count();
        files = others;
    }
    Err(match damaged {
        0 => Refusal::unavailable(NOTHING),
        _ => Refusal::failed(noted(Vec::new(), damaged)),
    })
}

/// Divide files into those that an error names, and the others.
fn divide(files: Vec<PathBuf>, error: &str) -> (Vec<PathBuf>, Vec<PathBuf>) {
    files.into_iter().partition(|file| {
        let path = file.to_string_lossy();
        error.contains(&Escaped(path.as_bytes()).to_string())
    })
}

/// Put the number of files that are left out before an explanation.
fn noted(explanation: Vec<u8>, damaged: usize) -> Vec<u8> {
    if damaged == 0 {
        return explanation;
    }
    let note = format!("damaged files, which are left out: {damaged} (see the agent's log)\n");
    [note.into_bytes(), explanation].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_tells_the_files_that_it_names_from_the_others() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let files = paths(&["/a/1-1.parquet", "/a/1-11.parquet", "/a/\n.parquet"]);
        let told = |error: &str| divide(files.clone(), error).0;
        let error = "sockstamp: /a/1-1.parquet: damaged at byte 4: it cannot be decoded";
        assert_eq!(told(error), paths(&["/a/1-1.parquet"]));
        let error = "sockstamp: cannot open /a/\\n.parquet: No such file or directory";
        assert_eq!(told(error), paths(&["/a/\n.parquet"]));
        assert_eq!(told("sockstamp: cannot print"), paths(&[]));
    }
}
