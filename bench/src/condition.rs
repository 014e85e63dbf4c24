//! The states of sockstamp that traffic is compared under.

use std::hint::black_box;
use std::path::Path;
use std::process;

use anyhow::Result;
use sockstamp_bpf::{Decoder, Options, Session, Target};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Nothing is loaded.
    Off,
    /// Everything is attached, for another process's flows.
    Unselected,
    /// As `sockstamp stat`.
    Selected,
    /// As `sockstamp trace`: every record is read and decoded.
    Recorded,
}

impl Condition {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Unselected => "unselected",
            Self::Selected => "selected",
            Self::Recorded => "recorded",
        }
    }

    /// Brings sockstamp into this state for the sockets of `cgroup`.
    pub(crate) fn enter(self, cgroup: &Path) -> Result<Option<Session>> {
        let options = Options {
            target: Target {
                cgroup: Some(cgroup.to_owned()),
                // We have no sockets.
                pids: if self == Self::Unselected {
                    vec![process::id()]
                } else {
                    Vec::new()
                },
                netns: None,
            },
            record: self == Self::Recorded,
            ..Options::default()
        };
        if self == Self::Off {
            return Ok(None);
        }
        let decoder = Decoder::new()?;
        let session = Session::start(&options, move |record| {
            black_box(decoder.message(record));
        })?;
        Ok(Some(session))
    }
}
