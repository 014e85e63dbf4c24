//! Run the benchmark, and check that all its figures are there. No time is checked, only figures
//! that must be exact.

use std::process::Command;

use serde_json::Value;

fn run(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_sockstamp-bench"))
        .args(["--smoke", "--format", "json"])
        .args(arguments)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn figure<'a>(report: &'a Value, name: &str) -> &'a Value {
    let figures = report["figures"].as_array().unwrap();
    figures
        .iter()
        .find(|figure| figure["name"] == name)
        .unwrap_or_else(|| panic!("no {name}: {report}"))
}

/// `null` in place of what could not be formed.
fn median(report: &Value, name: &str) -> f64 {
    figure(report, name)["median"].as_f64().unwrap_or(f64::NAN)
}

#[test]
fn hooks_are_compared_and_an_unselected_flow_runs_no_sockops_program() {
    let report = run(&["--only", "hooks"]);
    for name in ["hooks.send", "hooks.read"] {
        assert!(median(&report, name) > 0.0, "{name}");
    }
    assert_eq!(figure(&report, "unselected.sockops")["met"], true);
    let hooks = report["hooks"].as_array().unwrap();
    let sockops = hooks.iter().find(|hook| hook["hook"] == "sockops").unwrap();
    assert!(
        sockops["selected"]["runs"].as_f64().unwrap() > 1.0,
        "{sockops}"
    );
}

#[test]
fn every_record_that_is_not_read_is_counted_as_lost() {
    let report = run(&["--only", "ring"]);
    assert!(median(&report, "ring.lost") > 0.0);
    assert_eq!(figure(&report, "ring.uncounted")["met"], true);
}

#[test]
fn traffic_is_compared_under_every_condition() {
    let report = run(&["--only", "latency", "throughput"]);
    for name in [
        "latency.p50.unselected",
        "latency.p99.selected",
        "latency.rate.recorded",
        "throughput.selected",
    ] {
        assert!(median(&report, name) > 0.0, "{name}");
    }
}

#[test]
fn missing_segments_and_idle_connections_are_there_to_be_compared() {
    let report = run(&["--only", "hol", "idle"]);
    assert!(median(&report, "hol.out-of-order") > 0.0);
    for name in ["hol.cost", "idle.hooks", "idle.p50"] {
        assert!(median(&report, name) > 0.0, "{name}");
    }
}

#[test]
fn writers_and_readers_of_recordings_are_timed() {
    let report = run(&["--only", "recordings"]);
    assert!(median(&report, "recordings.write.rate") > 0.0);
    let bytes = median(&report, "recordings.write.bytes");
    assert!((12.0..24.0).contains(&bytes), "{bytes}");
    for reader in ["report", "explain", "join"] {
        assert!(median(&report, &format!("recordings.{reader}.time")) > 0.0);
        assert!(median(&report, &format!("recordings.{reader}.memory")) > 1.0);
    }
}

#[test]
fn windows_come_and_go() {
    let report = run(&["--only", "windows", "--part", "windows.switch"]);
    for name in ["p999", "attach", "detach", "cpu"] {
        let name = format!("windows.switch.{name}");
        assert!(median(&report, &name) > 0.0, "{name}");
    }
}

#[test]
fn real_programs_are_compared_on_one_host_and_over_a_link() {
    let report = run(&["--only", "programs", "--part", "redis"]);
    for name in [
        "programs.redis.lo.rate.tcpdump",
        "programs.redis.lo.rate.stat-p",
        "programs.redis.lo.cpu.stat/tcpdump",
        "programs.redis.lo.cpu.pcap/tcpdump",
        "programs.redis.link.p50.stat",
        "programs.redis.link.p99.trace-every",
        "programs.redis.link.cpu.off",
    ] {
        assert!(median(&report, name) > 0.0, "{name}");
    }
    assert!(median(&report, "programs.redis.lo.lost.trace-every") >= 0.0);
}

#[test]
fn datagrams_and_a_bulk_transfer_are_compared_as_well() {
    for row in ["udp-echo.lo", "iperf3.lo"] {
        let report = run(&["--only", "programs", "--part", row]);
        for what in ["rate.stat", "cpu.stat-every", "rate.stat/tcpdump"] {
            let name = format!("programs.{row}.{what}");
            assert!(median(&report, &name) > 0.0, "{name}");
        }
    }
}
