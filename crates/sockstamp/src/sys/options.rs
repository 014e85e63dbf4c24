//! getsockopt(2) and setsockopt(2) of plain structures.

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

/// A structure that the kernel may read and write as bytes.
///
/// # Safety
///
/// `repr(C)` or a primitive integer, no padding, and every bit pattern of its size is a valid
/// value.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: a primitive integer.
unsafe impl Plain for u32 {}

// SAFETY: a primitive integer.
unsafe impl Plain for i32 {}

// SAFETY: an array has no padding except that of its elements, which have none.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// `struct so_timestamping` of include/uapi/linux/net_tstamp.h, v5.14: the value of
/// SO_TIMESTAMPING.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SoTimestamping {
    pub(crate) flags: u32,
    pub(crate) bind_phc: i32,
}

const _: () = assert!(size_of::<SoTimestamping>() == 8);

// SAFETY: repr(C), two integers of four bytes in a size of eight leave no padding.
unsafe impl Plain for SoTimestamping {}

/// `struct sock_txtime` of include/uapi/linux/net_tstamp.h, v4.19: the value of SO_TXTIME.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SockTxTime {
    pub(crate) clock: libc::clockid_t,
    pub(crate) flags: u32,
}

const _: () = assert!(size_of::<SockTxTime>() == 8);

// SAFETY: repr(C), two integers of four bytes in a size of eight leave no padding.
unsafe impl Plain for SockTxTime {}

/// The value of SO_MEMINFO, in bytes: `enum` of include/uapi/linux/sock_diag.h, v4.12.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) receive_used: u32,
    pub(crate) receive_size: u32,
    others: [u32; 7],
}

const _: () = assert!(size_of::<Memory>() == 36);

// SAFETY: repr(C), nine integers of four bytes in a size of 36 leave no padding.
unsafe impl Plain for Memory {}

/// Set an option to all bytes of `value`.
pub(crate) fn set<T: Plain>(
    socket: impl AsFd,
    level: i32,
    name: i32,
    value: &T,
) -> nix::Result<()> {
    let socket = socket.as_fd();
    // SAFETY: the kernel reads `length` bytes at `value`, which is borrowed for the call and has
    // that size without padding (`Plain`), and keeps no pointer. The descriptor is open, as it is
    // borrowed for the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            length::<T>(),
        )
    };
    Errno::result(result).map(drop)
}

/// Give the kernel `value`, which some options read, and return it as the kernel left it, with the
/// number of bytes that the kernel reports as written.
pub(crate) fn get<T: Plain>(
    socket: impl AsFd,
    level: i32,
    name: i32,
    mut value: T,
) -> nix::Result<(T, usize)> {
    let socket = socket.as_fd();
    let mut written = length::<T>();
    // SAFETY: the kernel reads and writes at most `written` bytes at `value`, which is alive, not
    // otherwise borrowed and of that size, and any bytes are a valid value of it (`Plain`); it
    // writes the length to `written` and keeps neither pointer. The descriptor is open, as it is
    // borrowed for the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut written,
        )
    };
    Errno::result(result)?;
    Ok((value, written as usize))
}

/// Have calls fail with EAGAIN where they would block.
#[cfg(feature = "tokio")]
pub(crate) fn set_nonblocking(socket: impl AsFd) -> nix::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the kernel reads one int at `on`, which is borrowed for the call, and keeps no
    // pointer. The descriptor is open, as it is borrowed for the call.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::FIONBIO, &raw const on) };
    Errno::result(result).map(drop)
}

/// SIOCOUTQ of TCP: return how many bytes were written and not acknowledged.
pub(crate) fn unacknowledged(socket: impl AsFd) -> nix::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int at `bytes`, which is alive and not otherwise borrowed, and
    // keeps no pointer (`tcp_ioctl()`, net/ipv4/tcp.c). The descriptor is open, as it is borrowed
    // for the call.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    Errno::result(result)?;
    Ok(bytes.cast_unsigned())
}

const fn length<T>() -> libc::socklen_t {
    assert!(size_of::<T>() <= 4096, "no option is that large");
    #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
    {
        size_of::<T>() as libc::socklen_t
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn socket_options_are_read_back_as_set() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let asked = SoTimestamping {
            flags: libc::SOF_TIMESTAMPING_TX_SOFTWARE,
            bind_phc: 0,
        };
        set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &asked).unwrap();
        let nothing = SoTimestamping {
            flags: 0,
            bind_phc: 0,
        };
        assert_eq!(
            get(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, nothing),
            Ok((asked, 8))
        );
    }

    #[test]
    fn unknown_options_are_refused() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(
            set(&socket, libc::SOL_SOCKET, -1, &0_u32),
            Err(Errno::ENOPROTOOPT)
        );
        assert_eq!(
            get(&socket, libc::SOL_SOCKET, -1, 0_u32),
            Err(Errno::ENOPROTOOPT)
        );
    }
}
