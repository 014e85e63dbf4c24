//! How long tasks of this host have waited for disks: pressure stall information,
//! Documentation/accounting/psi.rst, v6.18.

use std::fs;
use std::time::Duration;

/// The kernel sums it up about as often (PSI_FREQ, kernel/sched/psi.c, v6.18): what is read is at
/// most that old.
pub const AGE: Duration = Duration::from_secs(2);

/// Return the time since boot in which some task waited for a disk, or for a page from it; `None`
/// where the kernel does not count it.
#[must_use]
pub fn of_disks() -> Option<Duration> {
    parse(&fs::read_to_string("/proc/pressure/io").ok()?)
}

fn parse(text: &str) -> Option<Duration> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let mut words = some.split_ascii_whitespace();
    let total = words.find_map(|word| word.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_any_task_is_read() {
        let text = "some avg10=0.33 avg60=0.75 avg300=0.48 total=43896310\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=4133199\n";
        assert_eq!(parse(text), Some(Duration::from_micros(43_896_310)));
        assert_eq!(parse("full avg10=0.00 total=7\n"), None);
        assert_eq!(parse("some total=x"), None);
    }
}
