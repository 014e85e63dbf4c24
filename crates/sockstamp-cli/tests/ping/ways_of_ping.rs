//! Options of ping(8) and fping(8) that change when probes are sent and what is printed.

use std::process::Command;
use std::time::{Duration, Instant};

use testbed::{Family, Host, within_attempts};
use with::capture::Capture;
use with::{number, sockstamp};

use crate::run::{delayed_hosts, json, ping, text};

const DELAY: Duration = Duration::from_millis(10);

fn fping(host: &Host, arguments: &[&str]) -> Command {
    let mut command = host.command(sockstamp());
    command.arg("fping").args(arguments);
    command
}

/// Another address of a link's network, which is nobody's.
fn silent(alive: &str) -> String {
    format!("{}.9", alive.strip_suffix(".2").unwrap())
}

/// The witness is tcpdump: three together, and then one for each answer, 10 ms later each, where
/// the interval is a second.
#[test]
fn preload_and_adaptive_keep_that_many_in_flight_and_the_pattern_is_sent() {
    let (prober, target, link) = delayed_hosts(DELAY);
    target.set_sysctl("net.ipv4.icmp_ratelimit", "0").unwrap();
    let address = link.address_b(Family::V4).to_string();
    within_attempts(|| {
        let capture = Capture::start(&prober, link.interface_a(), "udp dst port 9");
        let start = Instant::now();
        let arguments = [
            "--udp", "9", "-A", "-l", "3", "-p", "ab", "-c", "30", &address,
        ];
        let run = json(ping(&prober, &arguments));
        let took = start.elapsed();
        assert_eq!((run.status, run.count("answered")), (0, 30));
        let packets = capture.finish();
        assert_eq!(packets.len(), 30);
        for packet in &packets {
            let after_the_cookie = packet.payload.get(8..16);
            assert_eq!(after_the_cookie, Some(&[0xab; 8][..]), "{packet:?}");
        }
        let together = packets[2].time - packets[0].time;
        match together < 5_000_000 && took < Duration::from_secs(3) {
            true => Ok(()),
            false => Err(format!("{together} ns, {took:?} in all")),
        }
    });
}

/// The witness is tcpdump.
#[test]
fn a_flood_by_several_threads_sends_as_many_as_it_should_each_with_its_number() {
    const COUNT: u64 = 301;
    let (prober, _target, link) = delayed_hosts(Duration::ZERO);
    let address = link.address_b(Family::V4).to_string();
    let filter = "icmp[icmptype] = icmp-echo";
    let capture = Capture::start(&prober, link.interface_a(), filter);
    let count = COUNT.to_string();
    let run = json(ping(&prober, &["-f", "-c", &count, &address]));
    assert_eq!((run.status, run.count("answered")), (0, COUNT));
    let mut seqs: Vec<_> = run
        .probes
        .iter()
        .map(|probe| number(&probe["seq"]))
        .collect();
    seqs.sort_unstable();
    assert!(seqs.into_iter().eq(1..=COUNT));
    assert_eq!(capture.finish().len() as u64, COUNT);
}

/// Each byte as ping(8) prints it, and its line of times.
#[test]
fn a_flood_prints_a_dot_for_each_probe_and_takes_it_back_with_the_answer() {
    let host = Host::new("dots").unwrap();
    let run = text(ping(&host, &["-f", "-c", "20", "127.0.0.1"]));
    let (head, rest) = run.stdout.split_once('\n').unwrap();
    assert!(head.starts_with("PING 127.0.0.1 "), "{head}");
    let dots = ".\u{8} \u{8}".repeat(20);
    assert!(rest.starts_with(&format!("{dots}\n")), "{:?}", run.stdout);
    let times = run.stdout.lines().last().unwrap();
    let averages = times.split_once(" ms, ipg/ewma ").unwrap().1;
    let averages = averages.strip_suffix(" ms").unwrap().split('/');
    let averages: Vec<f64> = averages.map(|time| time.parse().unwrap()).collect();
    assert_eq!(averages.len(), 2, "{times}");
    assert!(
        run.stdout
            .contains("\n20 packets transmitted, 20 received, 0% packet loss, ")
    );
}

#[test]
fn dots_of_a_flood_stay_for_probes_without_an_answer() {
    let (prober, target, link) = delayed_hosts(Duration::ZERO);
    target
        .set_sysctl("net.ipv4.icmp_echo_ignore_all", "1")
        .unwrap();
    let address = link.address_b(Family::V4).to_string();
    let run = text(ping(&prober, &["-f", "-c", "5", "-W", "0.2", &address]));
    assert_eq!(run.stdout.lines().nth(1), Some("....."), "{}", run.stdout);
}

#[test]
fn a_host_is_done_with_its_first_answer_or_its_retries() {
    let (prober, _target, link) = delayed_hosts(DELAY);
    let alive = link.address_b(Family::V4).to_string();
    let dead = silent(&alive);
    let run = json(ping(
        &prober,
        &["--retries", "2", "-i", "0.1", "-W", "1", &alive, &dead],
    ));
    assert_eq!(
        (run.status, run.count("answered"), run.count("lost")),
        (1, 1, 3)
    );
}

#[test]
fn progress_is_printed_at_an_interval() {
    let host = Host::new("every").unwrap();
    let arguments = [
        "-q",
        "-i",
        "0.05",
        "-c",
        "12",
        "--every",
        "0.2",
        "127.0.0.1",
    ];
    within_attempts(|| {
        let text = text(ping(&host, &arguments));
        let lines = text
            .stderr
            .lines()
            .filter(|line| line.contains(" packets, 0% loss, min/avg"));
        match lines.count() {
            1..=3 => Ok(()),
            _ => Err(text.stderr),
        }
    });
}

#[test]
fn fping_prints_and_exits_as_fping_does() {
    let (prober, _target, link) = delayed_hosts(DELAY);
    let alive = link.address_b(Family::V4).to_string();
    let dead = silent(&alive);
    for (arguments, status, stdout) in [
        (&["-r", "0", &alive][..], 0, format!("{alive} is alive\n")),
        (
            &["-r", "1", "-B", "1", "-t", "1000", &alive, &dead],
            1,
            format!("{alive} is alive\n{dead} is unreachable\n"),
        ),
        (&["-a", "-q", "-r0", &alive], 0, format!("{alive}\n")),
        (
            &["-u", "-r0", "-t1000", &alive, &dead],
            1,
            format!("{dead}\n"),
        ),
        (
            &["-x", "1", "-r0", "-t1000", &alive, &dead],
            0,
            "Enough hosts reachable (required: 1, reachable: 1)\n".to_owned(),
        ),
        (&["-r0", "no.such.host.invalid"], 2, String::new()),
        (&["-r0", "no.such.host.invalid:80"], 2, String::new()),
    ] {
        let run = text(fping(&prober, arguments));
        assert_eq!(
            (run.status, &run.stdout),
            (status, &stdout),
            "{}",
            run.stderr
        );
        if status == 2 {
            let name = format!("{}: ", arguments[1]);
            assert!(run.stderr.starts_with(&name), "{}", run.stderr);
        }
    }
    within_attempts(|| fping_prints_times(&prober, &alive, &dead));
}

/// The link takes 10 ms, and some more where the machine is busy: a time begins with 1.
fn fping_prints_times(prober: &Host, alive: &str, dead: &str) -> Result<(), String> {
    let run = text(fping(prober, &["-C", "2", "-q", "-p", "50", alive, dead]));
    let lines: Vec<_> = run.stderr.lines().collect();
    begins(lines[0], &format!("{alive} : "))?;
    assert_eq!(lines[0].split_whitespace().count(), 4, "{}", run.stderr);
    assert_eq!(lines[1], format!("{dead} : - -"));
    let run = text(fping(prober, &["-c", "2", "-p", "50", alive]));
    begins(&run.stdout, &format!("{alive} : [0], 64 bytes, "))?;
    let counts = format!("\n{alive} : xmt/rcv/%loss = 2/2/0%, min/avg/max = ");
    begins(&run.stderr, &counts)
}

/// Check that a text begins with these words and such a time.
fn begins(text: &str, words: &str) -> Result<(), String> {
    let Some(rest) = text.strip_prefix(words) else {
        panic!("{text}");
    };
    match rest.starts_with('1') {
        true => Ok(()),
        false => Err(text.to_owned()),
    }
}
