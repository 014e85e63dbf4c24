//! Explain the last minutes by running `sockstamp explain` as a separate process: for a moment it
//! needs more memory than the agent has.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::sync::oneshot;

use super::files::Files;
use crate::agent::server::Answer;

/// More takes longer than a client waits.
const MOST: u64 = 32 << 20;

/// An explanation is being made: one at a time.
static BUSY: AtomicBool = AtomicBool::new(false);

/// Answer a client, from a thread that waits for the process.
pub(super) fn explain(files: &mut Files, client: oneshot::Sender<Answer>) {
    let refusal = match files.newest(MOST) {
        Ok(newest) if newest.is_empty() => "no message was recorded yet\n".to_owned(),
        Ok(_) if BUSY.swap(true, Ordering::Acquire) => "it is being explained already\n".to_owned(),
        Ok(newest) => {
            thread::spawn(move || {
                let text = run(newest);
                BUSY.store(false, Ordering::Release);
                // The client may have gone.
                let _ = client.send(text.into());
            });
            return;
        }
        Err(error) => format!("the files cannot be read: {error:#}\n"),
    };
    // The client may have gone.
    let _ = client.send(refusal.into());
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
