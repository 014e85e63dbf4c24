//! Probe over links that delay, lose, duplicate and reorder; the relay counts what it did to
//! packets.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use sockstamp_model::clock::Nanos;
use sockstamp_ping::{Engine, Event, Limits, Outcome, Protocol};
use testbed::{Direction, Family, Host, Link, LinkConfig, within_attempts};

use crate::common::{FAMILIES, Run, Story, assert_stamped, probe, target};

fn linked(name: &str, config: LinkConfig) -> (Host, Host, Link) {
    let (near, far) = (Host::new(name).unwrap(), Host::new(name).unwrap());
    let link = Link::relay(&near, &far, config).unwrap();
    (near, far, link)
}

const ONE_WAY: Duration = Duration::from_millis(5);

#[test]
fn the_delay_of_the_link_is_the_round_trip_of_each_protocol() {
    const PROBES: u64 = 20;
    let (near, far, link) = linked("delay", LinkConfig::default().delay(ONE_WAY));
    for family in FAMILIES {
        let address = link.address_b(family);
        let listener = far.tcp_listen((address, 0).into()).unwrap();
        let port = listener.local_addr().unwrap().port();
        let closed = Protocol::Udp { port };
        for protocol in [Protocol::Icmp, Protocol::Tcp { port }, closed] {
            far.set_sysctl("net.ipv4.icmp_ratelimit", "0").unwrap();
            far.set_sysctl("net.ipv6.icmp.ratelimit", "0").unwrap();
            let story = probe([target(&near, address, protocol, PROBES)]);
            let answers = story.all_answered(PROBES);
            let shortest = answers.iter().map(|answer| answer.times.rtt).min().unwrap();
            let least = Nanos::from(2 * ONE_WAY);
            assert!(
                shortest >= least && shortest < least + Nanos::from_millis(2),
                "{protocol:?}: {shortest}"
            );
            answers.iter().for_each(assert_stamped);
        }
    }
}

/// The reader's clock is the witness. Of two uniform delays up to 10 ms, 64 % are more than 2 ms
/// apart. Probes that a busy machine skipped are part of the rate.
#[test]
fn jitter_moves_probes_and_keeps_their_rate() {
    const PROBES: u32 = 200;
    const INTERVAL: Duration = Duration::from_millis(20);
    let host = Host::new("jitter").unwrap();
    let mut target = target(
        &host,
        IpAddr::from([127, 0, 0, 1]),
        Protocol::Icmp,
        PROBES.into(),
    );
    target.settings.interval = INTERVAL;
    target.settings.jitter = INTERVAL / 2;
    within_attempts(|| {
        let (mut engine, events) = Engine::start(Limits::default()).unwrap();
        engine.add(target.clone()).unwrap();
        engine.finish();
        let outcomes = events.filter(|event| matches!(event, Event::Probe { .. }));
        let times: Vec<_> = outcomes.map(|_| Instant::now()).collect();
        let moved = times.windows(2).filter(|pair| {
            let gap = pair[1] - pair[0];
            gap.abs_diff(INTERVAL) > Duration::from_millis(2)
        });
        let (moved, took) = (moved.count(), times[times.len() - 1] - times[0]);
        let skipped = u32::try_from(engine.counters().skipped).unwrap();
        let planned = INTERVAL * (PROBES - 1 + skipped);
        match moved >= 100 && took.abs_diff(planned) < 2 * INTERVAL {
            true => Ok(()),
            false => Err(format!("{moved} moved in {took:?}, {skipped} skipped")),
        }
    });
}

#[test]
fn only_probes_lost_by_the_link_are_lost() {
    const PROBES: u64 = 400;
    let (near, _far, link) = linked("loss", LinkConfig::default());
    link.set_direction(Direction::AToB, LinkConfig::default().loss(0.2))
        .unwrap();
    let mut target = target(&near, link.address_b(Family::V4), Protocol::Icmp, PROBES);
    target.settings.interval = Duration::from_millis(5);
    let story = probe([target]);
    let lost = link.statistics().a_to_b.lost;
    // 20 % of 400, with five standard deviations.
    assert!((40..=120).contains(&lost), "{lost}");
    assert_eq!(story.counters.lost, lost);
    assert_eq!(story.counters.answered, PROBES - lost);
    assert_eq!(story.counters.late, 0);
}

/// Probe until there were that many answers, then with a link that does nothing, until all that it
/// did before has come.
fn probe_over(near: &Host, link: &Link, config: LinkConfig, answers: usize) -> Story {
    let hold = config.reorder_hold;
    link.set_direction(Direction::BToA, config).unwrap();
    let mut target = target(near, link.address_b(Family::V4), Protocol::Icmp, u64::MAX);
    target.settings.interval = Duration::from_millis(5);
    let mut run = Run::start([target]);
    run.until(|story| story.answers().len() >= answers);
    link.set_direction(Direction::BToA, LinkConfig::default())
        .unwrap();
    std::thread::sleep(2 * hold);
    let so_far = run.story.answers().len();
    run.until(|story| story.answers().len() >= so_far + 20);
    run.engine.stop();
    run.end()
}

#[test]
fn duplicates_are_counted_exactly() {
    let (near, _far, link) = linked("twice", LinkConfig::default());
    let story = probe_over(&near, &link, LinkConfig::default().duplicate(0.2), 300);
    let duplicated = link.statistics().b_to_a.duplicated;
    assert!(duplicated > 20, "{duplicated}");
    assert_eq!(story.counters.duplicate, duplicated);
    assert_eq!(
        story.count(|event| matches!(event, Event::Duplicate { .. })),
        duplicated
    );
    assert_eq!((story.counters.lost, story.counters.late), (0, 0));
}

#[test]
fn reordering_is_counted_exactly() {
    let (near, _far, link) = linked("order", LinkConfig::default());
    let config = LinkConfig::default()
        .reorder(0.1)
        .reorder_hold(Duration::from_millis(12));
    let story = probe_over(&near, &link, config, 300);
    let reordered = link.statistics().b_to_a.reordered;
    assert!(reordered > 10, "{reordered}");
    assert_eq!(story.counters.reordered, reordered);
    let flagged = story
        .answers()
        .iter()
        .filter(|answer| answer.reordered)
        .count();
    assert_eq!(flagged as u64, reordered);
}

#[test]
fn an_answer_after_the_timeout_is_late_and_its_probe_was_lost() {
    const PROBES: u64 = 10;
    let (near, _far, link) = linked(
        "late",
        LinkConfig::default().delay(Duration::from_millis(30)),
    );
    let mut target = target(&near, link.address_b(Family::V4), Protocol::Icmp, u64::MAX);
    target.settings.timeout = Duration::from_millis(40);
    let mut run = Run::start([target]);
    run.until(|story| story.count(|event| matches!(event, Event::Late { .. })) >= PROBES);
    run.engine.stop();
    let story = run.end();
    let mut lost = Vec::new();
    for event in &story.events {
        match event {
            Event::Probe { seq, outcome, .. } => match outcome {
                Outcome::Lost => lost.push(*seq),
                Outcome::Abandoned => {}
                other => panic!("{other:?}"),
            },
            Event::Late { seq, answer, .. } => {
                assert!(lost.contains(seq), "{seq} was late before it was lost");
                assert!(answer.times.rtt >= Nanos::from_millis(60), "{answer:?}");
                assert_stamped(answer);
            }
            _ => {}
        }
    }
    assert!(story.counters.lost >= PROBES && story.counters.answered == 0);
}
