//! Give back the pages of code that only a start runs: libbpf, the reader of the kernel's types,
//! the probes. They are most of the code's memory.

use std::fs;

use rustix::mm::{Advice, madvise};

/// A mapping of a file's code: addresses, and their end.
#[derive(Debug, PartialEq, Eq)]
struct Code {
    start: usize,
    end: usize,
}

/// Unmap the pages of this program's code. What runs again is mapped again from the page cache.
/// Best effort: without it more memory counts as used.
pub(crate) fn release() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let Some(code) = find(&maps, release as fn() as usize) else {
        return;
    };
    let start = std::ptr::with_exposed_provenance_mut(code.start);
    // SAFETY: the pages are those of a file, and are not writable, so that none differs from the
    // file: the kernel maps the same bytes at the next access, of any thread.
    let _ = unsafe { madvise(start, code.end - code.start, Advice::LinuxDontNeed) };
}

/// Find the mapping with this address in `/proc/PID/maps` (proc(5)), if it is a file's code that
/// cannot have been changed.
fn find(maps: &str, address: usize) -> Option<Code> {
    maps.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).ok());
        let code = Code {
            start: start?,
            end: end?,
        };
        let permissions = fields.next()?;
        let inode = fields.nth(2)?;
        let found =
            (code.start..code.end).contains(&address) && permissions == "r-xp" && inode != "0";
        found.then_some(code)
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::{env, thread};

    use super::*;

    const MAPS: &str = "\
5500000000-5500001000 r--p 00000000 fe:00 77 /usr/bin/sockstamp
5500001000-5500009000 r-xp 00001000 fe:00 77 /usr/bin/sockstamp
5500009000-550000a000 rw-p 00009000 fe:00 77 /usr/bin/sockstamp
7f00000000-7f00001000 r-xp 00000000 00:00 0
7f00001000-7f00002000 rwxp 00000000 fe:00 78 /usr/lib/strange.so
";

    #[test]
    fn only_code_of_a_file_that_cannot_be_written_is_found() {
        let code = Code {
            start: 0x55_0000_1000,
            end: 0x55_0000_9000,
        };
        assert_eq!(find(MAPS, 0x55_0000_1234), Some(code));
        for address in [
            0x55_0000_0000,
            0x55_0000_9000,
            0x7f_0000_0000,
            0x7f_0000_1000,
            0,
        ] {
            assert_eq!(find(MAPS, address), None, "{address:x}");
        }
    }

    /// The resident bytes of the mapping with this function, as the kernel counts them.
    fn resident_kilobytes() -> u64 {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let code = find(&maps, release as fn() as usize).unwrap();
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = smaps.lines();
        lines
            .find(|line| line.starts_with(&format!("{:x}-", code.start)))
            .unwrap();
        let size = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
        size.trim().strip_suffix(" kB").unwrap().parse().unwrap()
    }

    /// Other tests of a process come back to code that was released meanwhile: this one looks in a
    /// process of its own.
    #[test]
    fn released_code_runs_on_and_needs_less_memory() {
        const ALONE: &str = "SOCKSTAMP_TEST_ALONE";
        if env::var_os(ALONE).is_none() {
            let mut alone = Command::new(env::current_exe().unwrap());
            alone.args(["--exact", thread::current().name().unwrap()]);
            let output = alone.env(ALONE, "1").output().unwrap();
            assert!(output.status.success(), "{output:?}");
            let printed = String::from_utf8_lossy(&output.stdout);
            return assert!(printed.contains(" 1 passed"), "{printed}");
        }
        let before = resident_kilobytes();
        release();
        let after = resident_kilobytes();
        assert!(after < before, "{after} of {before} kB");
    }
}
