//! The time that rows wait for their row group: what a crash may cost.

use std::time::Duration;

/// Rows that are worth a row group: it costs some 10 kB besides them.
const ENOUGH: usize = 4096;
/// The least time, so that fast traffic fills row groups.
const LEAST: Duration = Duration::from_secs(2);
/// The longest time, if rows are few.
const MOST: Duration = Duration::from_secs(10);
/// The part of its time that the last row group of a single file may take: it has to hold all.
const PART: u32 = 256;

/// When to write the rows that wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// True if no new file begins.
    pub(super) is_single: bool,
}

impl Patience {
    /// Return true if this many rows that have waited so long must be written, in a recording of
    /// this age.
    pub(super) fn is_over(self, rows: usize, waited: Duration, age: Duration) -> bool {
        let part = match self.is_single {
            true => age / PART,
            false => Duration::ZERO,
        };
        waited >= MOST.max(part) || rows >= ENOUGH && waited >= LEAST.max(part)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sockstamp_model::fixture;
    use sockstamp_model::stage::Direction;
    use sockstamp_record::batch::ROWS;
    use sockstamp_record::{Batch, GROUPS, Writer};

    use super::*;

    const STEP: Duration = Duration::from_millis(500);

    /// Row groups of a recording, and the longest time that rows waited. `rate` is in rows per 1000
    /// s.
    fn recorded(patience: Patience, rate: u32, lasts: Duration) -> (usize, Duration) {
        let (mut groups, mut longest) = (0, Duration::ZERO);
        let (mut age, mut waited) = (Duration::ZERO, Duration::ZERO);
        while age < lasts {
            (age, waited) = (age + STEP, waited + STEP);
            let rows = waited.as_millis() * u128::from(rate) / 1_000_000;
            let rows = usize::try_from(rows).unwrap();
            let full = rows / ROWS;
            if full > 0 || rows > 0 && patience.is_over(rows, waited, age) {
                groups += full.max(1);
                longest = longest.max(waited);
                waited = Duration::ZERO;
            }
        }
        (groups, longest)
    }

    /// Bytes of a row group with few rows, and its part of the footer.
    fn of_a_group() -> f64 {
        const GROUPS: u32 = 20;
        let directory = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(&directory.path().join("file"), &[]).unwrap();
        let empty = writer.bytes();
        let mut batch = Batch::new();
        batch.push(&fixture::message(Direction::Tx));
        (0..GROUPS).for_each(|_| writer.write(&batch).unwrap());
        let (_, bytes) = writer.finish().unwrap();
        (bytes - empty) as f64 / f64::from(GROUPS)
    }

    #[test]
    fn row_groups_cost_less_than_five_bytes_per_row_and_two_kilobytes_per_second() {
        let each = of_a_group();
        for is_single in [false, true] {
            for rate in [
                100,
                5000,
                50_000,
                400_000,
                500_000,
                2_000_000,
                2_500_000,
                20_000_000,
                200_000_000,
            ] {
                let lasts = Duration::from_secs(1800);
                let (groups, _) = recorded(Patience { is_single }, rate, lasts);
                let cost = groups as f64 * each;
                let rows = f64::from(rate) / 1000.0 * lasts.as_secs_f64();
                assert!(
                    cost <= 5.0 * rows + 2048.0 * lasts.as_secs_f64(),
                    "{rate}: {groups} of {each}"
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]

        #[test]
        fn a_single_file_holds_days_and_a_directory_loses_seconds(
            rate in 10_u32..4_000_000,
            hours in 1_u64..72,
        ) {
            let lasts = Duration::from_secs(hours * 3600);
            let between = Duration::from_secs(1000) / rate + STEP;
            let (groups, longest) = recorded(Patience { is_single: true }, rate, lasts);
            let full = lasts.as_secs() * u64::from(rate) / 1000 / ROWS as u64;
            prop_assert!(groups as u64 <= GROUPS as u64 / 2 + full, "{groups}, {full}");
            prop_assert!(longest <= MOST.max(lasts / PART + STEP).max(between), "{longest:?}");
            let directory = Patience { is_single: false };
            let (_, longest) = recorded(directory, rate, Duration::from_secs(3600));
            prop_assert!(longest <= MOST.max(between), "{longest:?}");
        }
    }
}
