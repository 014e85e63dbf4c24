//! Explain the last minutes by running `sockstamp explain` as a separate process: for a moment it
//! needs more memory than the agent has.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use tokio::sync::oneshot;

use super::files::Files;
use crate::agent::server::Answer;
use crate::escape::complain;

/// More takes longer than a client waits.
const MOST: u64 = 32 << 20;

/// An explanation is being made, or was just now: they take no more than half of the time.
static BUSY: AtomicBool = AtomicBool::new(false);

/// Answer a client, from a thread that waits for the process.
pub(super) fn explain(files: &mut Files, client: oneshot::Sender<Answer>) {
    // First: to have the newest messages, a file is ended.
    if BUSY.swap(true, Ordering::Acquire) {
        refuse(
            client,
            "it is being explained, or was just now: ask again\n".to_owned(),
        );
        return;
    }
    match files.newest(MOST) {
        Ok(newest) if newest.is_empty() => {
            refuse(client, "no message was recorded yet\n".to_owned())
        }
        Ok(newest) => return begin(newest, client),
        Err(error) => refuse(client, format!("the files cannot be read: {error:#}\n")),
    }
    BUSY.store(false, Ordering::Release);
}

/// The client may have gone.
fn refuse(client: oneshot::Sender<Answer>, why: String) {
    let _ = client.send(why.into());
}

/// Explain on a thread that then rests for as long.
fn begin(files: Vec<PathBuf>, client: oneshot::Sender<Answer>) {
    let explain = move || {
        let began = Instant::now();
        // The client may have gone.
        let _ = client.send(run(files).into());
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

fn run(files: Vec<PathBuf>) -> Vec<u8> {
    let output = Command::new("/proc/self/exe")
        .arg("explain")
        .args(files)
        .output();
    match output {
        Ok(output) if output.status.success() => output.stdout,
        Ok(output) => output.stderr,
        Err(error) => format!("sockstamp explain does not start: {error}\n").into_bytes(),
    }
}
