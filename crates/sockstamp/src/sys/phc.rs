//! Questions to PTP hardware clocks: include/uapi/linux/ptp_clock.h, `ptp_ioctl()` in
//! drivers/ptp/ptp_chardev.c, v6.18.

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

/// PTP_CLOCK_GETCAPS: return what the clock can do.
pub(crate) fn capabilities(clock: impl AsFd) -> nix::Result<libc::ptp_clock_caps> {
    // SAFETY: the structure has integers only, for which zero bytes are valid.
    let mut answer: libc::ptp_clock_caps = unsafe { std::mem::zeroed() };
    // SAFETY: PTP_CLOCK_GETCAPS takes a pointer to a `struct ptp_clock_caps` to be written, whose
    // size is part of its number. `answer` is alive and not otherwise borrowed for the whole call,
    // which keeps no pointer. The descriptor is open, as it is borrowed for the call.
    let result = unsafe {
        libc::ioctl(
            clock.as_fd().as_raw_fd(),
            libc::PTP_CLOCK_GETCAPS,
            &raw mut answer,
        )
    };
    Errno::result(result)?;
    Ok(answer)
}

/// PTP_SYS_OFFSET_PRECISE: read the clock and the system's clocks at one moment.
pub(crate) fn precise(clock: impl AsFd) -> nix::Result<libc::ptp_sys_offset_precise> {
    // SAFETY: as in `capabilities`.
    let mut answer: libc::ptp_sys_offset_precise = unsafe { std::mem::zeroed() };
    // SAFETY: as in `capabilities`, of a `struct ptp_sys_offset_precise`.
    let result = unsafe {
        libc::ioctl(
            clock.as_fd().as_raw_fd(),
            libc::PTP_SYS_OFFSET_PRECISE,
            &raw mut answer,
        )
    };
    Errno::result(result)?;
    Ok(answer)
}

/// PTP_SYS_OFFSET_EXTENDED: read the clock so many times (at most 25), each between two readings of
/// CLOCK_REALTIME.
pub(crate) fn extended(
    clock: impl AsFd,
    samples: u32,
) -> nix::Result<libc::ptp_sys_offset_extended> {
    // SAFETY: as in `capabilities`. Clock 0 is CLOCK_REALTIME; before v6.13 the field was reserved,
    // and had to be 0.
    let mut answer: libc::ptp_sys_offset_extended = unsafe { std::mem::zeroed() };
    answer.n_samples = samples;
    // SAFETY: as in `capabilities`, of a `struct ptp_sys_offset_extended`, which is read, too. The
    // kernel refuses a number of samples for which it has no room.
    let result = unsafe {
        libc::ioctl(
            clock.as_fd().as_raw_fd(),
            libc::PTP_SYS_OFFSET_EXTENDED,
            &raw mut answer,
        )
    };
    Errno::result(result)?;
    Ok(answer)
}
