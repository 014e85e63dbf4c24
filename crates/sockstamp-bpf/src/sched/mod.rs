//! Provide what the programs of `sched.bpf.h` need from user space.

use std::fs::File;
use std::hint;
use std::io::{BufRead, BufReader, ErrorKind};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use libbpf_rs::ProgramInput;
use libbpf_rs::skel::OpenSkel;

use crate::error::{Error, Tried};
use crate::opening::open_at;
use crate::plan::Plan;
use crate::skeleton::Constants;
use crate::skeleton::symbols::SymbolsSkelBuilder;

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
    /// Of most sleeps in a call, those in calls on Unix sockets too.
    pub(crate) sleep: u64,
}

impl WakeFunctions {
    pub(crate) fn find() -> Result<Self, Error> {
        let lookup = "look up functions of the kernel";
        let mut place = MaybeUninit::uninit();
        let open = open_at(&mut place, SymbolsSkelBuilder::default()).tried(lookup)?;
        let skeleton = open.load().tried(lookup)?;
        let input = ProgramInput::default();
        skeleton
            .progs
            .find_wake_functions
            .test_run(input)
            .tried(lookup)?;
        let found = skeleton.maps.bss_data.as_ref();
        let address =
            |address: Option<u64>| address.filter(|found| *found != 0).unwrap_or(NO_FUNCTION);
        Ok(Self {
            stream: address(found.map(|found| found.wake_stream)),
            datagram: address(found.map(|found| found.wake_datagram)),
            poll: address(found.map(|found| found.wake_poll)),
            epoll: address(found.map(|found| found.wake_epoll)),
            uring: address(found.map(|found| found.wake_uring)),
            sleep: address(found.map(|found| found.wake_sleep)),
        })
    }
}

/// Set the addresses of the functions by which tasks wake, if their waits are told apart.
pub(crate) fn constants(constants: &mut Constants, plan: &Plan) -> Result<(), Error> {
    if !plan.sched {
        return Ok(());
    }
    let functions = WakeFunctions::find()?;
    constants.setting_sched = true;
    constants.setting_wake_stream = functions.stream;
    constants.setting_wake_datagram = functions.datagram;
    constants.setting_wake_poll = functions.poll;
    constants.setting_wake_epoll = functions.epoll;
    constants.setting_wake_uring = functions.uring;
    Ok(())
}

/// Parse the address of a line such as `ffffffff816db080 t pollwake`, with `[module]` behind a
/// name of a module.
fn address_of(line: &[u8]) -> Option<u64> {
    let digits = line.split(u8::is_ascii_whitespace).next()?;
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// Return whether the kernel shows us where its functions are: to others it shows zeros
/// (`kallsyms_show_value()`, kernel/kallsyms.c).
pub(crate) fn symbols_are_shown() -> Option<bool> {
    /// A few symbols of processor-local data may really be at 0.
    const ENOUGH: usize = 100;
    let symbols = match File::open(SYMBOLS) {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::PermissionDenied
            ) =>
        {
            return Some(false);
        }
        opened => opened.ok()?,
    };
    let lines = BufReader::new(symbols).split(b'\n').map_while(Result::ok);
    let shown = lines
        .take(ENOUGH)
        .any(|line| address_of(&line).is_some_and(|address| address != 0));
    Some(shown)
}

/// Return true if the kernel shows its scheduler's clock. Debian kernels deny perf_event_open()
/// without CAP_SYS_ADMIN by default (`perf_event_paranoid` 3).
pub(crate) fn clock_is_shown() -> bool {
    crate::timer::open().is_ok()
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

    /// The address in the kernel's own list.
    fn listed(name: &str) -> u64 {
        let symbols = std::fs::read(SYMBOLS).unwrap();
        let mut lines = symbols.split(|byte| *byte == b'\n');
        let is_it =
            |line: &&[u8]| line.split(u8::is_ascii_whitespace).nth(2) == Some(name.as_bytes());
        lines
            .find(is_it)
            .map_or(NO_FUNCTION, |line| address_of(line).unwrap())
    }

    #[test]
    fn wake_functions_are_where_the_kernel_lists_them() {
        let listed = WakeFunctions {
            stream: listed("woken_wake_function"),
            datagram: listed("receiver_wake_function"),
            poll: listed("pollwake"),
            epoll: listed("ep_poll_callback"),
            uring: listed("io_poll_wake"),
            sleep: listed("autoremove_wake_function"),
        };
        assert_ne!(listed.poll, NO_FUNCTION);
        assert_eq!(WakeFunctions::find().unwrap(), listed);
    }
}
