//! Try what the service can give on this host.

use super::publisher::Publisher;
use crate::error::Error;
use crate::facts::{Facts, Trial};
use crate::probe;

/// The offers of `sockstamp notifications` on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Entries of error queues: completions of zerocopy sends, and stamps.
    pub entries: Trial,
    /// Stamps of TCP without entries in the error queue.
    pub tcp_stamps: Trial,
}

impl Offer {
    /// Loads and attaches the programs, and takes them away at once; no socket is touched.
    #[must_use]
    pub fn try_all(facts: &Facts) -> Self {
        if let Some(reason) = probe::obstacle(facts) {
            let unknown = Trial::Unknown(reason.to_owned());
            return Self {
                entries: unknown.clone(),
                tcp_stamps: unknown,
            };
        }
        match Publisher::attach(1, 1) {
            Ok(mut publisher) => Self {
                entries: Trial::Works,
                tcp_stamps: tcp_stamps(facts, &mut publisher),
            },
            Err(error) => Self {
                entries: refused(&error),
                tcp_stamps: refused(&error),
            },
        }
    }
}

fn tcp_stamps(facts: &Facts, publisher: &mut Publisher) -> Trial {
    if facts.tx_timestamping != Some(true) {
        return Trial::Refused("no BPF timestamping".to_owned());
    }
    if facts.cgroup2.is_none() {
        return Trial::Refused("no cgroup2 mounted".to_owned());
    }
    publisher
        .let_select()
        .map_or_else(|error| refused(&error), |()| Trial::Works)
}

fn refused(error: &Error) -> Trial {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    Trial::Refused(format!("{error}{}", cause.unwrap_or_default()))
}
