//! Options: the limit above which a message is slow.

use std::time::Duration;

use clap::Args;
use sockstamp_run::duration::duration;

use super::heading::MEASURING;

/// The time from which on a bare number was hardly meant in seconds.
const LONG: Duration = Duration::from_secs(10);

/// Read the time above which something is slow. A bare number has seconds, as everywhere, but
/// 100 is more often meant as milliseconds, and a wait of 100 s never comes: it needs its unit.
pub(crate) fn limit(text: &str) -> Result<Duration, String> {
    let limit = duration(text)?;
    let is_bare = text.ends_with(|end: char| !end.is_alphabetic());
    match is_bare && limit >= LONG {
        true => Err(format!(
            "a bare number has seconds, and few wait so long: write {text}ms, or {text}s"
        )),
        false => Ok(limit),
    }
}

/// The option of what keeps slow messages alone.
#[derive(Debug, Clone, Copy, Args)]
pub struct SlowOnly {
    /// Keep only messages slower than this; every message is measured
    ///
    /// A message is slow if it took longer until it was sent, until it was read, or until its
    /// answer came (peer.answer, and more of it: peer.rest; client.request and app.service where
    /// the service is). A connection is slow if its handshake took longer, or its accept(). The
    /// wait for an acknowledgement (tx.network) makes nothing slow.
    #[arg(
        long,
        value_name = "TIME",
        value_parser = limit,
        conflicts_with = "sample",
        help_heading = MEASURING,
    )]
    pub slow: Option<Duration>,
}

/// The option of what looks for slow messages among all.
#[derive(Debug, Clone, Copy, Args)]
pub struct Slow {
    /// Call a message slow if it took longer than this until it was sent, read or answered, or its
    /// connection opened
    #[arg(
        long,
        value_name = "TIME",
        value_parser = limit,
        default_value = "10ms",
        help_heading = MEASURING,
    )]
    pub slow: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_many_bare_seconds_needs_its_unit() {
        assert_eq!(limit("5"), Ok(Duration::from_secs(5)));
        assert_eq!(limit("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(limit("100s"), Ok(Duration::from_secs(100)));
        assert_eq!(limit("100ms"), Ok(Duration::from_millis(100)));
        for bare in ["10", "100", "60.5"] {
            let told = limit(bare).unwrap_err();
            assert!(
                told.ends_with(&format!("write {bare}ms, or {bare}s")),
                "{told}"
            );
        }
    }
}
