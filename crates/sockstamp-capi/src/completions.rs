//! Read the memory that the service of completions writes about the program's sockets.

use std::ffi::{CStr, OsStr};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use sockstamp::completions::{self, DEFAULT_PATH};

use crate::boundary::Result;
use crate::header::{sockstamp_registration_state, sockstamp_report};
use crate::report;

/// `struct sockstamp_completions`.
pub struct Completions {
    pub(crate) connection: completions::Completions,
}

impl Completions {
    pub(crate) fn new(path: Option<&CStr>) -> Result<Self> {
        let path = path.map_or(OsStr::new(DEFAULT_PATH), |path| {
            OsStr::from_bytes(path.to_bytes())
        });
        Ok(Self {
            connection: completions::Completions::connect(path)?,
        })
    }

    pub(crate) fn register(&self, socket: BorrowedFd<'_>, stamps: bool) -> Result<Registration> {
        Ok(Registration {
            registration: self.connection.register(socket, stamps)?,
            reports: Vec::new(),
        })
    }
}

/// `struct sockstamp_registration`.
pub struct Registration {
    registration: completions::Registration,
    /// The reports of the last read.
    reports: Vec<sockstamp_report>,
}

impl Registration {
    pub(crate) fn read(&mut self) -> &[sockstamp_report] {
        let Self {
            registration,
            reports,
        } = self;
        reports.clear();
        registration.completed(|range| reports.push(report::of_range(range)));
        registration.stamps(|stamp| reports.push(report::of_stamp(&stamp, None)));
        reports
    }

    pub(crate) fn state(&self) -> sockstamp_registration_state {
        sockstamp_registration_state {
            lost: self.registration.lost(),
            torn: self.registration.torn(),
            queued: self.registration.entries_queued(),
            has_stamps: self.registration.has_stamps().into(),
            reserved: 0,
        }
    }

    pub(crate) fn queue_is_read(&mut self) {
        self.registration.queue_is_read();
    }

    pub(crate) fn is_served(&self) -> bool {
        self.registration.is_served()
    }
}
