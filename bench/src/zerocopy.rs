//! Sends without a copy, with buffers that are waited for after every send and after every 32: what learning of completions
//! costs.
//!
//! Packets go to a host that drops them, or to one that receives them, for which the kernel copies them after all. TCP knows the
//! latter alone: who drops acknowledges nothing.

use std::io::{IoSliceMut, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, send};
use sockstamp::error_queue::ErrorQueue;
use sockstamp::zerocopy::{NotSent, Options, RingSender, Sent, Support, ZeroCopySender};
use testbed::{Family, Host, Link};

use crate::Effort;
use crate::paired::{Spread, in_turn, to_float};
use crate::report::Report;

const ROUND: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(10);
/// The loop looks at the clock after so many sends.
const SENDS: u64 = 32;

/// How the program learns that it may use a buffer again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By recvmsg(2) on the error queue, an entry a call, after poll(2) where there is none.
    Classic,
    /// By the library, which takes many entries a call.
    Batched,
    /// By the library and io_uring.
    Ring,
    /// Not at all: what completions could cost at least.
    Never,
    /// It need not: each send is copied.
    Copied,
}

const WAYS: [Way; 5] = [Way::Classic, Way::Batched, Way::Ring, Way::Never, Way::Copied];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    /// 60 kB a send, to a port of a bridge that is not up: it drops packets before they are received, and so before they
    /// are copied (`br_handle_frame()` in net/bridge/br_input.c, v6.18).
    UdpDropped,
    /// 60 kB a send.
    Udp,
    /// 64 KiB a send.
    Tcp,
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Self::UdpDropped => "udp-dropped",
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::UdpDropped | Self::Udp => 60_000,
            Self::Tcp => 65_536,
        }
    }
}

pub(crate) fn run(effort: Effort, report: &mut Report) -> Result<()> {
    for transport in [Transport::UdpDropped, Transport::Udp, Transport::Tcp] {
        let network = Network::new(transport)?;
        for family in [Family::V4, Family::V6] {
            for interval in [1, 32] {
                let rates = in_turn(effort.rounds(8), WAYS, |way| {
                    network.round(transport, family, way, interval)
                })?;
                let version = if family == Family::V4 { 4 } else { 6 };
                let name = format!("zerocopy.{}{version}.every-{interval}", transport.name());
                for (way, rates_of_way) in WAYS.iter().zip(&rates).skip(1) {
                    let spread = Spread::of_ratios(rates_of_way, &rates[0]);
                    let way = format!("{way:?}").to_lowercase();
                    report.add(format!("{name}.{way}/classic"), "×", spread, None);
                }
                let gigabits: Vec<f64> = rates[0].iter().map(|bytes| bytes * 8.0 / 1e9).collect();
                report.add(format!("{name}.classic"), "Gb/s", Spread::of(&gigabits), None);
            }
        }
    }
    Ok(())
}

/// The link goes first.
struct Network {
    link: Link,
    sender: Host,
    receiver: Host,
}

impl Network {
    fn new(transport: Transport) -> Result<Self> {
        let (sender, receiver) = (Host::new("sender")?, Host::new("receiver")?);
        let link = Link::veth(&sender, &receiver)?;
        let network = Self {
            link,
            sender,
            receiver,
        };
        let (near, far) = (network.link.interface_a(), network.link.interface_b());
        ip(&network.sender, &format!("link set {near} mtu 65535"))?;
        ip(&network.receiver, &format!("link set {far} mtu 65535"))?;
        if transport == Transport::UdpDropped {
            ip(&network.receiver, "link add closed type bridge")?;
            ip(&network.receiver, &format!("link set {far} master closed"))?;
            for family in [Family::V4, Family::V6] {
                let to = network.link.address_b(family);
                ip(
                    &network.sender,
                    &format!("neigh replace {to} lladdr 02:00:00:00:00:01 dev {near}"),
                )?;
            }
        }
        Ok(network)
    }

    /// Bytes a second.
    fn round(&self, transport: Transport, family: Family, way: Way, interval: u64) -> Result<f64> {
        let to = SocketAddr::new(self.link.address_b(family), 0);
        if transport == Transport::Tcp {
            let listener = self.receiver.tcp_listen(to)?;
            let socket = self.sender.tcp_connect(listener.local_addr()?)?;
            let reader = thread::spawn(move || read_all(&listener));
            let rate = sends(&socket, way, interval, transport.bytes());
            socket.shutdown(Shutdown::Write)?;
            reader.join().expect("reads to the end")?;
            return rate;
        }
        let receiver = self.receiver.udp_bind(to)?;
        let socket = self
            .sender
            .udp_bind(SocketAddr::new(self.link.address_a(family), 0))?;
        socket.connect(receiver.local_addr()?)?;
        sends::<UdpSocket>(&socket, way, interval, transport.bytes())
    }
}

fn ip(host: &Host, arguments: &str) -> Result<()> {
    host.run("ip", &arguments.split(' ').collect::<Vec<_>>())?;
    Ok(())
}

fn read_all(listener: &TcpListener) -> Result<()> {
    let (mut stream, _): (TcpStream, _) = listener.accept()?;
    let mut bytes = vec![0; 1 << 18];
    while stream.read(&mut bytes)? > 0 {}
    Ok(())
}

/// Sends for a round and waits for all buffers after each `interval` sends; bytes a second.
fn sends<S: AsFd>(socket: &S, way: Way, interval: u64, bytes: usize) -> Result<f64> {
    // As many for all, so that all find as much in the caches.
    let free = vec![vec![0; bytes]; usize::try_from(interval)?];
    let mut waits: Box<dyn Sends> = match way {
        Way::Classic => Box::new(Bare::new(socket, free, true)?),
        Way::Never => Box::new(Bare::new(socket, free, false)?),
        Way::Copied => Box::new(Copied(socket, Turns::new(free))),
        Way::Batched => Box::new(Batched {
            sender: ZeroCopySender::new(socket, Options::default())?,
            queue: ErrorQueue::new(),
            free,
        }),
        Way::Ring => Box::new(Ring {
            sender: RingSender::new(socket, Options::default(), 64)?,
            free,
        }),
    };
    let (mut sent, started) = (0, Instant::now());
    while started.elapsed() < ROUND {
        for _ in 0..SENDS {
            waits.send()?;
            sent += 1;
            if sent % interval == 0 {
                waits.wait()?;
            }
        }
    }
    let elapsed = started.elapsed().as_secs_f64();
    Ok(to_float(sent * bytes as u64) / elapsed)
}

trait Sends {
    fn send(&mut self) -> Result<()>;
    /// Until every buffer is free again.
    fn wait(&mut self) -> Result<()>;
}

/// Buffers that nobody waits for.
struct Turns(Vec<Vec<u8>>, usize);

impl Turns {
    fn new(buffers: Vec<Vec<u8>>) -> Self {
        Self(buffers, 0)
    }

    fn next(&mut self) -> &[u8] {
        self.1 = (self.1 + 1) % self.0.len();
        &self.0[self.1]
    }
}

struct Copied<'a, S>(&'a S, Turns);

impl<S: AsFd> Sends for Copied<'_, S> {
    fn send(&mut self) -> Result<()> {
        send_all(self.0, self.1.next(), MsgFlags::empty())?;
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }
}

/// System calls alone.
struct Bare<'a, S> {
    socket: &'a S,
    buffers: Turns,
    waits: bool,
    sent: u32,
    completed: u32,
}

impl<'a, S: AsFd> Bare<'a, S> {
    fn new(socket: &'a S, buffers: Vec<Vec<u8>>, waits: bool) -> Result<Self> {
        let sender = ZeroCopySender::<_, Vec<u8>>::new(socket, Options::default())?;
        ensure!(sender.support() == Support::Available, "no SO_ZEROCOPY");
        Ok(Self {
            socket,
            buffers: Turns::new(buffers),
            waits,
            sent: 0,
            completed: 0,
        })
    }

    fn read_completion(&mut self) -> Result<()> {
        let mut control = nix::cmsg_space!([u8; 64]);
        let mut parts: [IoSliceMut<'_>; 0] = [];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let fd = self.socket.as_fd().as_raw_fd();
        let message = match recvmsg::<()>(fd, &mut parts, Some(&mut control), flags) {
            Ok(message) => message,
            Err(Errno::EAGAIN) => return await_events(self.socket, PollFlags::empty()),
            Err(errno) => return Err(errno).context("recvmsg(MSG_ERRQUEUE)"),
        };
        for part in message.cmsgs()? {
            let (ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _)) =
                part
            else {
                bail!("not a completion: {part:?}");
            };
            self.completed += error.ee_data - error.ee_info + 1;
        }
        Ok(())
    }
}

impl<S: AsFd> Sends for Bare<'_, S> {
    fn send(&mut self) -> Result<()> {
        let flags = MsgFlags::from_bits_retain(libc::MSG_ZEROCOPY);
        self.sent += send_all(self.socket, self.buffers.next(), flags)?;
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        while self.waits && self.completed < self.sent {
            self.read_completion()?;
        }
        Ok(())
    }
}

struct Batched<'a, S> {
    sender: ZeroCopySender<&'a S, Vec<u8>>,
    queue: ErrorQueue,
    free: Vec<Vec<u8>>,
}

impl<S: AsFd> Sends for Batched<'_, S> {
    fn send(&mut self) -> Result<()> {
        let buffer = self.free.pop().context("as many buffers as sends")?;
        match self.sender.send(buffer) {
            Ok(Sent::InFlight) => Ok(()),
            other => bail!("copied: {:?}", other.is_ok()),
        }
    }

    fn wait(&mut self) -> Result<()> {
        ensure!(
            self.sender.wait_idle(&mut self.queue, PATIENCE, |_| {})?,
            "in flight"
        );
        while let Some(returned) = self.sender.next_returned() {
            self.free.push(returned.buffer);
        }
        Ok(())
    }
}

struct Ring<'a, S> {
    sender: RingSender<&'a S, Vec<u8>>,
    free: Vec<Vec<u8>>,
}

impl<S: AsFd> Sends for Ring<'_, S> {
    fn send(&mut self) -> Result<()> {
        let mut buffer = self.free.pop().context("as many buffers as sends")?;
        loop {
            match self.sender.send(buffer) {
                Ok(Sent::InFlight | Sent::Partly { .. }) => return Ok(()),
                Err(NotSent::WouldBlock(same)) => buffer = same,
                _ => bail!("not sent, or copied"),
            }
            await_events(self.sender.socket(), PollFlags::POLLOUT)?;
        }
    }

    fn wait(&mut self) -> Result<()> {
        while !self.sender.flush()? {
            await_events(self.sender.socket(), PollFlags::POLLOUT)?;
        }
        ensure!(self.sender.wait_idle(PATIENCE)?, "in flight");
        while let Some(returned) = self.sender.next_returned() {
            self.free.push(returned.buffer);
        }
        Ok(())
    }
}

/// In how many calls: TCP may take a part of what it is given.
fn send_all(socket: &impl AsFd, bytes: &[u8], flags: MsgFlags) -> Result<u32> {
    let (mut sent, mut calls) = (0, 0);
    while sent < bytes.len() {
        sent += send(socket.as_fd().as_raw_fd(), &bytes[sent..], flags)?;
        calls += 1;
    }
    Ok(calls)
}

/// Besides errors, which poll(2) always tells.
fn await_events(socket: &impl AsFd, events: PollFlags) -> Result<()> {
    let mut fds = [PollFd::new(socket.as_fd(), events)];
    let ready = poll(&mut fds, PollTimeout::try_from(PATIENCE)?)?;
    ensure!(ready == 1, "nothing for {PATIENCE:?}");
    Ok(())
}
