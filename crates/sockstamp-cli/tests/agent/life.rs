//! Starts, ends, and neighbours.

use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::TempDir;
use testbed::{Host, Process};

use crate::common::leftovers::Leftovers;
use crate::common::sockstamp;
use crate::running::{Agent, talk};

const STOP: Duration = Duration::from_secs(30);

#[test]
fn the_agent_leaves_no_trace_by_sigterm_or_when_killed() {
    let before = Leftovers::before();
    let host = Host::new("agent").unwrap();
    let mut agent = Agent::of(&host, "");
    agent.process.signal(Signal::SIGTERM).unwrap();
    let status = agent.process.wait_status(STOP).unwrap();
    assert!(status.success(), "{status}: {}", agent.process.stderr());
    let mut agent = Agent::of(&host, "");
    talk(&host, 5, Duration::ZERO);
    agent.process.kill().unwrap();
    before.assert_none();
}

#[test]
fn two_agents_see_the_same() {
    let host = Host::new("agent").unwrap();
    let agents = [Agent::of(&host, ""), Agent::of(&host, "")];
    talk(&host, 20, Duration::ZERO);
    for agent in &agents {
        let scrape = agent.scrape();
        for direction in ["direction=\"tx\"", "direction=\"rx\""] {
            assert_eq!(
                scrape.sum("sockstamp_messages_total", &[direction]),
                40.0,
                "{}",
                scrape.0
            );
            assert_eq!(
                scrape.sum("sockstamp_measured_messages_total", &[direction]),
                40.0
            );
        }
    }
}

#[test]
fn an_address_in_use_ends_it_before_anything_is_loaded() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let output = Command::new(sockstamp())
        .args(["agent", "--listen", &address])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.starts_with(&format!("sockstamp: cannot listen on {address}: ")),
        "{errors}"
    );
}

#[test]
fn a_service_manager_is_notified_of_the_start_and_then_regularly() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(STOP)).unwrap();
    let mut command = Command::new(sockstamp());
    command
        .args(["agent", "--listen", "127.0.0.1:0"])
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "600000");
    let _agent = Process::spawn(command).unwrap();
    let hear = || {
        let mut word = [0; 64];
        let length = manager.recv(&mut word).unwrap();
        String::from_utf8_lossy(&word[..length]).into_owned()
    };
    assert_eq!(hear(), "READY=1");
    for _ in 0..3 {
        assert_eq!(hear(), "WATCHDOG=1");
    }
}

/// Scrapes in quick succession share a reading of the counters.
#[test]
fn a_thousand_scrapes_share_a_few_readings() {
    let host = Host::new("agent").unwrap();
    let agent = Agent::of(&host, "");
    talk(&host, 5, Duration::ZERO);
    let begun = Instant::now();
    for _ in 0..1000 {
        agent.get("/metrics");
    }
    let looks = agent.scrape().sum("sockstamp_looks_total", &[]);
    let most = begun.elapsed().as_secs_f64() * 5.0 + 2.0;
    assert!(looks <= most, "{looks} looks, at most {most}");
}
