//! Read what is new in the memory of one socket, without a system call and without waiting.
//!
//! The programs write on any CPU, one at a time, and never wait for readers. A ring's count is
//! incremented when an element is complete, and an element is overwritten when the count is the
//! ring's length ahead: an element read between two closer reads of the count is whole. The newest
//! range may grow in place, by a store of one word.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use sockstamp_clock::{ClockOffset, Realtime, Tai, Timestamp};

use crate::error_queue::ZeroCopyRange;
use crate::timestamping::{TxKind, TxStamp, TxTime};

/// Mirror `struct area` of crates/sockstamp-bpf/src/completions/completions.h, in words of 64 bits;
/// that crate compares them.
pub mod layout {
    /// Words of one socket's area.
    pub const AREA: usize = STAMPS + 2 * STAMPS_LENGTH;
    /// Count of ranges written.
    pub const RANGES_WRITTEN: usize = 0;
    /// Count of stamps written.
    pub const STAMPS_WRITTEN: usize = 1;
    /// Entries that the application took out of the queue while they were read.
    pub const TORN: usize = 2;
    /// The last registration whose sends are stamped without error-queue entries.
    pub const SELECTED: usize = 3;
    /// The ring of ranges, two words each.
    pub const RANGES: usize = 8;
    /// The ring of stamps, two words each.
    pub const STAMPS: usize = RANGES + 2 * RANGES_LENGTH;
    /// Elements of the ring of ranges.
    pub const RANGES_LENGTH: usize = 32;
    /// Elements of the ring of stamps.
    pub const STAMPS_LENGTH: usize = 256;
}

/// `enum area_clock`.
mod clock {
    pub(super) const REALTIME: u16 = 0;
    pub(super) const TAI: u16 = 1;
    pub(super) const PHC: u16 = 2;
}

/// A stamp from its two words; `None` for a kind or a clock that this version does not know.
fn stamp([head, nanos]: [u64; 2], from_tai: ClockOffset<Tai, Realtime>) -> Option<TxStamp> {
    let bytes = head.to_ne_bytes();
    let short = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    let time = match short(6) {
        clock::REALTIME => TxTime::Software(Timestamp::from_nanos(nanos)),
        clock::TAI => TxTime::Software(from_tai.convert(Timestamp::from_nanos(nanos))),
        clock::PHC => TxTime::Hardware(Timestamp::from_nanos(nanos)),
        _ => return None,
    };
    Some(TxStamp {
        id: u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
        kind: TxKind::from_number(short(4).into())?,
        time,
    })
}

/// The position of a reader in a ring of two-word elements.
#[derive(Debug)]
struct Position {
    next: u64,
    lost: u64,
}

impl Position {
    /// Pass the elements from `next` on to `each`, oldest first, and count those that were
    /// overwritten.
    fn read<const LENGTH: usize>(
        &mut self,
        written: &AtomicU64,
        ring: &[AtomicU64],
        from: u64,
        mut each: impl FnMut(u64, [u64; 2]),
    ) {
        let count = written.load(Ordering::Relaxed);
        // Ignore a count that decreases: the programs did not write it.
        if count < self.next {
            return;
        }
        fence(Ordering::Acquire);
        let mut index = from.max(oldest::<LENGTH>(count));
        self.lost = self.lost.saturating_add(index - from);
        while index < count {
            let element = 2 * usize::try_from(index % LENGTH as u64).unwrap_or(0);
            let words =
                [&ring[element], &ring[element + 1]].map(|word| word.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            let still_there = oldest::<LENGTH>(written.load(Ordering::Relaxed));
            if index >= still_there {
                index += 1;
                // A panic of `each` leaves the elements behind this one for the next time.
                self.next = index;
                each(index - 1, words);
            } else {
                let resumed = still_there.min(count);
                self.lost = self.lost.saturating_add(resumed - index);
                index = resumed;
            }
        }
        self.next = count;
    }
}

/// The oldest element that is not being written over.
const fn oldest<const LENGTH: usize>(written: u64) -> u64 {
    written.saturating_sub(LENGTH as u64 - 1)
}

/// Reader of the ranges of one socket.
#[derive(Debug)]
pub(super) struct RangeReader {
    position: Position,
    /// The newest range, which may have grown: its element and its last id.
    newest: Option<(u64, u32)>,
}

impl RangeReader {
    /// Begin after everything written before.
    pub(super) fn starting_at(written: u64) -> Self {
        Self {
            position: Position {
                next: written,
                lost: 0,
            },
            newest: None,
        }
    }

    /// Pass what completed since the last call to `each`. A range may come again.
    pub(super) fn read(&mut self, area: &[AtomicU64], mut each: impl FnMut(ZeroCopyRange)) {
        // If it is not the last one counted, the later ones were lost, and it with them.
        let next = self.position.next;
        let newest_element = self.newest.map(|(element, _)| element);
        let from = newest_element
            .filter(|element| element + 1 == next)
            .unwrap_or(next);
        let newest = &mut self.newest;
        let ring = &area[layout::RANGES..layout::STAMPS];
        self.position.read::<{ layout::RANGES_LENGTH }>(
            &area[layout::RANGES_WRITTEN],
            ring,
            from,
            |element, [ids, copied]| {
                let (first, last) = ((ids & 0xffff_ffff) as u32, (ids >> 32) as u32);
                let first = match *newest {
                    Some((known, until)) if known == element && until == last => return,
                    Some((known, until)) if known == element => until.wrapping_add(1),
                    _ => first,
                };
                *newest = Some((element, last));
                each(ZeroCopyRange {
                    first,
                    last,
                    copied: copied & 1 != 0,
                });
            },
        );
    }

    /// Ranges that were gone before they were read: only the error queue has them.
    pub(super) fn lost(&self) -> u64 {
        self.position.lost
    }
}

/// Reader of the stamps of one socket.
#[derive(Debug)]
pub(super) struct StampReader {
    position: Position,
}

impl StampReader {
    /// Begin after everything written before.
    pub(super) fn starting_at(written: u64) -> Self {
        Self {
            position: Position {
                next: written,
                lost: 0,
            },
        }
    }

    /// Hand the new stamps to `each`.
    pub(super) fn read(
        &mut self,
        area: &[AtomicU64],
        from_tai: ClockOffset<Tai, Realtime>,
        mut each: impl FnMut(TxStamp),
    ) {
        let from = self.position.next;
        let mut unknown = 0;
        self.position.read::<{ layout::STAMPS_LENGTH }>(
            &area[layout::STAMPS_WRITTEN],
            &area[layout::STAMPS..],
            from,
            |_, words| match stamp(words, from_tai) {
                Some(stamp) => each(stamp),
                None => unknown += 1,
            },
        );
        self.position.lost = self.position.lost.saturating_add(unknown);
    }

    /// Stamps that were gone before they were read, or were not understood.
    pub(super) fn lost(&self) -> u64 {
        self.position.lost
    }
}

/// The readers of one socket's memory, within reach of the fuzz targets.
#[cfg(fuzzing)]
#[derive(Debug)]
pub struct Readers {
    ranges: RangeReader,
    stamps: StampReader,
}

/// A reader's counts: all elements, and those overwritten before it read them.
#[cfg(fuzzing)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Gone or not.
    pub seen: u64,
    /// [`Registration::lost`](super::Registration::lost)
    pub lost: u64,
}

#[cfg(fuzzing)]
impl Readers {
    /// Begin after everything written before.
    pub fn starting_at(ranges_written: u64, stamps_written: u64) -> Self {
        Self {
            ranges: RangeReader::starting_at(ranges_written),
            stamps: StampReader::starting_at(stamps_written),
        }
    }

    /// [`Registration::completed`](super::Registration::completed)
    pub fn ranges(&mut self, area: &[AtomicU64], each: impl FnMut(ZeroCopyRange)) {
        self.ranges.read(area, each);
    }

    /// [`Registration::stamps`](super::Registration::stamps)
    pub fn stamps(
        &mut self,
        area: &[AtomicU64],
        from_tai: ClockOffset<Tai, Realtime>,
        each: impl FnMut(TxStamp),
    ) {
        self.stamps.read(area, from_tai, each);
    }

    /// Return the counts of ranges and of stamps.
    pub fn counts(&self) -> [Seen; 2] {
        [
            (self.ranges.position.next, self.ranges.lost()),
            (self.stamps.position.next, self.stamps.lost()),
        ]
        .map(|(seen, lost)| Seen { seen, lost })
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use sockstamp_clock::Delta;

    use super::*;

    fn area() -> Vec<AtomicU64> {
        (0..layout::AREA).map(|_| AtomicU64::new(0)).collect()
    }

    fn written(area: &[AtomicU64]) -> usize {
        usize::try_from(area[layout::RANGES_WRITTEN].load(Ordering::Relaxed)).unwrap()
    }

    fn ids(area: &[AtomicU64], range: usize) -> &AtomicU64 {
        &area[layout::RANGES + 2 * (range % layout::RANGES_LENGTH)]
    }

    /// Fully ordered: `area_publish()` of the programs.
    fn publish(written: &AtomicU64) {
        fence(Ordering::SeqCst);
        written.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Write as the programs do.
    fn put_range(area: &[AtomicU64], first: u32, last: u32) {
        ids(area, written(area)).store(u64::from(last) << 32 | u64::from(first), Ordering::Relaxed);
        publish(&area[layout::RANGES_WRITTEN]);
    }

    fn grow_newest(area: &[AtomicU64], last: u32) {
        let newest = ids(area, written(area) - 1);
        let first = newest.load(Ordering::Relaxed) & 0xffff_ffff;
        newest.store(u64::from(last) << 32 | first, Ordering::Relaxed);
    }

    fn read(reader: &mut RangeReader, area: &[AtomicU64]) -> Vec<(u32, u32)> {
        let mut ranges = Vec::new();
        reader.read(area, |range| ranges.push((range.first, range.last)));
        ranges
    }

    #[test]
    fn a_growing_range_gives_its_new_part() {
        let area = area();
        let mut reader = RangeReader::starting_at(0);
        assert_eq!(read(&mut reader, &area), []);
        put_range(&area, u32::MAX, u32::MAX);
        assert_eq!(read(&mut reader, &area), [(u32::MAX, u32::MAX)]);
        assert_eq!(read(&mut reader, &area), []);
        grow_newest(&area, 3);
        assert_eq!(read(&mut reader, &area), [(0, 3)]);
        grow_newest(&area, 4);
        put_range(&area, 9, 9);
        assert_eq!(read(&mut reader, &area), [(4, 4), (9, 9)]);
        assert_eq!(reader.lost(), 0);
    }

    #[test]
    fn ranges_that_were_written_over_are_counted_and_not_given() {
        let area = area();
        let mut reader = RangeReader::starting_at(0);
        for id in 0..40 {
            put_range(&area, 2 * id, 2 * id);
        }
        let ranges = read(&mut reader, &area);
        assert_eq!(ranges.len(), layout::RANGES_LENGTH - 1);
        assert_eq!(ranges[0], (18, 18));
        assert_eq!(reader.lost(), 9);
    }

    /// A range may have grown before it was overwritten.
    #[test]
    fn the_newest_range_is_lost_once_it_cannot_be_looked_at_again() {
        let area = area();
        let mut reader = RangeReader::starting_at(0);
        put_range(&area, 0, 0);
        assert_eq!(read(&mut reader, &area).len(), 1);
        grow_newest(&area, 1);
        for id in 2..33 {
            put_range(&area, 2 * id, 2 * id);
        }
        assert_eq!(read(&mut reader, &area).len(), 31);
        assert_eq!(reader.lost(), 1);
    }

    /// The ring wraps while the first range of a reading is passed on.
    #[test]
    fn an_element_overwritten_during_a_read_is_counted_once() {
        let area = area();
        let mut reader = RangeReader::starting_at(0);
        put_range(&area, 0, 0);
        put_range(&area, 2, 2);
        let mut ranges = Vec::new();
        reader.read(&area, |range| {
            ranges.push(range.first);
            (2..100).for_each(|id| put_range(&area, 2 * id, 2 * id));
        });
        assert_eq!((ranges, reader.lost()), (vec![0], 1));
        assert_eq!(read(&mut reader, &area).len(), layout::RANGES_LENGTH - 1);
        assert_eq!((reader.position.next, reader.lost()), (100, 68));
    }

    #[test]
    fn a_panic_leaves_the_ranges_behind_it() {
        let area = area();
        let mut reader = RangeReader::starting_at(0);
        (0..3).for_each(|id| put_range(&area, 2 * id, 2 * id));
        let mut seen = Vec::new();
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            reader.read(&area, |range| {
                seen.push(range.first);
                assert_eq!(range.first, 0, "the second is too much");
            });
        }));
        assert!(panics.is_err());
        assert_eq!(seen, [0, 2]);
        assert_eq!(read(&mut reader, &area), [(4, 4)]);
        assert_eq!(reader.lost(), 0);
    }

    #[test]
    fn counts_that_no_program_writes_are_survived() {
        let area = area();
        let mut reader = RangeReader::starting_at(0);
        (0..3).for_each(|id| put_range(&area, 2 * id, 2 * id));
        assert_eq!(read(&mut reader, &area).len(), 3);
        for count in [0, 2, u64::MAX] {
            area[layout::RANGES_WRITTEN].store(count, Ordering::Relaxed);
            let before = (reader.position.next, reader.lost());
            let ranges = read(&mut reader, &area).len();
            assert!(ranges < layout::RANGES_LENGTH);
            assert!((reader.position.next, reader.lost()) >= before);
        }
        assert_eq!(reader.position.next, u64::MAX);
    }

    /// Write few under Miri, which tries more orders of memory accesses than a machine does.
    const WRITTEN: u32 = if cfg!(miri) { 150 } else { 100_000 };

    #[test]
    fn ranges_are_whole_while_others_are_written() {
        let area = area();
        let mut reader = RangeReader::starting_at(0);
        let (mut handed, mut behind) = (0, 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for range in 0..WRITTEN {
                    let copied =
                        &area[layout::RANGES + 2 * (range as usize % layout::RANGES_LENGTH) + 1];
                    copied.store(u64::from(range % 2), Ordering::Relaxed);
                    put_range(&area, 2 * range, 2 * range);
                    grow_newest(&area, 2 * range + 1);
                }
            });
            while reader.position.next < WRITTEN.into() {
                reader.read(&area, |range| {
                    let whole = range.first / 2 == range.last / 2
                        && range.copied == (range.last / 2 % 2 == 1);
                    assert!(whole && range.first >= behind, "{range:?} behind {behind}");
                    behind = range.last + 1;
                    handed += u64::from(range.first.is_multiple_of(2));
                });
            }
        });
        assert!(handed <= WRITTEN.into());
        assert!(handed + reader.lost() >= WRITTEN.into());
    }

    #[test]
    fn stamps_are_whole_while_others_are_written() {
        let area = area();
        let mut reader = StampReader::starting_at(0);
        let mut handed = 0;
        thread::scope(|scope| {
            scope.spawn(|| {
                for stamp in 0..WRITTEN {
                    let place = layout::STAMPS + 2 * (stamp as usize % layout::STAMPS_LENGTH);
                    area[place].store(stamp.into(), Ordering::Relaxed);
                    area[place + 1].store(u64::from(stamp) + 1, Ordering::Relaxed);
                    publish(&area[layout::STAMPS_WRITTEN]);
                }
            });
            while reader.position.next < WRITTEN.into() {
                reader.read(&area, ClockOffset::new(Delta(0)), |stamp| {
                    let time = TxTime::Software(Timestamp::from_nanos(u64::from(stamp.id) + 1));
                    assert_eq!(stamp.time, time);
                    handed += 1;
                });
            }
        });
        assert_eq!(handed + reader.lost(), WRITTEN.into());
    }

    #[test]
    fn a_reader_ignores_ranges_of_earlier_sockets() {
        let area = area();
        put_range(&area, 5, 6);
        let mut reader = RangeReader::starting_at(1);
        assert_eq!(read(&mut reader, &area), []);
        put_range(&area, 0, 0);
        assert_eq!(read(&mut reader, &area), [(0, 0)]);
    }
}
