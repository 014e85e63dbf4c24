//! Explanations of made-up traffic of which the cause is known: heavy-tailed and bursty, as real
//! traffic is.

mod slices;
#[path = "../support/mod.rs"]
mod support;

use std::time::Duration;

use fastrand::Rng;
use sockstamp_explain::{Border, Cause, Claim, Excess, Explanation, Kind, Times};
use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::part::Part;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::verdict::Verdict;

use support::{heavy, message};

const POPULATIONS: u64 = 200;
const SECONDS: u64 = 40;
const FLOWS: u64 = 30;
const PER_SECOND: u64 = 250;

const STAGES: [Stage; 3] = [Stage::RxStack, Stage::RxWakeup, Stage::RxApp];

/// Reads whose stages are heavy-tailed and slower in some seconds; in bursts, `planted` of some of
/// them takes 20 ms or so in addition.
fn reads(seed: u64, planted: Option<Stage>) -> Vec<Message> {
    reads_like(seed, planted, [10_000.0; 3])
}

/// Reads as [`reads`], whose stages have these medians.
fn reads_like(seed: u64, planted: Option<Stage>, medians: [f64; 3]) -> Vec<Message> {
    let mut rng = Rng::with_seed(seed);
    let mut messages = Vec::new();
    let mut load = 1.0;
    for second in 0..SECONDS {
        load = next_load(load, &mut rng);
        let burst = rng.f64() < 0.6;
        for _ in 0..PER_SECOND {
            let own = medians.map(|median| load * heavy(&mut rng, median));
            let hit = burst && rng.f64() < 0.05;
            let more = heavy(&mut rng, 20e6).min(400e6);
            let nanos = |stage: Stage| {
                let place = STAGES.iter().position(|own| *own == stage)?;
                let extra = if hit && planted == Some(stage) {
                    more
                } else {
                    0.0
                };
                Some(nanos(own[place] + extra))
            };
            messages.push(message(rng.u64(..FLOWS), second, nanos));
        }
    }
    messages
}

/// Seconds resemble those before them.
fn next_load(load: f64, rng: &mut Rng) -> f64 {
    0.7 * load + 0.3 * heavy(rng, 1.0).min(20.0)
}

fn nanos(nanos: f64) -> Nanos {
    Duration::from_secs_f64(nanos / 1e9).into()
}

/// Messages of a kind without a cause: each component is heavy-tailed, and usually half as long as
/// that before it.
fn usual(seed: u64, kind: Kind, median: f64) -> Vec<Message> {
    let mut rng = Rng::with_seed(seed);
    let mut messages = Vec::new();
    let mut load = 1.0;
    for second in 0..SECONDS {
        load = next_load(load, &mut rng);
        for _ in 0..PER_SECOND {
            let mut one = message(rng.u64(..FLOWS), second, |_| None);
            if kind == Kind::Sent {
                one.direction = Direction::Tx;
            }
            for (place, component) in (0_i32..).zip(kind.components()) {
                let own = nanos(load * heavy(&mut rng, median / 2_f64.powi(place)));
                if let Some(part) = component.part {
                    one.parts[part] = Some(own);
                }
                let stage = &mut one.stages[component.stage];
                *stage = Some(stage.unwrap_or_default() + own);
            }
            messages.push(one);
        }
    }
    messages
}

/// Check that this holds of 95 % of the seeds.
fn check_most(what: &str, holds: impl Fn(u64) -> bool) {
    let count = (0..POPULATIONS).filter(|seed| holds(*seed)).count() as u64;
    assert!(
        count * 100 >= POPULATIONS * 95,
        "{what}: {count} of {POPULATIONS}"
    );
}

fn explained(messages: &[Message], kind: Kind) -> Explanation {
    let mut times = Times::new(kind);
    messages.iter().for_each(|message| times.add(message));
    let mut excess = Excess::new(kind, times.limits(Border::default()).unwrap());
    messages.iter().for_each(|message| excess.add(message));
    excess.explanation()
}

#[test]
fn a_planted_cause_is_found_in_most_populations() {
    let causes = [Stage::RxStack, Stage::RxWakeup, Stage::RxApp];
    let mut found = 0;
    for seed in 0..POPULATIONS {
        let cause = causes[usize::try_from(seed % 3).unwrap()];
        let explanation = explained(&reads(seed, Some(cause)), Kind::Read);
        found += u64::from(
            explanation.claim == Claim::First && explanation.carried[0].component.stage == cause,
        );
    }
    assert!(found * 100 >= POPULATIONS * 95, "{found} of {POPULATIONS}");
}

/// Check that nothing is claimed of 95 % of the populations.
fn check_silent(what: &str, population: impl Fn(u64) -> Vec<Message>, kind: Kind) {
    let explained = (0..POPULATIONS).map(|seed| explained(&population(seed), kind));
    let explained: Vec<Explanation> = explained.collect();
    let silent = explained.iter().filter(|found| found.claim != Claim::First);
    let silent = silent.count() as u64;
    assert!(
        silent * 100 >= POPULATIONS * 95,
        "{what}: {silent} of {POPULATIONS}"
    );
}

#[test]
fn nothing_is_claimed_of_most_populations_without_a_cause() {
    // With the least of these, few slow messages take a significant time.
    for median in [1e4, 1e5, 1e6] {
        for longer in [1.0, 3.0] {
            let population = |seed| reads_like(seed, None, [median, median, longer * median]);
            check_silent(&format!("{median} ns, {longer}"), population, Kind::Read);
        }
    }
}

#[test]
fn nothing_is_claimed_of_most_sends_and_answers_without_a_cause() {
    for kind in [Kind::Sent, Kind::Answer] {
        check_silent(kind.name(), |seed| usual(seed, kind, 1e6), kind);
    }
}

/// Of the slow messages, most are slow without the cause, and by less.
#[test]
fn a_cause_of_a_third_of_the_slow_messages_is_found() {
    let mut found = 0;
    for seed in 0..POPULATIONS {
        let mut rng = Rng::with_seed(seed);
        let mut messages = reads(seed, None);
        for message in &mut messages {
            if rng.f64() >= 0.003 {
                continue;
            }
            let more = nanos(heavy(&mut rng, 20e6).min(400e6));
            message.stages[Stage::RxApp] = message.stages[Stage::RxApp].map(|own| own + more);
        }
        let explanation = explained(&messages, Kind::Read);
        let first = explanation.carried[0].component.stage;
        found += u64::from(explanation.claim == Claim::First && first == Stage::RxApp);
    }
    assert!(found * 100 >= POPULATIONS * 95, "{found} of {POPULATIONS}");
}

/// Without the messages of the only cause, the rest has no other cause.
#[test]
fn no_second_cause_is_claimed_of_most_populations_with_one() {
    let rest = |seed| {
        let mut messages = reads_like(seed, Some(Stage::RxApp), [1e5; 3]);
        let first = explained(&messages, Kind::Read);
        if let Some(cause) = Cause::new(&first, None) {
            messages.retain(|message| !cause.covers(message));
        }
        messages
    };
    check_silent("rest", rest, Kind::Read);
}

/// Each interval has the share that another recording of the same traffic has.
#[test]
fn intervals_hold_for_all_stages_of_another_recording() {
    check_most("held", |seed| {
        let [one, other] = [seed, seed + POPULATIONS]
            .map(|seed| explained(&reads_like(seed, None, [1e6; 3]), Kind::Read));
        one.carried.iter().all(|found| {
            let mut others = other.carried.iter();
            let same = others
                .find(|same| same.component == found.component)
                .unwrap();
            found
                .margin
                .is_none_or(|margin| (same.share - found.share).abs() <= margin)
        })
    });
}

/// There is nothing to compare the only component with: a large excess of it is named.
#[test]
fn the_only_component_of_a_kind_is_named() {
    let messages: Vec<Message> = (0..4000)
        .map(|place| {
            let time = if place % 100 == 0 { 50_000_000 } else { 10_000 };
            let stage = |stage: Stage| (stage == Stage::ConnAccept).then_some(Nanos(time));
            message(place, place / 100 % SECONDS, stage)
        })
        .collect();
    let mut times = Times::new(Kind::Accept);
    messages.iter().for_each(|message| times.add(message));
    let border = Border::Percentile(98_000);
    let mut excess = Excess::new(Kind::Accept, times.limits(border).unwrap());
    messages.iter().for_each(|message| excess.add(message));
    let explanation = excess.explanation();
    assert_eq!(explanation.claim, Claim::First, "{explanation:?}");
    assert_eq!(
        (
            explanation.carried[0].of_normal,
            explanation.carried[0].of_slow
        ),
        (1.0, 1.0)
    );
}

#[test]
fn slow_messages_may_be_those_above_a_time() {
    let messages = reads(1, Some(Stage::RxApp));
    let mut times = Times::new(Kind::Read);
    messages.iter().for_each(|message| times.add(message));
    let border = Nanos(5_000_000);
    let limits = times.limits(Border::Time(border)).unwrap();
    assert_eq!(limits.slow, border);
    let mut excess = Excess::new(Kind::Read, limits);
    messages.iter().for_each(|message| excess.add(message));
    let slow = messages
        .iter()
        .filter(|message| Kind::Read.time(message).unwrap() > border);
    assert_eq!(excess.explanation().slow, slow.count() as u64);
}

#[test]
fn excesses_of_components_add_up() {
    for seed in 0..10 {
        let explanation = explained(&reads(seed, Some(Stage::RxApp)), Kind::Read);
        let sum: f64 = explanation
            .carried
            .iter()
            .map(|carried| carried.excess)
            .sum();
        assert!((sum - explanation.excess).abs() < 1.0, "{explanation:?}");
        let shares: f64 = explanation
            .carried
            .iter()
            .map(|carried| carried.share)
            .sum();
        assert!((shares - 1.0).abs() < 1e-9, "{explanation:?}");
        assert!(explanation.slow <= SECONDS * PER_SECOND / 100);
    }
}

/// Answers of which some take 60 ms, where others take 16 µs, in few flows and seconds.
#[test]
fn the_obvious_is_named_though_there_are_few_flows_and_seconds() {
    check_most("named", |seed| {
        let mut rng = Rng::with_seed(seed);
        let messages: Vec<Message> = (0..20_000)
            .map(|place: u64| {
                let is_slow = place.is_multiple_of(55);
                let time = if is_slow {
                    60e6 + 1e6 * rng.f64()
                } else {
                    heavy(&mut rng, 16_000.0).min(1e6)
                };
                let answer = |stage: Stage| (stage == Stage::PeerAnswer).then(|| nanos(time));
                let mut one = message(rng.u64(..12), rng.u64(..15), answer);
                one.parts[Part::Network] = Some(Nanos(8_000));
                one.parts[Part::Peer] = Some(nanos(time - 8_000.0));
                one
            })
            .collect();
        let explanation = explained(&messages, Kind::Answer);
        let first = explanation.carried[0];
        // Five points between recordings are most of the margin, which holds for all components.
        explanation.claim == Claim::First
            && first.component.part == Some(Part::Peer)
            && first.margin.is_some_and(|margin| margin < 0.17)
    });
}

#[test]
fn what_came_in_one_moment_is_a_suspect() {
    let mut messages = reads(1, None);
    for message in messages.iter_mut().step_by(50) {
        if (20..24).contains(&(message.time.as_nanos() / 1_000_000_000)) {
            message.stages[Stage::RxApp] = Some(Nanos(3_000_000_000));
        }
    }
    let explanation = explained(&messages, Kind::Read);
    assert_eq!(explanation.claim, Claim::Suspect);
    assert_eq!(explanation.carried[0].component.stage, Stage::RxApp);
    assert_eq!(
        (explanation.carried[0].margin, explanation.again),
        (None, None)
    );
}

#[test]
fn a_message_counts_by_its_weight() {
    let slow = |stage: Stage| (stage == Stage::RxApp).then_some(Nanos(90));
    let fast = |stage: Stage| (stage == Stage::RxApp).then_some(Nanos(10));
    let mut messages = vec![message(1, 1, slow), message(1, 1, fast)];
    messages[1].weight = 99;
    let mut times = Times::new(Kind::Read);
    messages.iter().for_each(|message| times.add(message));
    let limits = times.limits(Border::default()).unwrap();
    assert_eq!(
        (limits.messages, limits.p99, limits.p25),
        (100, Nanos(10), Nanos(10))
    );
    let explanation = explained(&messages, Kind::Read);
    assert_eq!((explanation.slow, explanation.excess()), (1, Nanos(80)));
}

#[test]
fn parts_are_distinguished_if_a_stage_has_some() {
    let mut sent = message(1, 1, |stage| (stage == Stage::TxQueue).then_some(Nanos(90)));
    sent.direction = Direction::Tx;
    sent.parts[Part::Nagle] = Some(Nanos(80));
    sent.parts[Part::Other] = Some(Nanos(10));
    let mut usual = message(1, 1, |stage| (stage == Stage::TxQueue).then_some(Nanos(10)));
    usual.parts[Part::Other] = Some(Nanos(10));
    usual.weight = 99;
    let explanation = explained(&[sent, usual], Kind::Sent);
    assert_eq!(
        explanation.carried[0].component.to_string(),
        "tx.queue nagle"
    );
    assert_eq!(
        (
            explanation.carried[0].norm(),
            explanation.carried[0].excess()
        ),
        (Nanos(0), Nanos(80))
    );
}

#[test]
fn refused_messages_are_left_out() {
    let mut refused = message(1, 1, |stage| (stage == Stage::RxApp).then_some(Nanos(90)));
    refused.verdict = Verdict::Hol;
    assert_eq!(Kind::Read.time(&refused), None);
    let mut times = Times::new(Kind::Read);
    times.add(&refused);
    assert_eq!(times.limits(Border::default()), None);
}
