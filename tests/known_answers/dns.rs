//! Questions of dig to dnsmasq on a link with a delay: the counts are dig's, and the delay is in
//! dig's `peer.answer` alone.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_json::Value;
use testbed::{Family, Host, Link, LinkConfig, PATIENCE, within_attempts};
use with::expected::{ms, within};
use with::{Trace, median, number, of_direction, over_both_families};

over_both_families!(check);

const ONE_WAY: Duration = Duration::from_millis(10);
/// The round trip by dig's clock, which is coarse by a tick at both ends (CLOCK_REALTIME_COARSE, at
/// most 4 ms each): more than one way shows that the link is in its time.
const ROUND_TRIP_MS: u64 = 12;
/// The link is no stage of a datagram, which has no acknowledgement.
const FAR_BELOW_ONE_WAY_NS: u64 = ms(5);
const QUESTIONS: usize = 30;

fn check(family: Family) {
    let (client, server) = (Host::new("dig").unwrap(), Host::new("dnsmasq").unwrap());
    let link = Link::relay(&client, &server, LinkConfig::default().delay(ONE_WAY)).unwrap();
    let address = link.address_b(family);
    let directory = tempfile::tempdir().unwrap();
    let configuration = directory.path().join("dnsmasq.conf");
    fs::write(&configuration, one_record(address)).unwrap();
    let file = format!("--conf-file={}", configuration.display());
    let _server = server
        .spawn("dnsmasq", &["--keep-in-foreground", &file])
        .unwrap();
    // The server takes questions by TCP too.
    server
        .wait_for_port(SocketAddr::new(address, 53), PATIENCE)
        .unwrap();
    let questions = directory.path().join("questions");
    fs::write(
        &questions,
        "one.test A\none.test AAAA\n".repeat(QUESTIONS / 2),
    )
    .unwrap();

    // Send one before measuring: the link's ends must find each other's hardware address.
    Answers::of(&client, address, &["one.test"]);
    within_attempts(|| {
        let traces = Trace::start_in([&client, &server], &["udp"]);
        let answers = Answers::of(&client, address, &["-f", questions.to_str().unwrap()]);
        let [asked, served] = traces.map(Trace::finish);
        assert_eq!(answers.sizes.len(), QUESTIONS);
        for time in &answers.times_ms {
            assert!(
                *time >= ROUND_TRIP_MS,
                "an answer after {time} ms is faster than the link"
            );
        }
        bytes_are(&asked, "tx", &answers.question_sizes);
        bytes_are(&served, "rx", &answers.question_sizes);
        bytes_are(&served, "tx", &answers.sizes);
        bytes_are(&asked, "rx", &answers.sizes);
        stages(&asked)?;
        stages(&served)?;
        let reads = of_direction(&asked, "rx");
        let waited = reads
            .iter()
            .filter(|read| !read["stages"]["peer.answer"].is_null());
        assert_eq!(
            waited.count(),
            QUESTIONS,
            "one question is in flight at a time"
        );
        within(
            "the median of peer.answer",
            median(&reads, "peer.answer"),
            ms(20)..=ms(25),
        )
    });
}

/// Configure a server with one name and no upstream: dnsmasq(8).
fn one_record(address: IpAddr) -> String {
    format!(
        "no-resolv\nno-hosts\nuser=root\npid-file=\nlisten-address={address}\nbind-interfaces\n\
         host-record=one.test,192.0.2.1,2001:db8::1\n"
    )
}

/// The results that dig prints.
struct Answers {
    question_sizes: Vec<u64>,
    sizes: Vec<u64>,
    times_ms: Vec<u64>,
}

impl Answers {
    fn of(host: &Host, server: IpAddr, questions: &[&str]) -> Answers {
        let to = format!("@{server}");
        let once = ["-r", &to, "+qr", "+tries=1", "+notcp", "+ignore"];
        let printed = host.run("dig", &[&once, questions].concat()).unwrap();
        let numbers = |name: &str| {
            let values = printed.lines().filter_map(|line| line.strip_prefix(name));
            values
                .map(|value| value.trim().trim_end_matches(" msec").parse().unwrap())
                .collect()
        };
        Answers {
            question_sizes: numbers(";; QUERY SIZE:"),
            sizes: numbers(";; MSG SIZE  rcvd:"),
            times_ms: numbers(";; Query time:"),
        }
    }
}

fn bytes_are(messages: &[Value], direction: &str, sizes: &[u64]) {
    let messages = of_direction(messages, direction);
    let bytes: Vec<u64> = messages
        .iter()
        .map(|message| {
            assert_eq!(message["verdict"], "valid", "{message}");
            number(&message["bytes"])
        })
        .collect();
    assert_eq!(bytes, sizes, "{direction}");
}

/// Both programs wait for what comes, and neither keeps it waiting.
fn stages(messages: &[Value]) -> Result<(), String> {
    let read = of_direction(messages, "rx");
    for stage in ["rx.stack", "rx.wakeup", "rx.app"] {
        within(
            format!("the median of {stage}"),
            median(&read, stage),
            0..=FAR_BELOW_ONE_WAY_NS,
        )?;
    }
    let sent = of_direction(messages, "tx");
    within(
        "the median of tx.qdisc",
        median(&sent, "tx.qdisc"),
        0..=FAR_BELOW_ONE_WAY_NS,
    )
}
