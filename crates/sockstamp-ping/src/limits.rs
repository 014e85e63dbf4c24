use std::time::Duration;

/// Limits of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Events that may wait to be read. Further ones are dropped and counted
    /// ([`dropped_events`](crate::Counters::dropped_events)), except
    /// [`Ended`](crate::Event::Ended). Default: 65536.
    pub events: usize,
    /// Time that an answer waits for missing stamps of its probe. Default: 50 ms.
    pub stamp_wait: Duration,
    /// Time that [`Engine::start`](crate::Engine::start) waits for the kernel to stamp received
    /// packets. Default: 500 ms.
    pub settle: Duration,
    /// Longest delay in noticing the end of a network namespace; its thread keeps it alive until
    /// then. Default: 250 ms.
    pub look: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            events: 1 << 16,
            stamp_wait: Duration::from_millis(50),
            settle: Duration::from_millis(500),
            look: Duration::from_millis(250),
        }
    }
}
