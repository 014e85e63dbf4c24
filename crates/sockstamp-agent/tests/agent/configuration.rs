//! The file of settings: checked whole, read again as a whole.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::{NamedTempFile, TempDir};
use testbed::Host;
use with::agent::{Agent, Scrape, talk};
use with::authority::Authority;
use with::sockstamp;

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
    assert_eq!(
        check("sample = \"5/s\"\n"),
        (true, "FILE: good\n".to_owned())
    );
    for (wrong, reason) in [
        (
            "sample = \"5/s\"\n\n[target]\nfilter = \"tcp port\"\n",
            "4:10: filter, column 9: expected ",
        ),
        ("ratecap = 5\n", "1:1: unknown field `ratecap`"),
        (
            "expire = \"0s\"",
            "1:10: expire: it is a time of 1s or longer",
        ),
        (
            "expire = \"-5s\"",
            "1:10: expire: it is not a number with us, ms, s, m or h",
        ),
        (
            "by = [\"port\"]\n\"netstacklat\" = true",
            "2:1: netstacklat needs ",
        ),
        ("[target]\ncgroup = \"\"", "2:10: cgroup: it is empty"),
        (
            "[hindsight]\ndirectory = \"a\"",
            "2:13: directory: \"a\" does not ",
        ),
        (
            "[otlp]\nendpoint = \"http://127.0.0.1:99999/x\"",
            "2:12: endpoint: \":99999\" is no port: ",
        ),
        (
            "[otlp]\nendpoint = \"http://:80\"",
            "2:12: endpoint: \"http://:80\" has no host: ",
        ),
        (
            "[otlp]\nendpoint = \"http://a\"\nca_file = \"/a\"",
            "3:1: ca_file of [otlp] needs ",
        ),
    ] {
        let (good, text) = check(wrong);
        let begin = format!("sockstamp: FILE:{reason}");
        assert!(!good && text.starts_with(&begin), "{wrong}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(!text.contains("\\n"), "{text}");
    }
}

#[test]
fn a_rule_that_turns_everything_off_is_good_but_warned_of() {
    let (is_good, text) = check("[[rule]]\nmatch = {}\noff = true\n");
    let warning = "sockstamp: FILE: [[rule]] 1: it matches every group and has off = true";
    assert!(is_good && text.contains(warning), "{text}");
}

/// Opening a pipe waits for a writer, and there is none.
#[test]
fn secrets_are_read_from_regular_files_of_a_bounded_size() {
    let authority = Authority::new();
    let [certificate, key] = ["own.crt", "own.key"].map(|name| authority.file(name));
    let folder = TempDir::new().unwrap();
    let [pipe, large] = ["pipe", "large"].map(|name| folder.path().join(name));
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    fs::write(&large, vec![b'a'; (1 << 20) + 1]).unwrap();
    for (file, reason) in [
        (pipe, "pipe is not a regular file: "),
        (large, "large has more than "),
    ] {
        for settings in [
            format!("token_file = {file:?}"),
            format!("[tls]\ncertificate_file = {file:?}\nkey_file = {key:?}"),
            format!("[tls]\ncertificate_file = {certificate:?}\nkey_file = {file:?}"),
            format!("[otlp]\nendpoint = \"http://a\"\ntoken_file = {file:?}"),
            format!("[otlp]\nendpoint = \"https://a\"\nca_file = {file:?}"),
        ] {
            let (good, text) = check(&settings);
            assert!(!good && text.contains(reason), "{settings}: {text}");
        }
    }
}

/// As the unit does before the start, which would end for the same reason.
#[test]
fn what_the_file_names_is_checked_too() {
    let authority = Authority::new();
    let [certificate, key, ca] = ["own.crt", "own.key", "ca.crt"].map(|name| authority.file(name));
    let folder = TempDir::new().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "0123456789abcdef\n").unwrap();
    fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
    let good = format!(
        "token_file = {token:?}\n[tls]\ncertificate_file = {certificate:?}\nkey_file = {key:?}\n\
         [otlp]\nendpoint = \"https://a\"\ntoken_file = {token:?}\nca_file = {ca:?}\n\
         [hindsight]\ndirectory = {:?}\n",
        folder.path()
    );
    assert_eq!(check(&good), (true, "FILE: good\n".to_owned()));
    fs::write(&token, "x\n").unwrap();
    fs::set_permissions(&token, Permissions::from_mode(0o644)).unwrap();
    let (is_good, text) = check(&good);
    for warning in ["its token can be guessed", "can be read by others"] {
        assert!(is_good && text.contains(warning), "{text}");
    }
    fs::set_permissions(&token, Permissions::from_mode(0o666)).unwrap();
    let (is_good, text) = check(&good);
    assert!(
        !is_good && text.contains("can be written by others"),
        "{text}"
    );
    let endpoint = "[otlp]\nendpoint =";
    for (wrong, reason) in [
        (
            "token_file = \"/nowhere\"".to_owned(),
            "cannot read /nowhere",
        ),
        (
            format!("[tls]\ncertificate_file = {certificate:?}\nkey_file = {ca:?}"),
            "ca.crt has no key",
        ),
        (
            format!("[tls]\ncertificate_file = {token:?}\nkey_file = {key:?}"),
            "token has no certificate",
        ),
        (
            format!("{endpoint} \"http://a\"\ntoken_file = \"/nowhere\""),
            "cannot read /nowhere",
        ),
        (
            format!("{endpoint} \"https://a\"\nca_file = \"/nowhere\""),
            "cannot read /nowhere",
        ),
        (
            format!("[hindsight]\ndirectory = {token:?}"),
            "cannot create ",
        ),
        (
            "[target]\nnetns = \"nowhere\"".to_owned(),
            "sockstamp: FILE: [target]: ",
        ),
    ] {
        let (is_good, text) = check(&wrong);
        assert!(!is_good && text.contains(reason), "{wrong}: {text}");
    }
}

/// The last of its settings is wrong, and the first would be seen by the programs.
#[test]
fn a_refused_file_changes_nothing() {
    let host = Host::new("agent").unwrap();
    let agent = Agent::of(&host, "");
    let sent = |scrape: &Scrape| scrape.sum("sockstamp_messages_total", &["direction=\"tx\""]);
    let said = agent.reload(&format!(
        "sample = \"7/s\"\n[target]\nnetns = \"{}\"\nfilter = \"port 1\"\n\
         [otlp]\nendpoint = \"http://127.0.0.1:1\"\ntoken_file = \"/nowhere\"",
        host.netns_name()
    ));
    assert!(
        said.contains("is unchanged: cannot read /nowhere"),
        "{said}"
    );
    talk(&host, 5, Duration::ZERO);
    assert_eq!(sent(&agent.scrape()), 10.0);
    assert!(agent.get("/config").contains("sample = \"1000000/s\""));
}

/// A client counts its own messages while sessions replace each other. A message that ends while
/// the old one's programs are detached is in both; one that is in neither would be lost.
#[test]
fn reloads_under_load_lose_no_message() {
    const RELOADS: u32 = 5;
    let host = Host::new("agent").unwrap();
    let agent = Agent::of(&host, "[probe]\nenabled = false\n");
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    let mut during = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                client.write_all(&[0; 100]).unwrap();
                server.read_exact(&mut [0; 100]).unwrap();
                sent.fetch_add(1, Ordering::Relaxed);
            }
        });
        for number in 0..RELOADS {
            let before = sent.load(Ordering::Relaxed);
            let said = agent.reload(&format!(
                "sample = \"{}/s\"\nmax_cost = \"none\"\n[probe]\nenabled = false\n[target]\nnetns = \"{}\"",
                2_000_000 + number,
                host.netns_name()
            ));
            assert!(said.contains("read again"), "{said}");
            during += sent.load(Ordering::Relaxed) - before;
            // One session alone counts these.
            thread::sleep(Duration::from_secs(1));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let (sent, during) = (sent.into_inner() as f64, during as f64);
    let scrape = agent.scrape();
    for direction in ["direction=\"tx\"", "direction=\"rx\""] {
        let counted = scrape.sum("sockstamp_messages_total", &[direction]);
        let said = format!("{direction}: {sent} sent, {during} of them meanwhile; {counted}");
        println!("{said}");
        assert!(
            (sent - 10.0..=sent + during + 10.0).contains(&counted),
            "{said}"
        );
    }
}

/// Counters continue when the measured target changes, which loads new programs.
#[test]
fn settings_are_read_again_or_stay_as_they_were() {
    let host = Host::new("agent").unwrap();
    // With a ceiling, whatever else the host does may have messages counted by windows.
    let target = format!(
        "\nmax_cost = \"none\"\n[target]\nnetns = \"{}\"",
        host.netns_name()
    );
    let agent = Agent::of(&host, "");
    talk(&host, 5, Duration::ZERO);
    assert_eq!(
        agent
            .scrape()
            .sum("sockstamp_messages_total", &["direction=\"tx\""]),
        10.0
    );

    for (wrong, reason) in [
        ("sample = \"x\"".to_owned(), "agent.toml:1:10: "),
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

    let said = agent.reload(&format!("sample = \"2000000/s\"\n{target}"));
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
