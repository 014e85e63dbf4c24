//! Explanations of made-up traffic of which the cause is known: heavy-tailed and bursty, as real
//! traffic is.

mod support;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use sockstamp_explain::{
    Addition, Border, Cause, Claim, Episode, Excess, Explanation, Kind, Slice, Slices, Times,
};
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::container::Container;
use sockstamp_model::flow::Opened;
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

/// The slow part of a population.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slow {
    OnePeer,
    Anybody,
    Nobody,
    /// One process, which alone talks to one of the peers, and to others as well.
    OneProcess,
}

/// Reads as [`reads`], of six peers. The process of each talks to it in four cases of five.
fn reads_of_peers(seed: u64, slow: Slow) -> Vec<Message> {
    const PEERS: u64 = 6;
    let mut rng = Rng::with_seed(seed);
    let mut messages = reads(seed, None);
    let mut burst = 0;
    for message in &mut messages {
        let peer = message.flow.cookie.0 % PEERS;
        let process = match rng.f64() < 0.8 {
            true => peer,
            false => rng.u64(..PEERS),
        };
        message.flow.remote = format!("10.0.0.{peer}:50000").parse().unwrap();
        message.comm = format!("process-{process}").as_str().into();
        if message.time.as_nanos() != burst && rng.f64() < 0.6 {
            burst = message.time.as_nanos();
        }
        let hit = match slow {
            Slow::OnePeer => peer == 2 && rng.f64() < 0.1,
            Slow::OneProcess => process == 2 && rng.f64() < 0.1,
            Slow::Anybody => rng.f64() < 0.02,
            Slow::Nobody => false,
        };
        if hit && message.time.as_nanos() == burst {
            let more = Duration::from_secs_f64(heavy(&mut rng, 20e6).min(400e6) / 1e9);
            let app = message.stages[Stage::RxApp].unwrap();
            message.stages[Stage::RxApp] = Some(app + more.into());
        }
    }
    messages
}

fn leaders(messages: &[Message]) -> Vec<Addition> {
    let explanation = explained(messages, Kind::Read);
    if explanation.claim != Claim::First {
        return Vec::new();
    }
    let mut slices = Slices::new(&explanation, explanation.carried[0]);
    messages.iter().for_each(|message| slices.add(message));
    let mut comparison = slices.compare();
    messages.iter().for_each(|message| comparison.add(message));
    let mut leaders = comparison.finish().0;
    leaders.retain(Addition::is_beyond_chance);
    leaders
}

fn first_slices(slow: Slow) -> Vec<Option<Slice>> {
    let populations = 0..POPULATIONS;
    populations
        .map(|seed| Some(leaders(&reads_of_peers(seed, slow)).first()?.slice.clone()))
        .collect()
}

#[test]
fn the_slow_peer_is_named_and_not_the_process_that_mostly_talks_to_it() {
    let peer = Slice::Peer([10, 0, 0, 2].into());
    let first = first_slices(Slow::OnePeer);
    let named = first
        .iter()
        .flatten()
        .filter(|slice| **slice == peer)
        .count() as u64;
    assert!(named * 100 >= POPULATIONS * 95, "{named} of {POPULATIONS}");
}

#[test]
fn the_slow_process_is_named_and_not_the_peer_that_it_mostly_talks_to() {
    let process = Slice::Process("process-2".into());
    let first = first_slices(Slow::OneProcess);
    let named = first
        .iter()
        .flatten()
        .filter(|slice| **slice == process)
        .count() as u64;
    assert!(named * 100 >= POPULATIONS * 95, "{named} of {POPULATIONS}");
}

/// Reads as [`reads_of_peers`], without a slow peer, of four services on four CPUs; two in five are
/// on connections that were accepted. At times, those of this slice are slow.
fn reads_of_hosts(seed: u64, slow: &Slice) -> Vec<Message> {
    let services: Vec<Arc<Container>> = (0..4)
        .map(|number| Arc::new(format!("{number}.service").parse().unwrap()))
        .collect();
    let mut rng = Rng::with_seed(seed);
    let mut messages = reads_of_peers(seed, Slow::Nobody);
    for message in &mut messages {
        // Most reads of a service are on one CPU.
        let cpu = rng.u16(..4);
        let service = if rng.bool() {
            usize::from(cpu)
        } else {
            rng.usize(..4)
        };
        message.cpu = Some(cpu);
        message.container = Some(Arc::clone(&services[service]));
        message.opened = Some(Opened::ALL[usize::from(rng.u8(..5) < 2)]);
        // Else the port of the service would tell who opened the connection.
        message.flow.local.set_port(message.flow.remote.port());
        let is_of_slice = match slow {
            Slice::Cpu(slow) => *slow == cpu,
            Slice::Container(slow) => *slow == services[service],
            Slice::Opened(slow) => Some(*slow) == message.opened,
            other => panic!("{other}"),
        };
        if is_of_slice && rng.f64() < 0.08 {
            let more = nanos(heavy(&mut rng, 20e6).min(400e6));
            message.stages[Stage::RxApp] = message.stages[Stage::RxApp].map(|own| own + more);
        }
    }
    messages
}

#[test]
fn a_slow_container_cpu_or_side_is_named() {
    let service = Arc::new("2.service".parse().unwrap());
    for slow in [
        Slice::Container(service),
        Slice::Cpu(2),
        Slice::Opened(Opened::Accepted),
    ] {
        let leaders = (0..POPULATIONS).map(|seed| leaders(&reads_of_hosts(seed, &slow)));
        let named = leaders.filter(|found| found.first().is_some_and(|found| found.slice == slow));
        let named = named.count() as u64;
        assert!(
            named * 100 >= POPULATIONS * 95,
            "{slow}: {named} of {POPULATIONS}"
        );
    }
}

/// Reads of a peer in [`reads_of_peers`] that is far away, and reached by a path that takes 30 ms
/// or so more than others, always.
fn reads_of_a_far_peer(seed: u64) -> Vec<Message> {
    let mut rng = Rng::with_seed(seed);
    let mut messages = reads_of_peers(seed, Slow::Nobody);
    for message in &mut messages {
        if message.flow.remote.ip() == std::net::IpAddr::from([10, 0, 0, 2]) {
            let more = Duration::from_secs_f64(heavy(&mut rng, 30e6).min(400e6) / 1e9);
            let stack = message.stages[Stage::RxStack].unwrap();
            message.stages[Stage::RxStack] = Some(stack + more.into());
        }
    }
    messages
}

#[test]
fn a_peer_that_is_always_slow_is_chronic_and_one_that_is_slow_at_times_is_not() {
    let peer = Slice::Peer([10, 0, 0, 2].into());
    let (mut chronic, mut episodic) = (0, 0);
    for seed in 0..POPULATIONS {
        let far = leaders(&reads_of_a_far_peer(seed));
        chronic += u64::from(
            far.first()
                .is_some_and(|leader| leader.slice == peer && leader.is_chronic()),
        );
        let bursty = leaders(&reads_of_peers(seed, Slow::OnePeer));
        episodic += u64::from(
            bursty
                .first()
                .is_some_and(|leader| leader.slice == peer && !leader.is_chronic()),
        );
    }
    assert!(
        chronic * 100 >= POPULATIONS * 95,
        "{chronic} of {POPULATIONS}"
    );
    assert!(
        episodic * 100 >= POPULATIONS * 95,
        "{episodic} of {POPULATIONS}"
    );
}

/// For a third of the seconds, all reads of one peer are slow. It has many connections, since so
/// few seconds support no claim.
#[test]
fn a_peer_that_was_slow_for_some_seconds_is_not_chronic() {
    let peer = Slice::Peer([10, 0, 0, 2].into());
    let mut episodic = 0;
    for seed in 0..POPULATIONS {
        let mut messages = reads_of_a_far_peer(seed);
        let usual = reads_of_peers(seed, Slow::Nobody);
        for (place, (message, usual)) in (0_u64..).zip(messages.iter_mut().zip(usual)) {
            message.flow.cookie.0 += FLOWS * (place % 7);
            if message.time.as_nanos() / 1_000_000_000 % 3 != 0 {
                *message = usual;
            }
        }
        let leaders = leaders(&messages);
        let leader = leaders.first().filter(|leader| leader.slice == peer);
        episodic += u64::from(
            leader.is_some_and(|leader| !leader.is_chronic() && leader.long_seconds > 10),
        );
    }
    assert!(
        episodic * 100 >= POPULATIONS * 95,
        "{episodic} of {POPULATIONS}"
    );
}

/// Reads of which, for six seconds, a third takes 20 ms or so in addition.
fn reads_of_an_incident(seed: u64) -> Vec<Message> {
    let mut rng = Rng::with_seed(seed);
    let mut messages = reads(seed, None);
    for message in &mut messages {
        let second = message.time.as_nanos() / 1_000_000_000;
        if INCIDENT.contains(&second) && rng.u8(..3) == 0 {
            let app = message.stages[Stage::RxApp].unwrap();
            let more = heavy(&mut rng, 20e6).min(400e6);
            message.stages[Stage::RxApp] = Some(app + nanos(more));
        }
    }
    messages
}

const INCIDENT: Range<u64> = 20..26;

#[test]
fn the_time_of_an_incident_is_named_and_bursts_all_the_time_have_none() {
    let (mut named, mut spread) = (0, 0);
    for seed in 0..POPULATIONS {
        let incident = explained(&reads_of_an_incident(seed), Kind::Read);
        let is_in =
            |episode: &Episode| INCIDENT.start <= episode.begin && episode.end() <= INCIDENT.end;
        let episode = incident.episode.filter(|_| incident.claim != Claim::Small);
        named += u64::from(episode.as_ref().is_some_and(is_in));
        let always = explained(&reads(seed, Some(Stage::RxApp)), Kind::Read);
        spread += u64::from(always.episode.is_none());
    }
    assert!(named * 100 >= POPULATIONS * 95, "{named} of {POPULATIONS}");
    assert!(
        spread * 100 >= POPULATIONS * 95,
        "{spread} of {POPULATIONS}"
    );
}

#[test]
fn a_slice_is_counted_among_normal_and_slow_messages() {
    let messages = reads_of_peers(3, Slow::OnePeer);
    let leader = leaders(&messages).swap_remove(0);
    let limits = explained(&messages, Kind::Read).limits;
    let share = |of: &dyn Fn(Nanos) -> bool| {
        let some: Vec<_> = (messages.iter())
            .filter(|message| of(Kind::Read.time(message).unwrap()))
            .collect();
        let own = some
            .iter()
            .filter(|message| message.flow.cookie.0 % 6 == 2)
            .count();
        own as f64 / some.len() as f64
    };
    let of_slow = share(&|time| time > limits.p99);
    let of_normal = share(&|time| (limits.p25..=limits.p75).contains(&time));
    assert!((leader.of_slow - of_slow).abs() < 1e-9, "{leader:?}");
    assert!((leader.of_normal - of_normal).abs() < 1e-9, "{leader:?}");
    assert!(of_slow > 2.0 * of_normal);
}

#[test]
fn typical_lives_are_slow_messages_of_the_cause() {
    let messages = reads_of_peers(3, Slow::OnePeer);
    let explanation = explained(&messages, Kind::Read);
    let mut slices = Slices::new(&explanation, explanation.carried[0]);
    messages.iter().for_each(|message| slices.add(message));
    let mut comparison = slices.compare();
    messages.iter().for_each(|message| comparison.add(message));
    let (leaders, lives) = comparison.finish();
    let lives = Cause::new(&explanation, leaders.first())
        .unwrap()
        .typical(lives);
    let times: Vec<_> = lives
        .iter()
        .map(|life| Kind::Read.time(life).unwrap())
        .collect();
    assert_eq!(times.len(), 3);
    assert!(
        times.is_sorted() && times[0] > explanation.limits.p99,
        "{times:?}"
    );
    assert!(lives.iter().all(|life| life.flow.cookie.0 % 6 == 2));
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
fn no_slice_is_named_if_all_are_slow_alike() {
    let first = first_slices(Slow::Anybody);
    let silent = first.iter().filter(|slice| slice.is_none()).count() as u64;
    assert!(
        silent * 100 >= POPULATIONS * 95,
        "{silent} of {POPULATIONS}"
    );
}

/// Return messages that came this many seconds later.
fn later(mut messages: Vec<Message>, seconds: u64) -> Vec<Message> {
    for message in &mut messages {
        let nanos = message.time.as_nanos() + seconds * 1_000_000_000;
        message.time = Timestamp::from_nanos(nanos);
    }
    messages
}

/// One peer's reads wait for the application, and at other times all wait for a CPU. Either has
/// most of the excess of some seconds: two minutes tell that both have much of it.
#[test]
fn a_second_cause_is_found_without_the_messages_of_the_first() {
    let expected = [Stage::RxApp, Stage::RxWakeup];
    let mut found = 0;
    for seed in 0..POPULATIONS {
        let mut rng = Rng::with_seed(seed);
        let parts = (0..3).map(|part| {
            (
                part * SECONDS,
                reads_of_peers(3 * seed + part, Slow::OnePeer),
            )
        });
        let mut messages: Vec<Message> =
            parts.flat_map(|(begin, part)| later(part, begin)).collect();
        for message in &mut messages {
            if message.time.as_nanos() / 1_000_000_000 % 2 == 0 && rng.f64() < 0.02 {
                let more = Duration::from_secs_f64(heavy(&mut rng, 10e6).min(200e6) / 1e9);
                let wakeup = message.stages[Stage::RxWakeup].unwrap();
                message.stages[Stage::RxWakeup] = Some(wakeup + more.into());
            }
        }
        let mut stages = Vec::new();
        for _ in 0..2 {
            let explanation = explained(&messages, Kind::Read);
            let leaders = leaders(&messages);
            let Some(cause) = Cause::new(&explanation, leaders.first()) else {
                break;
            };
            stages.push(explanation.carried[0].component.stage);
            messages.retain(|message| !cause.covers(message));
        }
        stages.sort_by_key(|stage| expected.iter().position(|expected| expected == stage));
        found += u64::from(stages == expected);
    }
    assert!(found * 100 >= POPULATIONS * 90, "{found} of {POPULATIONS}");
}

/// All messages of a peer are those of one process.
#[test]
fn slices_that_are_the_same_messages_are_all_named() {
    let mut messages = reads_of_peers(3, Slow::OnePeer);
    for message in &mut messages {
        message.comm = format!("{}", message.flow.remote.ip()).as_str().into();
    }
    let mut slices: Vec<_> = leaders(&messages)
        .into_iter()
        .map(|found| found.slice)
        .collect();
    slices.sort();
    let expected = [
        Slice::Peer([10, 0, 0, 2].into()),
        Slice::Process("10.0.0.2".into()),
    ];
    assert_eq!(slices, expected);
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
