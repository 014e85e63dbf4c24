//! The system calls that have no safe wrapper elsewhere. The only module with `unsafe`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// `struct ifreq` as TUNSETIFF reads it: a name, flags, and padding to the size the kernel copies.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: u16,
    padding: [u8; 22],
}

// The kernel copies sizeof(struct ifreq) bytes from user space whatever the request.
const _: () = assert!(size_of::<InterfaceRequest>() == size_of::<libc::ifreq>());

/// Make `file`, an open `/dev/net/tun`, the queue of a new TUN interface in the namespace of the
/// calling thread. Every packet is preceded by a `struct virtio_net_hdr` of [`VNET_HEADER_LEN`]
/// bytes.
pub(crate) fn tun_create(file: &File, name: &str) -> io::Result<()> {
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    let mut request = InterfaceRequest {
        name: [0; libc::IFNAMSIZ],
        flags: u16::try_from(flags).expect("the TUN flags are 16 bits wide"),
        padding: [0; 22],
    };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: the pointer must be good for reading and writing a struct ifreq during the call. It
    // points at a live local of exactly that size (asserted above), not borrowed otherwise.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })
}

/// Bytes of `struct virtio_net_hdr` (without `num_buffers`) before each packet: the default that
/// `tun_set_iff()` sets for a new device, drivers/net/tun.c in v6.18.
pub(crate) const VNET_HEADER_LEN: usize = 10;

/// Let the kernel hand over packets of up to 64 KB that are not yet cut into segments and carry no
/// checksum yet (true), or none such (false).
pub(crate) fn tun_set_offload(file: &File, offload: bool) -> io::Result<()> {
    let flags = if offload {
        libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN
    } else {
        0
    };
    // SAFETY: TUNSETOFFLOAD takes its flags by value; no memory of ours is touched.
    check(unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::TUNSETOFFLOAD,
            libc::c_ulong::from(flags),
        )
    })
}

/// Put the calling thread into SCHED_FIFO. Its children fall back to the ordinary policy.
pub(crate) fn become_real_time(priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: the pointer must be good for reading a sched_param while the call runs: it points at
    // a live local. Thread 0 is the caller.
    check(unsafe {
        libc::sched_setscheduler(
            0,
            libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
            &raw const parameters,
        )
    })
}

/// Let the child of `command` call `hook` after the fork and before the exec.
///
/// `hook` runs in a forked copy of a process that may have other threads: it may make system calls,
/// but must not allocate nor take a lock. All callers are in this crate and call one `setns` or
/// `write`.
pub(crate) fn before_exec(
    command: &mut Command,
    hook: impl Fn() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: `hook` must be async-signal-safe. That is demanded above, and both callers comply:
    // one calls setns(2), the other write(2), each on a descriptor opened beforehand, and an errno
    // becomes an io::Error without allocation.
    unsafe { command.pre_exec(hook) };
}

/// `struct tcp_info`, as many of its bytes as the kernel gives.
pub(crate) fn tcp_info(socket: impl AsFd) -> io::Result<Vec<u8>> {
    let mut bytes = [0u8; 512];
    let mut len = libc::socklen_t::try_from(bytes.len()).expect("512 fits");
    // SAFETY: the kernel writes at most `len` bytes to the pointer and the count to `len`. Both
    // point at live locals, and `len` is the size of the array.
    check(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut len,
        )
    })?;
    Ok(bytes[..len as usize].to_vec())
}

/// Set SO_MAX_PACING_RATE, in bytes per second: socket(7).
pub(crate) fn set_max_pacing_rate(socket: impl AsFd, bytes_per_second: u64) -> io::Result<()> {
    let len = libc::socklen_t::try_from(size_of_val(&bytes_per_second)).expect("8 fits");
    // SAFETY: the kernel reads `len` bytes from the pointer, which points at a live local of that
    // size.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const bytes_per_second).cast(),
            len,
        )
    })
}

/// `struct tcp_md5sig` with an address of IPv4 or IPv6: include/uapi/linux/tcp.h.
#[repr(C)]
struct SignatureKey {
    address: socket2::SockAddrStorage,
    flags: u8,
    prefix_length: u8,
    key_length: u16,
    interface: libc::c_int,
    key: [u8; 80],
}

/// Have segments to and from a peer signed: TCP_MD5SIG (RFC 2385). Keys have up to 80 bytes.
pub(crate) fn set_signature_key(
    socket: impl AsFd,
    peer: socket2::SockAddr,
    key: &[u8],
) -> io::Result<()> {
    let mut signature = SignatureKey {
        address: peer.as_storage(),
        flags: 0,
        prefix_length: 0,
        key_length: u16::try_from(key.len()).map_err(io::Error::other)?,
        interface: 0,
        key: [0; 80],
    };
    let room = signature.key.get_mut(..key.len());
    room.ok_or(io::ErrorKind::InvalidInput)?
        .copy_from_slice(key);
    let len = libc::socklen_t::try_from(size_of_val(&signature)).expect("it is small");
    // SAFETY: the kernel reads `len` bytes from the pointer, which points at a live local of that
    // size without padding.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MD5SIG,
            (&raw const signature).cast(),
            len,
        )
    })
}

/// `struct ifreq` as SIOCETHTOOL reads it: a name, and a pointer to the command.
#[repr(C)]
struct DeviceRequest {
    name: [u8; libc::IFNAMSIZ],
    command: *mut DeviceFlag,
    padding: [u8; 16],
}

const _: () = assert!(size_of::<DeviceRequest>() == size_of::<libc::ifreq>());

/// `struct ethtool_value`: include/uapi/linux/ethtool.h.
#[repr(C)]
struct DeviceFlag {
    command: u32,
    value: u32,
}

/// The way in which a device treats segments.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Offload {
    /// Cut packets of several segments: `ETHTOOL_STSO`.
    Segmentation = 0x1f,
    /// Put segments that come together: `ETHTOOL_SGRO`.
    Coalescing = 0x2c,
}

/// Switches an offload of a device of the calling thread's network namespace.
pub(crate) fn set_offload(device: &str, offload: Offload, on: bool) -> io::Result<()> {
    const SIOCETHTOOL: u32 = 0x8946;
    if device.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    let mut flag = DeviceFlag {
        command: offload as u32,
        value: on.into(),
    };
    let mut request = DeviceRequest {
        name: [0; libc::IFNAMSIZ],
        command: &raw mut flag,
        padding: [0; 16],
    };
    request.name[..device.len()].copy_from_slice(device.as_bytes());
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: the kernel reads a struct ifreq, and reads and writes a struct ethtool_value. Both
    // pointers point at live locals of these sizes.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL.into(), &raw mut request) })
}

/// A page of memory that never comes: whatever reads it waits, also inside the kernel.
#[derive(Debug)]
pub(crate) struct AbsentPage {
    start: *mut libc::c_void,
}

// SAFETY: the mapping belongs to this value alone, and no reference into it is ever made.
unsafe impl Send for AbsentPage {}

impl AbsentPage {
    const BYTES: usize = 4096;

    /// A page, and a descriptor that can be read once a task waits for it. Once that is closed the
    /// page is there, all zeros (userfaultfd(2); `userfaultfd_release()`, fs/userfaultfd.c, v6.18).
    /// It takes CAP_SYS_PTRACE.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        // include/uapi/linux/userfaultfd.h
        const UFFD_API: u64 = 0xaa;
        const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
        const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
        const UFFDIO_REGISTER_MODE_MISSING: u64 = 1;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(
                std::ptr::null_mut(),
                Self::BYTES,
                libc::PROT_READ,
                flags,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let page = Self { start };
        // SAFETY: the call takes its flags by value; no memory of ours is touched.
        let result =
            unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK) };
        let descriptor = libc::c_int::try_from(result).map_err(io::Error::other)?;
        check(descriptor)?;
        // SAFETY: the call succeeded, so this is a new descriptor that nothing else refers to.
        let faults = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let mut api = [UFFD_API, 0, 0];
        // SAFETY: the kernel reads and writes a `struct uffdio_api`, three words as this live
        // local.
        check(unsafe { libc::ioctl(descriptor, UFFDIO_API, api.as_mut_ptr()) })?;
        let mut register = [
            start as u64,
            Self::BYTES as u64,
            UFFDIO_REGISTER_MODE_MISSING,
            0,
        ];
        // SAFETY: the kernel reads and writes a `struct uffdio_register`, four words as this live
        // local; the range in it is our own mapping, which nothing refers to.
        check(unsafe { libc::ioctl(descriptor, UFFDIO_REGISTER, register.as_mut_ptr()) })?;
        Ok((page, faults))
    }

    /// Send the page.
    pub(crate) fn send(&self, socket: impl AsFd) -> io::Result<()> {
        // SAFETY: the kernel alone reads the page, which stays mapped for as long as `self` lives.
        let sent = unsafe {
            libc::send(
                socket.as_fd().as_raw_fd(),
                self.start,
                Self::BYTES,
                libc::MSG_NOSIGNAL,
            )
        };
        check(libc::c_int::try_from(sent).unwrap_or(-1))
    }
}

impl Drop for AbsentPage {
    fn drop(&mut self) {
        // SAFETY: our own mapping, in its length, which nothing refers to any more.
        unsafe { libc::munmap(self.start, Self::BYTES) };
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
