use std::time::Duration;

/// Longest wait for what must happen. It ends a test whose wait is in vain, and says nothing about
/// how long anything takes: in an emulated guest, on a host whose processors are stolen, sockstamp
/// was seen to need 30 seconds to start and to end.
pub const PATIENCE: Duration = Duration::from_secs(90);
