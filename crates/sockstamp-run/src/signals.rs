//! Signals as something to wait for: poll(2) takes their pipe together with other descriptors.

use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithOrigin;

/// Caught signals, with the process that each is from.
pub type Signals = SignalDelivery<UnixStream, WithOrigin>;

/// Catch these signals from now on.
///
/// # Errors
///
/// If the process has no descriptor left, or a signal cannot be caught.
pub fn catch(signals: &[i32]) -> Result<Signals> {
    let caught = || -> std::io::Result<Signals> {
        let (read, write) = UnixStream::pair()?;
        SignalDelivery::with_pipe(read, write, WithOrigin::default(), signals)
    };
    caught().context("cannot catch signals")
}
