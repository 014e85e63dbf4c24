//! Measure sends without a copy, with buffers awaited after every send and after every 32: the cost
//! of learning of completions.

mod published;
mod threshold;
mod ways;

use std::net::Shutdown;
use std::time::Duration;

use anyhow::Result;
use testbed::Family;

use crate::effort::Effort;
use crate::network::{LONGEST, Network, Peer};
use crate::paired::{Spread, in_turn};
use crate::processor::Processors;
use crate::report::{Budget, Report};
use crate::service::Service;

use ways::{Task, Way};

pub(crate) use threshold::run as threshold;

const ROUND: Duration = Duration::from_millis(50);
/// Bytes of a datagram.
const DATAGRAM: usize = 60_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    const ALL: [Self; 2] = [Self::Tcp, Self::Udp];

    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    fn bytes(self) -> usize {
        match self {
            // Two long segments and a short one, with which the sink acknowledges all (see
            // `threshold::mtu`).
            Self::Tcp => LONGEST,
            Self::Udp => DATAGRAM,
        }
    }
}

/// The sides of a line of figures.
#[derive(Debug, Clone, Copy)]
struct Setting {
    peer: Peer,
    transport: Transport,
    family: Family,
    interval: u64,
}

impl Setting {
    fn all() -> impl Iterator<Item = Self> {
        let families = [Family::V4, Family::V6];
        let transports = Transport::ALL.map(|transport| families.map(|family| (transport, family)));
        [Peer::Sink, Peer::Socket].into_iter().flat_map(move |peer| {
            let transports = transports.concat();
            [1, 32].into_iter().flat_map(move |interval| {
                transports
                    .clone()
                    .into_iter()
                    .map(move |(transport, family)| Self {
                        peer,
                        transport,
                        family,
                        interval,
                    })
            })
        })
    }

    fn name(self) -> String {
        let version = if self.family == Family::V4 { 4 } else { 6 };
        let received = if self.peer == Peer::Socket {
            "-received"
        } else {
            ""
        };
        format!(
            "zerocopy.{}{version}{received}.every-{}",
            self.transport.name(),
            self.interval
        )
    }

    /// Bytes a second of each way.
    fn measure(self, network: &Network, rounds: usize) -> Result<[Vec<f64>; Way::ALL.len()]> {
        in_turn(rounds, Way::ALL, |way| {
            let task = Task {
                way,
                bytes: self.transport.bytes(),
                interval: self.interval,
                time: ROUND,
                completions: None,
            };
            if way != Way::Memory {
                return self.transport.run(network, self.family, &task);
            }
            let mut service = Service::start()?;
            let completions = service.connect()?;
            let task = Task {
                completions: Some(&completions),
                ..task
            };
            let rate = self.transport.run(network, self.family, &task);
            service.stop()?;
            rate
        })
    }

    fn budget(self, way: Way) -> Option<Budget> {
        match (way, self) {
            (
                Way::Memory,
                Self {
                    peer: Peer::Sink,
                    interval: 1,
                    ..
                },
            ) => Some(Budget::AtLeast(1.35)),
            _ => way.is_ours().then_some(Budget::AtLeast(1.0)),
        }
    }
}

impl Transport {
    /// Return bytes per second.
    fn run(self, network: &Network, family: Family, task: &Task<'_>) -> Result<f64> {
        if self == Self::Udp {
            let (socket, _receiver) = network.udp(family)?;
            return task.run(&socket);
        }
        let (socket, far) = network.tcp(family)?;
        let rate = task.run(&socket);
        socket.shutdown(Shutdown::Both)?;
        far.finish()?;
        rate
    }
}

pub(crate) fn run(processors: Processors, effort: Effort, report: &mut Report) -> Result<()> {
    let mut table = published::Table::default();
    for peer in [Peer::Sink, Peer::Socket] {
        let network = Network::new(peer, processors.load)?;
        for setting in Setting::all().filter(|setting| setting.peer == peer) {
            let name = setting.name();
            if !report.wants(&name) {
                continue;
            }
            let rates = setting.measure(&network, effort.rounds(8))?;
            let rates_of = |way: Way| &rates[way as usize];
            for way in Way::ALL.into_iter().skip(1) {
                let spread = Spread::of_ratios(rates_of(way), rates_of(Way::Classic));
                if way == Way::Memory {
                    table.note(setting, spread.median);
                }
                let name = format!("{name}.{}/classic", way.name());
                report.add(name, "×", spread, setting.budget(way));
            }
            let spread = Spread::of_ratios(rates_of(Way::Memory), rates_of(Way::Never));
            let budget = (peer == Peer::Sink).then_some(Budget::AtLeast(0.95));
            report.add(format!("{name}.memory/never"), "×", spread, budget);
            let gigabits: Vec<f64> = rates[0].iter().map(|bytes| bytes * 8.0 / 1e9).collect();
            report.add(format!("{name}.classic"), "Gb/s", Spread::of(&gigabits), None);
        }
    }
    report.note(&table);
    Ok(())
}
