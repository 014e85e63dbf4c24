//! The protocol of sends without a copy.

use std::net::Shutdown;

use anyhow::Result;
use testbed::Family;

use super::methods::Task;
use crate::network::{LONGEST, Network};

/// Bytes of a datagram.
const DATAGRAM: usize = 60_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    pub(super) const ALL: [Self; 2] = [Self::Tcp, Self::Udp];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            // Two long segments and a short one, with which the sink acknowledges all (see
            // `threshold::mtu`).
            Self::Tcp => LONGEST,
            Self::Udp => DATAGRAM,
        }
    }

    /// Return bytes per second.
    pub(super) fn run(self, network: &Network, family: Family, task: &Task<'_>) -> Result<f64> {
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
