//! The choice of messages that are measured.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use serde_json::Value;
use socket2::SockRef;
use tempfile::NamedTempFile;
use testbed::{Cgroup, Host, Link, PATIENCE, Process};
use testbed_bpf::floor::Floor;
use with::answerer::{Answerer, assert_only};
use with::traced_hosts::{Connection, Messages, outline, wait_acknowledged};
use with::{FAMILIES, Stat, Trace, end, messages, number, sockstamp, start, stat_command};

const ANY_PORT: &str = "127.0.0.1:0";

fn talk(connection: &mut Connection) {
    connection.client.write_all(&[0; 100]).unwrap();
    connection.server.read_exact(&mut [0; 100]).unwrap();
    wait_acknowledged(&connection.client);
}

/// A program that takes the name of its second argument, if it has one, waits for a line, connects
/// to a port, sends, waits for the answer and ends.
const CLIENT: &str = "
import socket, sys
if len(sys.argv) > 2:
    open('/proc/self/comm', 'w').write(sys.argv[2])
print('ready', flush=True)
sys.stdin.readline()
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
s.sendall(b'x' * 100)
s.recv(1)
";

/// A program that exists before it connects.
struct Client(Child);

impl Client {
    fn start(host: &Host, port: u16, place: impl FnOnce(&mut Command)) -> Client {
        let mut command = host.command("python3");
        command.args(["-c", CLIENT, &port.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        place(&mut command);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        Client(child)
    }

    fn id(&self) -> String {
        self.0.id().to_string()
    }

    /// Let it connect and talk, and return the address that it had.
    fn talk(mut self, listener: &TcpListener) -> SocketAddr {
        self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let (mut server, address) = listener.accept().unwrap();
        server.read_exact(&mut [0; 100]).unwrap();
        server.write_all(b"x").unwrap();
        assert!(self.0.wait().unwrap().success());
        address
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The process has ended if the test went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn port_of(listener: &TcpListener) -> u16 {
    listener.local_addr().unwrap().port()
}

/// Assert the messages of a measured program: one send, and one read of the answer.
fn assert_measured(messages: &Messages, client: SocketAddr) {
    assert_eq!(outline(&messages.sent_from(client)), [(100, "valid")]);
    assert_eq!(outline(&messages.read_at(client)), [(1, "valid")]);
}

fn assert_not_measured(messages: &Messages, address: SocketAddr) {
    assert_eq!(outline(&messages.sent_from(address)), []);
    assert_eq!(outline(&messages.read_at(address)), []);
}

#[test]
fn cgroup_selects_sockets_made_in_it() {
    let host = Host::new("corner").unwrap();
    let cgroup = Cgroup::new("corner").unwrap();
    let listener = host.tcp_listen(ANY_PORT.parse().unwrap()).unwrap();
    let inside = Client::start(&host, port_of(&listener), |command| {
        cgroup.start_in(command).unwrap()
    });
    let outside = Client::start(&host, port_of(&listener), |_| {});
    let trace = Trace::start(&["--cgroup", cgroup.path().to_str().unwrap()]);
    let inside = inside.talk(&listener);
    let outside = outside.talk(&listener);

    let messages = Messages::new(trace.finish());
    assert_measured(&messages, inside);
    assert_not_measured(&messages, outside);
    assert_not_measured(&messages, listener.local_addr().unwrap());
}

#[test]
fn pid_selects_only_messages_of_these_processes() {
    let host = Host::new("corner").unwrap();
    let listener = host.tcp_listen(ANY_PORT.parse().unwrap()).unwrap();
    let [first, second, other] = [(); 3].map(|()| Client::start(&host, port_of(&listener), |_| {}));
    let trace = Trace::start(&["-p", &format!("{},{}", first.id(), second.id())]);
    let [first, second, other] = [first, second, other].map(|client| client.talk(&listener));

    let messages = Messages::new(trace.finish());
    assert_measured(&messages, first);
    assert_measured(&messages, second);
    assert_not_measured(&messages, other);
    // This process accepted the connections.
    assert_not_measured(&messages, listener.local_addr().unwrap());
}

/// Where the kernel numbers processes from.
const LAST_NUMBER: &str = "/proc/sys/kernel/ns_last_pid";

/// Start a client that has a number which was another process's.
fn client_numbered(number: u32, host: &Host, port: u16) -> Client {
    let begun = Instant::now();
    loop {
        fs::write(LAST_NUMBER, (number - 1).to_string()).unwrap();
        let client = Client::start(host, port, |_| {});
        if client.0.id() == number {
            return client;
        }
        // Another process of this machine has it, for as long as that lasts.
        assert!(begun.elapsed() < PATIENCE, "{number} is in use");
    }
}

/// As with strace and perf. `--keep` goes on, but not with the process that gets the number next.
#[test]
fn the_end_of_the_last_process_ends_the_measurement() {
    let host = Host::new("corner").unwrap();
    let listener = host.tcp_listen(ANY_PORT.parse().unwrap()).unwrap();
    let [first, second] = [(); 2].map(|()| Client::start(&host, port_of(&listener), |_| {}));
    let number = first.0.id();
    let pids = format!("{},{}", first.id(), second.id());
    let mut ends = start(&["stat", "-p", &pids]);
    let keeps = Trace::start(&["-p", &pids, "--keep"]);
    let first = first.talk(&listener);
    let other = client_numbered(number, &host, port_of(&listener)).talk(&listener);
    assert!(ends.is_running().unwrap());
    let second = second.talk(&listener);
    assert!(ends.wait_status(PATIENCE).unwrap().success());
    let another = client_numbered(number, &host, port_of(&listener)).talk(&listener);

    let messages = Messages::new(keeps.finish());
    assert_measured(&messages, first);
    assert_measured(&messages, second);
    assert_not_measured(&messages, other);
    assert_not_measured(&messages, another);
}

/// A namespace's number is given to the next one as soon as nobody holds it.
#[test]
fn netns_selects_no_namespace_that_comes_after_it() {
    let host = Host::new("corner").unwrap();
    let inode = host.netns_inode();
    let trace = Trace::start(&["--netns", host.netns_name()]);
    drop(host);
    let hosts = [(); 5].map(|()| Host::new("corner").unwrap());
    for host in &hosts {
        let listener = host.tcp_listen(ANY_PORT.parse().unwrap()).unwrap();
        Client::start(host, port_of(&listener), |_| {}).talk(&listener);
        assert_ne!(host.netns_inode(), inode);
    }
    assert!(trace.finish().is_empty());
}

/// The listener exists when the measurement starts; the client is another process.
#[test]
fn pid_selects_connections_of_an_older_listener() {
    let host = Host::new("corner").unwrap();
    let listener = host.tcp_listen(ANY_PORT.parse().unwrap()).unwrap();
    let client = Client::start(&host, port_of(&listener), |_| {});
    let trace = Trace::start(&["-p", &std::process::id().to_string()]);
    let client = client.talk(&listener);

    let messages = Messages::new(trace.finish());
    let server = listener.local_addr().unwrap();
    assert_eq!(outline(&messages.read_at(server)), [(100, "valid")]);
    assert_eq!(outline(&messages.sent_from(server)), [(1, "valid")]);
    assert_not_measured(&messages, client);
}

#[test]
fn comm_selects_processes_of_a_name_including_later_ones() {
    let host = Host::new("corner").unwrap();
    let listener = host.tcp_listen(ANY_PORT.parse().unwrap()).unwrap();
    let client = |name: &str| {
        Client::start(&host, port_of(&listener), |command| {
            command.arg(name);
        })
    };
    let (older, other) = (client("sst-client"), client("sst-client-2"));
    let trace = Trace::start(&["--comm", "sst-none,sst-client"]);
    let (newer, another) = (client("sst-client"), client("sst-clien"));
    let [older, other, newer, another] =
        [older, other, newer, another].map(|client| client.talk(&listener));

    let messages = Messages::new(trace.finish());
    assert_measured(&messages, older);
    assert_measured(&messages, newer);
    assert_not_measured(&messages, other);
    assert_not_measured(&messages, another);
    assert_not_measured(&messages, listener.local_addr().unwrap());
}

/// A process has the name of its first thread, of which the kernel keeps 15 bytes: this one's is
/// longer, and what is measured happens in another thread.
#[test]
fn comm_selects_an_older_listener_and_a_thread_of_another_name() {
    let host = Host::new("corner").unwrap();
    let listener = host.tcp_listen(ANY_PORT.parse().unwrap()).unwrap();
    let server = listener.local_addr().unwrap();
    let client = Client::start(&host, port_of(&listener), |_| {});
    let program = std::env::current_exe().unwrap();
    // The kernel keeps 15 bytes of it.
    let name = &program.file_name().unwrap().to_str().unwrap()[..15];
    // Tests of the same program that run at the same time have hosts of their own.
    let trace = Trace::start(&["--netns", host.netns_name(), "--comm", name]);
    let thread = thread::Builder::new().name("another".into());
    let client = thread.spawn(move || client.talk(&listener)).unwrap();
    let client = client.join().unwrap();

    let messages = Messages::new(trace.finish());
    assert_eq!(outline(&messages.read_at(server)), [(100, "valid")]);
    assert_eq!(outline(&messages.sent_from(server)), [(1, "valid")]);
    assert_not_measured(&messages, client);
}

/// Both conditions hold: the process, and its name.
#[test]
fn pid_and_comm_must_both_hold() {
    let host = Host::new("corner").unwrap();
    let listener = host.tcp_listen(ANY_PORT.parse().unwrap()).unwrap();
    let clients = ["sst-one", "sst-one", "sst-two"].map(|name| {
        Client::start(&host, port_of(&listener), |command| {
            command.arg(name);
        })
    });
    let pids = format!("{},{}", clients[0].id(), clients[2].id());
    let trace = Trace::start(&["-p", &pids, "--comm", "sst-one"]);
    let [both, name_only, pid_only] = clients.map(|client| client.talk(&listener));

    let messages = Messages::new(trace.finish());
    assert_measured(&messages, both);
    assert_not_measured(&messages, name_only);
    assert_not_measured(&messages, pid_only);
}

/// On the same host and port, over the link and over loopback; connections opened from either side.
#[test]
fn interface_selects_by_the_route_to_the_peer() {
    let (here, there) = (Host::new("here").unwrap(), Host::new("there").unwrap());
    let link = Link::veth(&here, &there).unwrap();
    for family in FAMILIES {
        let target = ["--netns", here.netns_name(), "-i", link.interface_a()];
        let trace = Trace::start(&target);
        let mut connections = [
            Connection::new(&here, &there, link.address_b(family)),
            Connection::new(&there, &here, link.address_a(family)),
            // A connection to its own address, by the interface lo.
            Connection::new(&here, &here, link.address_a(family)),
        ];
        connections.iter_mut().for_each(talk);
        let [opened, accepted, local] = connections;

        let messages = Messages::new(trace.finish());
        assert_eq!(
            outline(&messages.sent_from(opened.client_address)),
            [(100, "valid")]
        );
        assert_eq!(
            outline(&messages.read_at(accepted.server_address)),
            [(100, "valid")]
        );
        for elsewhere in [opened.server_address, accepted.client_address] {
            assert_not_measured(&messages, elsewhere);
        }
        assert_not_measured(&messages, local.client_address);
        assert_not_measured(&messages, local.server_address);
    }
}

/// A socket forgets its route when its mark is set (`__sock_set_mark()`, net/core/sock.c), and
/// keeps one again from the next packet on.
#[test]
fn interface_counts_a_connection_without_a_route_as_lost() {
    let host = Host::new("corner").unwrap();
    let mut connection = Connection::new(&host, &host, Ipv4Addr::LOCALHOST.into());
    wait_acknowledged(&connection.client);
    SockRef::from(&connection.client).set_mark(1).unwrap();
    let stat = Stat::start(&["--netns", host.netns_name(), "-i", "lo"]);
    talk(&mut connection);

    let report = stat.finish();
    assert_eq!(number(&report["lost"]["flows"]), 1, "{report}");
    assert_eq!(number(&report["tx"]["messages"]), 0, "{report}");
    assert_eq!(number(&report["rx"]["messages"]), 1, "{report}");
}

#[test]
fn netns_selects_by_name_or_by_a_process_in_it() {
    let inside = Host::new("inside").unwrap();
    let outside = Host::new("outside").unwrap();
    let process = inside.spawn("sleep", &["60"]).unwrap();
    for target in [inside.netns_name().to_owned(), process.id().to_string()] {
        let trace = Trace::start(&["--netns", &target]);
        let [measured, other] = [&inside, &outside].map(|host| {
            let mut connection = Connection::new(host, host, Ipv4Addr::LOCALHOST.into());
            talk(&mut connection);
            connection
        });
        let messages = Messages::new(trace.finish());
        assert_eq!(
            outline(&messages.sent_from(measured.client_address)),
            [(100, "valid")]
        );
        assert_eq!(
            outline(&messages.read_at(measured.server_address)),
            [(100, "valid")]
        );
        assert_not_measured(&messages, other.client_address);
        assert_not_measured(&messages, other.server_address);
    }
}

#[test]
fn new_only_leaves_older_connections_alone() {
    let host = Host::new("corner").unwrap();
    let mut older = Connection::new(&host, &host, Ipv4Addr::LOCALHOST.into());
    let trace = Trace::start(&["--netns", host.netns_name(), "--new-only"]);
    talk(&mut older);
    let mut newer = Connection::new(&host, &host, Ipv4Addr::LOCALHOST.into());
    talk(&mut newer);

    let messages = Messages::new(trace.finish());
    assert_not_measured(&messages, older.client_address);
    assert_not_measured(&messages, older.server_address);
    assert_eq!(
        outline(&messages.sent_from(newer.client_address)),
        [(100, "valid")]
    );
}

/// Connect to a port and send this many messages.
const SEND: &str = "
import socket, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for _ in range(int(sys.argv[2])):
    s.sendall(b'x')
    s.recv(1)
";

/// Answers each byte with one.
const ECHO: &str = "
import socket
listener = socket.create_server(('127.0.0.1', 7))
while True:
    s, _ = listener.accept()
    while s.recv(1):
        s.sendall(b'x')
    s.close()
";

fn echo_server(host: &Host) -> Process {
    let server = host.spawn("python3", &["-c", ECHO]).unwrap();
    host.wait_for_port("127.0.0.1:7".parse().unwrap(), PATIENCE)
        .unwrap();
    server
}

/// A command's own measurement counts its messages, and one of everything counts them as well. The
/// end of the one takes nothing from the other, on connections that exist already either.
#[test]
fn two_measurements_at_a_time_do_not_disturb_each_other() {
    let host = Host::new("corner").unwrap();
    let _server = echo_server(&host);
    // A measurement that starts sends itself a datagram, to see whether the kernel stamps it.
    let of_host = Stat::start(&["--netns", host.netns_name(), "tcp"]);
    let mut older = Connection::new(&host, &host, Ipv4Addr::LOCALHOST.into());
    talk(&mut older);
    let measured = stat_command(&host, &["python3", "-c", SEND, "7", "20"]);
    assert!(measured.status.success(), "{}", measured.stderr);
    talk(&mut older);

    let of_command = measured.report;
    assert_eq!(number(&of_command["tx"]["messages"]), 20, "{of_command}");
    assert_eq!(number(&of_command["rx"]["messages"]), 20, "{of_command}");
    assert_eq!(number(&of_command["verdicts"]["valid"]), 40, "{of_command}");
    let of_host = of_host.finish();
    assert_eq!(number(&of_host["tx"]["messages"]), 42, "{of_host}");
    assert_eq!(number(&of_host["rx"]["messages"]), 42, "{of_host}");
    assert_eq!(number(&of_host["verdicts"]["valid"]), 84, "{of_host}");
}

/// The id of a loaded program: `/proc/PID/fdinfo` of its descriptor (`bpf_prog_show_fdinfo()`,
/// kernel/bpf/syscall.c).
fn program_id(program: &impl AsRawFd) -> String {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd())).unwrap();
    let id = text.lines().find_map(|line| line.strip_prefix("prog_id:"));
    id.unwrap().trim().to_owned()
}

/// Attach exclusively, as systemd does for IPAddressDeny= and IPAddressAllow= of a service.
fn admit_no_further_program(cgroup: &Cgroup, programs: &[(String, BorrowedFd<'_>)]) {
    let (_, program) = programs
        .iter()
        .find(|(name, _)| name == "floor_cgroup_ingress")
        .unwrap();
    let path = cgroup.path().to_str().unwrap();
    let attached = Command::new("bpftool")
        .args([
            "cgroup",
            "attach",
            path,
            "cgroup_inet_ingress",
            "id",
            &program_id(program),
        ])
        .status();
    assert!(attached.unwrap().success());
}

#[test]
fn tcp_is_measured_where_the_cgroup_admits_no_program_for_udp() {
    let (top, elsewhere) = (
        Cgroup::new("restricted").unwrap(),
        Cgroup::new("elsewhere").unwrap(),
    );
    let floor = Floor::attach(elsewhere.path()).unwrap();
    admit_no_further_program(&top, &floor.programs());
    let below = top.below("below").unwrap();
    let host = Host::new("restricted").unwrap();
    for cgroup in [&top, &below] {
        let mut answerer = Answerer::start(&host, Some(cgroup));
        let output = NamedTempFile::new().unwrap();
        let path = output.path().to_str().unwrap();
        let words = [
            "trace",
            "--every",
            "--max-cost=none",
            "--format",
            "json",
            "-o",
            path,
        ];
        let target = ["--cgroup", cgroup.path().to_str().unwrap()];
        let process = start(&[&words[..], &target].concat());
        answerer.ask();
        let said = end(process).stderr();
        assert!(
            said.contains(
                "UDP is not measured: a program in the cgroup, such as that of IPAddressAllow="
            ),
            "{said}"
        );
        assert_only(&Messages::new(messages(output.path())), &answerer, &[]);
        let doctor = Command::new(sockstamp())
            .args(["doctor", "--format", "json", "--cgroup"])
            .arg(cgroup.path())
            .output()
            .unwrap();
        let plan: Value = serde_json::from_slice(&doctor.stdout).unwrap();
        let reason = plan["udp"]["absent"].as_str().unwrap();
        assert!(
            said.contains(&format!("UDP is not measured: {reason}")),
            "{plan}"
        );
    }
    // A filter for TCP only avoids the remark.
    let stat = Stat::start(&["--cgroup", top.path().to_str().unwrap(), "tcp"]);
    drop(stat.finish());
}
