//! The causes of delay that are planted, and the stages that must show them.

/// A cause of delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Queue,
    Network,
    Processor,
    Reader,
    Nagle,
}

impl Cause {
    pub(crate) const ALL: [Self; 5] = [
        Self::Queue,
        Self::Network,
        Self::Processor,
        Self::Reader,
        Self::Nagle,
    ];

    /// Return the stage that it makes longer.
    pub(crate) const fn stage(self) -> &'static str {
        match self {
            Self::Queue => "tx.qdisc",
            Self::Network => "net.forward",
            Self::Processor => "rx.wakeup",
            Self::Reader => "rx.app",
            Self::Nagle => "tx.queue",
        }
    }

    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Queue => {
                "Interfaces send 500 kbit/s, and a datagram of another program is queued before each message."
            }
            Self::Network => "The network takes 20 ms each way.",
            Self::Processor => {
                "The reader's processor has a more urgent task for 20 ms when a message arrives."
            }
            Self::Reader => "The reader does something else for 20 ms while a message waits.",
            Self::Nagle => {
                "A message is written in two pieces without TCP_NODELAY, and the reader's kernel\n   \
                 delays the acknowledgement of the first."
            }
        }
    }
}
