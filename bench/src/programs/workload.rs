//! The programs: a server and the client that loads it.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::Duration;

use anyhow::{Context, Result};
use testbed::{Host, Process};

use super::echo;
use super::hosts::{Hosts, Place};
use super::output::{self, Outcome};

/// Beyond what a start or a run takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// The size of iperf3's writes in bytes: its default for TCP.
const WRITE: u32 = 128 << 10;
const ECHO_MILLISECONDS: &str = "500";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    Redis,
    Nginx,
    Iperf3,
    UdpEcho,
}

impl Workload {
    pub(crate) const ALL: [Self; 4] = [Self::Redis, Self::Nginx, Self::Iperf3, Self::UdpEcho];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Nginx => "nginx",
            Self::Iperf3 => "iperf3",
            Self::UdpEcho => "udp-echo",
        }
    }

    /// The programs that it runs, with the packages of Debian that have them.
    fn needs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Redis => &[
                ("redis-server", "redis-server"),
                ("redis-benchmark", "redis-tools"),
            ],
            Self::Nginx => &[("nginx", "nginx"), ("wrk", "wrk")],
            Self::Iperf3 => &[("iperf3", "iperf3")],
            Self::UdpEcho => &[],
        }
    }

    /// Return the packages of those programs that are not installed; tcpdump is one of them.
    pub(crate) fn missing_packages(self) -> Vec<&'static str> {
        let needs = self.needs().iter().chain(&[("tcpdump", "tcpdump")]);
        let missing = needs.filter(|(program, _)| !is_installed(program));
        missing.map(|(_, package)| *package).collect()
    }

    /// Start the server, and wait until it takes requests.
    pub(crate) fn serve(self, hosts: &Hosts) -> Result<Server> {
        let address = hosts.address();
        let (ip, port) = (address.ip().to_string(), address.port().to_string());
        let host = hosts.server();
        let mut configuration = None;
        let mut command = match self {
            Self::Redis => {
                let words = [
                    "--bind",
                    &ip,
                    "--port",
                    &port,
                    "--save",
                    "",
                    "--protected-mode",
                    "no",
                ];
                with(host, "redis-server", &words)
            }
            Self::Nginx => {
                let file = configuration.insert(Configuration::new(&ip, &port)?);
                let mut command = host.command("nginx");
                command.arg("-c").arg(&file.0);
                command
            }
            Self::Iperf3 => with(host, "iperf3", &["-s", "-B", &ip, "-p", &port]),
            Self::UdpEcho => with(
                host,
                env::current_exe()?,
                &["udp-echo-server", &address.to_string()],
            ),
        };
        hosts.group.start_in(&mut command)?;
        let mut process = Process::spawn(command)?;
        match self {
            Self::UdpEcho => process.wait_for_stdout(echo::READY, PATIENCE)?,
            _ => host.wait_for_port(address, PATIENCE)?,
        }
        Ok(Server {
            process,
            _configuration: configuration,
        })
    }

    /// Run the client once, for at most one second.
    pub(crate) fn load(self, hosts: &Hosts, place: Place) -> Result<Outcome> {
        let address = hosts.address();
        let (ip, port) = (address.ip().to_string(), address.port().to_string());
        let url = format!("http://{address}/");
        let many = place == Place::Loopback;
        let host = hosts.client();
        match self {
            Self::Redis => {
                let (clients, requests) = if many { ("50", 50_000) } else { ("1", 3000) };
                let number = requests.to_string();
                let words = [
                    "-h", &ip, "-p", &port, "-t", "get", "-c", clients, "-n", &number, "--csv",
                ];
                output::redis_benchmark(
                    &run(hosts, with(host, "redis-benchmark", &words))?,
                    requests,
                )
            }
            Self::Nginx => {
                let connections = if many { "50" } else { "1" };
                let words = ["-t", "1", "-c", connections, "-d", "1s", "--latency", &url];
                output::wrk(&run(hosts, with(host, "wrk", &words))?)
            }
            Self::Iperf3 => {
                let length = WRITE.to_string();
                // Without a limit of the rate the relay would be the bottleneck.
                let rate = if many { "0" } else { "100M" };
                let words = [
                    "-c", &ip, "-p", &port, "-t", "1", "-l", &length, "-b", rate, "-J",
                ];
                output::iperf3(&run(hosts, with(host, "iperf3", &words))?, WRITE)
            }
            Self::UdpEcho => {
                let window = if many { "32" } else { "1" };
                let words = [
                    "udp-echo-client",
                    &address.to_string(),
                    window,
                    ECHO_MILLISECONDS,
                ];
                output::udp_echo(&run(hosts, with(host, env::current_exe()?, &words))?)
            }
        }
    }
}

/// A running server.
pub(crate) struct Server {
    process: Process,
    _configuration: Option<Configuration>,
}

impl Server {
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

fn with(host: &Host, program: impl AsRef<Path>, words: &[&str]) -> Command {
    let mut command = host.command(program.as_ref());
    command.args(words);
    command
}

fn run(hosts: &Hosts, mut command: Command) -> Result<String> {
    hosts.group.start_in(&mut command)?;
    Ok(Process::spawn(command)?.wait(PATIENCE)?)
}

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// A file with the configuration of nginx, in one process, so that its id is that of the server.
struct Configuration(PathBuf);

impl Configuration {
    fn new(ip: &str, port: &str) -> Result<Self> {
        let path = env::temp_dir().join(format!("sockstamp-bench-{}.nginx", process::id()));
        let mut file =
            fs::File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        write!(
            file,
            "daemon off;\n\
             master_process off;\n\
             pid {pid};\n\
             error_log stderr crit;\n\
             events {{}}\n\
             http {{\n\
             access_log off;\n\
             keepalive_requests 100000000;\n\
             server {{ listen {ip}:{port}; location / {{ return 200 \"{answer}\"; }} }}\n\
             }}\n",
            pid = path.with_extension("pid").display(),
            answer = "x".repeat(64),
        )?;
        Ok(Self(path))
    }
}

impl Drop for Configuration {
    fn drop(&mut self) {
        // No figure depends on them any more, and nginx may not have written the second.
        let _ = fs::remove_file(&self.0);
        let _ = fs::remove_file(self.0.with_extension("pid"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_on_the_path() {
        assert!(is_installed("sh"));
        assert!(!is_installed("sockstamp-bench-has-no-such-program"));
    }
}
