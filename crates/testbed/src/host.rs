use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};

use crate::error::{Context, Error, Result};
use crate::leftovers::{self, NETNS_DIRECTORY};
use crate::process::{self, POLL_INTERVAL, Process};
use crate::sys;

/// A network namespace. Dropped with everything in it: processes in it are killed.
///
/// Only the network is apart; files, process ids and users are those of the caller.
/// `/sys/class/net` in particular shows the caller's interfaces, `/proc/net` those of the host.
#[derive(Debug)]
pub struct Host {
    name: String,
    inode: u64,
    namespace: Namespace,
}

/// An open namespace: it lives as long as this does, even without a name.
#[derive(Clone, Debug)]
pub(crate) struct Namespace(Arc<File>);

impl Namespace {
    pub(crate) fn enter<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            setns(self.0.as_fd(), CloneFlags::CLONE_NEWNET)
                .expect("enter a network namespace as root");
            f()
        };
        match thread::scope(|scope| scope.spawn(inside).join()) {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Host {
    /// Create a namespace named `sst-PID-STARTTIME-N-NAME` with its loopback interface up.
    ///
    /// `name` is 1 to 64 ASCII letters, digits and hyphens. It need not be unique.
    pub fn new(name: &str) -> Result<Host> {
        leftovers::clean_up_once()?;
        let name = leftovers::unique_name(name)?;
        {
            let _lock = leftovers::lock()?;
            process::ip(&format!("netns add {name}"))?;
        }
        let path = format!("{NETNS_DIRECTORY}/{name}");
        let opened = File::open(&path).and_then(|file| Ok((file, leftovers::identity(&path)?.1)));
        let (namespace, inode) = opened.context("open", path)?;
        let host = Host {
            name,
            inode,
            namespace: Namespace(Arc::new(namespace)),
        };
        process::ip(&format!("-n {} link set lo up", host.name))?;
        Ok(host)
    }

    /// The name, as `ip netns` knows it; `/run/netns/NAME` is its file.
    pub fn netns_name(&self) -> &str {
        &self.name
    }

    /// The inode of the namespace, by which the kernel and `/proc/PID/ns/net` identify it.
    pub fn netns_inode(&self) -> u64 {
        self.inode
    }

    /// A command that runs `program` inside this namespace. Its child's process id is the
    /// program's.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let Namespace(namespace) = self.namespace.clone();
        sys::before_exec(&mut command, move || {
            Ok(setns(namespace.as_fd(), CloneFlags::CLONE_NEWNET)?)
        });
        command
    }

    /// Run `program` inside this namespace to its end and return its standard output.
    pub fn run(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Result<String> {
        let mut command = self.command(program);
        command.args(arguments);
        process::run(command)
    }

    /// Start `program` inside this namespace.
    pub fn spawn(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Result<Process> {
        let mut command = self.command(program);
        command.args(arguments);
        Process::spawn(command)
    }

    /// Run `f` on a new thread inside this namespace. Sockets that it creates stay there wherever
    /// they are used afterwards.
    ///
    /// # Panics
    ///
    /// If `f` does, or if the namespace cannot be entered, for which only a caller without
    /// privilege is a cause.
    pub fn enter<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        self.namespace.enter(f)
    }

    pub(crate) fn namespace(&self) -> Namespace {
        self.namespace.clone()
    }

    /// A TCP socket that listens inside this namespace.
    pub fn tcp_listen(&self, address: SocketAddr) -> Result<TcpListener> {
        self.enter(|| TcpListener::bind(address))
            .context("listen on", address.to_string())
    }

    /// A TCP connection from inside this namespace.
    pub fn tcp_connect(&self, address: SocketAddr) -> Result<TcpStream> {
        self.enter(|| TcpStream::connect(address))
            .context("connect to", address.to_string())
    }

    /// A UDP socket bound inside this namespace.
    pub fn udp_bind(&self, address: SocketAddr) -> Result<UdpSocket> {
        self.enter(|| UdpSocket::bind(address))
            .context("bind to", address.to_string())
    }

    /// Set a sysctl below `net.` of this namespace, for example `net.ipv4.tcp_congestion_control`.
    ///
    /// Setting it here accepts only what `tcp_allowed_congestion_control` of the initial namespace
    /// lists (EPERM otherwise); the socket option TCP_CONGESTION accepts any, from a privileged
    /// program.
    pub fn set_sysctl(&self, name: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        self.enter(|| fs::write(&path, value))
            .context("write", &path)
    }

    /// Wait until a TCP socket listens on `address` (or on its port at the unspecified address), or
    /// a UDP socket without a peer is bound to it.
    ///
    /// Read the socket tables without connecting, so the server sees no stray connection.
    pub fn wait_for_port(&self, address: SocketAddr, timeout: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            // A dual-stack socket on [::] takes IPv4 as well and is only in the IPv6 table.
            let tables = self.enter(|| {
                ["tcp", "tcp6", "udp", "udp6"]
                    .map(|table| fs::read_to_string(format!("/proc/thread-self/net/{table}")))
            });
            for table in tables.into_iter().flatten() {
                if table
                    .lines()
                    .filter_map(listener)
                    .any(|listener| takes(listener, address))
                {
                    return Ok(());
                }
            }
            if start.elapsed() > timeout {
                return Err(Error::Timeout {
                    what: format!("a listener on {address}"),
                    after: timeout,
                });
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let removed = leftovers::lock().and_then(|_lock| leftovers::remove_netns(&self.name));
        if let Err(error) = removed {
            eprintln!("testbed: {error}");
        }
    }
}

fn takes(listener: SocketAddr, address: SocketAddr) -> bool {
    listener.port() == address.port()
        && (listener.ip().to_canonical() == address.ip().to_canonical()
            || (listener.ip().is_unspecified() && (listener.is_ipv6() || address.is_ipv4())))
}

/// The local address in a line of `/proc/net/tcp`, `udp` or their twins of IPv6, if the socket
/// takes whatever comes.
fn listener(line: &str) -> Option<SocketAddr> {
    /// `TCP_LISTEN`, and `TCP_CLOSE`, which a UDP socket without a peer has, as the tables print
    /// them. A closed TCP socket is in none.
    const LISTEN: [&str; 2] = ["0A", "07"];
    let mut fields = line.split_whitespace();
    let local = fields.nth(1)?;
    if !LISTEN.contains(&fields.nth(1)?) {
        return None;
    }
    let (ip, port) = local.split_once(':')?;
    // Each 32-bit word is printed as a number, while its bytes in memory are in network order.
    let words: Option<Vec<[u8; 4]>> = ip
        .as_bytes()
        .chunks(8)
        .map(|word| {
            Some(
                u32::from_str_radix(str::from_utf8(word).ok()?, 16)
                    .ok()?
                    .to_ne_bytes(),
            )
        })
        .collect();
    let ip = match words?.as_slice() {
        [v4] => IpAddr::V4(Ipv4Addr::from(*v4)),
        words => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?)),
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn listeners_are_read_from_the_tables() {
        let v4 = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1";
        assert_eq!(listener(v4), Some("127.0.0.1:8080".parse().unwrap()));
        let v6 = "   0: 000077FD010000000000000001000000:0050 00000000000000000000000000000000:0000 0A 0:0 0:0";
        assert_eq!(listener(v6), Some("[fd77:0:0:1::1]:80".parse().unwrap()));
        let connected =
            "   1: 0100007F:1F90 0100007F:8000 01 00000000:00000000 00:00000000 00000000";
        assert_eq!(listener(connected), None);
        let udp = "   2: 0100007F:1F90 00000000:0000 07 00000000:00000000 00:00000000 00000000";
        assert_eq!(listener(udp), Some("127.0.0.1:8080".parse().unwrap()));
    }

    #[test]
    fn the_unspecified_address_takes_every_address_of_its_family() {
        let takes = |listener: &str, address: &str| {
            takes(
                listener.parse::<SocketAddr>().unwrap(),
                address.parse::<SocketAddr>().unwrap(),
            )
        };
        assert!(takes("0.0.0.0:80", "10.0.0.1:80"));
        assert!(takes("[::]:80", "10.0.0.1:80"));
        assert!(takes("[::]:80", "[fd77::1]:80"));
        assert!(!takes("0.0.0.0:80", "[fd77::1]:80"));
        assert!(!takes("0.0.0.0:80", "10.0.0.1:81"));
        assert!(!takes("10.0.0.2:80", "10.0.0.1:80"));
    }
}
