//! Times with their clocks, which C has at run time where Rust has them as types.

use sockstamp::clock::{self, Clock, Phc, Realtime, Timestamp};

use crate::boundary::{Errno, Result};
use crate::header::{
    SOCKSTAMP_CLOCK_MONOTONIC, SOCKSTAMP_CLOCK_NONE, SOCKSTAMP_CLOCK_PHC, SOCKSTAMP_CLOCK_REALTIME,
    SOCKSTAMP_CLOCK_TAI, sockstamp_clock, sockstamp_offset, sockstamp_time,
};

pub(crate) const NO_TIME: sockstamp_time = sockstamp_time {
    ns: 0,
    clock: SOCKSTAMP_CLOCK_NONE,
    reserved: 0,
};

pub(crate) fn realtime(time: Timestamp<Realtime>) -> sockstamp_time {
    on(SOCKSTAMP_CLOCK_REALTIME, time)
}

pub(crate) fn phc(time: Timestamp<Phc>) -> sockstamp_time {
    on(SOCKSTAMP_CLOCK_PHC, time)
}

fn on<C: Clock>(clock: sockstamp_clock, time: Timestamp<C>) -> sockstamp_time {
    sockstamp_time {
        ns: time.as_nanos(),
        clock,
        reserved: 0,
    }
}

pub(crate) fn measure(from: sockstamp_clock, to: sockstamp_clock) -> Result<sockstamp_offset> {
    let measured = clock::measure()?;
    let realtime = measured.offset.delta().as_nanos();
    // The offset of each clock from CLOCK_MONOTONIC.
    let ahead = |clock| match clock {
        SOCKSTAMP_CLOCK_MONOTONIC => Ok(0),
        SOCKSTAMP_CLOCK_REALTIME => Ok(realtime),
        SOCKSTAMP_CLOCK_TAI => Ok(realtime.saturating_add(measured.tai().delta().as_nanos())),
        _ => Err(Errno::INVALID),
    };
    let (ahead_from, ahead_to) = (ahead(from)?, ahead(to)?);
    let through_monotonic =
        (from == SOCKSTAMP_CLOCK_MONOTONIC) != (to == SOCKSTAMP_CLOCK_MONOTONIC);
    Ok(sockstamp_offset {
        ns: ahead_to.saturating_sub(ahead_from),
        // CLOCK_TAI and CLOCK_REALTIME are whole seconds apart.
        uncertainty_ns: if through_monotonic {
            measured.uncertainty.as_nanos()
        } else {
            0
        },
        from,
        to,
    })
}

pub(crate) fn convert(time: &mut sockstamp_time, offset: &sockstamp_offset) -> Result<()> {
    if time.clock == SOCKSTAMP_CLOCK_NONE || time.clock != offset.from {
        return Err(Errno::INVALID);
    }
    time.ns = time.ns.saturating_add_signed(offset.ns);
    time.clock = offset.to;
    Ok(())
}

/// Saturates at ±2^63 ns.
pub(crate) fn since(later: &sockstamp_time, earlier: &sockstamp_time) -> Result<i64> {
    if later.clock == SOCKSTAMP_CLOCK_NONE || later.clock != earlier.clock {
        return Err(Errno::INVALID);
    }
    // Both are on one clock, whichever it is.
    let [later, earlier] = [later, earlier].map(|time| Timestamp::<Phc>::from_nanos(time.ns));
    Ok((later - earlier).as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(clock: sockstamp_clock, ns: u64) -> sockstamp_time {
        sockstamp_time {
            ns,
            clock,
            reserved: 0,
        }
    }

    #[test]
    fn times_of_two_clocks_are_not_subtracted() {
        let sent = time(SOCKSTAMP_CLOCK_REALTIME, 5);
        assert_eq!(since(&time(SOCKSTAMP_CLOCK_REALTIME, 3), &sent), Ok(-2));
        assert_eq!(
            since(&time(SOCKSTAMP_CLOCK_PHC, 9), &sent),
            Err(Errno::INVALID)
        );
        assert_eq!(since(&NO_TIME, &NO_TIME), Err(Errno::INVALID));
    }

    #[test]
    fn an_offset_converts_only_times_of_its_own_clock() {
        let offset = sockstamp_offset {
            ns: -7,
            uncertainty_ns: 0,
            from: SOCKSTAMP_CLOCK_PHC,
            to: SOCKSTAMP_CLOCK_TAI,
        };
        let mut stamp = time(SOCKSTAMP_CLOCK_PHC, 10);
        assert_eq!(convert(&mut stamp, &offset), Ok(()));
        assert_eq!((stamp.ns, stamp.clock), (3, SOCKSTAMP_CLOCK_TAI));
        assert_eq!(convert(&mut stamp, &offset), Err(Errno::INVALID));
        assert_eq!((stamp.ns, stamp.clock), (3, SOCKSTAMP_CLOCK_TAI));
        assert_eq!(convert(&mut NO_TIME.clone(), &offset), Err(Errno::INVALID));
    }

    #[test]
    fn the_offsets_between_the_kernels_clocks_add_up() {
        let (monotonic, realtime, tai) = (
            SOCKSTAMP_CLOCK_MONOTONIC,
            SOCKSTAMP_CLOCK_REALTIME,
            SOCKSTAMP_CLOCK_TAI,
        );
        let there = measure(monotonic, realtime).unwrap();
        let back = measure(realtime, monotonic).unwrap();
        let slack = i64::try_from(there.uncertainty_ns + back.uncertainty_ns).unwrap();
        assert!((there.ns + back.ns).abs() <= slack + 2);
        assert!(there.uncertainty_ns > 0);
        let whole = measure(realtime, tai).unwrap();
        assert_eq!((whole.ns % 1_000_000_000, whole.uncertainty_ns), (0, 0));
        assert_eq!(
            measure(tai, SOCKSTAMP_CLOCK_PHC).err(),
            Some(Errno::INVALID)
        );
    }
}
