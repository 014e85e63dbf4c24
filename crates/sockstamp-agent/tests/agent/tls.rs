//! Encryption, seen by curl, openssl, Prometheus and the bytes on the wire.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::TempDir;
use testbed::{Host, PATIENCE, Process, within_attempts};
use with::agent::{Agent, exchange, talk, wait_for_line};
use with::authority::Authority;
use with::prometheus::Prometheus;
use with::{sockstamp, wait_until};

fn settings(authority: &Authority) -> String {
    let [certificate, key] = ["own.crt", "own.key"].map(|name| authority.file(name));
    format!("[tls]\ncertificate_file = {certificate:?}\nkey_file = {key:?}\n")
}

/// Have curl fetch a page from an agent, trusting this authority alone.
fn curl(authority: &Authority, agent: SocketAddr, path: &str, more: &[&str]) -> Output {
    Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "90", "--cacert"])
        .arg(authority.file("ca.crt"))
        .args(more)
        .arg(format!("https://localhost:{}{path}", agent.port()))
        .output()
        .unwrap()
}

#[track_caller]
fn text(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn clients_verify_the_certificate_and_the_wire_shows_no_figure() {
    let (host, authority) = (Host::new("tls").unwrap(), Authority::new());
    let agent = Agent::of(&host, &settings(&authority));
    assert!(
        agent
            .process
            .stderr()
            .contains("listening on https://127.0.0.1:")
    );
    let port = agent.address.port().to_string();
    let capture = authority.file("capture");
    let mut tcpdump = Command::new("tcpdump");
    tcpdump
        .args(["-i", "lo", "--immediate-mode", "-U", "-w"])
        .arg(&capture)
        .args(["port", &port]);
    let mut tcpdump = Process::spawn(tcpdump).unwrap();
    wait_for_line(&tcpdump, "listening on");

    talk(&host, 5, Duration::ZERO);
    let figures = text(&curl(&authority, agent.address, "/metrics", &[]));
    assert!(figures.contains("sockstamp_messages_total{"), "{figures}");
    for version in ["-tls1_2", "-tls1_3"] {
        let said = s_client(&authority, &port, version);
        assert!(said.contains("Verification: OK"), "{said}");
    }
    // Another authority; no encryption; a version that is broken.
    let stranger = curl(&Authority::new(), agent.address, "/metrics", &[]);
    assert_eq!(stranger.status.code(), Some(60), "{stranger:?}");
    let mut plain = Command::new("curl");
    plain.args(["--silent", "--max-time", "90"]);
    plain.arg(format!("http://localhost:{port}/metrics"));
    assert!(!plain.output().unwrap().status.success());
    assert!(!s_client(&authority, &port, "-tls1_1").contains("Verification: OK\n"));

    let has = |text: &[u8]| {
        let bytes = fs::read(&capture).unwrap();
        bytes.windows(text.len()).any(|window| window == text)
    };
    // The name that the client asks for is not encrypted.
    wait_until("tcpdump has seen a handshake", || has(b"localhost"));
    tcpdump.signal(Signal::SIGINT).unwrap();
    tcpdump.wait_status(PATIENCE).unwrap();
    assert!(!has(b"sockstamp_"), "figures are encrypted");
}

/// The report of another implementation on its handshake.
fn s_client(authority: &Authority, port: &str, version: &str) -> String {
    let output = Command::new("openssl")
        .args([
            "s_client",
            "-connect",
            &format!("localhost:{port}"),
            version,
            "-brief",
        ])
        .args(["-verify_return_error", "-CAfile"])
        .arg(authority.file("ca.crt"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn prometheus_scrapes_with_encryption_and_a_token() {
    let (host, authority) = (Host::new("tls").unwrap(), Authority::new());
    let token = authority.file("token");
    fs::write(&token, "secret\n").unwrap();
    let settings = format!("token_file = {token:?}\n{}", settings(&authority));
    let agent = Agent::of(&host, &settings);
    talk(&host, 20, Duration::ZERO);
    let trusted = authority.file("ca.crt");
    let how = format!(
        "scheme: https, tls_config: {{ca_file: {}}}, authorization: {{credentials: secret}}",
        trusted.display()
    );
    let prometheus = Prometheus::scraping(agent.address, &how, &[]);
    prometheus.query("sum(sockstamp_messages_total{direction=\"tx\"})", |count| {
        count == 40.0
    });
}

/// A certificate that was renewed is shown from the next connection on; one that does not fit its
/// key is never shown.
#[test]
fn a_renewed_certificate_is_shown_after_sighup() {
    let (host, authority) = (Host::new("tls").unwrap(), Authority::new());
    let agent = Agent::of(&host, &settings(&authority));
    let settings = fs::read_to_string(agent.file()).unwrap();
    let served = |by: &Authority| curl(by, agent.address, "/healthz", &[]).status.code();
    let renewed = Authority::new();
    fs::copy(renewed.file("own.crt"), authority.file("own.crt")).unwrap();
    let said = agent.reload(&settings);
    assert!(
        said.contains("is unchanged") && said.contains("cannot use"),
        "{said}"
    );
    assert_eq!((served(&authority), served(&renewed)), (Some(0), Some(60)));

    fs::copy(renewed.file("own.key"), authority.file("own.key")).unwrap();
    assert!(agent.reload(&settings).contains("read again"));
    assert_eq!((served(&authority), served(&renewed)), (Some(60), Some(0)));
}

/// Another content of the same file is another token.
#[test]
fn another_token_is_wanted_after_sighup() {
    let (host, directory) = (Host::new("tls").unwrap(), TempDir::new().unwrap());
    let token = directory.path().join("token");
    fs::write(&token, "first\n").unwrap();
    let agent = Agent::of(&host, &format!("token_file = {token:?}\n"));
    let settings = fs::read_to_string(agent.file()).unwrap();
    let is_admitted = |token: &str| {
        let header = format!("Authorization: Bearer {token}\r\n");
        let (head, _) = exchange(agent.address, "/config", &header);
        head.contains(" 200 ")
    };
    assert!(is_admitted("first") && !is_admitted("second"));
    fs::write(&token, "second\n").unwrap();
    assert!(agent.reload(&settings).contains("read again"));
    assert!(is_admitted("second") && !is_admitted("first"));
}

#[test]
fn a_snapshot_is_asked_for_with_encryption_of_the_agent_itself_alone() {
    let (host, authority) = (Host::new("tls").unwrap(), Authority::new());
    let directory = TempDir::new().unwrap();
    let hindsight = format!(
        "[hindsight]\ndirectory = {:?}\nmin_free = 1\n",
        directory.path()
    );
    let token = authority.file("token");
    fs::write(&token, "token-of-16-or-more").unwrap();
    let token = format!("token_file = {token:?}\n");
    let agent = Agent::of(
        &host,
        &format!("{token}{}{hindsight}", settings(&authority)),
    );
    let snapshot = || {
        let mut command = Command::new(sockstamp());
        command.args(["agent", "snapshot", "--listen", &agent.address.to_string()]);
        command.arg("--config").arg(agent.file());
        command.output().unwrap()
    };
    talk(&host, 5, Duration::ZERO);
    let kept = text(&snapshot());
    assert!(PathBuf::from(kept.trim_end()).is_dir(), "{kept}");

    let other = Authority::new();
    for name in ["own.crt", "own.key"] {
        fs::copy(other.file(name), authority.file(name)).unwrap();
    }
    let refused = snapshot();
    assert!(!refused.status.success(), "another one answered");
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(errors.contains("invalid peer certificate"), "{errors}");
}

/// Clients that never end their handshake make room for others, as those do that never end their
/// request.
#[test]
fn handshakes_that_never_end_block_no_other_client() {
    within_attempts(ask_beside_silent_clients);
}

fn ask_beside_silent_clients() -> Result<(), String> {
    let (host, authority) = (Host::new("tls").unwrap(), Authority::new());
    let agent = Agent::of(&host, &settings(&authority));
    let mut silent = Vec::new();
    for number in 0..300 {
        let mut client = TcpStream::connect(agent.address).unwrap();
        // The head of a handshake record of 512 bytes (RFC 8446, section 5.1), and no more.
        if number % 2 == 0 {
            client.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
        }
        silent.push(client);
    }
    let begun = Instant::now();
    let figures = text(&curl(&authority, agent.address, "/metrics", &[]));
    let took = begun.elapsed();
    let dropped = figures
        .lines()
        .find_map(|line| line.strip_prefix("sockstamp_dropped_clients_total "))
        .map(|count| count.parse::<f64>().unwrap());
    assert!(dropped.is_some_and(|count| count >= 100.0), "{dropped:?}");
    match took < Duration::from_secs(5) {
        true => Ok(()),
        false => Err(format!("an answer took {took:?}")),
    }
}
