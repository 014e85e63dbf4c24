//! Whose messages are slow, and when.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use sockstamp_explain::{Addition, Cause, Claim, Episode, Kind, Slice, Slices};
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::container::Container;
use sockstamp_model::flow::Opened;
use sockstamp_model::message::Message;
use sockstamp_model::stage::Stage;

use super::support::heavy;
use super::{FLOWS, POPULATIONS, SECONDS, explained, nanos, reads};

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
