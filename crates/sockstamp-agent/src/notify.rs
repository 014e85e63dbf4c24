//! Report to a service manager that the agent has started, and that it is alive: sd_notify(3).

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// The service manager that started us, if it wants notifications.
#[derive(Debug)]
pub(crate) struct Notifier {
    /// Half of the time without a word after which it ends us.
    every: Option<Duration>,
    last: Instant,
}

impl Notifier {
    /// Find it by the variables that it has set.
    pub(crate) fn new() -> Self {
        Self {
            every: sd_notify::watchdog_enabled().map(|patience| patience / 2),
            last: Instant::now(),
        }
    }

    /// Measuring has begun.
    pub(crate) fn ready(&self) {
        notify(NotifyState::Ready);
    }

    /// Report that the measuring thread is alive; return the time until the next report.
    pub(crate) fn alive(&mut self) -> Option<Duration> {
        let every = self.every?;
        if self.last.elapsed() >= every {
            notify(NotifyState::Watchdog);
            self.last = Instant::now();
        }
        Some(every.saturating_sub(self.last.elapsed()))
    }
}

fn notify(state: NotifyState<'_>) {
    // The service manager handles a service that stops reporting.
    let _ = sd_notify::notify(&[state]);
}
