//! Measure the time until a program has the stamps of each of its sends: SND of a datagram, and
//! SCHED, SND and ACK of a TCP send. The program looks for stamps after every send, or after every
//! 32; or it has one send in 64 stamped.

mod joined;
mod reading;
mod sends;
mod transport;

use std::io::IoSlice;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use anyhow::{Result, ensure};
use nix::sys::socket::{MsgFlags, send};
use sockstamp::completions::Completions;
use sockstamp::timestamping;
use testbed::Family;

use crate::effort::Effort;
use crate::network::{Network, Peer};
use crate::paired::{Spread, in_turn, to_float};
use crate::processor::Processors;
use crate::report::{Budget, Report};
use crate::service::Service;

use reading::{Batched, Memory, Naive, Nothing, Reading, Ring};
use sends::{Done, SENDS, Sends};
use transport::Transport;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// No stamps.
    Off,
    /// Stamps that nobody reads: soon the kernel makes and drops them. What is left is its own
    /// work, which no way to read can avoid.
    Unread,
    /// By recvmsg(2) on the error queue, one stamp per call, until it is empty.
    Naive,
    /// By the library, from the error queue, many stamps per call.
    Batched,
    /// By the library and io_uring.
    Ring,
    /// By the library, from memory that `sockstamp notifications` writes.
    Memory,
    /// As [`Batched`](Method::Batched), of one send in 64.
    Sampled,
    /// By the library's socket, which joins them to their sends.
    Blocking,
    /// The same, in a task.
    Async,
}

impl Method {
    const ALL: [Self; 9] = [
        Self::Off,
        Self::Unread,
        Self::Naive,
        Self::Batched,
        Self::Ring,
        Self::Memory,
        Self::Sampled,
        Self::Blocking,
        Self::Async,
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

    fn report(self, rates: &[Vec<f64>; Method::ALL.len()], report: &mut Report) {
        let rates_of = |method: Method| &rates[method as usize];
        for (method, base, budget) in self.comparisons() {
            if rates_of(method).is_empty() {
                report.note(format!("{}: no {method:?} on this kernel", self.name()));
                continue;
            }
            let spread = Spread::of_ratios(rates_of(method), rates_of(base));
            let name = format!("{}.{method:?}/{base:?}", self.name()).to_lowercase();
            report.add(name, "×", spread, budget);
        }
        let thousands: Vec<_> = rates_of(Method::Off)
            .iter()
            .map(|rate| rate / 1e3)
            .collect();
        report.add(
            format!("{}.off", self.name()),
            "k/s",
            Spread::of(&thousands),
            None,
        );
    }

    fn comparisons(self) -> [(Method, Method, Option<Budget>); 11] {
        let (often, tcp) = (self.interval == 1, self.transport == Transport::Tcp);
        let at_least = |ratio, applies: bool| applies.then_some(Budget::AtLeast(ratio));
        [
            (Method::Batched, Method::Naive, at_least(1.15, !often)),
            (Method::Memory, Method::Naive, None),
            (Method::Unread, Method::Off, None),
            (Method::Naive, Method::Off, None),
            (Method::Batched, Method::Off, None),
            (Method::Ring, Method::Off, at_least(0.8, !often && !tcp)),
            (Method::Memory, Method::Off, at_least(0.95, tcp)),
            (Method::Sampled, Method::Off, None),
            (Method::Blocking, Method::Off, None),
            (Method::Async, Method::Off, None),
            (Method::Async, Method::Blocking, at_least(0.95, true)),
        ]
    }

    /// Return sends per second, or nothing if this kernel has no such way.
    fn measure(self, network: &Network, method: Method) -> Result<Option<f64>> {
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
    ) -> Result<Option<f64>> {
        if self.transport == Transport::Udp {
            let (socket, _receiver) = network.udp(Family::V4)?;
            return self.rate(socket.as_fd(), method, completions);
        }
        let (socket, far) = network.tcp(Family::V4)?;
        let rate = self.rate(socket.as_fd(), method, completions);
        socket.shutdown(Shutdown::Both)?;
        far.finish()?;
        rate
    }

    fn rate(
        self,
        socket: BorrowedFd<'_>,
        method: Method,
        completions: Option<&Completions>,
    ) -> Result<Option<f64>> {
        let message = vec![0; self.bytes];
        let done = match method {
            Method::Blocking => joined::blocking(socket, self.transport, self.interval, &message)?,
            Method::Async => joined::in_a_task(socket, self.transport, self.interval, &message)?,
            Method::Sampled => self.sample(socket, &message)?,
            _ => match self.reading(socket, method, completions)? {
                Some(mut reading) => self.send_and_read(socket, &message, &mut *reading)?,
                None => return Ok(None),
            },
        };
        if let Some(stamps) = done.stamps {
            let wanted = done.stamped * self.transport.stamps_of_a_send();
            ensure!(stamps == wanted, "{method:?}: {stamps} stamps of {wanted}");
        }
        Ok(Some(to_float(done.sent) / done.time.as_secs_f64()))
    }

    fn send_and_read(
        self,
        socket: BorrowedFd<'_>,
        message: &[u8],
        reading: &mut dyn Reading,
    ) -> Result<Done> {
        let mut sends = Sends::begin(self.interval);
        while sends.go_on() {
            for _ in 0..SENDS {
                send(socket.as_raw_fd(), message, MsgFlags::empty())?;
                if sends.count() {
                    reading.read(socket)?;
                }
            }
        }
        Ok(sends.end(reading.stamps()))
    }

    /// Send as often as between two looks at the clock, once with a request for stamps.
    fn sample(self, socket: BorrowedFd<'_>, message: &[u8]) -> Result<Done> {
        self.transport.reporting().apply(socket)?;
        let (parts, mut reading) = ([IoSlice::new(message)], Batched::default());
        let mut sends = Sends::begin(SENDS);
        while sends.go_on() {
            timestamping::send(socket, &parts, None, self.transport.of_a_message())?;
            sends.count();
            for _ in 1..SENDS {
                send(socket.as_raw_fd(), message, MsgFlags::empty())?;
                sends.count();
            }
            reading.read(socket)?;
        }
        let done = sends.end(reading.stamps());
        Ok(Done {
            stamped: done.sent / SENDS,
            ..done
        })
    }

    /// Return nothing if this kernel has no such way.
    fn reading(
        self,
        socket: BorrowedFd<'_>,
        method: Method,
        completions: Option<&Completions>,
    ) -> Result<Option<Box<dyn Reading>>> {
        if let Some(completions) = completions {
            let memory = Memory::new(completions, socket, self.transport)?;
            return Ok(Some(Box::new(memory)));
        }
        if method != Method::Off {
            self.transport.options().apply(socket)?;
        }
        Ok(Some(match method {
            Method::Naive => Box::new(Naive::default()),
            Method::Batched => Box::new(Batched::default()),
            Method::Ring => match Ring::of(socket)? {
                Some(ring) => Box::new(ring),
                None => return Ok(None),
            },
            _ => Box::new(Nothing),
        }))
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
        let rates = rates.map(|rates| rates.into_iter().flatten().collect::<Vec<_>>());
        setting.report(&rates, report);
    }
    Ok(())
}
