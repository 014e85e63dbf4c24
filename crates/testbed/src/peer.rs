use std::env;
use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::error::{Context, Error, Result};
use crate::{process, sys};

/// Let the kernel send no faster on this socket: SO_MAX_PACING_RATE.
pub fn set_max_pacing_rate(socket: impl AsFd, bytes_per_second: u64) -> Result<()> {
    sys::set_max_pacing_rate(socket, bytes_per_second).context("set the pacing rate of", "a socket")
}

/// Have segments to and from the peer signed, with a key that it has, too: TCP_MD5SIG. A listener
/// has keys for those that connect.
pub fn set_signature_key(socket: impl AsFd, peer: IpAddr, key: &[u8]) -> Result<()> {
    let peer = SocketAddr::new(peer, 0).into();
    sys::set_signature_key(socket, peer, key).context("set the key of", "a socket")
}

const NAME: &str = "testbed-peer";

/// Names a `testbed-peer` that was built elsewhere, for machines without cargo.
const OVERRIDE: &str = "TESTBED_PEER";

/// The path of `testbed-peer`, the socket programs with known behaviour (see its `--help`).
///
/// Cargo gives a test the binaries of its own package only, and does not build those of a
/// dev-dependency. So this builds it, once per process, into the target directory that the caller
/// runs from. The environment variable `TESTBED_PEER` names one to use instead; so does a
/// `testbed-peer` next to the caller if cargo does not run it.
pub fn peer_program() -> Result<PathBuf> {
    static BUILT: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = &*built {
        return Ok(path.clone());
    }
    let path = match env::var_os(OVERRIDE) {
        Some(path) => path.into(),
        None => build()?,
    };
    *built = Some(path.clone());
    Ok(path)
}

fn build() -> Result<PathBuf> {
    let caller = env::current_exe().context("find", "the running program")?;
    let directory =
        profile_directory(&caller).ok_or(Error::Missing("a target directory of cargo"))?;
    let program = directory.join(NAME);
    let cargo = env::var_os("CARGO");
    if cargo.is_none() && program.exists() {
        return Ok(program);
    }
    let profile = match directory.file_name().and_then(OsStr::to_str) {
        // The directory of the profile `dev` has a name of its own.
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let mut command = Command::new(cargo.unwrap_or_else(|| "cargo".into()));
    command
        .args([
            "build",
            "--quiet",
            "--package",
            "testbed",
            "--bin",
            NAME,
            "--profile",
            profile,
        ])
        .args([
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ])
        .arg("--target-dir")
        .arg(directory.parent().unwrap_or(directory));
    process::run(command)?;
    Ok(program)
}

/// `target/debug` for `target/debug/deps/test-0123` and its like.
fn profile_directory(program: &Path) -> Option<&Path> {
    let directory = program.parent()?;
    match directory.file_name()?.to_str()? {
        "deps" | "examples" => directory.parent(),
        _ => Some(directory),
    }
}
