//! The content of /metrics.

use std::time::{Duration, Instant};

use testbed::{Host, within_attempts};
use with::agent::{Agent, SHARED, Scrape, exchange, room_for_one_group, talk};
use with::{Stat, number, stage};

const ROUNDS: u32 = 60;

/// Bounds between which the quantile of a stage lies.
fn bucket_of(scrape: &Scrape, stage: &str, q: f64) -> (f64, f64) {
    let label = format!("stage=\"{stage}\"");
    let count = scrape.sum("sockstamp_stage_seconds_count", &[&label]);
    let mut below = 0.0;
    for exponent in -20..=5 {
        let bound = 2_f64.powi(exponent);
        // The text of a bound is canonical, and this is not the place to write it again.
        let within: f64 = scrape
            .0
            .lines()
            .filter(|line| {
                line.starts_with("sockstamp_stage_seconds_bucket{") && line.contains(&label)
            })
            .filter(|line| {
                let (_, rest) = line.split_once("le=\"").unwrap();
                rest.split('"').next().unwrap().parse() == Ok(bound)
            })
            .map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
            .sum();
        if within >= (q * count).ceil() {
            return (below, bound);
        }
        below = bound;
    }
    (below, f64::INFINITY)
}

/// Both measure every message of the host at the same time, each with its own programs.
#[test]
fn figures_are_those_of_stat() {
    within_attempts(compare_with_stat);
}

/// Fail if times differ: one of the programs runs after the other, and a processor may be slow in
/// between.
fn compare_with_stat() -> Result<(), String> {
    let host = Host::new("agent").unwrap();
    let agent = Agent::of(&host, "by = [\"comm\", \"proto\"]\nnetstacklat = true");
    let stat = Stat::start(&["--cumulative", "--netns", host.netns_name()]);
    talk(&host, ROUNDS, Duration::from_millis(3));
    let report = stat.finish();
    let scrape = agent.scrape();

    for direction in ["tx", "rx"] {
        let label = format!("direction=\"{direction}\"");
        for (name, figure) in [
            ("messages", "messages"),
            ("message_bytes", "bytes"),
            ("measured_messages", "measured"),
        ] {
            let told = scrape.sum(&format!("sockstamp_{name}_total"), &[&label]);
            assert_eq!(
                told,
                number(&report[direction][figure]) as f64,
                "{direction} {name}"
            );
        }
        assert_eq!(
            number(&report[direction]["messages"]),
            u64::from(2 * ROUNDS)
        );
    }
    let valid = scrape.sum("sockstamp_verdicts_total", &["verdict=\"valid\""]);
    assert_eq!(valid, number(&report["verdicts"]["valid"]) as f64);
    for name in ["app.service", "peer.answer"] {
        let (low, high) = bucket_of(&scrape, name, 0.5);
        let p50 = stage(&report, name, "p50_ns") as f64 / 1e9;
        if low >= p50 * 1.1 || p50 > high * 1.1 {
            return Err(format!("{name}: {p50} in {low} to {high}"));
        }
        let count = scrape.sum(
            "sockstamp_stage_seconds_count",
            &[&format!("stage=\"{name}\"")],
        );
        assert_eq!(count, stage(&report, name, "count") as f64, "{name}");
    }
    // netstacklat's names, for the same distributions.
    for point in ["enqueued", "read"] {
        let hook = format!("tcp-socket-{point}");
        let label = format!("hook=\"{hook}\"");
        let known = &report["cumulative"]["hooks"][hook];
        let count = scrape.sum("netstack_latency_seconds_count", &[&label]);
        assert_eq!(count, number(&known["count"]) as f64, "{label}");
        let sum = scrape.sum("netstack_latency_seconds_sum", &[&label]);
        let ratio = sum / (number(&known["sum_ns"]) as f64 / 1e9);
        if !(0.8..1.25).contains(&ratio) {
            return Err(format!("{label}: {sum} s, {ratio} of stat's"));
        }
    }
    assert_eq!(
        scrape
            .values("netstack_latency_seconds_count", &["hook=\"udp"])
            .len(),
        0
    );
    // The pause of known length, in sums.
    let service = scrape.sum("sockstamp_stage_seconds_sum", &["stage=\"app.service\""]);
    assert!(service >= f64::from(ROUNDS) * 0.003, "{service} s");
    assert!(!scrape.0.contains("pid="), "no series by process");
    Ok(())
}

#[test]
fn groups_have_the_labels_of_rules_and_dimensions() {
    let host = Host::new("agent").unwrap();
    let rule = "by = [\"peer\"]\n[[rule]]\nmatch = { peer = \"127.0.0.0/8\", port = \"1024-65535\" }\nlabels = { team = \"web\" }";
    let agent = Agent::of(&host, rule);
    talk(&host, 5, Duration::ZERO);
    let scrape = agent.scrape();
    let labels = ["peer=\"127.0.0.1\"", "team=\"web\""];
    assert_eq!(
        scrape.sum("sockstamp_messages_total", &labels),
        20.0,
        "{}",
        scrape.0
    );
    assert_eq!(scrape.sum("sockstamp_messages_total", &[]), 20.0);
    assert_eq!(scrape.sum("sockstamp_groups", &[]), 1.0);
}

#[test]
fn series_beyond_the_limit_are_in_one_that_says_so() {
    let host = Host::new("agent").unwrap();
    let settings = format!("by = [\"port\"]\n{}", room_for_one_group(15));
    let agent = Agent::of(&host, &settings);
    talk(&host, 5, Duration::ZERO);
    talk(&host, 5, Duration::ZERO);
    let scrape = agent.scrape();
    assert_eq!(
        scrape.sum("sockstamp_messages_total", &["port="]),
        20.0,
        "{}",
        scrape.0
    );
    assert_eq!(
        scrape.sum(
            "sockstamp_messages_total",
            &["otel_metric_overflow=\"true\""]
        ),
        20.0
    );
    assert_eq!(scrape.sum("sockstamp_overflows_total", &[]), 1.0);
}

#[test]
fn other_paths_answer_too() {
    let host = Host::new("agent").unwrap();
    let agent = Agent::of(&host, "");
    assert_eq!(agent.get("/healthz"), "ok\n");
    assert_eq!(agent.get("/readyz"), "ready\n");
    assert!(agent.get("/config").contains("sample = \"1000000/s\"\n"));
    let (head, plain) = exchange(agent.address, "/metrics", "");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(
        plain.contains("# TYPE sockstamp_verdicts_total counter\n") && !plain.contains("# EOF")
    );
    let own = Scrape(plain);
    assert!(own.sum("process_cpu_seconds_total", &[]) > 0.0);
    assert!(own.sum("process_resident_memory_bytes", &[]) > 1e6);
    assert!(
        own.sum(
            "sockstamp_build_info",
            &[concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"")]
        ) == 1.0
    );
}

/// A scrape is written piece by piece, so that its length costs no memory.
#[test]
fn five_hundred_groups_need_little_memory_and_time() {
    const GROUPS: u32 = 500;
    let host = Host::new("agent").unwrap();
    let agent = Agent::of(&host, "by = [\"port\"]\nmax_series = 500000");
    talk(&host, 5, Duration::ZERO);
    let resident = |scrape: &Scrape| scrape.sum("process_resident_memory_bytes", &[]) / 1e6;
    let before = resident(&agent.scrape());
    for _ in 0..GROUPS {
        talk(&host, 2, Duration::ZERO);
    }
    let scrape = agent.scrape();
    assert_eq!(scrape.sum("sockstamp_groups", &[]), f64::from(GROUPS + 1));
    // Unoptimised, on a machine that has other things to do.
    within_attempts(|| match time_of_a_scrape(&agent) {
        time if time < Duration::from_secs(3) => Ok(()),
        time => Err(format!("a scrape took {time:?}")),
    });
    let after = resident(&agent.scrape());
    let length = scrape.0.len() as f64 / 1e6;
    eprintln!("{length} MB, {before} to {after} MB of memory");
    // With the text in memory it was twice as much.
    assert!(
        length > 10.0 && after - before < 25.0,
        "{length} MB, {before} to {after} MB"
    );
}

/// The median of five.
fn time_of_a_scrape(agent: &Agent) -> Duration {
    let mut times = [(); 5].map(|()| {
        let begun = Instant::now();
        agent.scrape();
        begun.elapsed().saturating_sub(SHARED)
    });
    times.sort();
    eprintln!("{times:?}");
    times[2]
}
