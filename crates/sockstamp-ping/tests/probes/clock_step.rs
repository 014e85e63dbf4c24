//! Steps of CLOCK_REALTIME, in which the kernel stamps.

use std::fs;
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime, clock_settime};
use sockstamp_model::clock::Nanos;
use sockstamp_ping::{Fallback, Protocol, TxKind};
use testbed::{Family, Host, Link, LinkConfig};

use crate::common::{Run, assert_stamped, target};

fn step(by: i64) {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).unwrap();
    let then = TimeSpec::new(now.tv_sec() + by, now.tv_nsec());
    clock_settime(ClockId::CLOCK_REALTIME, then).unwrap();
}

/// Run only in the lab: the clock is global, and a step would disturb other users of this host.
#[test]
fn probes_in_flight_during_a_clock_step_fall_back_to_user_space() {
    if !fs::read_to_string("/proc/cmdline")
        .unwrap()
        .contains("sockstamp.lab")
    {
        let line = "SKIP clock_step::probes_in_flight_during_a_clock_step_fall_back_to_user_space: the clock of this host is others', too\n";
        return io::stderr().write_all(line.as_bytes()).unwrap();
    }
    const ONE_WAY: Duration = Duration::from_millis(50);
    let (near, far) = (Host::new("step").unwrap(), Host::new("step").unwrap());
    let link = Link::relay(&near, &far, LinkConfig::default().delay(ONE_WAY)).unwrap();
    let mut run = Run::start([target(
        &near,
        link.address_b(Family::V4),
        Protocol::Icmp,
        100,
    )]);
    for by in [3_600, -7_200] {
        let answers = run.story.answers().len();
        run.until(|story| story.answers().len() >= answers + 20);
        step(by);
        thread::sleep(Duration::from_millis(1));
    }
    let story = run.end();
    let mut stepped = 0;
    for answer in story.all_answered(100) {
        // Never shorter than the way, and never an hour.
        assert!(answer.times.rtt >= Nanos::from(2 * ONE_WAY), "{answer:?}");
        assert!(answer.times.rtt < Nanos::from_secs(5), "{answer:?}");
        if answer.times.tx == TxKind::User {
            assert_eq!(
                answer.times.fallback,
                Some(Fallback::ClockStep),
                "{answer:?}"
            );
            stepped += 1;
        } else {
            assert_stamped(&answer);
        }
    }
    // At 10 ms intervals about ten are under way at each step.
    assert!((4..=40).contains(&stepped), "{stepped}");
    assert_eq!(story.counters.clock_step, stepped);
}
