//! Counts of messages that a NIC was asked to stamp, or that it has stamped when they came.

use std::collections::BTreeMap;

use sockstamp_model::flow::NetnsInode;
use sockstamp_model::histogram::Histogram;
use sockstamp_model::part::{PartMap, PartSummary};
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::summary::{NicBounds, NicReads, NicStamps, Summary};
use sockstamp_model::verdict::Verdict;

use super::held::{Became, Settled};
use crate::group::{BEHIND_DRIVER, PARTS_BEHIND_DRIVER, add_parts_behind_driver};

/// The sum of the messages that are held no longer.
#[derive(Default)]
pub(super) struct Counts {
    sends: Sends,
    reads: Reads,
}

impl Counts {
    pub(super) fn add(&mut self, settled: &Settled) {
        match settled.message.direction {
            Direction::Tx => self.sends.add(settled),
            Direction::Rx => self.reads.add(settled),
        }
    }

    /// Return `rx.nic` of the reads that an interface has received; `None` without any.
    pub(super) fn of_reads_by(&self, place: (NetnsInode, u32)) -> Option<&Histogram> {
        self.reads.by_interface.get(&place)
    }

    /// Add all to what the programs have counted.
    pub(super) fn add_to(&self, summary: &mut Summary) {
        self.sends.add_to(summary);
        self.reads.add_to(summary);
    }
}

#[derive(Default)]
struct Sends {
    stages: [Histogram; BEHIND_DRIVER.len()],
    sent: Histogram,
    parts: PartMap<Option<PartSummary>>,
    stamps: NicStamps,
}

impl Sends {
    fn add(&mut self, settled: &Settled) {
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

    fn add_to(&self, summary: &mut Summary) {
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

/// Of a read that is held the programs have counted each stage, but not that it is valid.
#[derive(Default)]
struct Reads {
    nic: Histogram,
    /// As `nic`, of each interface.
    by_interface: BTreeMap<(NetnsInode, u32), Histogram>,
    total: Histogram,
    /// As `total`, from the kernel's stamp on.
    since_software: Histogram,
    stamps: NicReads,
}

impl Reads {
    fn add(&mut self, settled: &Settled) {
        let message = &settled.message;
        let weight = u64::from(message.weight);
        let (nic, total) = (message.stages[Stage::RxNic], message.total());
        if let (Some(nic), Some(by)) = (nic, &settled.by) {
            self.nic.record(nic, weight);
            let place = (by.netns, by.index);
            let of_interface = self.by_interface.entry(place).or_default();
            of_interface.record(nic, weight);
        }
        self.total.record(total, weight);
        let since_software = total.saturating_sub(nic.unwrap_or_default());
        self.since_software.record(since_software, weight);
        match settled.became {
            Became::Divided => self.stamps.stamped += 1,
            Became::Unstamped | Became::Refused => self.stamps.nic_clock += 1,
        }
        if let Some(bound) = message.nic_bound {
            NicBounds::widen(&mut self.stamps.bounds, bound);
        }
    }

    fn add_to(&self, summary: &mut Summary) {
        let rx = &mut summary.rx;
        if let Some(counted) = &mut rx.stages[Stage::RxNic] {
            counted.merge(&self.nic);
        }
        rx.total.merge(&self.total);
        if let Some(reads) = &mut rx.cumulative.tcp {
            reads.read.merge(&self.since_software);
        }
        let ended = self.total.count();
        *summary.verdicts.entry(Verdict::Valid).or_default() += ended;
        summary.in_flight = summary.in_flight.saturating_sub(ended);
        if let Some(reads) = &mut summary.nic_reads {
            *reads = NicReads {
                spared: reads.spared,
                unstamped: reads.unstamped,
                ..self.stamps
            };
        }
    }
}
