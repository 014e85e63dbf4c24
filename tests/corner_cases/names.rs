//! Names that other users chose: none controls a terminal, forges a line or hides, and JSON has
//! them exactly.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use sockstamp_model::name::shows;
use tempfile::{NamedTempFile, TempDir};
use testbed::{Cgroup, Host, PATIENCE, Process, Tmux};
use with::agent::Agent;
use with::{end, hooks, sockstamp, start, wait_until};

/// Sets a terminal's title, and turns the direction of what follows.
const HOSTILE: &str = "\u{1b}]0;x\u{7}\u{202e}";
const ESCAPED: &str = r"\x1b]0;x\x07\u{202e}";
/// For the end of a line, which no name of a cgroup or an interface may have.
const COMM: &str = "\u{1b}]0;x\u{7}\u{202e}\nabc";
const ESCAPED_COMM: &str = r"\x1b]0;x\x07\u{202e}\nabc";

/// Calls itself so, connects, and answers each byte with one.
const ANSWERS: &str = "
import ctypes, os, socket, sys
ctypes.CDLL(None).prctl(15, os.fsencode(sys.argv[2]))
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
print('connected', flush=True)
while s.recv(1):
    s.sendall(b'x')
";

/// A task, a cgroup and an interface of hostile names.
struct HostileNames {
    host: Host,
    /// Before the cgroup that they are in.
    answerers: Vec<(Process, TcpStream)>,
    _cgroup: Cgroup,
    top: Cgroup,
}

impl HostileNames {
    fn new() -> HostileNames {
        let host = Host::new("names").unwrap();
        for change in [&["down"][..], &["name", HOSTILE]] {
            host.run("ip", &[&["link", "set", "dev", "lo"], change].concat())
                .unwrap();
        }
        host.run("ip", &["link", "set", "dev", HOSTILE, "up"])
            .unwrap();
        let top = Cgroup::new("names").unwrap();
        HostileNames {
            _cgroup: top.below(HOSTILE).unwrap(),
            host,
            top,
            answerers: Vec::new(),
        }
    }

    fn add(&mut self, comm: &[u8]) {
        use std::os::unix::ffi::OsStrExt;
        let listener = self
            .host
            .tcp_listen("127.0.0.1:0".parse().unwrap())
            .unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let mut command = self.host.command("python3");
        command.args(["-c", ANSWERS, &port]);
        command.arg(std::ffi::OsStr::from_bytes(comm));
        self._cgroup.start_in(&mut command).unwrap();
        let mut process = Process::spawn(command).unwrap();
        process.wait_for_stdout("connected\n", PATIENCE).unwrap();
        self.answerers.push((process, listener.accept().unwrap().0));
    }

    fn ask(&mut self) {
        for (_, socket) in &mut self.answerers {
            socket.write_all(&[1]).unwrap();
            socket.read_exact(&mut [0]).unwrap();
        }
    }

    fn cgroup(&self) -> &str {
        self.top.path().to_str().unwrap()
    }

    /// Return the output while each answerer answers once.
    fn measured(&mut self, words: &[&str]) -> String {
        let output = NamedTempFile::new().unwrap();
        let path = output.path().to_str().unwrap();
        let more = [
            "--every",
            "--max-cost=none",
            "--cgroup",
            self.cgroup(),
            "-o",
            path,
        ];
        let process = start(&[words, &more].concat());
        self.ask();
        end(process);
        String::from_utf8(fs::read(output.path()).unwrap()).unwrap()
    }
}

#[track_caller]
fn assert_shows(text: &str) {
    let hidden: Vec<_> = text.chars().filter(|&c| c != '\n' && !shows(c)).collect();
    assert!(hidden.is_empty(), "{hidden:?} in {text:?}");
}

#[track_caller]
fn complaint(mut command: Command) -> String {
    let Output { stdout, stderr, .. } = command.output().unwrap();
    assert!(stdout.is_empty());
    let text = String::from_utf8(stderr).unwrap();
    assert_shows(&text);
    text
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(sockstamp());
    command.args(words);
    command
}

const BY: [&str; 3] = ["stat", "--by", "comm,cgroup,interface"];

#[test]
fn hostile_names_are_escaped_in_every_text() {
    let mut setup = HostileNames::new();
    setup.add(COMM.as_bytes());

    let lines = setup.measured(&["trace"]);
    assert_shows(&lines);
    assert_eq!(lines.lines().count(), 2, "a read and a send: {lines}");
    for line in lines.lines() {
        assert!(
            line.contains(&format!("/{ESCAPED_COMM} 127.0.0.1:")),
            "{line}"
        );
    }
    assert!(lines.contains(&format!("via {ESCAPED}")), "{lines}");

    let path = format!(
        "{}/{ESCAPED}",
        &setup.cgroup()[setup.cgroup().rfind('/').unwrap()..]
    );
    let table = setup.measured(&BY);
    assert_shows(&table);
    let interface = format!("{ESCAPED}@{}", setup.host.netns_name());
    let names = format!(" {ESCAPED_COMM} {path} {interface}");
    // Names longer than a line continue in the next.
    assert!(
        table.replace("\n  ", "").contains(&names),
        "{names} in {table}"
    );
    assert!(
        table.contains(&format!("interfaces: {ESCAPED}@")),
        "{table}"
    );

    let csv = setup.measured(&[&BY[..], &["--format", "csv"]].concat());
    assert_shows(&csv);
    assert!(
        csv.contains(&format!("\n{ESCAPED_COMM},{path},{interface},tx,")),
        "{csv}"
    );
}

#[test]
fn json_has_hostile_names_exactly_and_in_escapes() {
    let mut setup = HostileNames::new();
    setup.add(COMM.as_bytes());
    setup.add(b"caf\xe9");
    let lines = setup.measured(&["trace", "--format", "json"]);
    assert_shows(&lines);
    let messages: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |comm: &str| {
        messages
            .iter()
            .filter(|message| message["comm"] == *comm)
            .count()
    };
    assert_eq!((of(COMM), of(r"caf\xe9")), (2, 2), "{lines}");
    let sent = messages
        .iter()
        .find(|message| message["direction"] == "tx")
        .unwrap();
    assert_eq!(sent["interfaces"]["last"]["name"], HOSTILE);

    let report = setup.measured(&[&BY[..], &["--format", "json"]].concat());
    assert_shows(&report);
    let report: Value = serde_json::from_str(&report).unwrap();
    let groups = report["groups"].as_array().unwrap();
    let key = &groups
        .iter()
        .find(|group| group["key"]["comm"] == COMM)
        .unwrap()["key"];
    assert!(
        key["cgroup"]["path"]
            .as_str()
            .unwrap()
            .ends_with(&format!("/{HOSTILE}"))
    );
    assert_eq!(key["interface"]["name"], json!(HOSTILE));
}

#[test]
fn hostile_names_do_not_reach_the_terminal_of_top() {
    let mut setup = HostileNames::new();
    setup.add(COMM.as_bytes());
    let tmux = Tmux::new(200, 24).unwrap();
    let title = tmux.state("pane_title").unwrap();
    let hooks = hooks().join(" ");
    let line = format!(
        "{} top {hooks} --every --max-cost none --by comm,cgroup --interval 300ms --cgroup {}",
        sockstamp(),
        setup.cgroup()
    );
    tmux.type_line(&line).unwrap();
    tmux.wait_for("no messages yet", PATIENCE).unwrap();
    let row = format!("> {ESCAPED_COMM} /");
    let mut screen = String::new();
    wait_until("the name is on the screen", || {
        setup.ask();
        screen = tmux.screen().unwrap();
        screen.contains(&row)
    });
    assert_shows(&screen);
    tmux.press(&["Enter"]).unwrap();
    tmux.wait_for("flows of", PATIENCE).unwrap();
    assert_shows(&tmux.screen().unwrap());
    assert_eq!(tmux.state("pane_title").unwrap(), title);
    tmux.press(&["q"]).unwrap();
}

/// Each subcommand that reads recordings, in each of its forms.
#[test]
fn hostile_names_are_escaped_in_what_is_made_of_a_recording() {
    let mut setup = HostileNames::new();
    setup.add(COMM.as_bytes());
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let file = path("messages.parquet");
    let more = ["--packets", "--every", "--max-cost=none", "--cgroup"];
    let words = [&["record", "-o", &file][..], &more, &[setup.cgroup()]].concat();
    let process = start(&words);
    (0..50).for_each(|_| setup.ask());
    assert_shows(&end(process).stderr());

    let by = ["--by", "comm,cgroup,interface"];
    for words in [
        &["report", "--format", "text", by[0], by[1]][..],
        &["report", "--format", "csv", by[0], by[1]],
        &["report", "--format", "json", by[0], by[1]],
        &["explain", "--slow=p75", "-r"],
        &["explain", "--slow=p75", "--format", "json", "-r"],
        &["diff", &file],
        &["diff", "--format", "json", &file],
    ] {
        let output = command(&[words, &[file.as_str()]].concat())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && !text.is_empty(), "{words:?}");
        assert_shows(&text);
        if words[0] == "report" {
            // Names longer than a line continue in the next.
            let line = text.replace("\n  ", "");
            let is_json = words[2] == "json";
            let escaped = if is_json {
                r"\u001b]0;x\u0007\u202e\nabc"
            } else {
                ESCAPED_COMM
            };
            assert!(line.contains(escaped), "{words:?}: {text}");
        }
    }
    let captured = path("packets.pcapng");
    let output = command(&["pcap", "-r", &file, "-w", &captured])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let comments = with::pcap::fields(Path::new(&captured), ["frame.comment"]);
    let comm = format!(" comm={} ", ESCAPED_COMM.replace(' ', r"\x20"));
    assert!(!comments.is_empty());
    for [comment] in &comments {
        assert_shows(comment);
        assert!(comment.contains(&comm), "{comment}");
    }
}

/// Labels are escaped for terminals, and then as the format wants it.
#[test]
fn hostile_names_are_escaped_in_metrics_and_in_the_page_of_the_agent() {
    let mut setup = HostileNames::new();
    setup.add(COMM.as_bytes());
    let settings = "by = [\"comm\", \"cgroup\", \"interface\"]\n[page]\nslow = \"1us\"";
    let agent = Agent::of(&setup.host, settings);
    (0..20).for_each(|_| setup.ask());
    let comm = format!("comm=\"{}\"", ESCAPED_COMM.replace('\\', r"\\"));
    let scrape =
        agent.scrape_until(|scrape| scrape.sum("sockstamp_messages_total", &[&comm]) >= 40.0);
    assert_shows(&scrape.0);
    let interface = format!("interface=\"{}@", ESCAPED.replace('\\', r"\\"));
    assert!(scrape.0.contains(&interface), "{}", scrape.0);
    let slow = agent.get("/slow");
    assert_shows(&slow);
    assert!(slow.contains("]0;x"), "{slow}");
    assert_shows(&agent.process.stderr());
}

#[test]
fn errors_escape_what_they_quote() {
    for words in [
        &["stat", "--cgroup", HOSTILE][..],
        &["stat", "--container", HOSTILE],
        &["stat", "--netns", HOSTILE],
        &["stat", "-i", HOSTILE],
        &["stat", "--by", HOSTILE],
        &["stat", HOSTILE],
        &["stat", "--duration", HOSTILE],
        &[
            "trace",
            "-o",
            "/no/\u{1b}]0;x\u{7}\u{202e}",
            "--duration",
            "1s",
        ],
        &["stat", "--", HOSTILE],
        &["ping", HOSTILE],
        &[HOSTILE],
    ] {
        let text = complaint(command(words));
        assert!(!text.is_empty(), "{words:?}");
    }
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), format!("{HOSTILE}.invalid\n")).unwrap();
    let text = complaint(command(&[
        "ping",
        "--targets",
        file.path().to_str().unwrap(),
    ]));
    assert!(text.contains(ESCAPED), "{text}");
}

#[test]
fn doctor_shows_interfaces_of_hostile_names() {
    let host = HostileNames::new().host;
    let text = host.run(sockstamp(), &["doctor"]).unwrap();
    assert_shows(&text);
    assert!(text.contains(&format!("  {ESCAPED} ")), "{text}");
    let text = host
        .run(sockstamp(), &["doctor", "--format", "json"])
        .unwrap();
    assert_shows(&text);
    let report: Value = serde_json::from_str(&text).unwrap();
    let mut interfaces = report["interfaces"].as_array().unwrap().iter();
    assert!(
        interfaces.any(|interface| interface["name"] == HOSTILE),
        "{text}"
    );
}
