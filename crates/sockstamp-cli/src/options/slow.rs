//! Options: the limit above which a message is slow.

use std::time::Duration;

use clap::Args;
use sockstamp_run::duration::duration;

use super::heading::MEASURING;

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
        value_parser = duration,
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
        value_parser = duration,
        default_value = "10ms",
        help_heading = MEASURING,
    )]
    pub slow: Duration,
}
