//! The `sockstamp` under test: the binary next to this program.

use std::env;
use std::process::Command;

use anyhow::{Result, bail};

pub(crate) fn sockstamp() -> Result<Command> {
    let program = env::current_exe()?.with_file_name("sockstamp");
    if !program.exists() {
        bail!(
            "{} is not there: build sockstamp-cli with the same profile",
            program.display()
        );
    }
    Ok(Command::new(program))
}
