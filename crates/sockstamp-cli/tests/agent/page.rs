//! The page in headless Chromium.

use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use testbed::Host;

use crate::running::{Agent, exchange, talk};

/// The page as a browser shows it after four seconds of its own time: one look at the figures.
fn shown(agent: &Agent, more: &[&str]) -> String {
    let home = TempDir::new().unwrap();
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--virtual-time-budget=4000",
        ])
        .arg(format!("--user-data-dir={}", home.path().display()))
        .args(more)
        .args(["--dump-dom", &format!("http://{}/", agent.address)])
        .env("HOME", home.path())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_page_shows_groups_stages_and_cost() {
    let host = Host::new("agent").unwrap();
    let agent = Agent::of(&host, "by = [\"comm\"]");
    talk(&host, 20, Duration::from_millis(3));
    let page = shown(&agent, &[]);
    for text in [
        "<th>app.service</th>",
        "<th>rx.app</th>",
        "% of a core",
        " MB</dd>",
    ] {
        assert!(page.contains(text), "no {text}: {page}");
    }
    // 3 ms are in the bucket up to 3.9 ms, unless the machine was busy.
    assert!(page.contains(" ms</td>"), "{page}");
    assert!(!page.contains("No figures"), "{page}");
}

/// Names are others' choice: in the page they are text.
#[test]
fn the_page_takes_nothing_from_elsewhere() {
    let host = Host::new("agent").unwrap();
    let agent = Agent::of(
        &host,
        "[[rule]]\nmatch = {}\nlabels = { team = \"<img src=x onerror=alert(1)>\" }",
    );
    talk(&host, 5, Duration::ZERO);
    let page = shown(&agent, &[]);
    assert!(page.contains("&lt;img src=x") && !page.contains("<img"), "{page}");
    let (head, text) = exchange(agent.address, "/", "");
    assert!(
        head.contains("content-security-policy: default-src 'none'"),
        "{head}"
    );
    assert!(!text.contains("//"), "an address of somewhere else");
}
