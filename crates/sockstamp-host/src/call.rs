//! The system call that a task sleeps in: proc(5)'s `/proc/PID/task/TID/syscall`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::libc;
use serde::{Deserialize, Serialize};

/// Descriptors that a call is asked for: a task that polls more is an event loop.
const MOST: usize = 64;

/// The call that a task sleeps in, as far as its arguments are in memory.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Asleep {
    pub(crate) call: Call,
    /// The descriptors that it waits on to read; `None` if they are too many.
    pub(crate) descriptors: Option<Vec<u64>>,
    pub(crate) ends_after: Option<Duration>,
}

impl Asleep {
    /// Read it. That waits for pages that may not come.
    pub(crate) fn of(pid: u32, task: u32) -> Option<Self> {
        let text = fs::read_to_string(of_task(pid, task).join("syscall")).ok()?;
        let process = Path::new("/proc").join(pid.to_string());
        let call = Call::read(&text)?;
        Some(Self {
            call,
            descriptors: call.descriptors(&process),
            ends_after: call.ends_after(&process, &text),
        })
    }
}

/// Return the folder of a task in proc(5).
pub(crate) fn of_task(pid: u32, task: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/task/{task}"))
}

/// A system call that waits for data or room, and its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Call {
    /// Of one descriptor.
    Read { fd: u64 },
    /// The same, which sends.
    Send { fd: u64 },
    /// An array of `struct pollfd`.
    Poll { array: u64, count: u64 },
    /// A set of bits.
    Select { below: u64, set: u64 },
    /// The descriptors of an epoll instance.
    Epoll { fd: u64 },
}

impl Call {
    /// `0 0x3 0x7ffc… 0x400 …`: a number, its arguments, the stack and the instruction pointer.
    fn read(text: &str) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace();
        let number: libc::c_long = fields.next()?.parse().ok()?;
        let mut argument = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
        let (first, second) = (argument()?, argument()?);
        match number {
            libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg => {
                Some(Self::Read { fd: first })
            }
            libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
            | libc::SYS_sendfile => Some(Self::Send { fd: first }),
            libc::SYS_ppoll => Some(Self::Poll {
                array: first,
                count: second,
            }),
            libc::SYS_pselect6 => Some(Self::Select {
                below: first,
                set: second,
            }),
            libc::SYS_epoll_pwait | SYS_EPOLL_PWAIT2 => Some(Self::Epoll { fd: first }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll => Some(Self::Poll {
                array: first,
                count: second,
            }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select => Some(Self::Select {
                below: first,
                set: second,
            }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait => Some(Self::Epoll { fd: first }),
            _ => None,
        }
    }

    /// Return true for the call of an event loop, which may have no other connection just now.
    pub(crate) const fn is_of_loop(self) -> bool {
        matches!(self, Self::Epoll { .. })
    }

    /// Return true for a wait for any of several things.
    pub(crate) const fn is_of_events(self) -> bool {
        !matches!(self, Self::Read { .. } | Self::Send { .. })
    }

    /// Return the time after which it ends without any event, if it does.
    fn ends_after(self, process: &Path, text: &str) -> Option<Duration> {
        let mut fields = text.split_ascii_whitespace();
        let number: libc::c_long = fields.next()?.parse().ok()?;
        let mut argument = |at: usize| {
            let field = fields.nth(at)?.strip_prefix("0x")?;
            u64::from_str_radix(field, 16).ok()
        };
        let of_pointer = |at: Option<u64>| timespec(process, at.filter(|at| *at != 0)?);
        match self {
            Self::Poll { .. } if number == libc::SYS_ppoll => of_pointer(argument(2)),
            Self::Poll { .. } => millis(argument(2)?),
            Self::Epoll { .. } if number == SYS_EPOLL_PWAIT2 => of_pointer(argument(3)),
            Self::Epoll { .. } => millis(argument(3)?),
            Self::Select { .. } if number == libc::SYS_pselect6 => of_pointer(argument(4)),
            Self::Read { .. } | Self::Send { .. } | Self::Select { .. } => None,
        }
    }

    /// Return the descriptors that it waits on to read; `None` if they are too many.
    fn descriptors(self, process: &Path) -> Option<Vec<u64>> {
        let found: Vec<u64> = match self {
            Self::Read { fd } | Self::Send { fd } => vec![fd],
            Self::Poll { count, .. } if count > MOST as u64 => return None,
            Self::Poll { array, count } => {
                let bytes = memory(process, array, count * 8)?;
                bytes.chunks_exact(8).filter_map(polled).collect()
            }
            Self::Select { below, .. } if below > 1024 => return None,
            Self::Select { set: 0, .. } => return None,
            Self::Select { below, set } => {
                let bytes = memory(process, set, below.div_ceil(8))?;
                let is_set = |fd: &u64| {
                    let byte = usize::try_from(fd / 8).ok().and_then(|at| bytes.get(at));
                    byte.is_some_and(|byte| byte >> (fd % 8) & 1 == 1)
                };
                (0..below).filter(is_set).collect()
            }
            Self::Epoll { fd } => {
                let file = File::open(process.join(format!("fdinfo/{fd}"))).ok()?;
                watched_of(BufReader::new(file))?
            }
        };
        (found.len() <= MOST).then_some(found)
    }
}

/// Of all architectures, since v5.11 (include/uapi/asm-generic/unistd.h).
const SYS_EPOLL_PWAIT2: libc::c_long = 441;

/// A time in milliseconds; a negative one never ends.
fn millis(argument: u64) -> Option<Duration> {
    let low = u32::try_from(argument & u64::from(u32::MAX)).ok()?;
    let time = u64::try_from(low.cast_signed()).ok()?;
    Some(Duration::from_millis(time))
}

/// A `struct timespec` of a process.
fn timespec(process: &Path, address: u64) -> Option<Duration> {
    let bytes = memory(process, address, 16)?;
    let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let nanos = u32::try_from(word(8)?).ok()?;
    Some(Duration::new(word(0)?, nanos.min(999_999_999)))
}

/// Return the descriptor of a `struct pollfd` that asks for data: poll(2).
fn polled(bytes: &[u8]) -> Option<u64> {
    let fd = i32::from_ne_bytes(*bytes.first_chunk()?);
    let events = i16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    u64::try_from(fd)
        .ok()
        .filter(|_| events & libc::POLLIN != 0)
}

/// Return the descriptors that an epoll instance asks for data; `None` if it has too many. An event
/// loop may have a million, so the file is not read to its end.
fn watched_of(instance: impl BufRead) -> Option<Vec<u64>> {
    let lines = instance.lines().map_while(Result::ok);
    let items = lines.filter(|line| line.starts_with("tfd:")).take(MOST + 1);
    let items: Vec<String> = items.collect();
    let found = || items.iter().filter_map(|line| watched(line)).collect();
    (items.len() <= MOST).then(found)
}

/// Return the descriptor of a line `tfd: 5 events: 19 …` that asks for data: proc(5).
fn watched(line: &str) -> Option<u64> {
    let mut fields = line.strip_prefix("tfd:")?.split_ascii_whitespace();
    let fd = fields.next()?.parse().ok()?;
    let events = u32::from_str_radix(fields.nth(1)?, 16).ok()?;
    (events & libc::EPOLLIN.cast_unsigned() != 0).then_some(fd)
}

fn memory(process: &Path, address: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let file = File::open(process.join("mem")).ok()?;
    file.read_exact_at(&mut bytes, address).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_end_after_their_own_time() {
        let after = |number: libc::c_long, arguments: &str| {
            let text = format!("{number} {arguments}");
            let call = Call::read(&text)?;
            call.ends_after(Path::new("/proc/self"), &text)
        };
        let epoll = libc::SYS_epoll_pwait;
        let of = Duration::from_millis(400);
        assert_eq!(
            after(epoll, "0x3 0x7ffc 0x20 0x190 0x0 0x8 0x7f 0x7e"),
            Some(of)
        );
        assert_eq!(
            after(epoll, "0x3 0x7ffc 0x20 0xffffffff 0x0 0x8 0x7f 0x7e"),
            None
        );
        assert_eq!(
            after(epoll, "0x3 0x7ffc 0x20 0xffffffffffffffff 0x0 0x8"),
            None
        );
        let time: [u64; 2] = [1, 500_000_000];
        let of_pointer = format!("0x3 0x1 {:#x} 0x0 0x8", time.as_ptr().addr());
        let of = Some(Duration::from_millis(1_500));
        assert_eq!(after(libc::SYS_ppoll, &of_pointer), of);
        assert_eq!(after(libc::SYS_ppoll, "0x3 0x1 0x0 0x0 0x8"), None);
    }

    #[test]
    fn calls_and_what_they_watch_are_read() {
        let call = Call::read("0 0x3 0x7ffc 0x400 0x0 0x0 0x0 0x7ffc 0x7f0a");
        assert_eq!(call.is_some(), libc::SYS_read == 0);
        assert_eq!(Call::read("running"), None);
        assert_eq!(watched("tfd:        5 events:       19 data: 5"), Some(5));
        assert_eq!(watched("tfd:        5 events:        4 data: 5"), None);
        assert_eq!(watched("flags:\t02"), None);
    }

    #[test]
    fn an_epoll_instance_is_read_no_further_than_needed() {
        let of = |count: usize| {
            let line = |fd| format!("tfd: {fd:>8} events:       19 data: {fd}\n");
            let lines: String = (0..count).map(line).collect();
            let text = format!("pos:\t0\nflags:\t02\n{lines}");
            let mut left = text.as_bytes();
            let found = watched_of(&mut left).map(|found| found.len());
            (found, left.lines().count())
        };
        assert_eq!(of(MOST), (Some(MOST), 0));
        assert_eq!(of(MOST + 100), (None, 99));
    }
}
