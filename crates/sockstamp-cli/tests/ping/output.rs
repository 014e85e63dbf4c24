//! Lines, summaries and objects.

use std::time::Duration;

use nix::sys::signal::Signal;
use testbed::{Family, Host, Link, PATIENCE, Process, within_attempts};
use with::{FAMILIES, number};

use crate::run::{Json, Text, delayed_hosts, json, ping, text};

const DELAY: Duration = Duration::from_millis(10);

#[test]
fn each_probe_has_a_line_with_both_views() {
    let (prober, _target, link) = delayed_hosts(DELAY);
    for family in FAMILIES {
        let address = link.address_b(family).to_string();
        let text = text_of_prompt_answers(&prober, &address);
        assert_eq!((text.status, text.stderr.as_str()), (0, ""));
        let lines = text.lines();
        assert!(
            lines[0].starts_with(&format!("PING {address} ({address}) 56")),
            "{lines:?}"
        );
        assert_eq!(
            lines[1],
            "stamps: probes software (the driver), answers software (the kernel)"
        );
        for (n, line) in (1..=3).zip(&lines[2..]) {
            let start = format!("64 bytes from {address}: icmp_seq={n} ttl=64 time=1");
            assert!(
                line.starts_with(&start)
                    && line.contains(" ms tx.qdisc=")
                    && line.contains("s prober="),
                "{line}"
            );
        }
        assert_eq!(lines[5], "");
        let [.., head, sent, rtt] = &lines[..] else {
            panic!("{}", text.stdout);
        };
        assert_eq!(*head, format!("--- {address} ping statistics ---"));
        let counts = "3 packets transmitted, 3 received, 0% packet loss, time ";
        assert!(sent.starts_with(counts), "{sent}");
        assert!(rtt.starts_with("rtt min/avg/max/mdev = 1"), "{rtt}");
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

/// Probe until each answer takes at least ten milliseconds and less than twenty, as the link has
/// it: the link may be late on a busy machine.
fn text_of_prompt_answers(prober: &Host, address: &str) -> Text {
    let mut prompt = None;
    within_attempts(|| {
        let text = text(ping(prober, &["-c", "3", "-i", "20ms", address]));
        let is_prompt = text.stdout.matches(" time=1").count() == 3
            && text.stdout.contains("rtt min/avg/max/mdev = 1");
        match is_prompt {
            true => {
                prompt = Some(text);
                Ok(())
            }
            false => Err(text.stdout),
        }
    });
    prompt.unwrap()
}

/// The keys that others rely on come first, in this order, and the stages add up to what user space
/// saw.
#[test]
fn each_probe_is_one_object() {
    let (prober, _target, link) = delayed_hosts(DELAY);
    let address = link.address_b(Family::V4).to_string();
    let run = json_of_prompt_answers(&prober, &address);
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
        assert!(rtt >= 10_000_000, "{probe}");
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
    let text = text(ping(&prober, &["-c", "1", "--format", "json", &address]));
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

/// Do the same as [`text_of_prompt_answers`].
fn json_of_prompt_answers(prober: &Host, address: &str) -> Json {
    let mut prompt = None;
    within_attempts(|| {
        let run = json(ping(prober, &["-c", "3", "-i", "20ms", "-D", address]));
        let late = run
            .probes
            .iter()
            .find(|probe| number(&probe["rtt_ns"]) >= 20_000_000);
        match late {
            Some(probe) => Err(probe.to_string()),
            None => {
                prompt = Some(run);
                Ok(())
            }
        }
    });
    prompt.unwrap()
}

#[test]
fn quiet_is_the_summary_alone() {
    let host = Host::new("quiet").unwrap();
    let text = text(ping(&host, &["-q", "-c", "2", "-i", "10ms", "127.0.0.1"]));
    assert!(
        text.stdout
            .starts_with("PING 127.0.0.1 (127.0.0.1) 56(84) bytes of data, by ")
            && text
                .stdout
                .contains("\n2 packets transmitted, 2 received, 0% packet loss, time "),
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
            "-A",
            "-l",
            "1",
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
    assert!(rest.starts_with("1008 bytes from"), "{line}");
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
        lines[2].starts_with(" target ") && lines[3].starts_with(" ::1 "),
        "{lines:?}"
    );
    assert!(lines[203].starts_with(" 127.0.1.200 "), "{}", lines[203]);
    assert!(
        lines[205].starts_with(" 201 targets: 402 sent, 402 answered, 0.0 % lost in"),
        "{}",
        lines[205]
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
    let stdout = process.stdout();
    assert!(stdout.contains(" packets transmitted, ") && stdout.contains("prober delay"));
}

/// The output of ping(8) in the places where programs look, by its own figures.
#[test]
fn programs_that_read_ping_read_it() {
    let (prober, _target, link) = delayed_hosts(DELAY);
    let address = link.address_b(Family::V4).to_string();
    let arguments = [
        "-n", "-O", "-M", "do", "-c", "3", "-i", "0.2", "-W", "30", &address,
    ];
    let mut theirs = prober.command("ping");
    theirs.args(arguments);
    let [ours, theirs] = [text(ping(&prober, &arguments)), text(theirs)];
    let read = |text: &Text| {
        let line = |start: &str| {
            let found = text.stdout.lines().find(|line| line.contains(start));
            found
                .unwrap_or_else(|| panic!("no {start:?} in {}", text.stdout))
                .to_owned()
        };
        let counts = line(" packets transmitted, ");
        let counts = counts.split(", time ").next().unwrap().to_owned();
        let times = line("rtt min/avg/max/mdev = ");
        let times = times
            .split(" = ")
            .nth(1)
            .unwrap()
            .trim_end_matches(" ms")
            .to_owned();
        let times: Vec<f64> = times.split('/').map(|time| time.parse().unwrap()).collect();
        let second = line(" icmp_seq=2 ttl=64 time=");
        let time = second
            .split("time=")
            .nth(1)
            .unwrap()
            .split(" ms")
            .next()
            .unwrap();
        (counts, times, time.parse::<f64>().unwrap())
    };
    let (ours, theirs) = (read(&ours), read(&theirs));
    assert_eq!(ours.0, theirs.0);
    for times in [&ours.1, &theirs.1] {
        assert!(
            times[0] >= 10.0 && times[0] <= times[1] && times[1] <= times[2],
            "{times:?}"
        );
    }
    assert!(
        ours.2 >= 10.0 && theirs.2 >= 10.0,
        "{} {}",
        ours.2,
        theirs.2
    );
}

#[test]
fn the_living_and_the_dead_are_listed_alone() {
    let (host, other) = (Host::new("listed").unwrap(), Host::new("other").unwrap());
    let link = Link::veth(&host, &other).unwrap();
    let std::net::IpAddr::V4(peer) = link.address_b(Family::V4) else {
        panic!("an address of IPv4")
    };
    let alive = std::net::IpAddr::V4(peer).to_string();
    let dead = std::net::Ipv4Addr::from_bits(peer.to_bits() ^ 4).to_string();
    let listed = |option| {
        let range = "127.0.0.1-127.0.0.2";
        text(ping(
            &host,
            &[option, "-c", "1", "-W", "100ms", range, &alive, &dead],
        ))
    };
    let living = listed("--alive");
    let expected = format!("127.0.0.1\n127.0.0.2\n{alive}\n");
    assert_eq!((living.status, living.stdout), (1, expected));
    let gone = listed("--dead");
    assert_eq!((gone.status, gone.stdout), (1, format!("{dead}\n")));
}

#[test]
fn sigquit_asks_how_it_goes() {
    let host = Host::new("asked").unwrap();
    let mut process = Process::spawn(ping(&host, &["-i", "20ms", "127.0.0.1"])).unwrap();
    process.wait_for_stdout("seq=3 ", PATIENCE).unwrap();
    process.signal(Signal::SIGQUIT).unwrap();
    let asked = " packets, 0% loss, min/avg/max/mdev = 0.";
    with::wait_until("it tells", || process.stderr().contains(asked));
    process.signal(Signal::SIGINT).unwrap();
    assert_eq!(process.wait_status(PATIENCE).unwrap().code(), Some(0));
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
    within_attempts(|| {
        let run = json(ping(&host, &["-w", "300ms", "-i", "100ms", "127.0.0.1"]));
        let answered = run.count("answered");
        assert!(answered <= 4, "{}", run.summary);
        assert_eq!(run.status, i32::from(answered == 0));
        match answered {
            0 | 1 => Err(run.summary.to_string()),
            _ => Ok(()),
        }
    });
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
