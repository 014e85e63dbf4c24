//! The sampler, which is in C (`sample.bpf.h`).

use crate::options::Sampling;
use crate::skeleton::Constants;

/// Set the constants of the sampler.
pub(crate) fn constants(constants: &mut Constants, sampling: Sampling) {
    (constants.setting_rate_cap, constants.setting_sample) = match sampling {
        Sampling::Every => (0, 0),
        Sampling::RateCap(cap) | Sampling::InStep { cap, .. } => (cap, 0),
        Sampling::OneIn(count) => (0, count),
    };
    constants.setting_in_step = match sampling {
        Sampling::InStep { bits, .. } => 1 << bits.min(Sampling::MOST_BITS),
        _ => 0,
    };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use testbed_bpf::sample::{Estimate, Population, choose, estimate};

    fn seconds(population: Population) -> f64 {
        let messages = population.messages as f64;
        messages * (2.0 / 3.0 + 1.0 / 24.0) * population.interval_ns as f64 / 1e9
    }

    /// Return the number of messages, the sum of their values, and those in the lower half.
    fn truth(population: Population) -> [f64; 3] {
        let values = (0..population.messages).map(|index| index % population.period);
        let low = values
            .clone()
            .filter(|value| *value < population.period / 2);
        [
            population.messages as f64,
            values.clone().sum::<u64>() as f64,
            low.count() as f64,
        ]
    }

    const RUNS: u32 = 40;

    /// Test the means of many runs against their standard errors. The last block may end just
    /// before or after its drawn message, and `rare` is the effect of that: if it is improbable, no
    /// run may show it (3 / runs: the rule of three).
    fn assert_unbiased(
        truth: f64,
        runs: &[f64],
        rare: f64,
        what: &str,
    ) -> Result<(), TestCaseError> {
        let count = runs.len() as f64;
        let mean = runs.iter().sum::<f64>() / count;
        let variance = runs.iter().map(|run| (run - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let error = (variance / count).sqrt();
        // Five standard errors: one case of two million misses by chance.
        let allowed = 5.0 * error + 3.0 * rare / count;
        prop_assert!(
            (mean - truth).abs() <= allowed,
            "{what}: {mean} for {truth}, {allowed} allowed"
        );
        Ok(())
    }

    fn assert_population(
        rate_cap: u32,
        one_of: u32,
        population: Population,
    ) -> Result<(), TestCaseError> {
        let runs: Vec<Estimate> = (0..RUNS)
            .map(|_| estimate(rate_cap, one_of, population).unwrap())
            .collect();
        let [messages, values, low] = truth(population);
        let of = |field: fn(&Estimate) -> u64| {
            let values = runs.iter().map(field);
            values.map(|value| value as f64).collect::<Vec<_>>()
        };
        // The block that broke off may have been the first after a doubling.
        let weight = 2.0 * of(|run| run.largest).into_iter().fold(1.0, f64::max);
        let value = weight * population.period as f64;
        assert_unbiased(messages, &of(|run| run.messages), weight, "messages")?;
        assert_unbiased(values, &of(|run| run.values), value, "values")?;
        assert_unbiased(low, &of(|run| run.low), weight, "messages below the median")?;
        if rate_cap > 0 {
            // Each doubling of N lets an eighth of the cap more through, but one at least.
            let each = f64::from(rate_cap) * 3.0 + 20.0;
            let most = each * (seconds(population) + 2.0);
            prop_assert!(
                runs.iter().all(|run| run.measured as f64 <= most),
                "more than {most}"
            );
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

        #[test]
        fn one_of_n_is_unbiased(
            one_of in 2..200_u32,
            messages in 1..30_000_u64,
            period in 2..300_u64,
        ) {
            assert_population(0, one_of, Population { messages, interval_ns: 1000, period })?;
        }

        #[test]
        fn the_rate_cap_is_unbiased_and_bounds_the_cost(
            rate_cap in 1..300_u32,
            messages in 1..30_000_u64,
            rate in 10..200_000_u64,
            period in 2..300_u64,
        ) {
            let interval_ns = 1_000_000_000 / rate;
            assert_population(rate_cap, 0, Population { messages, interval_ns, period })?;
        }
    }

    #[test]
    fn a_quiet_flow_is_measured_in_full() {
        let quiet = Population {
            messages: 2_000,
            interval_ns: 100_000_000,
            period: 10,
        };
        // Its busiest third has 80 per second.
        let found = estimate(100, 0, quiet).unwrap();
        assert_eq!(found.measured, quiet.messages);
    }

    #[test]
    fn every_message_is_measured_by_default() {
        let all = Population {
            messages: 5_000,
            interval_ns: 100,
            period: 7,
        };
        let found = estimate(0, 0, all).unwrap();
        assert_eq!((found.measured, found.messages), (5_000, 5_000));
    }

    /// Return the weights of consecutive messages of a stream: 0 for those not chosen.
    fn chosen(bits: u32, first: u32, lengths: &[u32]) -> Vec<u32> {
        choose(bits, first, lengths).unwrap()
    }

    /// Return the offsets of the chosen bytes of a stream, by plain arithmetic: those whose
    /// sequence number is a multiple. Numbers wrap after 2^32, which is a multiple itself.
    fn multiples(bits: u32, first: u32, length: u64) -> Vec<u64> {
        let (first, step) = (u64::from(first), 1 << bits);
        let numbers = (first.next_multiple_of(step)..first + length).step_by(1 << bits);
        numbers.map(|number| number - first).collect()
    }

    /// Return the offsets of chosen bytes in the messages that an end chose.
    fn covered(offsets: &[u64], lengths: &[u32], weights: &[u32]) -> Vec<u64> {
        let mut begin = 0;
        let mut covered = Vec::new();
        for (length, weight) in lengths.iter().zip(weights) {
            let end = begin + u64::from(*length);
            let inside = offsets
                .iter()
                .filter(|offset| (begin..end).contains(offset));
            let before = covered.len();
            covered.extend(inside);
            assert_eq!(*weight > 0, covered.len() > before, "{begin}..{end}");
            begin = end;
        }
        covered
    }

    /// Cut a stream of this many bytes in another way.
    fn cut_again(length: u64, cuts: &[u32]) -> Vec<u32> {
        let mut left = length;
        let mut lengths = Vec::new();
        for cut in cuts.iter().cycle().take(511) {
            let length = u64::from(*cut).min(left);
            lengths.push(u32::try_from(length).unwrap());
            left -= length;
        }
        lengths.push(u32::try_from(left).unwrap());
        lengths.retain(|length| *length > 0);
        lengths
    }

    /// A number near the end of the range, where the stream wraps, as often as any other.
    fn first_number() -> impl Strategy<Value = u32> {
        prop_oneof![
            any::<u32>(),
            (0..200_000_u32).prop_map(|before| u32::MAX - before)
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

        /// A message is bytes of the stream, however packets are cut, merged, lost and sent again
        /// in between: of those the sampler knows nothing. It gets the numbers of the bytes that a
        /// call wrote or read, and begins with any of them.
        #[test]
        fn both_ends_of_a_stream_choose_the_same_bytes(
            bits in 6..18_u32,
            first in first_number(),
            sends in prop::collection::vec(1..3_000_u32, 1..300),
            reads in prop::collection::vec(1..9_000_u32, 1..20),
            joins in 0..300_usize,
        ) {
            let length = sends.iter().map(|length| u64::from(*length)).sum();
            let offsets = multiples(bits, first, length);
            let sent = chosen(bits, first, &sends);
            prop_assert_eq!(covered(&offsets, &sends, &sent), &offsets[..]);
            let reads = cut_again(length, &reads);
            prop_assert_eq!(covered(&offsets, &reads, &chosen(bits, first, &reads)), &offsets[..]);
            // A choice that begins in mid-stream continues as if it had begun earlier.
            let joins = joins.min(sends.len() - 1);
            let before = sends[..joins]
                .iter()
                .fold(first, |number, length| number.wrapping_add(*length));
            let late = chosen(bits, before, &sends[joins..]);
            let are_chosen = |weights: &[u32]| weights
                .iter()
                .map(|weight| *weight > 0)
                .collect::<Vec<_>>();
            prop_assert_eq!(are_chosen(&late), are_chosen(&sent[joins..]));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

        #[test]
        fn weights_of_messages_in_step_are_unbiased(
            bits in 6..16_u32,
            lengths in prop::collection::vec(1..3_000_u32, 1..300),
            firsts in prop::collection::vec(any::<u32>(), RUNS as usize),
        ) {
            let weight = |first| chosen(bits, first, &lengths).iter().copied().map(f64::from).sum();
            let runs: Vec<f64> = firsts.into_iter().map(weight).collect();
            // The shortest message has the largest weight.
            let rare = f64::from(1_u32 << bits);
            assert_unbiased(lengths.len() as f64, &runs, rare, "messages")?;
        }
    }
}
