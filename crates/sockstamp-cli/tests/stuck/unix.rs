//! Waits at Unix sockets, and programs that wait for nobody there: their own clocks are the
//! witnesses.

use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::{Host, within_attempts};
use with::wait_until;

use crate::programs::Programs;
use crate::{PATIENCE, SLACK, listed};

/// Waits that the script announces.
const WAITS: usize = 7;

/// Return the announced waits, and those that are listed, when they are the same.
fn agreed(programs: &Programs) -> (Vec<Value>, Vec<Value>) {
    wait_until("all programs wait", || programs.expected().len() == WAITS);
    let mut expected = programs.expected();
    expected.sort_by_key(|wait| key(wait, "path"));
    let begin = Instant::now();
    loop {
        let mut listed = listed(&programs.host, &["--slow", "100ms"]);
        listed.sort_by_key(|wait| key(wait, "remote"));
        let keys = listed.iter().map(|wait| key(wait, "remote"));
        if keys.eq(expected.iter().map(|wait| key(wait, "path"))) {
            return (expected, listed);
        }
        assert!(begin.elapsed() < PATIENCE, "{listed:#?}\n{expected:#?}");
    }
}

fn key(wait: &Value, path: &str) -> (String, String) {
    [path, "kind"]
        .map(|key| wait[key].as_str().unwrap().to_owned())
        .into()
}

/// Compare a wait with what its program noted.
fn check(listed: &Value, expected: &Value) -> Result<(), String> {
    let both = format!("{listed} {expected}");
    let is_bound = expected["bound"] == true;
    assert_eq!(listed["at_least"], is_bound, "{both}");
    assert_eq!(listed["protocol"], "unix", "{both}");
    if expected["kind"] != "accept" {
        assert_eq!(listed["pid"], expected["pid"], "{both}");
    }
    for (of_listed, of_program) in [
        (&listed["server"]["pid"], &expected["server"]),
        (&listed["peer"]["state"], &expected["state"]),
        (&listed["count"], &expected["count"]),
    ] {
        assert!(of_program.is_null() || of_listed == of_program, "{both}");
    }
    let since = listed["since_ns"].as_u64().unwrap();
    let begun = expected["since"].as_u64().unwrap();
    match since + SLACK >= begun && (is_bound || since <= begun + SLACK) {
        true => Ok(()),
        false => Err(both),
    }
}

#[test]
fn whoever_waits_at_a_unix_socket_is_listed_and_nobody_else_is() {
    within_attempts(|| {
        let folder = tempfile::tempdir().unwrap();
        let words = [folder.path().to_str().unwrap()];
        let programs = Programs::start("stuck-unix", "unix_programs.py", &words);
        let (expected, listed) = agreed(&programs);
        let mut both = listed.iter().zip(&expected);
        both.try_for_each(|(listed, expected)| check(listed, expected))
    });
}

/// The client's own clock tells since when redis does not answer.
#[test]
fn a_client_of_a_redis_that_sleeps_is_listed() {
    let host = Host::new("stuck-redis").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis").display().to_string();
    let words = ["--port", "0", "--save", "", "--unixsocket", &path];
    let words = [&words[..], &["--enable-debug-command", "yes"]].concat();
    let redis = host.spawn("redis-server", &words).unwrap();
    let client = |words: &[&str]| {
        let words = [&["-s", &path], words].concat();
        host.spawn("redis-cli", &words).unwrap()
    };
    wait_until("redis answers", || {
        let pong = host.run("redis-cli", &["-s", &path, "PING"]);
        pong.is_ok_and(|pong| pong.contains("PONG"))
    });
    let subscriber = client(&["SUBSCRIBE", "news"]);
    wait_until("it has subscribed", || {
        subscriber.stdout().contains("subscribe")
    });
    assert!(listed(&host, &["--slow", "100ms"]).is_empty());
    let begun = Instant::now();
    let sleeps = client(&["DEBUG", "SLEEP", "20"]);
    let listed = loop {
        let listed = listed(&host, &["--slow", "100ms"]);
        if listed.iter().any(|wait| wait["pid"] == sleeps.id()) {
            break listed;
        }
        assert!(begun.elapsed() < PATIENCE);
    };
    let most = begun.elapsed();
    let wait = listed
        .iter()
        .find(|wait| wait["pid"] == sleeps.id())
        .unwrap();
    assert_eq!(wait["kind"], "answer");
    assert_eq!(wait["remote"], path.as_str());
    assert_eq!(wait["server"]["pid"], redis.id());
    let age = Duration::from_nanos(wait["age_ns"].as_u64().unwrap());
    assert!(age <= most, "{age:?} {most:?}");
}
