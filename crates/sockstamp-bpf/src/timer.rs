//! A timer of the perf subsystem, for the clock that its samples carry.

use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};

use libbpf_rs::libbpf_sys::perf_event_attr;
use libbpf_rs::{Link, ProgramMut};
use nix::errno::Errno;
use nix::libc;

/// Often enough that the clocks, which run at rates some millionths apart, drift by less than 1 µs;
/// rare enough to cost its CPU less than a ten-thousandth.
const PERIOD_NS: u64 = 20_000_000;

/// Count time on the CPU that we run on, and take a sample each period. It belongs to that CPU
/// and to no task: while any task has an event, every context switch of the host looks for events
/// to switch (`perf_sched_events`, kernel/events/core.c, v6.18).
pub(crate) fn open() -> io::Result<OwnedFd> {
    // include/uapi/linux/perf_event.h
    const PERF_TYPE_SOFTWARE: u32 = 1;
    const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
    const PERF_SAMPLE_TIME: u64 = 1 << 2;
    const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
    const ANY_TASK: libc::pid_t = -1;
    const NO_GROUP: libc::c_int = -1;

    let cpu = libc::c_int::try_from(nix::sched::sched_getcpu()?).map_err(io::Error::other)?;
    let mut attributes = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        size: u32::try_from(size_of::<perf_event_attr>()).map_err(io::Error::other)?,
        config: PERF_COUNT_SW_CPU_CLOCK,
        sample_type: PERF_SAMPLE_TIME,
        ..perf_event_attr::default()
    };
    attributes.__bindgen_anon_1.sample_period = PERIOD_NS;
    // SAFETY: perf_event_open(2) reads `size` bytes at the pointer, which are those of
    // `attributes`, alive for the whole call, and may write its size there; it keeps no pointer.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw mut attributes,
            ANY_TASK,
            cpu,
            NO_GROUP,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    let descriptor = libc::c_int::try_from(Errno::result(result)?).map_err(io::Error::other)?;
    // SAFETY: the call succeeded, so this is a new descriptor that nothing else refers to.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Let the program see the scheduler's clock again and again.
pub(crate) fn attach(program: &ProgramMut<'_>) -> libbpf_rs::Result<Link> {
    let event = open()?;
    // The link closes it: bpf_link_perf_detach(), libbpf.
    program.attach_perf_event(event.into_raw_fd())
}
