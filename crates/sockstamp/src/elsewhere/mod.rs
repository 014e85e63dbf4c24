//! The same names for other systems than Linux, so that a program compiles there as it is: each
//! call fails with [`ErrorKind::Unsupported`], and no socket becomes a stamped one.

use std::io::{self, ErrorKind};

use crate::Error;

pub mod clock;
pub mod control;
pub mod error_queue;
pub mod stamped;
pub mod timestamping;

fn unsupported(call: &'static str) -> Error {
    Error::Call {
        call,
        on: "a system that is not Linux".into(),
        errno: io::Error::from(ErrorKind::Unsupported),
    }
}
