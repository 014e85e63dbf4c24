//! The page in headless Chromium.

use std::fs;
use std::io::{Read, Write};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use testbed::{Host, PATIENCE};
use with::agent::{Agent, exchange, talk};
use with::browser::Page;

use super::findings::ask_one_that_sleeps;

/// The page as a browser shows it after four seconds of its own time: one reading of the figures.
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

/// Wait until an expression in a page is true.
fn wait_until(page: &mut Page, expression: &str) {
    let start = Instant::now();
    while page.value(expression) != true {
        let shown = page.value("document.body.innerText");
        assert!(start.elapsed() < PATIENCE, "{expression}: {shown}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The token is the password. A click makes the agent explain; the stage in which the only slow
/// message waited has nearly all of its time.
#[test]
fn a_browser_with_the_token_shows_what_makes_messages_slow() {
    let host = Host::new("agent").unwrap();
    let directory = TempDir::new().unwrap();
    let token = directory.path().join("token");
    fs::write(&token, "secret\n").unwrap();
    let agent = Agent::start(&format!(
        "sample = \"1000000/s\"\nmax_cost = \"none\"\ntoken_file = {token:?}\n[page]\nslow = \"50ms\"\n\
         [hindsight]\ndirectory = {:?}\nmin_free = 1\n[target]\nnetns = \"{}\"",
        directory.path(),
        host.netns_name()
    ));
    talk(&host, 50, Duration::from_millis(1));
    read_one_late(&host);
    let mut page = Page::at(&format!("http://anyone:secret@{}/", agent.address));
    wait_until(
        &mut page,
        "document.querySelectorAll('#slow details').length === 1",
    );
    let share =
        page.value("parseFloat(document.querySelector('#tail .row').lastChild.textContent)");
    let stage = page.value("document.querySelector('#tail .row').firstChild.textContent");
    assert_eq!(stage, "rx.app");
    assert!(share.as_f64().unwrap() > 90.0, "{share}");
    // Of all messages, some others took time as well.
    let all = page.value("document.querySelectorAll('#shares .row').length");
    assert!(all.as_u64().unwrap() > 1, "{all}");
    page.click("#explain");
    wait_until(
        &mut page,
        "document.getElementById('explained').textContent.includes('rx.app')",
    );
    assert_eq!(
        page.value("document.getElementById('explain').disabled"),
        false
    );
}

/// With a token nothing is explained if nothing is recorded; without one, strangers may ask for
/// nothing that costs.
#[test]
fn the_page_says_why_nothing_is_explained() {
    let host = Host::new("agent").unwrap();
    let directory = TempDir::new().unwrap();
    let token = directory.path().join("token");
    fs::write(&token, "secret\n").unwrap();
    for (settings, user, reason) in [
        (
            format!("token_file = {token:?}"),
            "anyone:secret@",
            "No explanation: nothing is recorded, because the configuration has no [hindsight]",
        ),
        (
            String::new(),
            "",
            "No explanation: without a token the agent does this for its owner alone",
        ),
    ] {
        let agent = Agent::of(&host, &settings);
        let mut page = Page::at(&format!("http://{user}{}/", agent.address));
        // Answers that come after the page has loaded move the button.
        wait_until(
            &mut page,
            "document.body.innerText.includes('None are kept')",
        );
        page.click("#explain");
        wait_until(
            &mut page,
            &format!("document.getElementById('explained').textContent.startsWith({reason:?})"),
        );
        let is_disabled = "document.getElementById('explain').disabled";
        assert_eq!(page.value(is_disabled), false);
    }
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

/// A finding has its evidence and its cure behind it.
#[test]
fn the_page_begins_with_what_is_slow() {
    let host = Host::new("agent").unwrap();
    let agent = Agent::of(&host, "");
    let (service, _) = ask_one_that_sleeps(&host);
    agent.scrape_until(|scrape| scrape.sum("sockstamp_finding_lost_seconds", &[]) > 0.0);
    let mut page = Page::at(&format!("http://{}/", agent.address));
    wait_until(
        &mut page,
        &format!(
            "document.querySelector('#findings summary')?.textContent.includes(':{} takes')",
            service.port()
        ),
    );
    let behind = page.value("document.querySelector('#findings dl').textContent");
    let behind = behind.as_str().unwrap();
    for part in ["evidence", "check", "usual cure", "next"] {
        assert!(behind.contains(part), "{part}: {behind}");
    }
}

/// Enter opens a finding, which keeps the focus when it is drawn anew. Tab comes to tables that
/// scroll.
#[test]
fn the_page_is_used_by_keys() {
    let host = Host::new("agent").unwrap();
    let agent = Agent::of(&host, "");
    ask_one_that_sleeps(&host);
    agent.scrape_until(|scrape| scrape.sum("sockstamp_finding_lost_seconds", &[]) > 0.0);
    let mut page = Page::at(&format!("http://{}/", agent.address));
    wait_until(
        &mut page,
        "document.querySelector('#findings summary') !== null",
    );
    page.press("Tab");
    assert_eq!(
        page.value("document.activeElement === document.querySelector('#findings summary')"),
        true
    );
    page.value("document.querySelector('#findings summary').dataset.old = 1");
    page.press("Enter");
    wait_until(
        &mut page,
        "document.querySelector('#findings details').open",
    );
    // The next look draws the findings anew.
    wait_until(
        &mut page,
        "document.querySelector('#findings summary').dataset.old === undefined",
    );
    assert_eq!(
        page.value(
            "document.activeElement === document.querySelector('#findings summary') \
             && document.querySelector('#findings details').open"
        ),
        true
    );
    let reached = "document.activeElement === document.getElementById('heat').parentNode";
    for _ in 0..8 {
        if page.value(reached) == true {
            return;
        }
        page.press("Tab");
    }
    panic!(
        "the table is not reached: {}",
        page.value("document.activeElement.outerHTML")
    );
}

/// The reader of the fifth message slept before it read: its own clock is the witness.
#[test]
fn slow_messages_are_drawn_with_their_stages() {
    let host = Host::new("agent").unwrap();
    let agent = Agent::of(&host, "[page]\nslow = \"50ms\"");
    assert_eq!(agent.get("/slow"), "[]");
    let slept = read_one_late(&host);
    let slow: Value = serde_json::from_str(&agent.get("/slow")).unwrap();
    let read = slow
        .as_array()
        .unwrap()
        .iter()
        .find(|message| message["direction"] == "rx");
    let read = read.unwrap_or_else(|| panic!("{slow}"));
    let stages = read["stages"].as_array().unwrap();
    let app = stages
        .iter()
        .find(|stage| stage["name"] == "rx.app")
        .unwrap();
    let waited = Duration::from_nanos(app["ns"].as_u64().unwrap());
    assert!(
        waited <= slept && waited + Duration::from_millis(20) > slept,
        "{read}"
    );
    let end = |stage: &Value| stage["after_ns"].as_u64().unwrap() + stage["ns"].as_u64().unwrap();
    let last = stages.iter().map(end).max().unwrap();
    assert!(last >= read["time_ns"].as_u64().unwrap(), "{read}");

    // The sender's message was acknowledged late, but had left at once.
    let sent = slow.as_array().unwrap();
    assert!(
        sent.iter().all(|message| message["direction"] != "tx"),
        "{slow}"
    );

    let page = shown(&agent, &[]);
    assert_eq!(
        page.matches("<details>").count(),
        slow.as_array().unwrap().len()
    );
    assert!(
        page.contains("<span>rx.app (") || page.contains("<span>rx.app</span>"),
        "{page}"
    );
    // With other settings, messages that are not slow enough disappear.
    let said = agent.reload(&format!(
        "sample = \"1000000/s\"\nmax_cost = \"none\"\n[page]\nslow = \"5m\"\n[target]\nnetns = \"{}\"",
        host.netns_name()
    ));
    assert!(said.contains("read again"), "{said}");
    assert_eq!(agent.get("/slow"), "[]");
}

/// Send five messages, the last of which waits for its reader; return for how long.
fn read_one_late(host: &Host) -> Duration {
    let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for _ in 0..4 {
        client.write_all(&[0; 100]).unwrap();
        server.read_exact(&mut [0; 100]).unwrap();
    }
    let before = Instant::now();
    client.write_all(&[0; 100]).unwrap();
    thread::sleep(Duration::from_millis(120));
    server.read_exact(&mut [0; 100]).unwrap();
    before.elapsed()
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
    assert!(
        page.contains("&lt;img src=x") && !page.contains("<img"),
        "{page}"
    );
    let (head, text) = exchange(agent.address, "/", "");
    assert!(
        head.contains("content-security-policy: default-src 'none'"),
        "{head}"
    );
    assert!(!text.contains("//"), "an address of somewhere else");
}
