/// Counters of a reader of error queues. They never decrease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Entries taken from queues: all below, and those that were reported.
    pub entries: u64,
    /// Entries that are lost because their control messages were cut (MSG_CTRUNC).
    pub truncated: u64,
    /// Entries that are lost because they could not be understood.
    pub malformed: u64,
    /// Stamps that came without a time: the socket requests that stamps be taken, but not delivered
    /// ([`Options::software`](crate::timestamping::Options::software)).
    pub without_time: u64,
    /// Entries that are lost because the caller panicked at one that was taken together with them.
    pub interrupted: u64,
}

impl Counters {
    /// Entries that were taken from a queue and not reported.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.truncated + self.malformed + self.without_time + self.interrupted
    }
}
