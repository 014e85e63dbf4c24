//! Comparisons of made-up traffic of which the change is known: heavy-tailed, and alike from one
//! moment to the next, as real traffic is.

mod support;

use std::time::Duration;

use fastrand::Rng;
use sockstamp_explain::Least;
use sockstamp_explain::diff::{Change, Measure, Population, compare, seen};
use sockstamp_model::clock::Timestamp;
use sockstamp_model::stage::Stage;

use support::{heavy, message};

const POPULATIONS: u64 = 200;
const SECONDS: u64 = 60;
const PER_SECOND: u64 = 50;

const STAGES: [Stage; 3] = [Stage::RxStack, Stage::RxWakeup, Stage::RxApp];

/// Each change of a twentieth matters.
const ANY: Least = Least {
    time: 0.0,
    share: 0.05,
};

/// How the load of a second follows from that of the second before.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// Seconds resemble those next to them.
    Waves,
    /// Each second differs from the one before by a little, and nothing brings it back.
    Drift,
    /// Most messages come in some seconds, and the load is high in these.
    Bursts,
}

impl Load {
    fn next(self, load: f64, rng: &mut Rng) -> f64 {
        match self {
            Self::Waves => 0.7 * load + 0.3 * heavy(rng, 1.0).min(20.0),
            Self::Drift => load * (0.05 * normal(rng)).exp(),
            Self::Bursts if rng.f64() < 0.2 => 10.0,
            Self::Bursts => 1.0,
        }
    }
}

/// The sum of twelve even numbers is nearly normal.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
}

/// Make a recording of reads whose stages take this many times as long as usual.
fn recording(rng: &mut Rng, load: Load, flows: u64, times: impl Fn(Stage) -> f64) -> Population {
    let mut population = Population::new();
    let mut level = 1.0;
    for second in 0..SECONDS {
        level = load.next(level, rng);
        let count = match load {
            Load::Bursts if level < 5.0 => PER_SECOND / 10,
            _ => PER_SECOND,
        };
        for _ in 0..count {
            let stages = STAGES.map(|stage| (stage, times(stage) * level * heavy(rng, 10_000.0)));
            let nanos = |stage: Stage| {
                let (_, own) = stages.iter().find(|(own, _)| *own == stage)?;
                Some(Duration::from_secs_f64(own / 1e9).into())
            };
            let mut one = message(rng.u64(..flows), second, nanos);
            one.time = Timestamp::from_nanos(one.time.as_nanos() + rng.u64(..1_000_000_000));
            population.add(&one);
        }
    }
    population
}

fn reads(seed: u64, times: impl Fn(Stage) -> f64) -> [Population; 1] {
    [recording(&mut Rng::with_seed(seed), Load::Waves, 30, times)]
}

fn found(changes: Vec<Change>) -> Vec<Change> {
    changes.into_iter().filter(Change::is_found).collect()
}

/// Check that this holds of 95 % of the seeds.
fn check_most(what: &str, holds: impl Fn(u64) -> bool) {
    let count = (0..POPULATIONS).filter(|seed| holds(*seed)).count() as u64;
    assert!(
        count * 100 >= POPULATIONS * 95,
        "{what}: {count} of {POPULATIONS}"
    );
}

#[test]
fn nothing_is_said_of_most_pairs_without_a_change() {
    for load in [Load::Waves, Load::Drift, Load::Bursts] {
        for flows in [2, 30] {
            check_most(&format!("{load:?}, {flows} flows"), |seed| {
                let mut rng = Rng::with_seed(seed);
                // What drifts from one second to the next does so from one recording to the next.
                let sides = [(), ()].map(|()| [recording(&mut rng, load, flows, |_| 1.0)]);
                found(compare(&sides[0], &sides[1], ANY)).is_empty()
            });
        }
    }
}

#[test]
fn a_planted_change_is_found_first_in_most_pairs() {
    check_most("found", |seed| {
        let after = reads(seed + POPULATIONS, |stage| {
            if stage == Stage::RxWakeup { 10.0 } else { 1.0 }
        });
        let mut changes = found(compare(&reads(seed, |_| 1.0), &after, ANY));
        changes.sort_by(Change::by_weight);
        let is_it = |change: &Change| {
            [Measure::Read, Measure::Stage(Stage::RxWakeup)].contains(&change.measure)
                && change.relative() > 0.0
        };
        changes.first().is_some_and(is_it) && changes.iter().all(is_it)
    });
}

#[test]
fn intervals_have_the_change_in_most_pairs() {
    check_most("right", |seed| {
        let after = reads(seed + POPULATIONS, |_| 2.0);
        let changes = compare(&reads(seed, |_| 1.0), &after, ANY);
        let has_it = |change: &Change| {
            let bounds = change.bounds();
            bounds.is_none_or(|(least, most)| (least..=most).contains(&1.0))
        };
        changes.iter().any(|change| change.bounds().is_some()) && changes.iter().all(has_it)
    });
}

/// Each recording of the same system is this much slower or faster than others, as a whole.
fn recordings(rng: &mut Rng, count: usize, times: f64) -> Vec<Population> {
    let of_one = |rng: &mut Rng| {
        let level = times * (0.3 * normal(rng)).exp();
        recording(rng, Load::Waves, 30, |_| level)
    };
    (0..count).map(|_| of_one(rng)).collect()
}

#[test]
fn recordings_that_differ_among_themselves_are_clusters() {
    for (before, after) in [(3, 3), (5, 1), (6, 6)] {
        let sides = |seed: u64, times: f64| {
            let mut rng = Rng::with_seed(seed);
            let before = recordings(&mut rng, before, 1.0);
            (before, recordings(&mut rng, after, times))
        };
        check_most(&format!("{before} and {after}"), |seed| {
            let (before, after) = sides(seed, 1.0);
            found(compare(&before, &after, ANY)).is_empty()
        });
    }
    check_most("twelve recordings", |seed| {
        let mut rng = Rng::with_seed(seed);
        let before = recordings(&mut rng, 6, 1.0);
        let after = recordings(&mut rng, 6, 4.0);
        !found(compare(&before, &after, ANY)).is_empty()
    });
}

#[test]
fn a_population_does_not_differ_from_itself() {
    let changes = compare(&reads(1, |_| 1.0), &reads(1, |_| 1.0), ANY);
    assert!(
        changes
            .iter()
            .all(|change| change.relative() == 0.0 && !change.is_beyond_chance())
    );
    assert!(changes.iter().any(|change| change.interval.is_some()));
    assert!(changes.iter().all(|change| change.chance == 1.0));
}

#[test]
fn a_change_that_is_too_small_to_matter_is_not_found() {
    let after = || reads(1, |_| 100.0);
    let times = |changes: &[Change]| {
        changes
            .iter()
            .filter(|change| change.is_beyond_chance())
            .count()
    };
    let all = compare(&reads(2, |_| 1.0), &after(), ANY);
    assert!(times(&all) > 5, "{all:?}");
    let second = Least {
        time: 1e9,
        share: 0.05,
    };
    let large = compare(&reads(2, |_| 1.0), &after(), second);
    assert_eq!(times(&large), times(&all));
    assert!(found(large).is_empty());
}

/// Reads of one moment.
fn few(scale: u64) -> [Population; 1] {
    let mut population = Population::new();
    for place in 0..5000 {
        let nanos = |stage: Stage| {
            (stage == Stage::RxApp).then(|| Duration::from_nanos(scale * (1000 + place)).into())
        };
        population.add(&message(place % 10, 1, nanos));
    }
    [population]
}

#[test]
fn what_is_seen_in_one_moment_is_told_and_not_claimed() {
    let changes = compare(&few(1), &few(9), ANY);
    assert!(!changes.is_empty());
    assert!(
        changes
            .iter()
            .all(|change| change.interval.is_none() && !change.is_found())
    );
    let p50 = changes
        .iter()
        .find(|change| change.figure() == "p50")
        .unwrap();
    assert!((p50.relative() - 8.0).abs() < 0.5, "{p50:?}");
    let seen = seen(&few(1), &few(9));
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].measure, Measure::Read);
    assert!((seen[0].after / seen[0].before - 9.0).abs() < 1e-6);
    let (stage, more) = seen[0].stage.unwrap();
    assert_eq!(stage, Measure::Stage(Stage::RxApp));
    assert!((more - (seen[0].after - seen[0].before)).abs() < 1e-6);
}

/// Eight seconds are too short to tell a change of half from chance, and more of them are enough.
#[test]
fn a_suspect_needs_so_many_times_as_much() {
    let suspects = (0..20).filter_map(|seed| {
        let after = reads(seed + POPULATIONS, |stage| {
            if stage == Stage::RxApp { 3.0 } else { 1.0 }
        });
        let changes = compare(&reads(seed, |_| 1.0), &after, ANY);
        changes
            .into_iter()
            .min_by(|one, other| one.chance.total_cmp(&other.chance))
    });
    for suspect in suspects {
        assert_eq!(
            suspect.is_beyond_chance(),
            suspect.needed <= 1.0,
            "{suspect:?}"
        );
        assert_eq!(
            suspect.is_beyond_chance(),
            suspect.chance <= 0.05,
            "{suspect:?}"
        );
    }
}
