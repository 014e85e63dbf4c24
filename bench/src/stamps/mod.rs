//! Measure the time until a program has the stamps of each of its sends: SND of a datagram, and
//! SCHED, SND and ACK of a TCP send. The program looks for stamps after every send, or after every
//! 32; or it has one send in 64 stamped.

use std::hint::black_box;
use std::io::{IoSlice, IoSliceMut};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, send};
use nix::sys::time::TimeSpec;
use sockstamp::completions::{Completions, Registration};
use sockstamp::error_queue::{ErrorQueue, Report as Entry};
use sockstamp::timestamping::{self, MessageOptions, Options};
use testbed::Family;

use crate::effort::Effort;
use crate::network::{Network, Peer};
use crate::paired::{Spread, in_turn, to_float};
use crate::processor::Processors;
use crate::report::{Budget, Report};
use crate::service::Service;

const ROUND: Duration = Duration::from_millis(50);
/// The loop reads the clock after this many sends, of which [`Method::Sampled`] has one stamped.
const SENDS: u64 = 64;
/// Entries of stamps that may be in an error queue: a third of a usual receive buffer's capacity.
const ENTRIES: u64 = 96;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    fn options(self) -> Options {
        let options = Options::new().tx_software().only_stamps();
        match self {
            Self::Tcp => options.tx_sched().tx_ack().tcp_id(),
            Self::Udp => options.id(),
        }
    }

    /// Report the stamps of single messages alone.
    fn reporting(self) -> Options {
        let options = Options::new().software().only_stamps();
        match self {
            Self::Tcp => options.tcp_id(),
            Self::Udp => options.id(),
        }
    }

    fn of_a_message(self) -> MessageOptions {
        let options = MessageOptions::new().tx_software();
        match self {
            Self::Tcp => options.tx_sched().tx_ack(),
            Self::Udp => options,
        }
    }

    fn stamps_of_a_send(self) -> u64 {
        match self {
            Self::Tcp => 3,
            Self::Udp => 1,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// No stamps.
    Off,
    /// By recvmsg(2) on the error queue, one stamp per call, until it is empty.
    Naive,
    /// By the library, from the error queue, many stamps per call.
    Batched,
    /// By the library, from memory that `sockstamp notifications` writes.
    Memory,
    /// As [`Batched`](Method::Batched), of one send in 64.
    Sampled,
}

impl Method {
    const ALL: [Self; 5] = [
        Self::Off,
        Self::Naive,
        Self::Batched,
        Self::Memory,
        Self::Sampled,
    ];
}

#[derive(Debug, Clone, Copy)]
struct Setting {
    transport: Transport,
    bytes: usize,
    interval: u64,
}

impl Setting {
    fn all() -> impl Iterator<Item = Self> {
        [Transport::Tcp, Transport::Udp]
            .into_iter()
            .flat_map(|transport| {
                [64, 1200].into_iter().flat_map(move |bytes| {
                    [1, 32].into_iter().map(move |interval| Self {
                        transport,
                        bytes,
                        interval,
                    })
                })
            })
    }

    fn name(self) -> String {
        let Self {
            transport,
            bytes,
            interval,
        } = self;
        format!("stamps.{}.{bytes}-B.every-{interval}", transport.name())
    }

    /// Return sends per second.
    fn measure(self, network: &Network, method: Method) -> Result<f64> {
        if method != Method::Memory {
            return self.run(network, method, None);
        }
        let mut service = Service::start()?;
        let rate = self.run(network, method, Some(&service.connect()?));
        service.stop()?;
        rate
    }

    fn run(
        self,
        network: &Network,
        method: Method,
        completions: Option<&Completions>,
    ) -> Result<f64> {
        if self.transport == Transport::Udp {
            let (socket, _receiver) = network.udp(Family::V4)?;
            return self.sends(socket.as_fd(), method, completions);
        }
        let (socket, far) = network.tcp(Family::V4)?;
        let rate = self.sends(socket.as_fd(), method, completions);
        socket.shutdown(Shutdown::Both)?;
        far.finish()?;
        rate
    }

    fn sends(
        self,
        socket: BorrowedFd<'_>,
        method: Method,
        completions: Option<&Completions>,
    ) -> Result<f64> {
        let message = vec![0; self.bytes];
        let mut reading = self.reading(socket, method, completions)?;
        let (mut sent, started) = (0, Instant::now());
        while started.elapsed() < ROUND {
            if method == Method::Sampled {
                self.send_sampled(socket, &message)?;
                sent += SENDS;
                reading.read(socket)?;
                continue;
            }
            for _ in 0..SENDS {
                send(socket.as_raw_fd(), &message, MsgFlags::empty())?;
                sent += 1;
                if sent % self.interval == 0 {
                    reading.read(socket)?;
                }
            }
        }
        let elapsed = started.elapsed().as_secs_f64();
        let stamped = if method == Method::Sampled {
            sent / SENDS
        } else {
            sent
        };
        let wanted = stamped * self.transport.stamps_of_a_send();
        if let Some(stamps) = reading.stamps() {
            ensure!(stamps == wanted, "{method:?}: {stamps} stamps of {wanted}");
        }
        Ok(to_float(sent) / elapsed)
    }

    /// Send as often as between two looks at the clock, once with a request for stamps.
    fn send_sampled(self, socket: BorrowedFd<'_>, message: &[u8]) -> Result<()> {
        let parts = [IoSlice::new(message)];
        timestamping::send(socket, &parts, None, self.transport.of_a_message())?;
        for _ in 1..SENDS {
            send(socket.as_raw_fd(), message, MsgFlags::empty())?;
        }
        Ok(())
    }

    fn reading(
        self,
        socket: BorrowedFd<'_>,
        method: Method,
        completions: Option<&Completions>,
    ) -> Result<Box<dyn Reading>> {
        let registration = completions
            .map(|completions| completions.register(socket, self.transport == Transport::Tcp))
            .transpose()?;
        let queued = registration
            .as_ref()
            .is_none_or(|registration| !registration.has_stamps());
        match method {
            Method::Sampled => self.transport.reporting().apply(socket)?,
            Method::Naive | Method::Batched | Method::Memory if queued => {
                self.transport.options().apply(socket)?;
            }
            _ => {}
        }
        Ok(match (method, registration) {
            (_, Some(registration)) => Box::new(Memory {
                registration,
                queue: queued.then(ErrorQueue::new),
                stamps: 0,
            }),
            (Method::Naive, None) => Box::new(Naive { stamps: 0 }),
            (Method::Batched | Method::Sampled, None) => Box::new(Batched {
                queue: ErrorQueue::new(),
                stamps: 0,
            }),
            (Method::Off | Method::Memory, None) => Box::new(Nothing),
        })
    }
}

trait Reading {
    /// All available stamps.
    fn read(&mut self, socket: BorrowedFd<'_>) -> Result<()>;
    /// Return their number.
    fn stamps(&self) -> Option<u64>;
}

struct Nothing;

impl Reading for Nothing {
    fn read(&mut self, _: BorrowedFd<'_>) -> Result<()> {
        Ok(())
    }

    fn stamps(&self) -> Option<u64> {
        None
    }
}

struct Naive {
    stamps: u64,
}

impl Naive {
    /// `false`: there was none.
    fn read_one(&mut self, socket: BorrowedFd<'_>) -> Result<bool> {
        let mut control = nix::cmsg_space!([TimeSpec; 3], [u8; 64]);
        let mut parts: [IoSliceMut<'_>; 0] = [];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message = match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags)
        {
            Ok(message) => message,
            Err(Errno::EAGAIN) => return Ok(false),
            Err(errno) => return Err(errno).context("recvmsg(MSG_ERRQUEUE)"),
        };
        for part in message.cmsgs()? {
            match part {
                ControlMessageOwned::ScmTimestampsns(times) => {
                    black_box(times.system);
                }
                ControlMessageOwned::Ipv4RecvErr(error, _) => {
                    black_box((error.ee_info, error.ee_data));
                }
                other => bail!("not of a stamp: {other:?}"),
            }
        }
        self.stamps += 1;
        Ok(true)
    }
}

impl Reading for Naive {
    fn read(&mut self, socket: BorrowedFd<'_>) -> Result<()> {
        while self.read_one(socket)? {}
        Ok(())
    }

    fn stamps(&self) -> Option<u64> {
        Some(self.stamps)
    }
}

struct Batched {
    queue: ErrorQueue,
    stamps: u64,
}

impl Reading for Batched {
    fn read(&mut self, socket: BorrowedFd<'_>) -> Result<()> {
        let stamps = &mut self.stamps;
        self.queue.drain(socket, |entry| {
            if let Entry::Stamp { stamp, .. } = entry {
                black_box(stamp);
                *stamps += 1;
            }
        })?;
        Ok(())
    }

    fn stamps(&self) -> Option<u64> {
        Some(self.stamps)
    }
}

struct Memory {
    registration: Registration,
    /// The error queue, if it has the stamps too.
    queue: Option<ErrorQueue>,
    stamps: u64,
}

impl Reading for Memory {
    fn read(&mut self, socket: BorrowedFd<'_>) -> Result<()> {
        let stamps = &mut self.stamps;
        self.registration.stamps(|stamp| {
            black_box(stamp);
            *stamps += 1;
        });
        if let Some(queue) = &mut self.queue
            && self.registration.entries_queued() >= ENTRIES
        {
            self.registration.queue_is_read();
            queue.drain(socket, |_| {})?;
        }
        Ok(())
    }

    fn stamps(&self) -> Option<u64> {
        Some(self.stamps)
    }
}

pub(crate) fn run(processors: Processors, effort: Effort, report: &mut Report) -> Result<()> {
    let network = Network::new(Peer::Sink, processors.load)?;
    for setting in Setting::all() {
        let name = setting.name();
        if !report.wants(&name) {
            continue;
        }
        let rates = in_turn(effort.rounds(10), Method::ALL, |method| {
            setting.measure(&network, method)
        })?;
        let rates_of = |method: Method| &rates[method as usize];
        let batched = (setting.interval > 1).then_some(Budget::AtLeast(1.15));
        let memory = (setting.transport == Transport::Tcp).then_some(Budget::AtLeast(0.95));
        for (method, base, budget) in [
            (Method::Batched, Method::Naive, batched),
            (Method::Memory, Method::Naive, None),
            (Method::Naive, Method::Off, None),
            (Method::Batched, Method::Off, None),
            (Method::Memory, Method::Off, memory),
            (Method::Sampled, Method::Off, None),
        ] {
            let spread = Spread::of_ratios(rates_of(method), rates_of(base));
            let name = format!("{name}.{method:?}/{base:?}").to_lowercase();
            report.add(name, "×", spread, budget);
        }
        let thousands: Vec<_> = rates_of(Method::Off)
            .iter()
            .map(|rate| rate / 1e3)
            .collect();
        report.add(format!("{name}.off"), "k/s", Spread::of(&thousands), None);
    }
    Ok(())
}
