//! Reports as pages, in a browser.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use sockstamp_explain::Kind;
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::message::Message;
use tempfile::{TempDir, tempdir};
use with::browser::Page;
use with::recording::{self, HOSTILE};

struct Report {
    _directory: TempDir,
    recording: PathBuf,
    file: PathBuf,
}

fn report(messages: &[Message], options: &[&str]) -> Report {
    let directory = tempdir().unwrap();
    let recording = directory.path().join("recording.parquet");
    recording::write(&recording, messages);
    let file = directory.path().join("report.html");
    let mut command = Command::new(with::sockstamp());
    command
        .arg("report")
        .args(options)
        .arg("--html")
        .arg(&file)
        .arg(&recording);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Report {
        _directory: directory,
        recording,
        file,
    }
}

/// Return the JSON of the same recording's report.
fn json_of(report: &Report) -> Value {
    let mut command = Command::new(with::sockstamp());
    let output = command
        .args(["report", "--format", "json"])
        .arg(&report.recording)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Return the texts of all elements that a selector finds and a user sees.
fn visible(page: &mut Page, selector: &str) -> Vec<String> {
    let seen = format!(
        "[...document.querySelectorAll({selector:?})].filter(e => e.getClientRects().length > 0).map(e => e.textContent)"
    );
    serde_json::from_value(page.value(&seen)).unwrap()
}

/// Return the times of messages of a kind, the shortest first, and their weights.
fn times(messages: &[Message], kind: Kind, is_of: impl Fn(&Message) -> bool) -> Vec<(Nanos, u32)> {
    let of_kind = messages.iter().filter(|message| is_of(message));
    let mut times: Vec<_> = of_kind
        .filter_map(|message| Some((kind.time(message)?, message.weight)))
        .collect();
    times.sort_unstable();
    times
}

#[test]
fn the_page_shows_the_messages_and_loads_nothing() {
    let messages = recording::population(5_000);
    let report = report(&messages, &[]);
    let mut page = Page::open(&report.file);
    let requests = page
        .events
        .iter()
        .filter(|event| event["method"] == "Network.requestWillBeSent");
    let urls: Vec<&Value> = requests
        .map(|event| &event["params"]["request"]["url"])
        .collect();
    assert_eq!(urls.len(), 1, "{urls:?}");
    let complaints = [
        "Log.entryAdded",
        "Runtime.exceptionThrown",
        "Runtime.consoleAPICalled",
    ];
    assert!(
        !complaints.iter().any(|event| page.happened(event)),
        "{:?}",
        page.events
    );
    // Three figures of each kind but lives.
    assert_eq!(visible(&mut page, "figure").len(), 15);
    let summaries = visible(&mut page, ".summary");
    for (kind, summary) in Kind::ALL.into_iter().zip(&summaries) {
        let times = times(&messages, kind, |_| true);
        let count: u64 = times.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let max = times.last().unwrap().0;
        assert!(
            summary.starts_with(&format!("all: {count} {}, p50 ", kind.name())),
            "{summary}"
        );
        assert!(summary.ends_with(&format!(", max {max}")), "{summary}");
    }
    let groups = visible(&mut page, "fieldset label");
    assert!(
        groups.iter().any(|group| group.contains(HOSTILE)),
        "{groups:?}"
    );
    assert_eq!(page.value("document.scripts.length"), 1);
    assert!(visible(&mut page, "fieldset b").is_empty());
}

#[test]
fn the_numbers_of_the_page_are_those_of_the_json() {
    let report = report(&recording::population(5_000), &[]);
    let json = json_of(&report);
    let mut page = Page::open(&report.file);
    let summaries = visible(&mut page, ".summary");
    let (tx, rx) = (&json["tx"], &json["rx"]);
    for (summary, kind, figures) in [
        (&summaries[0], Kind::Sent, &tx["sent"]),
        (&summaries[1], Kind::Read, &rx["total"]),
        (&summaries[2], Kind::Answer, &rx["stages"]["peer.answer"]),
        (
            &summaries[3],
            Kind::Connect,
            &tx["stages"]["conn.handshake"],
        ),
        (&summaries[4], Kind::Accept, &rx["stages"]["conn.accept"]),
    ] {
        let time = |key: &str| {
            Nanos(
                figures[key]
                    .as_u64()
                    .unwrap_or_else(|| panic!("{kind:?} {figures}")),
            )
        };
        let [p50, p90, p99, p999, max] =
            ["p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"].map(time);
        let (count, kind) = (&figures["count"], kind.name());
        assert_eq!(
            *summary,
            format!(
                "all: {count} {kind}, p50 {p50}, p90 {p90}, p99 {p99}, p99.9 {p999}, max {max}"
            )
        );
    }
}

#[test]
fn groups_are_chosen_by_click_and_by_keyboard() {
    let messages = recording::population(5_000);
    let report = report(&messages, &["--by", "peer"]);
    let mut page = Page::open(&report.file);
    let lives = visible(&mut page, ".life").len();
    assert!((100..=200).contains(&lives), "{lives}");
    let names = visible(&mut page, "fieldset label");
    let group = names
        .iter()
        .position(|name| name.starts_with("10.0.0.7"))
        .unwrap();
    page.click(&format!("fieldset label:nth-of-type({})", group + 1));
    let summaries = visible(&mut page, ".summary");
    assert!(
        summaries.len() == 5 && summaries.iter().all(|text| text.starts_with("10.0.0.7: ")),
        "{summaries:?}"
    );
    let of_group = visible(&mut page, ".life");
    assert!(!of_group.is_empty() && of_group.len() < lives);
    assert!(
        of_group.iter().all(|life| life.contains("→ 10.0.0.7:")),
        "{of_group:?}"
    );
    // The next group, or the first after the last one.
    page.press("ArrowRight");
    let next = &names[(group + 1) % names.len()];
    let summaries = visible(&mut page, ".summary");
    let name = next.split(' ').next().unwrap();
    assert!(
        summaries.iter().all(|text| text.starts_with(name)),
        "{next} {summaries:?}"
    );
}

#[test]
fn charts_tell_values_by_keyboard_and_by_pointer() {
    let messages = recording::population(5_000);
    let report = report(&messages, &[]);
    let mut page = Page::open(&report.file);
    page.value("document.querySelector('input:checked').focus()");
    page.press("Tab");
    // Tables are closed: after the filter comes the table of the composition, then the chart.
    page.press("Tab");
    page.press("End");
    let slider = "document.activeElement.getAttribute('aria-valuetext')";
    let max = times(&messages, Kind::Sent, |_| true).last().unwrap().0;
    assert_eq!(
        page.value(slider),
        json!(format!("quantile max, time {max}"))
    );
    page.press("Home");
    assert!(
        page.value(slider)
            .as_str()
            .unwrap()
            .starts_with("quantile p1, time ")
    );
    page.click(".heat .plot");
    let told = visible(&mut page, ".heat output");
    assert!(
        told[0].starts_with("from 13:") || told[0].contains(", messages "),
        "{told:?}"
    );
    // A life opens by Enter, and shows its stages.
    page.value("document.querySelector('.life summary').focus()");
    page.press("Enter");
    let stages = visible(&mut page, ".life[open] tbody th");
    assert!(
        stages.len() >= 3 && stages.iter().any(|stage| stage.starts_with("tx.copy")),
        "{stages:?}"
    );
}

#[test]
fn the_page_fits_a_phone_and_both_colour_schemes() {
    let report = report(&recording::population(5_000), &[]);
    let mut page = Page::open(&report.file);
    let phone = json!({"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": true});
    page.call("Emulation.setDeviceMetricsOverride", phone);
    page.value("document.querySelectorAll('details').forEach(e => e.open = true)");
    assert_eq!(page.value("document.documentElement.scrollWidth"), 360);
    let mut papers = Vec::new();
    for scheme in ["light", "dark"] {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        page.call("Emulation.setEmulatedMedia", features);
        papers.push(page.value("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(papers[0], papers[1]);
}

#[test]
fn axe_finds_no_violation() {
    let report = report(&recording::population(300), &[]);
    let script = "import axe_core_python as a; print(open(a.__path__[0] + '/axe.min.js').read())";
    let axe = with::python().args(["-c", script]).output().unwrap();
    assert!(axe.status.success(), "{axe:?}");
    let mut page = Page::open(&report.file);
    // Some of each kind of element: axe takes seconds for a hundred, hidden or not.
    for more in [
        "section ~ section",
        ".view[hidden]",
        ".life:nth-child(n+4)",
        "tr:nth-child(n+4)",
    ] {
        page.value(&format!(
            "document.querySelectorAll('{more}').forEach(e => e.remove())"
        ));
    }
    page.value("document.querySelectorAll('details').forEach(e => e.open = true)");
    page.value(&String::from_utf8(axe.stdout).unwrap());
    for scheme in ["light", "dark"] {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        page.call("Emulation.setEmulatedMedia", features);
        let found = page.value("axe.run().then(found => [found.passes.length, found.violations])");
        assert!(found[0].as_u64().unwrap() > 15, "{found}");
        assert_eq!(found[1], json!([]), "{scheme}");
    }
}

#[test]
fn the_largest_page_has_less_than_two_megabytes() {
    let mut messages = recording::population(60_000);
    let mut number = 0_u64;
    for message in &mut messages {
        number += 1;
        // Each heat map has messages in each of its cells, and each name is as long as one can be.
        message.comm = format!("\u{e0041}\u{e0042}\u{e0043}<{}", number % 100).into();
        let durations = message.stages;
        for (stage, duration) in durations.present() {
            let shifted = duration.0 << (number * 7 % 23);
            message.stages[stage] = Some(Nanos(shifted.min(60_000_000_000)));
        }
        message.time = Timestamp::from_nanos(recording::BEGIN + number * 1_000_003);
    }
    let report = report(&messages, &["--by", "comm"]);
    let bytes = fs::metadata(&report.file).unwrap().len();
    assert!((300_000..2_000_000).contains(&bytes), "{bytes}");
}
