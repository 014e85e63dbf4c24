use std::time::Duration;

use crate::error::{Error, Result};

/// The treatment of packets by a relay, for each direction separately.
///
/// The default is a perfect wire: no delay, no loss, no rate.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// One-way delay. With a rate it starts when the last bit is on the line.
    pub delay: Duration,
    /// Up to this much is added to the delay, evenly distributed. It never reorders: a packet with
    /// less waits for the one before it.
    pub jitter: Duration,
    /// Share of packets lost, 0 to 1.
    pub loss: f64,
    /// Share of packets held back by `reorder_hold`, so that others overtake them, 0 to 1.
    pub reorder: f64,
    /// Time that a packet is held back, in addition to its delay.
    pub reorder_hold: Duration,
    /// Share of packets delivered twice, 0 to 1. A packet that is held back is not duplicated.
    pub duplicate: f64,
    /// Line rate, counted from the IP header on. `None` is unlimited.
    pub rate_bits_per_second: Option<u64>,
    /// Bytes that may wait for the line; further ones are dropped. Without a rate nothing waits.
    pub queue_bytes: usize,
    /// Seed of the random numbers: the n-th packet of a direction has the same fate in each run.
    pub seed: u64,
    /// MTU in bytes. Taken when the link is created.
    pub mtu: u32,
    /// True if the sender passes packets of up to 64 KB, as to a NIC with segmentation offload.
    /// Turn it off where loss, reordering or a rate should act on single segments.
    pub offload: bool,
}

impl Default for LinkConfig {
    fn default() -> LinkConfig {
        LinkConfig {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            reorder: 0.0,
            reorder_hold: Duration::from_millis(1),
            duplicate: 0.0,
            rate_bits_per_second: None,
            queue_bytes: 1 << 20,
            seed: 1,
            mtu: 1500,
            offload: true,
        }
    }
}

/// Setters to be chained.
#[expect(
    missing_docs,
    reason = "each sets the field of its name, which says what it is"
)]
impl LinkConfig {
    #[must_use]
    pub fn delay(self, delay: Duration) -> LinkConfig {
        LinkConfig { delay, ..self }
    }

    #[must_use]
    pub fn jitter(self, jitter: Duration) -> LinkConfig {
        LinkConfig { jitter, ..self }
    }

    #[must_use]
    pub fn loss(self, loss: f64) -> LinkConfig {
        LinkConfig { loss, ..self }
    }

    #[must_use]
    pub fn reorder(self, reorder: f64) -> LinkConfig {
        LinkConfig { reorder, ..self }
    }

    #[must_use]
    pub fn reorder_hold(self, reorder_hold: Duration) -> LinkConfig {
        LinkConfig {
            reorder_hold,
            ..self
        }
    }

    #[must_use]
    pub fn duplicate(self, duplicate: f64) -> LinkConfig {
        LinkConfig { duplicate, ..self }
    }

    #[must_use]
    pub fn rate_bits_per_second(self, rate: impl Into<Option<u64>>) -> LinkConfig {
        LinkConfig {
            rate_bits_per_second: rate.into(),
            ..self
        }
    }

    #[must_use]
    pub fn queue_bytes(self, queue_bytes: usize) -> LinkConfig {
        LinkConfig {
            queue_bytes,
            ..self
        }
    }

    #[must_use]
    pub fn seed(self, seed: u64) -> LinkConfig {
        LinkConfig { seed, ..self }
    }

    #[must_use]
    pub fn mtu(self, mtu: u32) -> LinkConfig {
        LinkConfig { mtu, ..self }
    }

    #[must_use]
    pub fn offload(self, offload: bool) -> LinkConfig {
        LinkConfig { offload, ..self }
    }
}

impl LinkConfig {
    pub(crate) fn check(&self) -> Result<()> {
        for (field, value) in [
            ("loss", self.loss),
            ("reorder", self.reorder),
            ("duplicate", self.duplicate),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return Err(Error::Config {
                    field,
                    value: value.to_string(),
                    reason: "a share is 0 to 1",
                });
            }
        }
        if self.rate_bits_per_second == Some(0) {
            let reason = "a line must send something; lose everything with loss = 1";
            return Err(Error::Config {
                field: "rate_bits_per_second",
                value: "0".to_owned(),
                reason,
            });
        }
        // RFC 8200 section 5: IPv6 needs 1280. A TUN device takes no more than 65535.
        if !(1280..=65535).contains(&self.mtu) {
            let reason = "IPv6 needs 1280, a TUN device takes 65535 at most";
            return Err(Error::Config {
                field: "mtu",
                value: self.mtu.to_string(),
                reason,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senseless_configurations_are_refused() {
        let default = LinkConfig::default;
        default().check().unwrap();
        for config in [
            default().loss(1.5),
            default().loss(f64::NAN),
            default().reorder(-0.1),
            default().duplicate(2.0),
            default().rate_bits_per_second(0),
            default().mtu(576),
        ] {
            assert!(
                matches!(config.check(), Err(Error::Config { .. })),
                "{config:?}"
            );
        }
    }
}
