//! Options that do not fit together, found where clap cannot.

use std::error::Error;
use std::fmt;

/// What is wrong and what to type.
#[derive(Debug)]
pub struct WrongUse(pub String);

impl WrongUse {
    /// The exit status, which is clap's.
    pub const STATUS: u8 = 2;
}

impl fmt::Display for WrongUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for WrongUse {}
