//! A process whose memory does not come to its reader.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::{Host, PATIENCE, Process};
use with::skip;

const HOSTILE: u16 = 7001;
const HONEST: u16 = 7002;
/// Looks at a process go on for ten seconds after its last slow answer.
const ASKED: usize = 15;

/// The server of the page: a process that waits for the page ends after it.
struct Server(Pid);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGKILL);
    }
}

fn service(host: &Host, port: u16, file: Option<&Path>) -> Process {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/corner_cases/absent_page.py");
    let mut command = host.command("unshare");
    command.args(["--mount", "python3", script, &port.to_string()]);
    command.args(file);
    let service = Process::spawn(command).unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    host.enter(|| wait_for_listener(address));
    service
}

/// Wait without a connection, of which it accepts one.
fn wait_for_listener(address: SocketAddr) {
    let wanted = format!("0100007F:{:04X} 00000000:0000 0A", address.port());
    with::wait_until("the service listens", || {
        let listed = std::fs::read_to_string("/proc/thread-self/net/tcp");
        listed.unwrap().contains(&wanted)
    });
}

/// Wait until a child of this process sleeps for a page of another's memory.
fn wait_for_reader(parent: u32) {
    let reads = |child: &str| {
        let stack = std::fs::read_to_string(format!("/proc/{child}/stack"));
        stack.is_ok_and(|stack| stack.contains("access_remote_vm"))
    };
    with::wait_until("a reader waits for the page", || {
        let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap();
        let children = tasks.flatten().map(|task| task.path().join("children"));
        let mut children = children.filter_map(|path| std::fs::read_to_string(path).ok());
        children.any(|children| children.split_whitespace().any(reads))
    });
}

fn ask(client: &mut TcpStream) {
    client.write_all(b"?").unwrap();
    client.read_exact(&mut [0]).unwrap();
}

#[test]
fn a_page_that_does_not_come_hides_no_other_process_and_delays_no_end() {
    if !Path::new("/dev/fuse").exists() {
        skip(
            "absent_page::a_page_that_does_not_come_hides_no_other_process_and_delays_no_end",
            "the kernel has no FUSE",
        );
        return;
    }
    let host = Host::new("absent").unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut hostile = service(&host, HOSTILE, Some(file.path()));
    let _honest = service(&host, HONEST, None);
    let connect = |port| {
        host.tcp_connect((Ipv4Addr::LOCALHOST, port).into())
            .unwrap()
    };
    let target = ["--netns", host.netns_name(), "tcp"];
    let mut explain = with::start(&[&["explain"], &target[..]].concat());
    let mut to_hostile = connect(HOSTILE);
    (0..3).for_each(|_| ask(&mut to_hostile));
    hostile.wait_for_stdout("\n", PATIENCE).unwrap();
    let server = hostile.stdout().split_whitespace().last().map(str::parse);
    let server = Server(Pid::from_raw(server.unwrap().unwrap()));
    wait_for_reader(explain.id());
    let mut to_honest = connect(HONEST);
    (0..ASKED).for_each(|_| ask(&mut to_honest));
    explain.signal(Signal::SIGINT).unwrap();
    let ended = explain.wait_status(PATIENCE);
    let text = explain.stdout();
    // Where it has not ended, it does now, and so does the reader of the page.
    drop(server);
    assert!(ended.unwrap().success(), "{text}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let served = text.split(&format!("at :{HONEST} takes")).nth(1);
    let said = "its tasks sleep: a timer of their own";
    assert!(served.is_some_and(|served| served.contains(said)), "{text}");
}
