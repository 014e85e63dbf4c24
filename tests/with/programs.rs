//! Ordinary programs, as people run them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use testbed::{Host, PATIENCE, Process};

use crate::wait_until;

pub const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// redis-server, on its usual port.
pub struct Redis {
    pub server: Process,
    pub address: SocketAddr,
}

impl Redis {
    pub fn start(host: &Host, address: IpAddr, options: &[&str]) -> Redis {
        Redis::spawn(host.command("redis-server"), host, address, options)
    }

    /// Start it by a command that ends with its name.
    pub fn spawn(mut command: Command, host: &Host, address: IpAddr, options: &[&str]) -> Redis {
        command.args([
            "--save",
            "",
            "--protected-mode",
            "no",
            "--enable-debug-command",
            "yes",
        ]);
        command.args(options);
        let server = Process::spawn(command).unwrap();
        let address = SocketAddr::new(address, 6379);
        host.wait_for_port(address, PATIENCE).unwrap();
        Redis { server, address }
    }

    /// The words of redis-benchmark.
    pub fn benchmark(&self, options: &str) -> String {
        format!(
            "redis-benchmark -h {} -t ping_inline -q {options}",
            self.address.ip()
        )
    }

    /// The words of redis-cli.
    pub fn client(&self, words: &str) -> String {
        format!("redis-cli -h {} {words}", self.address.ip())
    }
}

/// A service whose threads wait for a lock that another one holds most of the time.
const LOCKED: &str = "
import socket, threading, time
lock = threading.Lock()
def hold():
    while True:
        with lock: time.sleep(0.12)
        time.sleep(0.002)
def answer(client):
    while client.recv(100):
        with lock: pass
        client.send(b'!')
threading.Thread(target=hold, daemon=True).start()
service = socket.create_server(('127.0.0.1', 8077))
while True:
    threading.Thread(target=answer, args=service.accept()[:1], daemon=True).start()
";

/// A program that asks twenty times a second, as long as the answers let it.
const ASKER: &str = "
import socket, time
service = socket.create_connection(('127.0.0.1', 8077))
while True: service.send(b'?'); service.recv(9); time.sleep(0.05)
";

/// Start a service that is slow for its lock, and a program that asks it, at port 8077.
pub fn locked_service(host: &Host) -> [Process; 2] {
    let service = host.spawn("python3", &["-c", LOCKED]).unwrap();
    let address = SocketAddr::new(LOCALHOST, 8077);
    host.wait_for_port(address, PATIENCE).unwrap();
    let asker = host.spawn("python3", &["-c", ASKER]).unwrap();
    [service, asker]
}

/// Run words as a command of a host.
pub fn run(host: &Host, words: &str) {
    let words: Vec<_> = words.split(' ').collect();
    host.run(words[0], &words[1..]).unwrap();
}

/// Start nginx with these servers, and wait for their ports. Its files are in a folder.
pub fn nginx(
    host: &Host,
    folder: &Path,
    name: &str,
    servers: &str,
    ports: &[SocketAddr],
) -> Process {
    let at = folder.join(name);
    let at = at.display();
    let configuration = format!(
        "daemon off; master_process off; user root; pid {at}.pid; error_log {at}.errors;\n\
         events {{ worker_connections 1000; }} http {{ access_log off; {servers} }}\n"
    );
    let file = folder.join(format!("{name}.conf"));
    fs::write(&file, configuration).unwrap();
    let nginx = host
        .spawn("nginx", &["-c", file.to_str().unwrap()])
        .unwrap();
    for port in ports {
        host.wait_for_port(*port, PATIENCE)
            .unwrap_or_else(|error| panic!("{error}: {}", nginx.stderr()));
    }
    nginx
}

/// Start nginx with one page of this many bytes, at `/page`.
pub fn nginx_with_page(host: &Host, folder: &Path, bytes: usize, address: SocketAddr) -> Process {
    fs::write(folder.join("page"), vec![b'.'; bytes]).unwrap();
    let server = format!(
        "server {{ listen {}; root {}; }}",
        address.port(),
        folder.display()
    );
    nginx(host, folder, "nginx", &server, &[address])
}

/// Start Python's own web server for the files of a folder, and wait for its port.
pub fn serve_files(host: &Host, folder: &Path, address: SocketAddr) -> Process {
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let folder = folder.to_str().unwrap();
    let words = [
        "-m",
        "http.server",
        "--bind",
        &ip,
        "--directory",
        folder,
        &port,
    ];
    let server = host.spawn("python3", &words).unwrap();
    host.wait_for_port(address, PATIENCE)
        .unwrap_or_else(|error| panic!("{error}: {}", server.stderr()));
    server
}

/// Answers HTTP requests: its address, port, and seconds of sleep and of work for each.
const WEB: &str = "
import http.server, sys, time
address, port, sleep, work = sys.argv[1:]
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        time.sleep(float(sleep))
        begin = time.process_time()
        while time.process_time() < begin + float(work):
            pass
        self.send_response(200)
        self.send_header('Content-Length', '0')
        self.end_headers()
    def log_message(self, *arguments):
        pass
http.server.ThreadingHTTPServer((address, int(port)), Handler).serve_forever()
";

/// Return the command of a web server that sleeps and works for each answer.
pub fn slow_web(host: &Host, program: &[&str], address: SocketAddr, seconds: [&str; 2]) -> Command {
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let words = [program, &["python3", "-c", WEB, &ip, &port], &seconds].concat();
    let mut command = host.command(words[0]);
    command.args(&words[1..]);
    command
}

/// Start that server, and wait for its port.
pub fn start_slow_web(host: &Host, address: SocketAddr, seconds: [&str; 2]) -> Process {
    let server = Process::spawn(slow_web(host, &[], address, seconds)).unwrap();
    host.wait_for_port(address, PATIENCE)
        .unwrap_or_else(|error| panic!("{error}: {}", server.stderr()));
    server
}

/// Answers questions of 128 bytes.
const CHAT: &str = "
import socket, sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    served, _ = listener.accept()
    while len(served.recv(128, socket.MSG_WAITALL)) == 128:
        served.sendall(b'.' * 128)
";

/// Ask 20 questions in two halves, with a pause between them. `cork` holds the first half back.
const HALVES: &str = "
import socket, sys, time
client = socket.create_connection((sys.argv[1], int(sys.argv[2])))
pause, cork = float(sys.argv[3]), sys.argv[4] == 'cork'
for _ in range(20):
    if cork:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    client.sendall(b'.' * 64)
    time.sleep(pause)
    client.sendall(b'.' * 64)
    if cork:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    client.recv(128, socket.MSG_WAITALL)
";

pub fn start_chat(host: &Host, address: SocketAddr) -> Process {
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let server = host.spawn("python3", &["-c", CHAT, &ip, &port]).unwrap();
    host.wait_for_port(address, PATIENCE)
        .unwrap_or_else(|error| panic!("{error}: {}", server.stderr()));
    server
}

/// Return the command that asks in halves.
pub fn halves(address: SocketAddr, pause: &str, cork: bool) -> [String; 7] {
    let cork = if cork { "cork" } else { "" };
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    ["python3", "-c", HALVES, &ip, &port, pause, cork].map(str::to_owned)
}

/// Start redis on one CPU, where its neighbours will have forty times its weight.
pub fn redis_with_little_weight(host: &Host) -> Redis {
    let mut command = host.command("taskset");
    command.args(["--cpu-list", "0", "nice", "-n", "10", "redis-server"]);
    Redis::spawn(command, host, LOCALHOST, &[])
}

/// Keep that CPU busy. With one neighbour, a reader that slept for long often waits for less than a
/// slice.
pub fn busy_neighbours(host: &Host) -> [Process; 3] {
    let words = "--cpu-list 0 nice -n -7 sh -c";
    let mut busy: Vec<&str> = words.split(' ').collect();
    busy.push("while :; do :; done");
    [(); 3].map(|()| host.spawn("taskset", &busy).unwrap())
}

/// Run a Python program that writes the file of its first argument when it is ready.
pub fn start_script(host: &Host, script: &str) -> Process {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let arguments = ["-c", script, ready.to_str().unwrap()];
    let mut server = host.spawn("python3", &arguments).unwrap();
    wait_until("the program is ready", || {
        assert!(server.is_running().unwrap(), "{}", server.stderr());
        ready.exists()
    });
    server
}

/// Answers DNS questions for any name with 192.0.2.1 after 300 ms.
const SLOW_DNS: &str = "
import socket, sys, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(('127.0.0.1', 53))
open(sys.argv[1], 'w').close()
while True:
    question, peer = server.recvfrom(512)
    time.sleep(0.3)
    end = question.index(b'\\0', 12) + 5
    head = question[:2] + b'\\x85\\x80' + b'\\0\\1' + b'\\0\\1' + b'\\0' * 4
    answer = b'\\xc0\\x0c' + b'\\0\\1\\0\\1' + b'\\0\\0\\0\\x3c' + b'\\0\\4' + bytes([192, 0, 2, 1])
    server.sendto(head + question[12:end] + answer, peer)
";

pub fn start_slow_dns(host: &Host) -> Process {
    start_script(host, SLOW_DNS)
}

/// Return the number of connections that wait for accept(): Recv-Q of ss(8).
pub fn waiting(host: &Host) -> u64 {
    let text = host.run("ss", &["-Hlnt", "sport = 6379"]).unwrap();
    text.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Connects one socket twice: connect(2) with AF_UNSPEC, which is 0, dissolves a connection.
pub const AGAIN: &str = "
import ctypes, socket
c = ctypes.CDLL(None, use_errno=True)
client = socket.socket()
for port in (7001, 7002):
    listener = socket.create_server(('127.0.0.1', port))
    client.connect(('127.0.0.1', port))
    server, _ = listener.accept()
    client.sendall(b'x' * 100)
    assert len(server.recv(100)) == 100
    server.sendall(b'x' * 50)
    assert len(client.recv(50)) == 50
    assert c.connect(client.fileno(), bytes(16), 16) == 0
";

/// Wait until nothing is unread at this UDP port of a host.
pub fn wait_read(host: &Host, port: u16) {
    let of_port = ["-Hanu", &format!("sport = {port}")];
    wait_until("all datagrams are read", || {
        let text = host.run("ss", &of_port).unwrap();
        text.split_whitespace().nth(1) == Some("0")
    });
}
