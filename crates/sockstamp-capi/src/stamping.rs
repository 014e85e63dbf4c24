//! Stamps of received packets, before any program requests them.

use std::time::Duration;

use sockstamp::ReceiveStamping;

use crate::boundary::Result;

/// `struct sockstamp_stamping`.
pub struct Stamping {
    _held: ReceiveStamping,
}

impl Stamping {
    /// And whether packets are stamped by now.
    pub(crate) fn new(patience: Duration) -> Result<(Self, bool)> {
        let held = ReceiveStamping::enable()?;
        let on = held.settle(patience)?;
        Ok((Self { _held: held }, on))
    }
}
