//! The file of settings: checked whole, read again as a whole.

use std::fs;
use std::process::Command;
use std::time::Duration;

use tempfile::NamedTempFile;
use testbed::Host;

use crate::common::sockstamp;
use crate::running::{Agent, talk};

fn check(settings: &str) -> (bool, String) {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), settings).unwrap();
    let output = Command::new(sockstamp())
        .args(["agent", "--check", "--config"])
        .arg(file.path())
        .output()
        .unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (
        output.status.success(),
        text.replace(file.path().to_str().unwrap(), "FILE"),
    )
}

#[test]
fn a_file_is_checked_without_starting() {
    assert_eq!(check("rate_cap = 5\n"), (true, "FILE: good\n".to_owned()));
    let (good, text) = check("rate_cap = 5\n\n[target]\nfilter = \"tcp port\"\n");
    assert!(!good && text.starts_with("sockstamp: FILE:4:10: "), "{text}");
    let (good, text) = check("ratecap = 5\n");
    assert!(
        !good && text.starts_with("sockstamp: FILE:1:1: unknown field `ratecap`"),
        "{text}"
    );
}

/// Counters continue when the measured target changes, which loads new programs.
#[test]
fn settings_are_read_again_or_stay_as_they_were() {
    let host = Host::new("agent").unwrap();
    let target = format!("\n[target]\nnetns = \"{}\"", host.netns_name());
    let agent = Agent::of(&host, "");
    talk(&host, 5, Duration::ZERO);
    assert_eq!(
        agent
            .scrape()
            .sum("sockstamp_messages_total", &["direction=\"tx\""]),
        10.0
    );

    for (wrong, reason) in [
        ("rate_cap = \"x\"".to_owned(), "agent.toml:1:12: "),
        (
            "[target]\nnetns = \"no-such-namespace\"".to_owned(),
            "no-such-namespace",
        ),
        (format!("listen = \"127.0.0.1:1\"{target}"), "read again"),
    ] {
        let said = agent.reload(&wrong);
        assert!(said.contains(reason), "{said}");
    }
    talk(&host, 5, Duration::ZERO);
    assert_eq!(
        agent
            .scrape()
            .sum("sockstamp_messages_total", &["direction=\"tx\""]),
        20.0
    );

    let said = agent.reload(&format!("rate_cap = 2000000\n{target}"));
    assert!(said.contains("read again"), "{said}");
    assert!(agent.get("/config").contains("2000000"));
    assert_eq!(
        agent
            .scrape()
            .sum("sockstamp_messages_total", &["direction=\"tx\""]),
        20.0
    );
    talk(&host, 5, Duration::ZERO);
    let scrape = agent.scrape();
    assert_eq!(
        scrape.sum("sockstamp_messages_total", &["direction=\"tx\""]),
        30.0
    );
    assert_eq!(
        scrape.sum("sockstamp_config_reloads_total", &["result=\"refused\""]),
        2.0
    );
    assert_eq!(
        scrape.sum("sockstamp_config_reloads_total", &["result=\"applied\""]),
        2.0
    );
}
