//! The kernel's account of programs.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;
use sockstamp_model::clock::Nanos;

/// The cost of a program since it was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProgramCost {
    /// Runs, counted while `kernel.bpf_stats_enabled` is 1 or a descriptor of BPF_ENABLE_STATS is
    /// open.
    pub runs: u64,
    /// The time of these runs.
    pub time: Nanos,
    /// Times that the kernel skipped the program: it runs none that it has interrupted, on that
    /// CPU.
    pub skipped: u64,
}

impl ProgramCost {
    /// All fields are 0 if the kernel does not report them. `/proc/self/fdinfo` has the same, for
    /// twenty times as many instructions.
    #[expect(unsafe_code, reason = "libbpf-rs asks by identifier alone")]
    pub(crate) fn of(program: BorrowedFd<'_>) -> Self {
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut length = size_of_val(&info).try_into().unwrap_or(0);
        let place = (&raw mut info).cast();
        // SAFETY: `place` and `length` are those of `info`, which is ours alone; the kernel writes
        // no more than `length` bytes, any of which are valid for the integers that it consists of.
        // It is zeroed, so it asks the kernel to write to no other place.
        let result = unsafe {
            libbpf_sys::bpf_obj_get_info_by_fd(program.as_raw_fd(), place, &raw mut length)
        };
        if result != 0 {
            return Self::default();
        }
        Self {
            runs: info.run_cnt,
            time: Nanos(info.run_time_ns),
            skipped: info.recursion_misses,
        }
    }

    /// Have the kernel keep its account as long as the result is open (BPF_ENABLE_STATS, v5.8),
    /// whatever other processes do. The sysctl `kernel.bpf_stats_enabled` is one switch for all: a
    /// process that sets it back ends the account of others.
    ///
    /// # Errors
    ///
    /// EPERM without CAP_SYS_ADMIN.
    #[expect(unsafe_code, reason = "libbpf-rs has no wrapper")]
    pub fn keep_account() -> io::Result<OwnedFd> {
        // SAFETY: bpf_enable_stats() takes a number and returns a new descriptor, or a negative
        // errno.
        let descriptor = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if descriptor < 0 {
            return Err(io::Error::from_raw_os_error(-descriptor));
        }
        // SAFETY: the call succeeded, so this is a new descriptor that nothing else refers to.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }
}
