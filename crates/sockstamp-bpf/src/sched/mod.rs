//! Provide what the programs of `sched.bpf.h` need from user space.

#[expect(unsafe_code, reason = "the one system call that no crate here wraps")]
mod timer;

use std::fs::File;
use std::hint;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::fd::IntoRawFd;
use std::time::{Duration, Instant};

use libbpf_rs::{Link, ProgramMut};

use crate::error::{Error, Tried};

const SYMBOLS: &str = "/proc/kallsyms";
/// The same as `NO_FUNCTION` of `sched.bpf.h`: there is no function.
const NO_FUNCTION: u64 = u64::MAX;

/// Addresses of the wake functions of wait queue entries; each tells how its task waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WakeFunctions {
    pub(crate) stream: u64,
    pub(crate) datagram: u64,
    pub(crate) poll: u64,
    pub(crate) epoll: u64,
    pub(crate) uring: u64,
}

impl WakeFunctions {
    pub(crate) fn find() -> Result<Self, Error> {
        let symbols = File::open(SYMBOLS).tried(format!("read {SYMBOLS}"))?;
        Ok(Self::parse(BufReader::new(symbols)))
    }

    /// Stop at the last of them: the kernel makes each line anew, for a hundred thousand symbols.
    fn parse(mut symbols: impl BufRead) -> Self {
        const NAMES: [&[u8]; 5] = [
            b"woken_wake_function",
            b"receiver_wake_function",
            b"pollwake",
            b"ep_poll_callback",
            b"io_poll_wake",
        ];
        let mut found = [NO_FUNCTION; NAMES.len()];
        let mut line = Vec::new();
        while found.contains(&NO_FUNCTION) && symbols.read_until(b'\n', &mut line).is_ok_and(|read| read > 0)
        {
            if let Some(symbol) = Symbol::parse(&line)
                && let Some(place) = NAMES.iter().position(|name| *name == symbol.name)
            {
                found[place] = symbol.address().unwrap_or(NO_FUNCTION);
            }
            line.clear();
        }
        let [stream, datagram, poll, epoll, uring] = found;
        Self {
            stream,
            datagram,
            poll,
            epoll,
            uring,
        }
    }
}

/// A line such as `ffffffff816db080 t pollwake`, with `[module]` after the name of a module's.
struct Symbol<'line> {
    digits: &'line [u8],
    name: &'line [u8],
}

impl<'line> Symbol<'line> {
    fn parse(line: &'line [u8]) -> Option<Self> {
        let mut fields = line.split(u8::is_ascii_whitespace);
        Some(Self {
            digits: fields.next()?,
            name: fields.nth(1)?,
        })
    }

    fn address(&self) -> Option<u64> {
        u64::from_str_radix(str::from_utf8(self.digits).ok()?, 16).ok()
    }
}

/// Return whether the kernel shows us where its functions are: to others it shows zeros
/// (`kallsyms_show_value()`, kernel/kallsyms.c).
pub(crate) fn symbols_are_shown() -> Option<bool> {
    /// A few symbols of processor-local data may really be at 0.
    const ENOUGH: usize = 100;
    let symbols = match File::open(SYMBOLS) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            return Some(false);
        }
        opened => opened.ok()?,
    };
    let lines = BufReader::new(symbols).split(b'\n').map_while(Result::ok);
    let shown = lines.take(ENOUGH).any(|line| {
        let address = Symbol::parse(&line).and_then(|symbol| symbol.address());
        address.is_some_and(|address| address != 0)
    });
    Some(shown)
}

/// Return true if the kernel shows its scheduler's clock. Debian kernels deny perf_event_open()
/// without CAP_SYS_ADMIN by default (`perf_event_paranoid` 3).
pub(crate) fn clock_is_shown() -> bool {
    timer::open().is_ok()
}

/// Let the program see the scheduler's clock again and again.
pub(crate) fn attach_clock(program: &ProgramMut<'_>) -> libbpf_rs::Result<Link> {
    let event = timer::open()?;
    // The link closes it: bpf_link_perf_detach(), libbpf.
    program.attach_perf_event(event.into_raw_fd())
}

/// Wait until the clock was seen, but no longer than this. The timer's CPU may take no sample while
/// it idles, so keep it busy: it is the CPU on which the timer was opened, most likely this one.
pub(crate) fn await_clock(seen_at: &u64) {
    const PATIENCE: Duration = Duration::from_millis(50);
    let begun = Instant::now();
    // Programs write it meanwhile.
    while *hint::black_box(seen_at) == 0 && begun.elapsed() < PATIENCE {
        hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_their_whole_name() {
        let symbols = "0000000000000000 A fixed_percpu_data\n\
                       ffffffff816db080 t pollwake\n\
                       ffffffff816db0a0 t pollwake_more\n\
                       ffffffffc0001000 t io_poll_wake\t[io_uring]\n";
        let found = WakeFunctions::parse(symbols.as_bytes());
        assert_eq!(found.poll, 0xffff_ffff_816d_b080);
        assert_eq!(found.uring, 0xffff_ffff_c000_1000);
        assert_eq!(found.epoll, NO_FUNCTION);
    }
}
