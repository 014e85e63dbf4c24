//! The clocks that stamps come from: how far apart they are, and when CLOCK_REALTIME is stepped.
//!
//! Receive stamps are CLOCK_REALTIME, everything else is CLOCK_MONOTONIC. [`measure`] gives the
//! offset between them. It holds until CLOCK_REALTIME is stepped, which a [`ClockStepWatch`]
//! reports. Slewing does not change it: the kernel counts both clocks with the same rate and keeps
//! their offset as a number of its own (`offs_real` of `struct timekeeper`,
//! kernel/time/timekeeping.c, v6.18).

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{
    ClockId as TimerClock, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags,
};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::read;
pub use sockstamp_clock::{
    Clock, ClockOffset, Delta, Monotonic, Nanos, Phc, Realtime, Tai, Timestamp,
};

use crate::{Error, Result};

/// Bracketed reads of one measurement. The narrowest counts, so one without preemption is enough.
const ATTEMPTS: usize = 8;

/// The distance of the clocks when [`measure`] read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RealtimeOffset {
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC.
    pub offset: ClockOffset<Monotonic, Realtime>,
    /// The true offset was within plus or minus this: half of the narrowest bracket, rounded up.
    /// Tens of nanoseconds where clock_gettime(2) needs no system call.
    pub uncertainty: Nanos,
    /// CLOCK_TAI minus CLOCK_REALTIME in whole seconds: 37 since 2017, or 0 if no program has set
    /// it.
    pub tai_offset_seconds: i64,
    /// The time of measurement: the middle of the bracket.
    pub at: Timestamp<Monotonic>,
}

impl RealtimeOffset {
    /// CLOCK_TAI minus CLOCK_REALTIME; exact, saturating at ±2^63 ns.
    #[must_use]
    pub fn tai(&self) -> ClockOffset<Realtime, Tai> {
        ClockOffset::new(Delta(self.tai_offset_seconds.saturating_mul(1_000_000_000)))
    }
}

/// Measure how far CLOCK_REALTIME and CLOCK_TAI are from CLOCK_MONOTONIC now.
///
/// Each attempt reads CLOCK_REALTIME between two readings of CLOCK_MONOTONIC. It was read at some
/// moment of that bracket, so the middle is off by at most half of it; the narrowest of several
/// brackets is taken. It takes some microseconds.
///
/// Source: clock_gettime(2).
///
/// # Errors
///
/// [`Error::Call`] if a clock cannot be read, which only a seccomp filter can cause.
pub fn measure() -> Result<RealtimeOffset> {
    let mut narrowest = bracket()?;
    for _ in 1..ATTEMPTS {
        let next = bracket()?;
        if next.width() < narrowest.width() {
            narrowest = next;
        }
    }
    Ok(RealtimeOffset {
        offset: ClockOffset::between(narrowest.middle(), narrowest.realtime),
        uncertainty: Nanos(narrowest.width().0.div_ceil(2)),
        tai_offset_seconds: tai_offset_seconds()?,
        at: narrowest.middle(),
    })
}

struct Bracket {
    before: Timestamp<Monotonic>,
    realtime: Timestamp<Realtime>,
    after: Timestamp<Monotonic>,
}

impl Bracket {
    fn width(&self) -> Nanos {
        self.after.since(self.before).unwrap_or(Nanos::MAX)
    }

    fn middle(&self) -> Timestamp<Monotonic> {
        self.before + Nanos(self.width().0 / 2)
    }
}

fn bracket() -> Result<Bracket> {
    Ok(Bracket {
        before: now(ClockId::CLOCK_MONOTONIC)?,
        realtime: now(ClockId::CLOCK_REALTIME)?,
        after: now(ClockId::CLOCK_MONOTONIC)?,
    })
}

/// The two clocks differ by whole seconds and are read at most some milliseconds apart, so rounding
/// to the nearest second removes the time between the readings.
fn tai_offset_seconds() -> Result<i64> {
    let realtime: Timestamp<Realtime> = now(ClockId::CLOCK_REALTIME)?;
    let tai: Timestamp<Tai> = now(ClockId::CLOCK_TAI)?;
    let offset = ClockOffset::between(realtime, tai).delta().as_nanos();
    Ok((offset + 500_000_000).div_euclid(1_000_000_000))
}

fn now<C: Clock>(id: ClockId) -> Result<Timestamp<C>> {
    let time = clock_gettime(id).map_err(Error::call("clock_gettime", C::NAME))?;
    Ok(Timestamp::from_nanos(
        Nanos::from(Duration::from(time)).as_nanos(),
    ))
}

/// The result of a [`ClockStepWatch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub enum Watched {
    /// CLOCK_REALTIME was stepped since the watch began, or since it last said so.
    Stepped,
    /// The timeout passed without a step of the clock.
    Timeout,
}

/// Reports steps of CLOCK_REALTIME.
///
/// A step is every change other than of speed: clock_settime(2), settimeofday(2), ADJ_SETOFFSET of
/// adjtimex(2), a leap second, and the end of a suspend, during which CLOCK_MONOTONIC stands still.
/// Slewing is not a step. Several steps between two waits are reported once.
///
/// It is a timer that never expires but is cancelled by a step. Its descriptor ([`AsFd`]) is
/// readable from then until [`wait`](Self::wait) has reported it, so it can be polled together with
/// others.
///
/// Source: TFD_TIMER_CANCEL_ON_SET in timerfd_create(2), `timerfd_clock_was_set()` in fs/timerfd.c,
/// v6.18.
#[derive(Debug)]
pub struct ClockStepWatch {
    timer: TimerFd,
}

impl ClockStepWatch {
    /// Begin to watch. Needs no privilege.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if the process has no file descriptor or memory left.
    pub fn new() -> Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(TimerClock::CLOCK_REALTIME, flags)
            .map_err(Error::call("timerfd_create", "CLOCK_REALTIME"))?;
        let never = Expiration::OneShot(TimeSpec::new(libc::c_long::MAX, 0));
        let cancel_on_set =
            TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET;
        match timer.set(never, cancel_on_set) {
            // ECANCELED means that the clock was stepped since the timer was created; the timer is
            // set nevertheless: timerfd_settime(2). That was before the watch began.
            Ok(()) | Err(Errno::ECANCELED) => Ok(Self { timer }),
            Err(errno) => Err(Error::call(
                "timerfd_settime(TFD_TIMER_CANCEL_ON_SET)",
                "CLOCK_REALTIME",
            )(errno)),
        }
    }

    /// Wait for a step, at most `timeout`; return at once if there was one since the last call. A
    /// timeout that is no multiple of a millisecond may be exceeded by the rest of that
    /// millisecond; one too long for the clock is none.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if poll(2) or read(2) fails: no memory left.
    pub fn wait(&self, timeout: Duration) -> Result<Watched> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if stepped(read(&self.timer, &mut [0; 8]))? {
                return Ok(Watched::Stepped);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Watched::Timeout);
            }
            let mut timers = [PollFd::new(self.timer.as_fd(), PollFlags::POLLIN)];
            match poll(&mut timers, poll_timeout(left)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => {
                    return Err(Error::call("poll", "the timer on CLOCK_REALTIME")(errno));
                }
            }
        }
    }
}

impl AsFd for ClockStepWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

/// Interpret a read of the timer. An expiration counts as a step: only a step could have reached
/// that time.
fn stepped(read: nix::Result<usize>) -> Result<bool> {
    match read {
        Ok(_) | Err(Errno::ECANCELED) => Ok(true),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(false),
        Err(errno) => Err(Error::call("read", "the timer on CLOCK_REALTIME")(errno)),
    }
}

/// Rounded up, since a poll that ends too early would be repeated without rest until the time has
/// come.
fn poll_timeout(left: Option<Duration>) -> PollTimeout {
    let Some(left) = left else {
        return PollTimeout::NONE;
    };
    let millis = left.as_nanos().div_ceil(1_000_000);
    // A longer wait than poll takes is one of several polls.
    i32::try_from(millis)
        .ok()
        .and_then(|millis| PollTimeout::try_from(millis).ok())
        .unwrap_or(PollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_takes_monotonic_to_realtime() {
        let measured = measure().unwrap();
        let before: Timestamp<Realtime> = now(ClockId::CLOCK_REALTIME).unwrap();
        let converted = measured
            .offset
            .convert(now(ClockId::CLOCK_MONOTONIC).unwrap());
        let after: Timestamp<Realtime> = now(ClockId::CLOCK_REALTIME).unwrap();
        // Each reading is rounded down to a nanosecond by itself.
        let slack = measured.uncertainty + Nanos(1);
        assert!(
            before - converted <= Delta(i64::try_from(slack.0).unwrap()),
            "{before:?} {converted:?}"
        );
        assert!(
            converted - after <= Delta(i64::try_from(slack.0).unwrap()),
            "{converted:?} {after:?}"
        );
        assert!(
            measured.uncertainty < Nanos::from_millis(1),
            "{}",
            measured.uncertainty
        );
    }

    #[test]
    fn tai_is_a_whole_number_of_seconds_ahead() {
        let measured = measure().unwrap();
        assert!(
            (0..100).contains(&measured.tai_offset_seconds),
            "{}",
            measured.tai_offset_seconds
        );
        assert_eq!(
            measured.tai().delta(),
            Delta(measured.tai_offset_seconds * 1_000_000_000)
        );
    }

    #[test]
    fn half_of_an_odd_bracket_is_rounded_up() {
        let bracket = Bracket {
            before: Timestamp::from_nanos(100),
            realtime: Timestamp::from_nanos(1_000),
            after: Timestamp::from_nanos(107),
        };
        assert_eq!(
            (bracket.width(), bracket.middle()),
            (Nanos(7), Timestamp::from_nanos(103))
        );
    }

    #[test]
    fn a_clock_without_a_step_times_out() {
        let watch = ClockStepWatch::new().unwrap();
        let start = Instant::now();
        assert_eq!(
            watch.wait(Duration::from_millis(20)).unwrap(),
            Watched::Timeout
        );
        assert!(start.elapsed() >= Duration::from_millis(20));
        assert_eq!(watch.wait(Duration::ZERO).unwrap(), Watched::Timeout);
    }

    #[test]
    fn the_timer_is_armed_and_never_expires() {
        let watch = ClockStepWatch::new().unwrap();
        match watch.timer.get().unwrap() {
            Some(Expiration::OneShot(left)) => assert!(left.tv_sec() > 50 * 365 * 86_400, "{left}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_cancelled_timer_is_a_step() {
        assert!(stepped(Err(Errno::ECANCELED)).unwrap());
        assert!(!stepped(Err(Errno::EAGAIN)).unwrap());
        assert!(!stepped(Err(Errno::EINTR)).unwrap());
        let error = stepped(Err(Errno::ENOMEM)).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("read on the timer on CLOCK_REALTIME: "),
            "{error}"
        );
    }

    #[test]
    fn timeouts_are_rounded_up_and_limited() {
        assert_eq!(poll_timeout(None), PollTimeout::NONE);
        assert_eq!(
            poll_timeout(Some(Duration::from_nanos(1))),
            PollTimeout::from(1_u8)
        );
        assert_eq!(poll_timeout(Some(Duration::MAX)), PollTimeout::MAX);
    }
}
