//! Tell a service manager that the agent has started, and that it is alive: sd_notify(3).

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The service manager that started us, if it wants notifications.
#[derive(Debug)]
pub(crate) struct Notifier {
    manager: Option<(UnixDatagram, SocketAddr)>,
    /// Half of the time without a word after which it ends us.
    every: Option<Duration>,
    last: Instant,
}

impl Notifier {
    /// Find it by the variables that it has set.
    pub(crate) fn new() -> Self {
        let half = |text: String| {
            text.parse::<u64>()
                .ok()
                .map(|us| Duration::from_micros(us / 2))
        };
        Self {
            manager: manager(),
            every: env::var("WATCHDOG_USEC").ok().and_then(half),
            last: Instant::now(),
        }
    }

    /// Measuring has begun.
    pub(crate) fn ready(&self) {
        self.say("READY=1");
    }

    /// Report that the measuring thread is alive; return the time until the next report.
    pub(crate) fn alive(&mut self) -> Option<Duration> {
        let every = self.every.filter(|_| self.manager.is_some())?;
        if self.last.elapsed() >= every {
            self.say("WATCHDOG=1");
            self.last = Instant::now();
        }
        Some(every.saturating_sub(self.last.elapsed()))
    }

    fn say(&self, word: &str) {
        if let Some((socket, manager)) = &self.manager {
            // The service manager handles a service that stops reporting.
            let _ = socket.send_to_addr(word.as_bytes(), manager);
        }
    }
}

/// Open a socket to the address in the environment: a path, or a name after `@`.
fn manager() -> Option<(UnixDatagram, SocketAddr)> {
    let name = env::var_os("NOTIFY_SOCKET")?;
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&name),
    };
    Some((UnixDatagram::unbound().ok()?, address.ok()?))
}
