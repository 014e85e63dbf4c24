//! The stamps of each transport.

use sockstamp::timestamping::{MessageOptions, Options};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    pub(super) fn options(self) -> Options {
        let options = Options::new().tx_software().only_stamps();
        match self {
            Self::Tcp => options.tx_sched().tx_ack().tcp_id(),
            Self::Udp => options.id(),
        }
    }

    /// Report the stamps of single messages alone.
    pub(super) fn reporting(self) -> Options {
        let options = Options::new().software().only_stamps();
        match self {
            Self::Tcp => options.tcp_id(),
            Self::Udp => options.id(),
        }
    }

    pub(super) fn of_a_message(self) -> MessageOptions {
        let options = MessageOptions::new().tx_software();
        match self {
            Self::Tcp => options.tx_sched().tx_ack(),
            Self::Udp => options,
        }
    }

    pub(super) fn stamps_of_a_send(self) -> u64 {
        match self {
            Self::Tcp => 3,
            Self::Udp => 1,
        }
    }
}
