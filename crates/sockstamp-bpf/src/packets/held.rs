//! Records out of the ring that wait for earlier ones.

use crate::abi::raw::packet_record;
use crate::map_view;

/// Bytes that are read at one go: where they come faster than they are read, reading would go on
/// for ever.
const GO: usize = 4 << 20;

/// Records in the order of their times. A record is copied once, out of the ring; the memory is
/// used again, so that a packet costs no allocation.
#[derive(Default)]
pub(super) struct Held {
    records: Vec<Record>,
    /// The bytes of all packets.
    bytes: Vec<u8>,
    /// The times of records, in order, and their places.
    order: Vec<(u64, usize)>,
    /// Bytes that this go has read.
    read: usize,
    last: u64,
}

struct Record {
    record: packet_record,
    /// Where its bytes begin.
    begin: usize,
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
        // Nearly always the last place: few CPUs are overtaken between their clock and the ring.
        let before = self
            .order
            .iter()
            .rposition(|(time, _)| *time <= record.time);
        let place = before.map_or(0, |before| before + 1);
        self.order.insert(place, (record.time, self.records.len()));
        self.records.push(Record {
            record: *record,
            begin: self.bytes.len(),
        });
        self.bytes.extend_from_slice(bytes);
        self.last = record.time;
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
        self.order[..self.count(time)].iter().map(|&(_, place)| {
            let Record { record, begin } = &self.records[place];
            (
                record,
                &self.bytes[*begin..*begin + record.captured as usize],
            )
        })
    }

    /// Forget them.
    pub(super) fn forget(&mut self, time: u64) {
        self.order.drain(..self.count(time));
        let first = self.order.iter().map(|(_, place)| *place).min();
        let first = first.unwrap_or(self.records.len());
        let begin = self.records.get(first).map(|record| record.begin);
        let begin = begin.unwrap_or(self.bytes.len());
        self.records.drain(..first);
        self.bytes.drain(..begin);
        self.order.iter_mut().for_each(|(_, place)| *place -= first);
        self.records
            .iter_mut()
            .for_each(|record| record.begin -= begin);
    }

    fn count(&self, time: u64) -> usize {
        self.order.partition_point(|(seen, _)| *seen <= time)
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
