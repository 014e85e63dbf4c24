//! Fuzz the memory of one socket, with any stores while it is read: nothing is returned twice,
//! missing elements are counted, and counts never decrease.

#![no_main]

use std::sync::atomic::{AtomicU64, Ordering};

use libfuzzer_sys::fuzz_target;
use sockstamp::completions::area::{Readers, layout};
use sockstamp_model::clock::{ClockOffset, Delta};

/// A position in the memory, and the value stored there.
const STORE: usize = 10;

fuzz_target!(|bytes: &[u8]| {
    let Some((start, bytes)) = bytes.split_first_chunk::<16>() else {
        return;
    };
    let (ranges, stamps) = start.split_at(8);
    let mut readers = Readers::starting_at(word(ranges), word(stamps));
    let area: Vec<AtomicU64> = (0..layout::AREA).map(|_| AtomicU64::new(0)).collect();
    let mut stores = bytes.chunks_exact(STORE);
    while stores.len() > 0 {
        store(&area, &mut stores);
        let before = readers.counts();
        let (mut ranges, mut stamps) = (0, 0);
        readers.ranges(&area, |_| {
            ranges += 1;
            store(&area, &mut stores);
        });
        readers.stamps(&area, ClockOffset::new(Delta(37_000_000_000)), |_| {
            stamps += 1;
            store(&area, &mut stores);
        });
        let after = readers.counts();
        let [of_ranges, of_stamps] = [0, 1].map(|ring| {
            let (seen, lost) = (after[ring].seen, after[ring].lost);
            let new = seen
                .checked_sub(before[ring].seen)
                .expect("the count never goes back");
            (
                new,
                lost.checked_sub(before[ring].lost)
                    .expect("nothing is found again"),
            )
        });
        assert_accounted(of_ranges, ranges, 1, layout::RANGES_LENGTH);
        assert_accounted(of_stamps, stamps, 0, layout::STAMPS_LENGTH);
    }
});

/// `again` more may be read that were seen before.
fn assert_accounted((new, lost): (u64, u64), handed: u64, again: u64, length: usize) {
    assert!(handed < length as u64);
    let told = u128::from(handed) + u128::from(lost);
    let new = u128::from(new);
    assert!(
        (new..=new + u128::from(again)).contains(&told),
        "{handed} and {lost} of {new}"
    );
}

/// Stores the next of `stores`, if there is one. Small places are those that count.
fn store<'a>(area: &[AtomicU64], stores: &mut impl Iterator<Item = &'a [u8]>) {
    if let Some([low, high, value @ ..]) = stores.next() {
        let place = usize::from(u16::from_le_bytes([*low, *high])) % area.len();
        area[place].store(word(value), Ordering::Relaxed);
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}
