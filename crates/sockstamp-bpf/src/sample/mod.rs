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
}
