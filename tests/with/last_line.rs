//! The last line of plain `stat`, which names the worst fault or none.

use std::fs;

use tempfile::NamedTempFile;
use testbed::{Host, Stolen};

use crate::pair::Pair;
use crate::programs::nginx_with_page;
use crate::{end, hooks, sockstamp, start};

/// Return the last sentence of `stat -- command` on a host.
pub fn last_line_on(host: &Host, command: &[&str]) -> String {
    let output = NamedTempFile::new().unwrap();
    let path = output.path().to_str().unwrap();
    let hooks = hooks();
    let mut arguments = vec!["stat", "--max-cost=none", "-o", path];
    arguments.extend(hooks.iter().map(String::as_str));
    arguments.push("--");
    arguments.extend(command);
    let stolen = Stolen::begin();
    host.run(sockstamp(), &arguments).unwrap();
    last_line_of(path, &stolen)
}

/// Return the last sentence of `stat` with a target while `load` runs.
pub fn last_line_while(target: &[&str], load: impl FnOnce()) -> String {
    let output = NamedTempFile::new().unwrap();
    let path = output.path().to_str().unwrap();
    let stolen = Stolen::begin();
    let stat = start(&[&["stat", "--max-cost=none", "-o", path], target].concat());
    load();
    end(stat);
    last_line_of(path, &stolen)
}

fn last_line_of(path: &str, stolen: &Stolen) -> String {
    let text = fs::read_to_string(path).unwrap();
    println!("{text}");
    let text = text.trim_end();
    let (text, _notes) = text.split_once("\n note:").unwrap_or((text, ""));
    // Calls of other sockets before are no part of the diagnosis.
    let text = match text.contains("\n diagnosis:") {
        true => text,
        false => text.split("\n not followed:").next().unwrap_or(text),
    };
    // The worst finding comes first. A sentence may take several lines.
    let worst = text.split("\n diagnosis:").nth(1);
    let last = text.rfind('\n').map_or(text, |start| &text[start..]);
    let line = worst.map_or_else(|| last.to_owned(), |worst| format!("diagnosis: {worst}"));
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    match stolen.much() {
        Some(stolen) => format!("{line}{STOLEN}{} ms)", stolen.as_millis()),
        None => line,
    }
}

/// Stands behind the line of a machine that the hypervisor stopped meanwhile.
const STOLEN: &str = " (stolen: ";

/// Words that a busy machine makes true of any program.
const NO_CPU: &[&str] = &["for a CPU", STOLEN];

/// Check a diagnosis. That there is none may be a matter of times, and so is a machine without a
/// CPU for everybody.
///
/// # Panics
///
/// Fails if anything else is told: that is wrong, however long things took.
pub fn tells(line: String, expected: &str) -> Result<(), String> {
    tells_among(line, expected, &[])
}

/// As [`tells`], where others of these may be true as well.
pub fn tells_among(line: String, expected: &str, others: &[&str]) -> Result<(), String> {
    let is_told = line.starts_with("diagnosis: ");
    if is_told && line.contains(expected) {
        return Ok(());
    }
    let excuses = |words: &&str| line.contains(words);
    assert!(
        !is_told || NO_CPU.iter().chain(others).any(excuses),
        "not {expected}, but {line}"
    );
    Err(line)
}

/// Check that there is no diagnosis: the line before it is the last one. On a busy machine there
/// may be one of that.
///
/// # Panics
///
/// Fails if there is any other.
pub fn silent(line: String) -> Result<(), String> {
    if line.starts_with("lost: ") {
        return Ok(());
    }
    let excuses = |words: &&str| line.contains(words);
    assert!(NO_CPU.iter().any(excuses), "{line}");
    Err(line)
}

/// Check the same of a load that a machine disturbs as soon as it stands still for a moment, so
/// that any diagnosis may be of that.
pub fn undisturbed(line: String) -> Result<(), String> {
    line.starts_with("lost: ").then_some(()).ok_or(line)
}

/// Return the script of a download of nginx's page, for its output to go elsewhere.
pub fn download(pair: &Pair, output: &str) -> String {
    format!("curl -s http://{}/page {output}", pair.address)
}

/// Return the last line of the `stat` of nginx while curl loads its page.
pub fn of_a_download(pair: &Pair, bytes: usize, output: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let server = nginx_with_page(&pair.server, folder.path(), bytes, pair.address);
    last_line_while(&["-p", &server.id().to_string()], || {
        pair.client
            .run("sh", &["-c", &download(pair, output)])
            .unwrap();
    })
}

/// Let the server hand a page to TCP at once, and TCP send it without pacing.
pub fn room_for_a_page(pair: &Pair) {
    for (name, value) in [
        ("net.ipv4.tcp_wmem", "4096 4194304 4194304"),
        ("net.ipv4.tcp_congestion_control", "reno"),
    ] {
        pair.server.set_sysctl(name, value).unwrap();
    }
}
