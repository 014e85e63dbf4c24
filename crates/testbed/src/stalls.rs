use std::time::{Duration, Instant};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::clock_gettime;

/// A loop that is due often and has little to do: how late this machine wakes it is the least that
/// a program of the same rate can show.
#[derive(Clone, Copy, Debug)]
pub struct BareLoop {
    /// Time between two turns.
    pub gap: Duration,
    /// Processor time of a turn.
    pub work: Duration,
    /// A loop that is later than this gives up what it has missed.
    pub latest: Duration,
}

impl BareLoop {
    /// Run on this thread, at its priority. Return the 99th percentile of the delays.
    pub fn p99_of_stalls(&self, run: Duration) -> Duration {
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::empty()).unwrap();
        let mut delays = Vec::new();
        let mut due = now();
        let end = due + run;
        while due < end {
            if due > now() {
                let time = Expiration::OneShot(TimeSpec::from_duration(due));
                let absolute = TimerSetTimeFlags::TFD_TIMER_ABSTIME;
                timer.set(time, absolute).unwrap();
                timer.wait().unwrap();
            }
            delays.push(now().saturating_sub(due));
            let start = Instant::now();
            while start.elapsed() < self.work {}
            due += self.gap;
            if now() > due + self.latest {
                due = now();
            }
        }
        delays.sort_unstable();
        delays[delays.len() * 99 / 100]
    }
}

fn now() -> Duration {
    let now = clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    now.unwrap().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_cannot_keep_pace_is_late_until_it_gives_up() {
        let slow = BareLoop {
            gap: Duration::from_micros(10),
            work: Duration::from_millis(1),
            latest: Duration::from_millis(20),
        };
        let late = slow.p99_of_stalls(Duration::from_millis(3));
        assert!(late >= Duration::from_millis(10), "{late:?}");
    }
}
