//! The last minutes on disk.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sockstamp_record::Reader;
use tempfile::{NamedTempFile, TempDir};
use testbed::{Host, PATIENCE, Process};
use with::agent::{Agent, Scrape, exchange, post, talk, wait_for_line};
use with::authority::Authority;
use with::{run, sockstamp, wait_until};

fn settings(directory: &Path, more: &str) -> String {
    format!("[hindsight]\ndirectory = {directory:?}\nmin_free = 1\n{more}")
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

fn rows(files: &[PathBuf]) -> u64 {
    files
        .iter()
        .map(|file| Reader::open(file).unwrap().rows())
        .sum()
}

#[test]
fn a_snapshot_has_every_message_and_explain_reads_it() {
    let host = Host::new("agent").unwrap();
    let directory = TempDir::new().unwrap();
    let agent = Agent::of(&host, &settings(directory.path(), ""));
    talk(&host, 50, Duration::from_millis(1));
    // The counters show every message as valid, measured and ended.
    assert_eq!(
        agent
            .scrape()
            .sum("sockstamp_verdicts_total", &["verdict=\"valid\""]),
        200.0
    );
    let output = Command::new(sockstamp())
        .args(["agent", "snapshot", "--listen", &agent.address.to_string()])
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success(),
        "{errors}{}",
        agent.process.stderr()
    );
    let kept = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end());
    assert!(kept.starts_with(directory.path()), "{}", kept.display());
    let messages = files(&kept);
    // Opening and accepting the connection are rows as well.
    assert!(
        (200..=202).contains(&rows(&messages)),
        "{}",
        rows(&messages)
    );
    let explained = Command::new(sockstamp())
        .args(["explain", "-r"])
        .args(&messages)
        .output()
        .unwrap();
    assert!(explained.status.success());

    agent.process.signal(Signal::SIGUSR1).unwrap();
    wait_until("there are two snapshots", || {
        files(&directory.path().join("snapshots")).len() >= 2
    });
    // Each is counted when it is there.
    let scrape = agent.scrape_until(|scrape| taken(scrape) >= 2.0);
    assert_eq!(taken(&scrape), 2.0);
    assert_eq!(
        scrape.sum("sockstamp_hindsight_messages_total", &[]),
        rows(&messages) as f64
    );
    assert_eq!(
        scrape.sum("sockstamp_hindsight_lost_messages_total", &[]),
        0.0
    );
}

/// Both sessions of a reload see messages, and each message is recorded once.
#[test]
fn a_recording_continues_through_reloads() {
    let host = Host::new("agent").unwrap();
    let directory = TempDir::new().unwrap();
    let agent = Agent::of(&host, &settings(directory.path(), ""));
    for rate in [2_000_000, 3_000_000] {
        talk(&host, 50, Duration::ZERO);
        let kept = settings(directory.path(), &format!("keep = \"{}s\"", rate / 10_000));
        let said = agent.reload(&format!(
            "sample = \"{rate}/s\"\nmax_cost = \"none\"\n{kept}\n[target]\nnetns = \"{}\"",
            host.netns_name()
        ));
        assert!(said.contains("read again"), "{said}");
    }
    talk(&host, 50, Duration::ZERO);
    // All have ended.
    agent.scrape_until(|scrape| {
        scrape.sum("sockstamp_verdicts_total", &["verdict=\"valid\""]) >= 600.0
    });
    let (head, kept) = post(agent.address, "/snapshot", "Sockstamp-Snapshot: 1\r\n");
    assert!(head.contains(" 200 "), "{head} {kept}");
    let recorded = rows(&files(Path::new(kept.trim_end())));
    // Opening and accepting the connections are rows as well.
    assert!((600..=606).contains(&recorded), "{recorded}");
}

/// Slow answers that are enough for `explain` to name a cause: it wants the slowest hundredth in
/// twenty flows, and there are 25 of them, each in a flow of its own.
fn answer_one_of_fifty_late(host: &Host) {
    const FLOWS: u32 = 50;
    const ROUNDS: u32 = 50;
    let late = Duration::from_millis(20);
    for _ in 0..FLOWS {
        let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.set_nodelay(true).unwrap();
        for round in 0..ROUNDS {
            client.write_all(&[0; 100]).unwrap();
            server.read_exact(&mut [0; 100]).unwrap();
            if round == ROUNDS / 2 {
                thread::sleep(late);
            }
            server.write_all(&[0; 100]).unwrap();
            client.read_exact(&mut [0; 100]).unwrap();
        }
    }
}

/// One answer of fifty comes late, by the time of the application.
#[test]
fn the_page_explains_what_was_recorded_and_refuses_other_sites() {
    let host = Host::new("agent").unwrap();
    let directory = TempDir::new().unwrap();
    let agent = Agent::of(&host, &settings(directory.path(), ""));
    let (head, _) = post(agent.address, "/explain", "");
    assert!(head.starts_with("HTTP/1.0 403 "), "{head}");
    let (head, body) = explain(&agent);
    assert!(
        head.starts_with("HTTP/1.0 503 ") && body.contains("no message"),
        "{head} {body}"
    );
    answer_one_of_fifty_late(&host);
    let start = Instant::now();
    loop {
        let (head, body) = explain(&agent);
        assert!(head.starts_with("HTTP/1.0 200 "), "{head}");
        if body.contains("of the excess is peer.answer peer") {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{body}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Ask for an explanation until the agent has rested after the one before.
fn explain(agent: &Agent) -> (String, String) {
    let start = Instant::now();
    loop {
        let (head, body) = post(agent.address, "/explain", "Sockstamp-Explain: 1\r\n");
        if !head.starts_with("HTTP/1.0 409 ") {
            return (head, body);
        }
        assert!(body.contains("ask again"), "{body}");
        assert!(start.elapsed() < PATIENCE, "{body}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Each explanation ends a file.
#[test]
fn files_that_are_gone_or_damaged_are_left_out_of_an_explanation() {
    let host = Host::new("agent").unwrap();
    let directory = TempDir::new().unwrap();
    let agent = Agent::of(&host, &settings(directory.path(), ""));
    for _ in 0..3 {
        let before = written(&agent.scrape());
        talk_until(&host, &agent, |scrape| written(scrape) > before);
        let (head, body) = explain(&agent);
        assert!(head.starts_with("HTTP/1.0 200 "), "{head} {body}");
        assert!(!body.contains("damaged"), "{body}");
    }
    let place = directory.path().join("recent");
    let recent = files(&place);
    assert!(recent.len() >= 3, "{recent:?}");
    fs::remove_file(&recent[0]).unwrap();
    fs::write(&recent[1], "no recording").unwrap();
    let (head, body) = explain(&agent);
    assert!(head.starts_with("HTTP/1.0 200 "), "{head} {body}");
    let note = "damaged files, which are left out: 1 ";
    assert!(body.starts_with(note) && body.lines().count() > 1, "{body}");
    let line = format!("left out of an explanation: {}: ", recent[1].display());
    wait_for_line(&agent.process, &line);

    // Late messages may begin another file.
    let start = Instant::now();
    loop {
        for file in files(&place) {
            fs::write(file, "no recording").unwrap();
        }
        let (head, body) = explain(&agent);
        if head.starts_with("HTTP/1.0 500 ") {
            assert!(body.starts_with("damaged files, "), "{body}");
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{head} {body}");
    }
}

/// Run `sockstamp agent snapshot` with these settings; return its complaint.
fn complaint(agent: &Agent, settings: &str) -> String {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), settings).unwrap();
    let output = Command::new(sockstamp())
        .args(["agent", "snapshot", "--listen", &agent.address.to_string()])
        .arg("--config")
        .arg(file.path())
        .output()
        .unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.lines().count(), 1, "{errors}");
    errors
}

#[test]
fn a_request_for_a_snapshot_that_is_refused_says_why() {
    let host = Host::new("agent").unwrap();
    let authority = Authority::new();
    let [own, other] = ["own", "other"].map(|name| {
        let token = authority.file(name);
        fs::write(&token, format!("token-of-16-or-more-{name}")).unwrap();
        fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
        format!("token_file = {token:?}\n")
    });
    let directory = TempDir::new().unwrap();
    let agent = Agent::of(&host, &format!("{own}{}", settings(directory.path(), "")));
    let line = "kept no snapshot: no message was recorded yet";
    // Without a token, as the owner.
    let why = complaint(&agent, "");
    assert!(why.contains(line), "{why}");
    let why = complaint(&agent, &other);
    assert!(why.contains(" refuses the token "), "{why}");
    let why = complaint(&agent, &own);
    assert!(why.contains(line), "{why}");
    let header = "Authorization: Bearer token-of-16-or-more-own\r\n\
                  Accept: application/openmetrics-text\r\n";
    let start = Instant::now();
    loop {
        talk(&host, 10, Duration::ZERO);
        let (_, text) = exchange(agent.address, "/metrics", header);
        if written(&Scrape(text)) > 0.0 {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{}", agent.process.stderr());
    }
    for number in 0..16 {
        fs::create_dir(directory.path().join(format!("snapshots/{number}"))).unwrap();
    }
    let why = complaint(&agent, &own);
    let line = format!(
        "kept no snapshot: {}/snapshots has 16 snapshots: remove some",
        directory.path().display()
    );
    assert!(why.contains(&line), "{why}");

    let [certificate, key] = ["own.crt", "own.key"].map(|name| authority.file(name));
    let tls = format!("[tls]\ncertificate_file = {certificate:?}\nkey_file = {key:?}\n");
    let agent = Agent::of(&host, &tls);
    let why = complaint(&agent, &own);
    assert!(
        why.contains(" answers no HTTP: does it serve TLS? "),
        "{why}"
    );
    let why = complaint(&agent, &tls);
    let line =
        "kept no snapshot: nothing is recorded, because the configuration has no [hindsight]";
    assert!(why.contains(line), "{why}");
}

/// Each would remove the files of the other.
#[test]
fn a_second_agent_is_refused_the_directory_of_the_first() {
    let host = Host::new("agent").unwrap();
    let directory = TempDir::new().unwrap();
    let target = format!("[target]\nnetns = \"{}\"", host.netns_name());
    let settings = format!("{}\n{target}", settings(directory.path(), ""));
    let mut first = Agent::start(&settings);
    let reason = format!("another agent records in {}: ", directory.path().display());

    let begin = |arguments: &[&str]| {
        let mut command = Command::new(sockstamp());
        command.arg("agent").args(arguments);
        let mut process = Process::spawn(command).unwrap();
        let status = process.wait_status(PATIENCE).unwrap();
        (status.success(), process.stderr())
    };
    let file = first.file();
    let file = file.to_str().unwrap();
    let (succeeded, said) = begin(&["--listen", "127.0.0.1:0", "--config", file]);
    assert!(!succeeded && said.contains(&reason), "{said}");
    // A check of settings is no second agent.
    let (succeeded, said) = begin(&["--check", "--config", file]);
    assert!(succeeded, "{said}");

    let second = Agent::start(&target);
    let said = second.reload(&settings);
    let is_refused = |said: &str| said.contains("is unchanged: ") && said.contains(&reason);
    assert!(is_refused(&said), "{said}");
    // The same agent may go on in its directory.
    let said = first.reload(&settings.replace("min_free = 1", "min_free = 2"));
    assert!(said.contains("read again"), "{said}");
    let said = second.reload(&settings);
    assert!(is_refused(&said), "{said}");
    first.process.signal(Signal::SIGTERM).unwrap();
    first.process.wait_status(PATIENCE).unwrap();
    let said = second.reload(&settings);
    assert!(said.contains("read again"), "{said}");
}

#[test]
fn recording_goes_on_after_somebody_has_removed_the_files() {
    let host = Host::new("agent").unwrap();
    let directory = TempDir::new().unwrap();
    let agent = Agent::of(&host, &settings(directory.path(), ""));
    let before = talk_until(&host, &agent, |scrape| written(scrape) > 0.0);
    fs::remove_dir_all(directory.path().join("recent")).unwrap();
    let more = written(&before) + 40.0;
    let after = talk_until(&host, &agent, |scrape| written(scrape) >= more);
    assert_eq!(lost(&after), 0.0, "{}", agent.process.stderr());
    let (head, kept) = post(agent.address, "/snapshot", "Sockstamp-Snapshot: 1\r\n");
    assert!(head.contains(" 200 "), "{head} {kept}");
    assert!(rows(&files(Path::new(kept.trim_end()))) > 0);
}

/// No message is written, each is counted, and measuring continues.
#[test]
fn a_disk_without_room_costs_counted_messages_alone() {
    let host = Host::new("agent").unwrap();
    let directory = TempDir::new().unwrap();
    let settings = settings(directory.path(), "").replace("min_free = 1", "min_free = 16000000");
    let agent = Agent::of(&host, &settings);
    talk(&host, 50, Duration::ZERO);
    let start = Instant::now();
    let lost = ["reason=\"room\""];
    while agent
        .scrape()
        .sum("sockstamp_hindsight_lost_messages_total", &lost)
        < 200.0
    {
        assert!(start.elapsed() < PATIENCE, "{}", agent.process.stderr());
    }
    wait_for_line(&agent.process, "min_free");
    assert_eq!(agent.scrape().sum("sockstamp_messages_total", &[]), 200.0);
    assert!(files(&directory.path().join("recent")).is_empty());
}

/// A file system of its own, in memory, until it is dropped.
struct Disk(TempDir);

impl Disk {
    fn new(options: &str) -> Self {
        let directory = TempDir::new().unwrap();
        run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(directory.path()));
        Self(directory)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("hindsight")
    }

    /// Leave no room for data.
    fn fill(&self) {
        let mut file = fs::File::create(self.0.path().join("others")).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
    }

    /// Leave no room for files.
    fn fill_with_files(&self) {
        let place = self.0.path().join("others");
        fs::create_dir(&place).unwrap();
        let mut numbers = 0..;
        while fs::File::create(place.join(numbers.next().unwrap().to_string())).is_ok() {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A test that fails leaves an agent behind that still uses it.
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.0.path())
            .status();
    }
}

const LACKS: &str = "hindsight lacks messages: ";

/// Talk until something is counted.
fn talk_until(host: &Host, agent: &Agent, is_there: impl Fn(&Scrape) -> bool) -> Scrape {
    let start = Instant::now();
    loop {
        talk(host, 10, Duration::ZERO);
        let scrape = agent.scrape();
        if is_there(&scrape) {
            return scrape;
        }
        assert!(start.elapsed() < PATIENCE, "{}", agent.process.stderr());
    }
}

fn written(scrape: &Scrape) -> f64 {
    scrape.sum("sockstamp_hindsight_messages_total", &[])
}

fn lost(scrape: &Scrape) -> f64 {
    scrape.sum("sockstamp_hindsight_lost_messages_total", &[])
}

fn taken(scrape: &Scrape) -> f64 {
    scrape.sum("sockstamp_snapshots_total", &["result=\"taken\""])
}

/// Record, have the disk filled for `time`, and have it emptied again.
fn record_on_a_disk_that_is_full(options: &str, more: &str, fill: fn(&Disk), time: Duration) {
    let host = Host::new("agent").unwrap();
    let disk = Disk::new(options);
    let agent = Agent::of(&host, &settings(&disk.path(), more));
    let before = talk_until(&host, &agent, |scrape| written(scrape) > 0.0);
    assert_eq!(lost(&before), 0.0);
    fill(&disk);
    let filled = Instant::now();
    let full = talk_until(&host, &agent, |scrape| {
        lost(scrape) > 0.0 && filled.elapsed() > time
    });
    let others = disk.0.path().join("others");
    fs::remove_dir_all(&others)
        .or_else(|_| fs::remove_file(&others))
        .unwrap();
    // The agent measures all the time, and says once what is wrong.
    let measured = |scrape: &Scrape| scrape.sum("sockstamp_messages_total", &[]);
    assert!(measured(&full) >= measured(&before) + 40.0);
    wait_for_line(&agent.process, LACKS);
    let said = agent.process.stderr();
    assert_eq!(said.matches(LACKS).count(), 1, "{said}");
    talk_until(&host, &agent, |scrape| {
        written(scrape) >= written(&full) + 40.0
    });
    let (head, kept) = post(agent.address, "/snapshot", "Sockstamp-Snapshot: 1\r\n");
    assert!(head.contains(" 200 "), "{head} {kept}");
    assert!(rows(&files(Path::new(kept.trim_end()))) >= 40);
    assert_eq!(agent.process.stderr().matches(LACKS).count(), 1);
}

#[test]
fn a_full_disk_is_said_once_and_recording_goes_on_with_room() {
    record_on_a_disk_that_is_full("size=8m", "", Disk::fill, Duration::from_secs(3));
}

/// Files grow old meanwhile, and are removed.
#[test]
fn a_disk_without_room_for_files_is_said_once_and_recording_goes_on_with_room() {
    let keep = "keep = \"8s\"";
    record_on_a_disk_that_is_full(
        "size=8m,nr_inodes=32",
        keep,
        Disk::fill_with_files,
        Duration::from_secs(15),
    );
}

/// The server takes 60 ms for an answer.
#[test]
fn the_last_minutes_are_kept_when_a_stage_takes_long() {
    let host = Host::new("agent").unwrap();
    let directory = TempDir::new().unwrap();
    let more = "[[hindsight.keep_when]]\nstage = \"app.service\"\nquantile = 0.9\nabove = \"40ms\"\nfor = \"1s\"";
    let agent = Agent::of(&host, &settings(directory.path(), more));
    let snapshots = directory.path().join("snapshots");
    talk(&host, 30, Duration::ZERO);
    // The window of these messages ends.
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(files(&snapshots).len(), 0, "{}", agent.process.stderr());
    talk(&host, 60, Duration::from_millis(60));
    wait_until("there is a snapshot", || !files(&snapshots).is_empty());
    let kept = files(&snapshots);
    wait_for_line(
        &agent.process,
        &format!(
            "the last minutes are in {}: app.service took more than 40ms in ",
            kept[0].display()
        ),
    );
    assert!(
        kept[0].to_str().unwrap().ends_with("-auto") && rows(&files(&kept[0])) > 0,
        "{kept:?}"
    );
    // One per `keep`.
    assert_eq!(kept.len(), 1);
    let scrape = agent.scrape_until(|scrape| taken(scrape) >= 1.0);
    assert_eq!(taken(&scrape), 1.0);
}
