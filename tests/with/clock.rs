//! The clock of stamps, as the programs under test read it.

use nix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC in nanoseconds, which all stamps of sockstamp are in.
pub fn now() -> u64 {
    u64::try_from(read(ClockId::CLOCK_MONOTONIC)).unwrap()
}

/// CLOCK_REALTIME minus CLOCK_MONOTONIC in nanoseconds, from the narrowest of some brackets.
pub fn realtime_offset() -> i64 {
    let brackets = (0..16).map(|_| {
        let before = read(ClockId::CLOCK_MONOTONIC);
        let realtime = read(ClockId::CLOCK_REALTIME);
        let after = read(ClockId::CLOCK_MONOTONIC);
        (after - before, realtime - i64::midpoint(before, after))
    });
    brackets.min().unwrap().1
}

fn read(clock: ClockId) -> i64 {
    let time = clock_gettime(clock).unwrap();
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}
