//! Ordinary loads without a fault: `stat` ends without a diagnosis.

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use testbed::{Family, Host, PATIENCE, within_attempts};
use with::last_line::{last_line_on, last_line_while, silent, undisturbed};
use with::pair::{Pair, REAL_TIME};

/// Return the last line of `stat` of a load that has a CPU whenever it wants one: on a busy machine
/// the wait for that is no false diagnosis.
fn quiet_line_on(host: &Host, load: &[&str]) -> String {
    last_line_on(host, &[&["chrt"][..], &REAL_TIME, load].concat())
}

fn localhost(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

#[test]
fn an_idle_host_has_no_diagnosis() {
    let host = Host::new("idle").unwrap();
    let target = ["--netns", host.netns_name()];
    let line = last_line_while(&target, || thread::sleep(Duration::from_millis(100)));
    assert!(line.starts_with("no messages in "), "{line}");
}

#[test]
fn redis_benchmark_has_no_diagnosis() {
    let host = Host::new("redis").unwrap();
    let words = ["--save", "", "--appendonly", "no"];
    let _server = host.spawn("redis-server", &words).unwrap();
    host.wait_for_port(localhost(6379), PATIENCE).unwrap();
    let load = [
        "redis-benchmark",
        "-c",
        "4",
        "-n",
        "5000",
        "-t",
        "set,get",
        "-q",
    ];
    within_attempts(|| undisturbed(quiet_line_on(&host, &load)));
}

#[test]
fn iperf3_has_no_diagnosis() {
    let pair = Pair::veth(Family::V4);
    let _server = pair.server.spawn("iperf3", &["-s"]).unwrap();
    let address = pair.address.ip();
    pair.server
        .wait_for_port(SocketAddr::new(address, 5201), PATIENCE)
        .unwrap();
    let load = ["iperf3", "-c", &address.to_string(), "-t", "2"];
    // The server has a CPU when others leave one: in real time, both ends would leave none to the
    // kernel's own threads.
    within_attempts(|| silent(quiet_line_on(&pair.client, &load)));
}

#[test]
fn a_web_server_has_no_diagnosis() {
    let host = Host::new("web").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let configuration = format!(
        "daemon off; master_process off; user root; pid {at}/pid; error_log {at}/errors; events {{}}\n\
         http {{ access_log off; server {{ listen 8080; return 200; }} }}\n"
    );
    let file = folder.path().join("nginx.conf");
    fs::write(&file, configuration).unwrap();
    let _server = host
        .spawn("nginx", &["-c", file.to_str().unwrap()])
        .unwrap();
    host.wait_for_port(localhost(8080), PATIENCE).unwrap();
    let load = [
        "wrk",
        "-t",
        "1",
        "-c",
        "2",
        "-d",
        "1",
        "http://127.0.0.1:8080/",
    ];
    within_attempts(|| undisturbed(quiet_line_on(&host, &load)));
}

#[test]
fn a_chat_has_no_diagnosis() {
    let pair = Pair::veth(Family::V4);
    let _serve = pair.serve(&["serve"]);
    let (address, peer) = (pair.address.to_string(), with::peer());
    let load = [&peer[..], "client", "--count", "30", "--interval-ms", "40"];
    let load = [&load[..], &["--connect", &address]].concat();
    within_attempts(|| undisturbed(quiet_line_on(&pair.client, &load)));
}

#[test]
fn dns_at_a_rate_has_no_diagnosis() {
    let host = Host::new("dns").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let configuration = folder.path().join("dnsmasq.conf");
    let text = "no-resolv\nno-hosts\nuser=root\npid-file=\nlisten-address=127.0.0.1\nbind-interfaces\n\
                host-record=one.test,192.0.2.1\n";
    fs::write(&configuration, text).unwrap();
    let file = format!("--conf-file={}", configuration.display());
    let _server = host
        .spawn("dnsmasq", &["--keep-in-foreground", &file])
        .unwrap();
    host.wait_for_port(localhost(53), PATIENCE).unwrap();
    let questions = folder.path().join("questions");
    fs::write(&questions, "one.test A\n".repeat(200)).unwrap();
    let load = ["dig", "-r", "@127.0.0.1", "-f", questions.to_str().unwrap()];
    within_attempts(|| undisturbed(quiet_line_on(&host, &load)));
}
