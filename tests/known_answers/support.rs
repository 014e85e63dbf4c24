//! Share helpers between several of these tests.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use serde_json::Value;
use testbed::{Family, Host, Link, LinkConfig, PATIENCE, Process};
use with::{Stat, direction_of, in_short, median, number, peer, stage};

/// Makes a test of each IP version out of a function of the version.
macro_rules! over_both_families {
    ($check:path) => {
        #[test]
        fn over_ipv4() {
            $check(testbed::Family::V4);
        }

        #[test]
        fn over_ipv6() {
            $check(testbed::Family::V6);
        }
    };
}
pub(crate) use over_both_families;

/// Check that a time in nanoseconds is within bounds.
pub(crate) fn within(
    what: impl Display,
    value: u64,
    bounds: RangeInclusive<u64>,
) -> Result<(), String> {
    if bounds.contains(&value) {
        Ok(())
    } else {
        Err(format!("{what} is {value} ns, not within {bounds:?}"))
    }
}

/// Milliseconds in nanoseconds.
pub(crate) const fn ms(milliseconds: u64) -> u64 {
    milliseconds * 1_000_000
}

/// Check the median of a stage: exactly in the messages of a trace, and by the histogram in the
/// report of the same messages.
pub(crate) fn median_within(
    name: &str,
    messages: &[&Value],
    report: &Value,
    bounds: RangeInclusive<u64>,
) -> Result<(), String> {
    within(
        format!("the median of {name}"),
        median(messages, name),
        bounds.clone(),
    )?;
    within(
        format!("p50 of {name}"),
        stage(report, name, "p50_ns"),
        bounds,
    )
}

/// Options of chrt(1): real time, as the link itself. Else what other programs of the machine keep
/// the CPU from programs that are measured is in their times, rightly.
pub(crate) const REAL_TIME: [&str; 2] = ["--rr", "1"];

/// A client and a server on a link, both real time. The client sends with Reno, which does not
/// pace: the default of the machine may be BBR, which does.
pub(crate) struct Pair {
    pub(crate) client: Host,
    pub(crate) server: Host,
    pub(crate) link: Link,
    pub(crate) address: SocketAddr,
}

impl Pair {
    pub(crate) fn relay(config: LinkConfig, family: Family) -> Pair {
        Pair::on(family, |client, server| Link::relay(client, server, config))
    }

    pub(crate) fn veth(family: Family) -> Pair {
        Pair::on(family, Link::veth)
    }

    fn on(family: Family, link: impl FnOnce(&Host, &Host) -> testbed::Result<Link>) -> Pair {
        let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
        let link = link(&client, &server).unwrap();
        let address = SocketAddr::new(link.address_b(family), 7000);
        let pair = Pair {
            client,
            server,
            link,
            address,
        };
        pair.route("");
        pair
    }

    /// Give the client's route to the server `metrics` of ip-route(8), in force for connections to
    /// come.
    pub(crate) fn route(&self, metrics: &str) {
        let (to, device) = (self.address.ip().to_string(), self.link.interface_a());
        let words = ["route", "replace", &to, "dev", device, "congctl", "reno"];
        let words = words.into_iter().chain(metrics.split_whitespace());
        self.client.run("ip", &words.collect::<Vec<_>>()).unwrap();
    }

    /// A server on the port of `address`, a program of the testbed.
    pub(crate) fn serve(&self, words: &[&str]) -> Process {
        self.serve_with(&[&[&peer()[..]], words, &["--port", "7000"]].concat())
    }

    /// Do the same as [`serve`](Self::serve), with any program.
    pub(crate) fn serve_with(&self, words: &[&str]) -> Process {
        let process = self
            .server
            .spawn("chrt", &[&REAL_TIME, words].concat())
            .unwrap();
        self.server.wait_for_port(self.address, PATIENCE).unwrap();
        process
    }

    /// Return the report of `stat` with these options on the client while one of its programs runs.
    pub(crate) fn stat_client(&self, options: &[&str], words: &[&str]) -> Value {
        self.stat(&self.client, options, words)
    }

    /// Return the report of `stat` with these options on one side while a program of the client
    /// runs.
    pub(crate) fn stat(&self, side: &Host, options: &[&str], words: &[&str]) -> Value {
        let target = ["--netns", side.netns_name()];
        let stat = Stat::start(&[&target[..], options].concat());
        self.client
            .run("chrt", &[&REAL_TIME, words].concat())
            .unwrap();
        let report = stat.finish();
        println!("{}", in_short(&report));
        report
    }

    /// Do the same as [`stat_client`](Self::stat_client) for every message of a program of the
    /// testbed that talks to the server.
    pub(crate) fn stat_peer(&self, words: &str) -> Value {
        self.stat_peer_at(&self.client, &[], words)
    }

    /// Do the same as [`stat_peer`](Self::stat_peer), with these options, on one side.
    pub(crate) fn stat_peer_at(&self, side: &Host, options: &[&str], words: &str) -> Value {
        let address = self.address.to_string();
        let words: Vec<&str> = words.split_whitespace().collect();
        let to = ["--connect", &address];
        self.stat(side, options, &[&[&peer()[..]], &words[..], &to].concat())
    }

    /// Return the output of a program of the testbed that talks to the server.
    pub(crate) fn run_peer(&self, words: &str) -> Value {
        let address = self.address.to_string();
        let words: Vec<&str> = words.split_whitespace().collect();
        let to = ["--connect", &address];
        let peer = peer();
        let words = [&REAL_TIME[..], &[&peer], &words, &to].concat();
        let text = self.client.run("chrt", &words).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

/// The time that all messages together spent in a stage (`rx.app`) or in a part of one
/// (`tx.queue/cwnd`).
pub(crate) fn sum(report: &Value, name: &str) -> u64 {
    let Some((stage_name, part)) = name.split_once('/') else {
        return stage(report, name, "sum_ns");
    };
    let figure = &report[direction_of(stage_name)]["parts"][stage_name][part]["sum_ns"];
    figure
        .as_u64()
        .unwrap_or_else(|| panic!("no {name} in {report}"))
}

/// Check that these stages or parts are at least nine tenths of the additional time of the messages
/// of `built` against those of `undisturbed`, of which there must be as many, and each of its own
/// stage's.
pub(crate) fn explains(names: &[&str], built: &Value, undisturbed: &Value) -> Result<(), String> {
    let direction = direction_of(stage_of(names[0]));
    let figure = |report: &Value, figure: &str| number(&report[direction]["total"][figure]);
    let messages = |report: &Value| number(&report[direction]["messages"]);
    assert_eq!(
        messages(built),
        messages(undisturbed),
        "{built}, undisturbed {undisturbed}"
    );
    for report in [built, undisturbed] {
        // TCP splits some of the messages that share packets: it depends on when they come.
        let split = report["verdicts"]["split"].as_u64().unwrap_or(0);
        let missing = messages(report).saturating_sub(figure(report, "count") + split);
        assert!(
            missing <= 1 + messages(report) / 20,
            "{missing} are missing: {report}"
        );
    }
    let more = |name| more(name, built, undisturbed);
    let excess = figure(built, "sum_ns").saturating_sub(figure(undisturbed, "sum_ns"));
    nine_tenths(
        &names.join(" and "),
        names.iter().map(|name| more(name)).sum(),
        excess,
    )?;
    names
        .iter()
        .try_for_each(|name| explains_stage(name, built, undisturbed))
}

/// Check that a part is at least nine tenths of the additional time of its stage.
pub(crate) fn explains_stage(name: &str, built: &Value, undisturbed: &Value) -> Result<(), String> {
    nine_tenths(
        name,
        more(name, built, undisturbed),
        more(stage_of(name), built, undisturbed),
    )
}

fn stage_of(name: &str) -> &str {
    name.split('/').next().unwrap()
}

fn more(name: &str, built: &Value, undisturbed: &Value) -> u64 {
    sum(built, name).saturating_sub(sum(undisturbed, name))
}

/// Check that a named time is at least nine tenths of another.
pub(crate) fn nine_tenths(name: &str, named: u64, excess: u64) -> Result<(), String> {
    println!("{name}: {named} of {excess} ns");
    if excess > 0 && named >= excess / 10 * 9 {
        return Ok(());
    }
    Err(format!("{name} explains {named} ns of {excess}"))
}
