//! An agent under test, its text, and traffic for it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sockstamp_model::stage::Stage;
use tempfile::TempDir;
use testbed::{Host, PATIENCE, Process};

use crate::{sockstamp, wait_attached};

/// Scrapes within 200 ms share a reading of the counters.
pub const SHARED: Duration = Duration::from_millis(210);

/// An agent, and its file of settings.
pub struct Agent {
    pub process: Process,
    pub address: SocketAddr,
    directory: TempDir,
}

impl Agent {
    /// Start one with these settings and return when it measures.
    pub fn start(settings: &str) -> Agent {
        Agent::by(Command::new(sockstamp()), settings)
    }

    /// As [`start`](Self::start), by a command that becomes sockstamp.
    pub fn by(mut command: Command, settings: &str) -> Agent {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("agent.toml");
        fs::write(&file, settings).unwrap();
        command
            .args(["agent", "--listen", "127.0.0.1:0", "--config"])
            .arg(&file);
        let mut process = Process::spawn(command).unwrap();
        wait_attached(&mut process);
        let address = wait_for_line(&process, "listening on http");
        let address = address
            .trim_start_matches("s")
            .trim_start_matches("://")
            .parse()
            .unwrap();
        Agent {
            process,
            address,
            directory,
        }
    }

    /// Measure every message of a host.
    pub fn of(host: &Host, more: &str) -> Agent {
        Agent::start(&format!(
            "sample = \"1000000/s\"\nmax_cost = \"none\"\n{more}\n[target]\nnetns = \"{}\"",
            host.netns_name()
        ))
    }

    /// The capabilities of its threads by their names, permitted ones as well as those in effect.
    pub fn capabilities(&self) -> BTreeMap<String, u64> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        let status = |task: fs::DirEntry| fs::read_to_string(task.path().join("status")).ok();
        let of = |status: String| {
            let field = |name: &str| {
                let value = status.lines().find_map(|line| line.strip_prefix(name));
                value.unwrap().trim().to_owned()
            };
            let set = |name| u64::from_str_radix(&field(name), 16).unwrap();
            (field("Name:"), set("CapEff:") | set("CapPrm:"))
        };
        tasks.flatten().filter_map(status).map(of).collect()
    }

    pub fn file(&self) -> PathBuf {
        self.directory.path().join("agent.toml")
    }

    /// Request a path as Prometheus does.
    pub fn get(&self, path: &str) -> String {
        let accept = "Accept: application/openmetrics-text;version=1.0.0\r\n";
        let (head, body) = exchange(self.address, path, accept);
        assert!(head.starts_with("HTTP/1.0 200 "), "{head}");
        body
    }

    /// Scrape when the last reading of the counters is too old to be shared.
    pub fn scrape(&self) -> Scrape {
        thread::sleep(SHARED);
        let text = self.get("/metrics");
        assert!(text.ends_with("\n# EOF\n"));
        Scrape(text)
    }

    /// Scrape until something is there.
    pub fn scrape_until(&self, is_there: impl Fn(&Scrape) -> bool) -> Scrape {
        let start = Instant::now();
        loop {
            let scrape = self.scrape();
            if is_there(&scrape) {
                return scrape;
            }
            assert!(start.elapsed() < PATIENCE, "{}", scrape.0);
        }
    }

    /// Make the agent read its settings again; return its log line.
    pub fn reload(&self, settings: &str) -> String {
        fs::write(self.file(), settings).unwrap();
        let before = self.process.stderr().len();
        self.process.signal(Signal::SIGHUP).unwrap();
        let start = Instant::now();
        loop {
            let said = self.process.stderr()[before..].to_owned();
            if said.contains("the configuration") && said.ends_with('\n') {
                return said;
            }
            assert!(start.elapsed() < PATIENCE, "nothing is said");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The rest of the line on standard error that has this text.
pub fn wait_for_line(process: &Process, text: &str) -> String {
    let start = Instant::now();
    loop {
        let errors = process.stderr();
        let complete = errors
            .rsplit_once('\n')
            .map_or("", |(complete, _)| complete);
        if let Some((_, rest)) = complete.lines().find_map(|line| line.split_once(text)) {
            return rest.to_owned();
        }
        assert!(start.elapsed() < PATIENCE, "{errors}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Send a request; return the answer's head and body.
pub fn exchange(address: SocketAddr, path: &str, header: &str) -> (String, String) {
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    request(client, "GET", address, path, header)
}

/// As [`exchange`], with POST, by the socket of the agent's owner.
pub fn post(address: SocketAddr, path: &str, header: &str) -> (String, String) {
    let socket = format!("/run/sockstamp/agent-{}.sock", address.port());
    let client = UnixStream::connect(socket).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    request(client, "POST", address, path, header)
}

fn request(
    mut client: impl Read + Write,
    method: &str,
    address: SocketAddr,
    path: &str,
    header: &str,
) -> (String, String) {
    // HTTP 1.0 has no chunks.
    write!(
        client,
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\n{header}\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// The text of /metrics.
pub struct Scrape(pub String);

impl Scrape {
    /// The values of the series that begin so and have all these labels.
    pub fn values(&self, name: &str, labels: &[&str]) -> Vec<f64> {
        let lines = self.0.lines().filter(|line| !line.starts_with('#'));
        let samples = lines.filter_map(|line| line.rsplit_once(' '));
        samples
            .filter(|(series, _)| {
                let end = series.find('{').unwrap_or(series.len());
                series[..end] == *name && labels.iter().all(|label| series.contains(label))
            })
            .map(|(_, value)| value.parse().unwrap())
            .collect()
    }

    /// Their sum.
    pub fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        self.values(name, labels).iter().sum()
    }
}

/// Return the setting that leaves room for the series of one group, and for so many others.
pub fn room_for_one_group(others: usize) -> String {
    /// What a group has of each stage at most: buckets, sums, counts.
    const OF_A_STAGE: usize = 29;
    format!("max_series = {}", OF_A_STAGE * Stage::OF_ONE_HOST + others)
}

/// Requests and answers of 100 bytes, each after a pause.
pub fn talk(host: &Host, rounds: u32, pause: Duration) {
    let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    for _ in 0..rounds {
        client.write_all(&[0; 100]).unwrap();
        server.read_exact(&mut [0; 100]).unwrap();
        thread::sleep(pause);
        server.write_all(&[0; 100]).unwrap();
        client.read_exact(&mut [0; 100]).unwrap();
    }
}

/// Return the memory of an agent in kB: VmRSS of proc(5).
pub fn resident(agent: &Agent) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", agent.process.id())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Start one without settings in a host; return when it measures and listens.
pub fn start_in(host: &Host, address: SocketAddr) -> Process {
    let mut command = host.command(sockstamp());
    command.args(["agent", "--listen", &address.to_string()]);
    let mut agent = Process::spawn(command).unwrap();
    wait_attached(&mut agent);
    host.wait_for_port(address, PATIENCE).unwrap();
    agent
}

/// Request the figures of the agent at the other end of a connection.
pub fn scrape_by(mut connection: TcpStream) {
    connection
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
