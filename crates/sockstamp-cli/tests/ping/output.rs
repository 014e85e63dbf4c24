//! Lines, summaries and objects.

use std::time::Duration;

use nix::sys::signal::Signal;
use testbed::{Family, Host, PATIENCE, Process};
use with::{FAMILIES, number};

use crate::run::{delayed_hosts, json, ping, text};

const DELAY: Duration = Duration::from_millis(10);

#[test]
fn each_probe_has_a_line_with_both_views() {
    let (prober, _target, link) = delayed_hosts(DELAY);
    for family in FAMILIES {
        let address = link.address_b(family).to_string();
        let text = text(ping(&prober, &["-c", "3", "-i", "20ms", &address]));
        assert_eq!((text.status, text.stderr.as_str()), (0, ""));
        let lines = text.lines();
        assert!(
            lines[0].starts_with(&format!("PING {address} by ")),
            "{lines:?}"
        );
        assert_eq!(
            lines[1],
            "stamps: probes software (the driver), answers software (the kernel)"
        );
        for (n, line) in (1..=3).zip(&lines[2..]) {
            let start = format!("64 B from {address}: seq={n} ttl=64 time=1");
            assert!(
                line.starts_with(&start)
                    && line.contains(" ms tx.qdisc=")
                    && line.contains("s prober="),
                "{line}"
            );
        }
        assert_eq!(lines[5], "");
        let counts = format!(" {address}: 3 sent, 3 answered, 0.0 % lost in ");
        assert!(lines[6].starts_with(&counts), "{}", lines[6]);
        for stage in [
            "tx.copy",
            "tx.qdisc",
            "network",
            "rx.stack+wakeup",
            "rx.app",
            "total",
            "prober delay",
        ] {
            assert!(
                text.stdout.contains(&format!("\n {stage:<15}")),
                "{stage}: {}",
                text.stdout
            );
        }
        assert!(
            text.stdout.contains("(RFC 3550)") && text.stdout.contains("####"),
            "{}",
            text.stdout
        );
    }
}

/// The keys that others rely on come first, in this order, and the stages add up to what user space
/// saw.
#[test]
fn each_probe_is_one_object() {
    let (prober, _target, link) = delayed_hosts(DELAY);
    let address = link.address_b(Family::V4).to_string();
    let run = json(ping(&prober, &["-c", "3", "-i", "20ms", "-D", &address]));
    assert_eq!((run.status, run.probes.len()), (0, 3));
    for (n, probe) in (1..).zip(&run.probes) {
        assert_eq!(
            (&probe["target"], &probe["seq"]),
            (&address.as_str().into(), &n.into())
        );
        assert_eq!(
            (&probe["stamps"], &probe["ttl"]),
            (&"software".into(), &64.into())
        );
        let (rtt, user_rtt) = (number(&probe["rtt_ns"]), number(&probe["user_rtt_ns"]));
        let qdisc = number(&probe["stages"]["tx.qdisc"]);
        assert_eq!(number(&probe["prober_delay_ns"]), user_rtt - rtt - qdisc);
        assert!((10_000_000..20_000_000).contains(&rtt), "{probe}");
        let stages = probe["stages"].as_object().unwrap();
        let sum: u64 = stages.values().map(number).sum();
        assert!(
            sum.abs_diff(user_rtt) <= 1_000,
            "{sum} ns in stages: {probe}"
        );
        assert!(
            number(&probe["time_ns"]) > 0 && probe["fallback"].is_null(),
            "{probe}"
        );
    }
    assert_eq!((run.count("sent"), run.count("answered")), (3, 3));
    let text = text(ping(&prober, &["-c", "1", "--json", &address]));
    let keys = r#"{"target":"ADDRESS","seq":1,"rtt_ns":"#.replace("ADDRESS", &address);
    let first = text.lines()[0];
    assert!(first.starts_with(&keys), "{first}");
    let order = [
        "rtt_ns",
        "user_rtt_ns",
        "prober_delay_ns",
        "stamps",
        "ttl",
        "address",
    ];
    let places: Vec<_> = order
        .iter()
        .map(|key| first.find(&format!("\"{key}\":")).unwrap())
        .collect();
    assert!(places.is_sorted(), "{first}");
}

#[test]
fn quiet_is_the_summary_alone() {
    let host = Host::new("quiet").unwrap();
    let text = text(ping(&host, &["-q", "-c", "2", "-i", "10ms", "127.0.0.1"]));
    assert!(
        text.stdout.starts_with("\n 127.0.0.1: 2 sent, 2 answered"),
        "{}",
        text.stdout
    );
    let run = json(ping(&host, &["-q", "-c", "2", "-i", "10ms", "127.0.0.1"]));
    assert_eq!(
        (run.probes.len(), run.events.len(), run.count("answered")),
        (0, 0, 2)
    );
}

#[test]
fn options_go_into_the_packets() {
    let (prober, _target, link) = delayed_hosts(DELAY);
    let address = link.address_b(Family::V4).to_string();
    let text = text(ping(
        &prober,
        &[
            "-D",
            "-c",
            "1",
            "-s",
            "1000",
            "-Q",
            "0xb8",
            "-I",
            link.interface_a(),
            &address,
        ],
    ));
    let line = text
        .lines()
        .into_iter()
        .find(|line| line.starts_with('['))
        .unwrap()
        .to_owned();
    let (time, rest) = line.trim_start_matches('[').split_once("] ").unwrap();
    assert!(time.parse::<f64>().unwrap() > 1.0e9, "{line}");
    assert!(rest.starts_with("1008 B from"), "{line}");
    // The relay delivers 1028 bytes each way, of which the answer's are the target's own.
    assert!(
        link.statistics().a_to_b.bytes >= 1028,
        "{:?}",
        link.statistics()
    );
}

/// Several targets, from a list and the arguments, have a line each.
#[test]
fn many_targets_have_a_line_each() {
    let host = Host::new("many").unwrap();
    let list = tempfile::NamedTempFile::new().unwrap();
    let listed: String = (1..=200)
        .map(|n| format!("127.0.1.{n} # of many\n"))
        .collect();
    std::fs::write(&list, listed).unwrap();
    let path = list.path().to_str().unwrap();
    let text = text(ping(
        &host,
        &["-q", "-c", "2", "-i", "50ms", "--targets", path, "::1"],
    ));
    assert_eq!(text.status, 0, "{}", text.stderr);
    let lines = text.lines();
    assert!(
        lines[1].starts_with(" target ") && lines[2].starts_with(" ::1 "),
        "{lines:?}"
    );
    assert!(lines[202].starts_with(" 127.0.1.200 "), "{}", lines[202]);
    assert!(
        lines[204].starts_with(" 201 targets: 402 sent, 402 answered, 0.0 % lost in"),
        "{}",
        lines[204]
    );
}

#[test]
fn ctrl_c_prints_the_summary() {
    let host = Host::new("interrupted").unwrap();
    let mut process = Process::spawn(ping(&host, &["-i", "20ms", "127.0.0.1"])).unwrap();
    process.wait_for_stdout("seq=3 ", PATIENCE).unwrap();
    process.signal(Signal::SIGINT).unwrap();
    let status = process.wait_status(PATIENCE).unwrap();
    assert_eq!(status.code(), Some(0), "{}", process.stderr());
    assert!(process.stdout().contains(" sent, ") && process.stdout().contains("prober delay"));
}

/// Close the pipe early.
#[test]
fn a_reader_that_leaves_ends_it() {
    let host = Host::new("unread").unwrap();
    let mut command = host.command("sh");
    let script = format!("{} ping -i 20ms 127.0.0.1 | head -n 1", with::sockstamp());
    command.args(["-c", &script]);
    let mut process = Process::spawn(command).unwrap();
    let status = process.wait_status(PATIENCE).unwrap();
    assert!(
        status.success() && process.stderr().is_empty(),
        "{}",
        process.stderr()
    );
}

#[test]
fn a_deadline_ends_it() {
    let host = Host::new("deadline").unwrap();
    let run = json(ping(&host, &["-w", "300ms", "-i", "100ms", "127.0.0.1"]));
    assert!((2..=4).contains(&run.count("answered")), "{}", run.summary);
    assert_eq!(run.status, 0);
    let run = json(ping(
        &host,
        &["-w", "300ms", "-i", "100ms", "-c", "50", "127.0.0.1"],
    ));
    assert_eq!(
        run.status, 1,
        "fewer than -c were answered: {}",
        run.summary
    );
}
