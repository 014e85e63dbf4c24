//! Counts of messages that a NIC was asked to stamp.

use sockstamp_model::histogram::Histogram;
use sockstamp_model::part::{PartMap, PartSummary};
use sockstamp_model::summary::{NicBounds, NicStamps, Summary};

use super::held::{Became, Settled};
use crate::group::{BEHIND_DRIVER, PARTS_BEHIND_DRIVER, add_parts_behind_driver};

/// The sum of the messages that are held no longer.
#[derive(Default)]
pub(super) struct Counts {
    stages: [Histogram; BEHIND_DRIVER.len()],
    sent: Histogram,
    parts: PartMap<Option<PartSummary>>,
    stamps: NicStamps,
}

impl Counts {
    pub(super) fn add(&mut self, settled: &Settled) {
        let message = &settled.message;
        let weight = u64::from(message.weight);
        for (histogram, stage) in self.stages.iter_mut().zip(BEHIND_DRIVER) {
            if let Some(duration) = message.stages[stage] {
                histogram.record(duration, weight);
            }
        }
        self.sent.record(message.time(), weight);
        add_parts_behind_driver(&mut self.parts, message);
        match settled.became {
            Became::Divided => self.stamps.stamped += 1,
            Became::Unstamped => self.stamps.unstamped += 1,
            Became::Refused => self.stamps.nic_clock += 1,
        }
        if let Some(bound) = message.nic_bound {
            NicBounds::widen(&mut self.stamps.bounds, bound);
        }
    }

    /// Add all to what the programs have counted.
    pub(super) fn add_to(&self, summary: &mut Summary) {
        let tx = &mut summary.tx;
        for (histogram, stage) in self.stages.iter().zip(BEHIND_DRIVER) {
            if let Some(counted) = &mut tx.stages[stage] {
                counted.merge(histogram);
            }
        }
        tx.sent.merge(&self.sent);
        for part in PARTS_BEHIND_DRIVER {
            if let (Some(counted), Some(more)) = (&mut tx.parts[part], &self.parts[part]) {
                counted.merge(more);
            }
        }
        tx.complete_parts();
        if let Some(stamps) = &mut summary.nic_stamps {
            *stamps = NicStamps {
                asked: stamps.asked,
                spared: stamps.spared,
                ..self.stamps
            };
        }
    }
}
