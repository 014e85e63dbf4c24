//! Records out of the ring that wait for earlier ones.

use std::collections::BTreeSet;
use std::slice;

use crate::abi::raw::packet_record;
use crate::map_view;

/// Bytes that are read at one go. Where they come faster than they are read, reading would go on
/// for ever; and what is copied here is read again while it is in the processor's cache.
const GO: usize = 512 << 10;

/// Records in the order of their times. A record is copied once, out of the ring; the memory is
/// used again, so that a packet costs no allocation.
#[derive(Default)]
pub(super) struct Held {
    records: Vec<packet_record>,
    /// The bytes of all packets.
    bytes: Vec<u8>,
    order: Vec<Place>,
    /// Bytes that this go has read.
    read: usize,
    last: u64,
    cgroups: BTreeSet<u64>,
    /// That of the last record.
    cgroup: u64,
}

/// Where a record is, and where its bytes begin.
struct Place {
    time: u64,
    record: usize,
    bytes: usize,
}

impl Held {
    /// Copy a sample of the ring, or leave it out if it is not one of ours. Return false if the go
    /// is over.
    pub(super) fn add(&mut self, sample: &[u8]) -> bool {
        if let Some((record, bytes)) = split(sample) {
            self.push(record, bytes);
        }
        self.read += sample.len();
        self.read < GO
    }

    fn push(&mut self, record: &packet_record, bytes: &[u8]) {
        let time = record.time;
        let place = Place {
            time,
            record: self.records.len(),
            bytes: self.bytes.len(),
        };
        // Few CPUs are overtaken between their clock and the ring.
        if self.order.last().is_none_or(|last| last.time <= time) {
            self.order.push(place);
        } else {
            let before = self.order.iter().rposition(|other| other.time <= time);
            self.order
                .insert(before.map_or(0, |before| before + 1), place);
        }
        // A slice is copied into its place at once, a value by way of the stack.
        self.records.extend_from_slice(slice::from_ref(record));
        self.bytes.extend_from_slice(bytes);
        self.last = time;
        // 0: no socket is known that has it.
        if record.cgroup != self.cgroup && record.cgroup != 0 {
            self.cgroup = record.cgroup;
            self.cgroups.insert(record.cgroup);
        }
    }

    /// Return the cgroups of all records that there ever were.
    pub(super) fn cgroups(&self) -> &BTreeSet<u64> {
        &self.cgroups
    }

    /// Begin another go.
    pub(super) fn begin(&mut self) {
        self.read = 0;
    }

    /// Return the time of the record that was read last.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Iterate over the records up to this time, with the bytes of their packets.
    pub(super) fn until(&self, time: u64) -> impl Iterator<Item = (&packet_record, &[u8])> {
        self.order[..self.count(time)].iter().map(|place| {
            let record = &self.records[place.record];
            let end = place.bytes + record.captured as usize;
            (record, &self.bytes[place.bytes..end])
        })
    }

    /// Forget them.
    pub(super) fn forget(&mut self, time: u64) {
        self.order.drain(..self.count(time));
        let first = self.order.iter().min_by_key(|place| place.record);
        let (record, bytes) = first.map_or((self.records.len(), self.bytes.len()), |place| {
            (place.record, place.bytes)
        });
        self.records.drain(..record);
        self.bytes.drain(..bytes);
        for place in &mut self.order {
            place.record -= record;
            place.bytes -= bytes;
        }
    }

    fn count(&self, time: u64) -> usize {
        self.order.partition_point(|place| place.time <= time)
    }
}

fn split(sample: &[u8]) -> Option<(&packet_record, &[u8])> {
    let record = map_view::packet(sample)?;
    let bytes = sample.get(size_of::<packet_record>()..)?;
    Some((record, bytes.get(..record.captured as usize)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn push(held: &mut Held, time: u64, number: usize) {
        let bytes = number.to_ne_bytes();
        let bytes = &bytes[..number % 9];
        let record = packet_record {
            time,
            pid: u32::try_from(number).unwrap(),
            captured: u32::try_from(bytes.len()).unwrap(),
            ..packet_record::default()
        };
        held.push(&record, bytes);
    }

    #[test]
    fn a_record_of_no_cgroup_adds_none() {
        let mut held = Held::default();
        for cgroup in [0, 5, 0, 5, 7, 0] {
            let record = packet_record {
                cgroup,
                ..packet_record::default()
            };
            held.push(&record, &[]);
        }
        assert_eq!(held.cgroups(), &BTreeSet::from([5, 7]));
    }

    /// Take the records up to this time.
    fn take(held: &mut Held, time: u64) -> Vec<(u64, usize)> {
        let taken = held.until(time).map(|(record, bytes)| {
            let number = record.pid as usize;
            assert_eq!(bytes, &number.to_ne_bytes()[..number % 9]);
            (record.time, number)
        });
        let taken = taken.collect();
        held.forget(time);
        taken
    }

    proptest! {
        #[test]
        fn records_come_in_the_order_of_their_times(
            goes in prop::collection::vec(
                (prop::collection::vec(0_u64..100, 0..50), 0_u64..100),
                1..10,
            ),
        ) {
            let (mut held, mut waiting, mut number) = (Held::default(), Vec::new(), 0);
            for (times, until) in goes {
                for time in times {
                    push(&mut held, time, number);
                    waiting.push((time, number));
                    number += 1;
                }
                waiting.sort_unstable();
                let rest = waiting.split_off(waiting.partition_point(|(time, _)| *time <= until));
                prop_assert_eq!(take(&mut held, until), waiting);
                waiting = rest;
                prop_assert_eq!(held.is_empty(), waiting.is_empty());
            }
        }
    }
}
