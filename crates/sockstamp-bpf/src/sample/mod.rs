//! Test the sampler, which is C only (`sample.bpf.h`).

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use libbpf_rs::ProgramInput;
    use libbpf_rs::skel::{OpenSkel, SkelBuilder};
    use proptest::prelude::*;

    use crate::skeleton::sample_test::SampleTestSkelBuilder;

    #[derive(Debug, Clone, Copy)]
    struct Population {
        messages: u64,
        interval_ns: u64,
        period: u64,
    }

    impl Population {
        fn seconds(self) -> f64 {
            let messages = self.messages as f64;
            messages * (2.0 / 3.0 + 1.0 / 24.0) * self.interval_ns as f64 / 1e9
        }

        fn truth(self) -> Estimate {
            let values = (0..self.messages).map(|index| index % self.period);
            Estimate {
                messages: self.messages as f64,
                values: values.clone().sum::<u64>() as f64,
                low: values.filter(|value| *value < self.period / 2).count() as f64,
                ..Estimate::default()
            }
        }
    }

    #[derive(Debug, Clone, Copy, Default)]
    struct Estimate {
        measured: f64,
        messages: f64,
        values: f64,
        low: f64,
        largest: f64,
    }

    fn estimate(rate_cap: u32, one_of: u32, population: Population) -> Estimate {
        let mut place = MaybeUninit::uninit();
        let mut open = SampleTestSkelBuilder::default().open(&mut place).unwrap();
        let settings = open.maps.rodata_data.as_mut().unwrap();
        settings.setting_rate_cap = rate_cap;
        settings.setting_sample = one_of;
        let bss = open.maps.bss_data.as_mut().unwrap();
        bss.population.messages = population.messages;
        bss.population.interval_ns = population.interval_ns;
        bss.population.period = population.period;
        let skeleton = open.load().unwrap();
        let run = skeleton
            .progs
            .sample_population
            .test_run(ProgramInput::default())
            .unwrap();
        assert_eq!(run.return_value, 0);
        let found = &skeleton.maps.bss_data.as_ref().unwrap().estimate;
        Estimate {
            measured: found.measured as f64,
            messages: found.messages as f64,
            values: found.values as f64,
            low: found.low as f64,
            largest: found.largest as f64,
        }
    }

    const RUNS: u32 = 40;

    /// Test the means of many runs against their standard errors. The last block may end just
    /// before or after its drawn message, and `rare` is the effect of that: if it is improbable, no
    /// run may show it (3 / runs: the rule of three).
    fn assert_unbiased(truth: f64, runs: &[f64], rare: f64, what: &str) -> Result<(), TestCaseError> {
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

    fn assert_population(rate_cap: u32, one_of: u32, population: Population) -> Result<(), TestCaseError> {
        let runs: Vec<Estimate> = (0..RUNS)
            .map(|_| estimate(rate_cap, one_of, population))
            .collect();
        let truth = population.truth();
        let of = |field: fn(&Estimate) -> f64| runs.iter().map(field).collect::<Vec<_>>();
        // The block that broke off may have been the first after a doubling.
        let weight = 2.0 * of(|run| run.largest).into_iter().fold(1.0, f64::max);
        let value = weight * population.period as f64;
        assert_unbiased(truth.messages, &of(|run| run.messages), weight, "messages")?;
        assert_unbiased(truth.values, &of(|run| run.values), value, "values")?;
        assert_unbiased(truth.low, &of(|run| run.low), weight, "messages below the median")?;
        if rate_cap > 0 {
            // Each doubling of N lets an eighth of the cap more through, but one at least.
            let each = f64::from(rate_cap) * 3.0 + 20.0;
            let most = each * (population.seconds() + 2.0);
            prop_assert!(runs.iter().all(|run| run.measured <= most), "more than {most}");
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

        #[test]
        fn one_of_n_is_unbiased(one_of in 2..200_u32, messages in 1..30_000_u64, period in 2..300_u64) {
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

    fn assert_same(found: f64, messages: u64) {
        assert!(
            (found - messages as f64).abs() < 0.5,
            "{found} instead of {messages}"
        );
    }

    #[test]
    fn a_quiet_flow_is_measured_in_full() {
        let quiet = Population {
            messages: 2_000,
            interval_ns: 100_000_000,
            period: 10,
        };
        // Its busiest third has 80 per second.
        let found = estimate(100, 0, quiet);
        assert_same(found.measured, quiet.messages);
    }

    #[test]
    fn every_message_is_measured_by_default() {
        let found = estimate(
            0,
            0,
            Population {
                messages: 5_000,
                interval_ns: 100,
                period: 7,
            },
        );
        assert_same(found.measured, 5_000);
        assert_same(found.messages, 5_000);
    }

    /// Weights of consecutive messages of a stream: 0 for those not chosen.
    fn chosen(bits: u32, first: u32, lengths: &[u32]) -> Vec<u32> {
        let mut place = MaybeUninit::uninit();
        let mut open = SampleTestSkelBuilder::default().open(&mut place).unwrap();
        open.maps.rodata_data.as_mut().unwrap().setting_in_step = 1 << bits;
        let stream = &mut open.maps.bss_data.as_mut().unwrap().stream;
        stream.count = u32::try_from(lengths.len()).unwrap();
        let mut start = first;
        for (place, length) in lengths.iter().enumerate() {
            stream.starts[place] = start;
            start = start.wrapping_add(*length);
            stream.ends[place] = start;
        }
        let skeleton = open.load().unwrap();
        let run = skeleton.progs.sample_stream.test_run(ProgramInput::default());
        assert_eq!(run.unwrap().return_value, 0);
        let weights = &skeleton.maps.bss_data.as_ref().unwrap().stream.weights;
        weights[..lengths.len()].to_vec()
    }

    /// The places of the chosen bytes of a stream, by plain arithmetic: those whose sequence number
    /// is a multiple. Numbers wrap after 2^32, which is a multiple itself.
    fn multiples(bits: u32, first: u32, length: u64) -> Vec<u64> {
        let (first, step) = (u64::from(first), 1 << bits);
        let numbers = (first.next_multiple_of(step)..first + length).step_by(1 << bits);
        numbers.map(|number| number - first).collect()
    }

    /// The places of chosen bytes in the messages that an end chose.
    fn covered(places: &[u64], lengths: &[u32], weights: &[u32]) -> Vec<u64> {
        let mut begin = 0;
        let mut covered = Vec::new();
        for (length, weight) in lengths.iter().zip(weights) {
            let end = begin + u64::from(*length);
            let inside = places.iter().filter(|place| (begin..end).contains(place));
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
            let places = multiples(bits, first, length);
            let sent = chosen(bits, first, &sends);
            prop_assert_eq!(covered(&places, &sends, &sent), &places[..]);
            let reads = cut_again(length, &reads);
            prop_assert_eq!(covered(&places, &reads, &chosen(bits, first, &reads)), &places[..]);
            // A choice that begins in mid-stream continues as if it had begun earlier.
            let joins = joins.min(sends.len() - 1);
            let before = sends[..joins].iter().fold(first, |number, length| number.wrapping_add(*length));
            let late = chosen(bits, before, &sends[joins..]);
            let are_chosen = |weights: &[u32]| weights.iter().map(|weight| *weight > 0).collect::<Vec<_>>();
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
