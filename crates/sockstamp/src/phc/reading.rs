//! One comparison of a PHC with CLOCK_REALTIME, from the kernel's answer. Pure.

use sockstamp_clock::{ClockOffset, Nanos, Phc, Realtime, Timestamp};

/// The way by which a reading was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReadBy {
    /// PTP_SYS_OFFSET_PRECISE: the NIC and the processor noted their clocks at one moment.
    Precise,
    /// PTP_SYS_OFFSET_EXTENDED: the driver read the NIC's clock between two readings of the
    /// system's.
    Extended,
}

impl ReadBy {
    /// The name of the ioctl(2).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Precise => "PTP_SYS_OFFSET_PRECISE",
            Self::Extended => "PTP_SYS_OFFSET_EXTENDED",
        }
    }
}

/// A comparison of a PHC with CLOCK_REALTIME.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhcReading {
    /// The NIC's clock.
    pub at: Timestamp<Phc>,
    /// CLOCK_REALTIME minus the NIC's clock.
    pub offset: ClockOffset<Phc, Realtime>,
    /// The true offset was within plus or minus this: half of the narrowest bracket, rounded up. Of
    /// [`ReadBy::Precise`], the rounding of two clocks: an error of the hardware's own is unknown.
    pub uncertainty: Nanos,
    /// The way by which it was made.
    pub by: ReadBy,
}

impl PhcReading {
    pub(super) fn precise(answer: &libc::ptp_sys_offset_precise) -> Option<Self> {
        let (at, realtime) = (nanos(answer.device)?, nanos(answer.sys_realtime)?);
        let (at, realtime) = (Timestamp::from_nanos(at), Timestamp::from_nanos(realtime));
        Some(Self {
            at,
            offset: ClockOffset::between(at, realtime),
            uncertainty: Nanos(1),
            by: ReadBy::Precise,
        })
    }

    /// The NIC's clock was read at some moment between the system's readings; it was rounded, too.
    pub(super) fn extended(bracket: [libc::ptp_clock_time; 3]) -> Option<Self> {
        let [before, at, after] = bracket.map(nanos);
        let (before, at, after) = (before?, Timestamp::from_nanos(at?), after?);
        let width = after.checked_sub(before)?;
        let middle = Timestamp::from_nanos(before + width / 2);
        Some(Self {
            at,
            offset: ClockOffset::between(at, middle),
            uncertainty: Nanos(width.div_ceil(2) + 1),
            by: ReadBy::Extended,
        })
    }
}

/// Return nanoseconds since the clock's origin, `None` before it.
fn nanos(time: libc::ptp_clock_time) -> Option<u64> {
    let seconds = u64::try_from(time.sec).ok()?;
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(time.nsec.into())
}

#[cfg(test)]
mod tests {
    use sockstamp_clock::Delta;

    use super::*;

    fn time(sec: i64, nsec: u32) -> libc::ptp_clock_time {
        libc::ptp_clock_time {
            sec,
            nsec,
            reserved: 0,
        }
    }

    #[test]
    fn a_bracket_bounds_its_reading() {
        let reading = PhcReading::extended([time(10, 100), time(47, 150), time(10, 211)]).unwrap();
        assert_eq!(reading.at, Timestamp::from_nanos(47_000_000_150));
        assert_eq!(
            reading.offset.delta(),
            Delta(155 - 150 - 37_000_000_000),
            "the middle of the bracket"
        );
        assert_eq!(reading.uncertainty, Nanos(57));
        // The clock was read at one of its ends.
        for read_at in [10_000_000_100, 10_000_000_211] {
            let truth = read_at - 47_000_000_150;
            let error = (reading.offset.delta().as_nanos() - truth).unsigned_abs();
            assert!(error <= reading.uncertainty.0, "{error}");
        }
    }

    #[test]
    fn a_bracket_that_a_step_turned_around_is_none() {
        assert_eq!(
            PhcReading::extended([time(10, 0), time(1, 0), time(9, 0)]),
            None
        );
        assert_eq!(
            PhcReading::extended([time(10, 0), time(-1, 0), time(11, 0)]),
            None
        );
    }

    #[test]
    fn readings_at_one_moment_have_the_error_of_rounding() {
        let answer = libc::ptp_sys_offset_precise {
            device: time(5, 7),
            sys_realtime: time(3, 9),
            sys_monoraw: time(1, 0),
            rsv: [0; 4],
        };
        let reading = PhcReading::precise(&answer).unwrap();
        assert_eq!(reading.offset.delta(), Delta(2 - 2_000_000_000));
        assert_eq!(reading.uncertainty, Nanos(1));
    }
}
