//! Comparisons of made-up traffic of which the change is known: heavy-tailed, and alike from one
//! second to the next, as real traffic is.

mod support;

use std::time::Duration;

use fastrand::Rng;
use sockstamp_explain::diff::{Change, Measure, Population, compare};
use sockstamp_model::stage::Stage;

use support::{heavy, message};

const POPULATIONS: u64 = 200;
const SECONDS: u64 = 80;
const FLOWS: u64 = 30;
const PER_SECOND: u64 = 100;

/// Reads whose stages take this many times as long as usual.
fn reads(seed: u64, times: impl Fn(Stage) -> f64) -> Population {
    let mut rng = Rng::with_seed(seed);
    let mut population = Population::new();
    let mut load = 1.0;
    for second in 0..SECONDS {
        load = 0.7 * load + 0.3 * heavy(&mut rng, 1.0).min(20.0);
        for _ in 0..PER_SECOND {
            let stages = [Stage::RxStack, Stage::RxWakeup, Stage::RxApp]
                .map(|stage| (stage, times(stage) * load * heavy(&mut rng, 10_000.0)));
            let nanos = |stage: Stage| {
                let (_, own) = stages.iter().find(|(own, _)| *own == stage)?;
                Some(Duration::from_secs_f64(own / 1e9).into())
            };
            population.add(&message(rng.u64(..FLOWS), second, nanos));
        }
    }
    population
}

fn sure(changes: Vec<Change>) -> Vec<Change> {
    changes.into_iter().filter(Change::is_sure).collect()
}

#[test]
fn nothing_is_said_of_most_pairs_without_a_change() {
    let silent = (0..POPULATIONS)
        .filter(|seed| {
            sure(compare(
                &reads(*seed, |_| 1.0),
                &reads(seed + POPULATIONS, |_| 1.0),
            ))
            .is_empty()
        })
        .count() as u64;
    assert!(
        silent * 100 >= POPULATIONS * 95,
        "{silent} of {POPULATIONS}"
    );
}

#[test]
fn a_planted_change_is_found_in_most_pairs() {
    let mut found = 0;
    for seed in 0..POPULATIONS {
        let after = reads(seed + POPULATIONS, |stage| {
            if stage == Stage::RxWakeup { 4.0 } else { 1.0 }
        });
        let changes = sure(compare(&reads(seed, |_| 1.0), &after));
        let longer = |change: &Change| {
            change.measure == Measure::Stage(Stage::RxWakeup)
                && change.figure() == "p50"
                && change.relative() > 0.0
        };
        let others = |change: &Change| {
            [Stage::RxStack, Stage::RxApp]
                .map(Measure::Stage)
                .contains(&change.measure)
        };
        found += u64::from(changes.iter().any(longer) && !changes.iter().any(others));
    }
    assert!(found * 100 >= POPULATIONS * 95, "{found} of {POPULATIONS}");
}

#[test]
fn intervals_have_the_change_in_most_pairs() {
    let mut right = 0;
    for seed in 0..POPULATIONS {
        let changes = compare(&reads(seed, |_| 1.0), &reads(seed + POPULATIONS, |_| 2.0));
        let has_it = |change: &Change| {
            let bounds = change.bounds();
            bounds.is_none_or(|(least, most)| (least..=most).contains(&1.0))
        };
        right += u64::from(changes.iter().all(has_it));
    }
    assert!(right * 100 >= POPULATIONS * 95, "{right} of {POPULATIONS}");
}

#[test]
fn a_population_does_not_differ_from_itself() {
    let changes = compare(&reads(1, |_| 1.0), &reads(1, |_| 1.0));
    assert!(
        changes
            .iter()
            .all(|change| change.relative() == 0.0 && !change.is_sure())
    );
    assert!(changes.iter().any(|change| change.interval.is_some()));
}

#[test]
fn too_few_flows_and_seconds_have_no_interval() {
    let few = |scale: u64| {
        let mut population = Population::new();
        for place in 0..5000 {
            let nanos = |stage: Stage| {
                (stage == Stage::RxApp).then(|| Duration::from_nanos(scale * (1000 + place)).into())
            };
            population.add(&message(place % 10, place % 10, nanos));
        }
        population
    };
    let changes = compare(&few(1), &few(9));
    assert!(!changes.is_empty());
    assert!(
        changes
            .iter()
            .all(|change| change.interval.is_none() && !change.is_sure())
    );
    let p50 = changes
        .iter()
        .find(|change| change.figure() == "p50")
        .unwrap();
    assert!((p50.relative() - 8.0).abs() < 0.5, "{p50:?}");
}
