//! Buffers that the kernel reads after the call, and pages of a socket's receive queue in our
//! memory.

use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd};
use std::slice;
use std::sync::Arc;

use nix::errno::Errno;

use super::mapping::Mapping;

/// A buffer that can be lent to the kernel: the value may move while the kernel reads its bytes.
///
/// # Safety
///
/// From any call of [`parts`](Self::parts) until the value is dropped, or used other than by moving
/// it, each call gives the same bytes at the same addresses, which stay mapped and unwritten;
/// moving the value changes none of this.
///
/// The kernel only reads the bytes, and MSG_ZEROCOPY holds their pages: a wrong implementation
/// sends unintended bytes. io_uring keeps the address until the request is issued.
pub unsafe trait StableBuffer {
    /// Give the bytes to send to `part`, in order: in one piece, or in several that lie apart.
    fn parts<'a>(&'a self, part: &mut dyn FnMut(&'a [u8]));
}

// SAFETY: the elements are on the heap, owned by this value alone, and are written or freed by use
// of it alone.
unsafe impl StableBuffer for Vec<u8> {
    fn parts<'a>(&'a self, part: &mut dyn FnMut(&'a [u8])) {
        part(self);
    }
}

// SAFETY: as for a Vec.
unsafe impl StableBuffer for Box<[u8]> {
    fn parts<'a>(&'a self, part: &mut dyn FnMut(&'a [u8])) {
        part(self);
    }
}

// SAFETY: as for a Vec.
unsafe impl<const N: usize> StableBuffer for Box<[u8; N]> {
    fn parts<'a>(&'a self, part: &mut dyn FnMut(&'a [u8])) {
        part(&self[..]);
    }
}

// SAFETY: the elements are on the heap and live as long as any Arc of them. `Arc::get_mut` gives
// them for writing only while there is no other, and this is one; `u8` has no interior mutability.
unsafe impl StableBuffer for Arc<[u8]> {
    fn parts<'a>(&'a self, part: &mut dyn FnMut(&'a [u8])) {
        part(self);
    }
}

// SAFETY: as for `Arc<[u8]>`: the Vec in it can be changed only while there is no other Arc.
unsafe impl StableBuffer for Arc<Vec<u8>> {
    fn parts<'a>(&'a self, part: &mut dyn FnMut(&'a [u8])) {
        part(self);
    }
}

// SAFETY: the bytes are on the heap or static, shared by all clones, and written by none: only
// `try_into_mut`, which consumes the value, gives them for writing, and only if it is the last.
#[cfg(feature = "bytes")]
unsafe impl StableBuffer for bytes::Bytes {
    fn parts<'a>(&'a self, part: &mut dyn FnMut(&'a [u8])) {
        part(self);
    }
}

// SAFETY: the bytes are borrowed for the lifetime of the program, so nothing can write to them.
unsafe impl StableBuffer for &'static [u8] {
    fn parts<'a>(&'a self, part: &mut dyn FnMut(&'a [u8])) {
        part(self);
    }
}

// SAFETY: moving this moves no element, or moves it as it may be moved; all else needs `&mut self`,
// or is a use of an element by `&self`, which changes nothing of it by its own guarantee.
unsafe impl<B: StableBuffer> StableBuffer for Vec<B> {
    fn parts<'a>(&'a self, part: &mut dyn FnMut(&'a [u8])) {
        self.iter().for_each(|buffer| buffer.parts(part));
    }
}

// SAFETY: as for a Vec of buffers.
unsafe impl<B: StableBuffer, const N: usize> StableBuffer for [B; N] {
    fn parts<'a>(&'a self, part: &mut dyn FnMut(&'a [u8])) {
        self.iter().for_each(|buffer| buffer.parts(part));
    }
}

/// A header and a body, say.
// SAFETY: as for a Vec of buffers.
unsafe impl<A: StableBuffer, B: StableBuffer> StableBuffer for (A, B) {
    fn parts<'a>(&'a self, part: &mut dyn FnMut(&'a [u8])) {
        self.0.parts(part);
        self.1.parts(part);
    }
}

/// include/uapi/linux/tcp.h, since v4.18.
pub(crate) const TCP_ZEROCOPY_RECEIVE: i32 = 35;

/// `struct tcp_zerocopy_receive` of include/uapi/linux/tcp.h, v5.13.
#[repr(C)]
#[derive(Debug, Default)]
struct TcpZeroCopyReceive {
    address: u64,
    length: u32,
    recv_skip_hint: u32,
    inq: u32,
    err: i32,
    copybuf_address: u64,
    copybuf_len: i32,
    flags: u32,
    msg_control: u64,
    msg_controllen: u64,
    msg_flags: u32,
    reserved: u32,
}

const _: () = assert!(size_of::<TcpZeroCopyReceive>() == 64);

/// The result of one TCP_ZEROCOPY_RECEIVE.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// Bytes that are mapped now.
    pub(crate) mapped: usize,
    /// Bytes after these in the stream, which were copied.
    pub(crate) copied: usize,
    /// Bytes after these that must be copied before anything can be mapped again.
    pub(crate) skip: usize,
    /// The error that was pending on the socket, which is taken by telling it.
    pub(crate) error: Option<Errno>,
}

/// Addresses at which pages of receive queues can be mapped, read-only.
///
/// Invariant: `mapping` is of a TCP socket, and nothing else refers to it. Its first `mapped` bytes
/// are pages that the last [`receive`](Self::receive) put there.
#[derive(Debug)]
pub(crate) struct ReceiveMapping {
    mapping: Mapping,
    mapped: usize,
}

impl ReceiveMapping {
    /// `length` is rounded up to whole pages. The mapping is empty until something is received.
    pub(crate) fn new(socket: impl AsFd, length: NonZeroUsize) -> nix::Result<Self> {
        let mapping = Mapping::new(socket, length.get().next_multiple_of(page_size()))?;
        Ok(Self { mapping, mapped: 0 })
    }

    /// Map as much as possible of the queue of `socket` in place of the previous pages, and copy
    /// the bytes before the next mappable page to `copy`, as far as they fit.
    pub(crate) fn receive(&mut self, socket: impl AsFd, copy: &mut [u8]) -> nix::Result<Transfer> {
        let mut request = TcpZeroCopyReceive {
            address: self.mapping.start().addr() as u64,
            length: u32::try_from(self.mapping.length()).unwrap_or(u32::MAX),
            copybuf_address: copy.as_mut_ptr().addr() as u64,
            copybuf_len: i32::try_from(copy.len()).unwrap_or(i32::MAX),
            ..TcpZeroCopyReceive::default()
        };
        copy.as_mut_ptr().expose_provenance();
        self.mapping.start().expose_provenance();
        self.mapped = 0;
        let mut length: libc::socklen_t = 64;
        // SAFETY: the kernel reads and writes `length` bytes at `request`, which has that size
        // (asserted above), is alive and not otherwise borrowed, and of which any bytes are valid.
        // It takes pages out of the mapping at `address` and puts others there, within `length`
        // bytes: nothing reads them, as what `bytes` gave was borrowed from `self`, which is
        // borrowed mutably. It writes at most `copybuf_len` bytes at `copybuf_address`, which are
        // `copy`, borrowed mutably. It keeps no pointer. The descriptor is open, as it is borrowed
        // for the call.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                TCP_ZEROCOPY_RECEIVE,
                (&raw mut request).cast(),
                &raw mut length,
            )
        };
        Errno::result(result)?;
        self.mapped = (request.length as usize).min(self.mapping.length());
        Ok(Transfer {
            mapped: self.mapped,
            copied: usize::try_from(request.copybuf_len)
                .unwrap_or(0)
                .min(copy.len()),
            skip: request.recv_skip_hint as usize,
            error: (request.err != 0).then(|| Errno::from_raw(request.err.abs())),
        })
    }

    /// Return the mapped bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the first `mapped` bytes are readable pages (invariant; `tcp_zerocopy_receive()`
        // in net/ipv4/tcp.c, v6.18, returns the inserted length). They stay until `receive`,
        // `clear` or drop, which all need `self` mutably. Nothing writes to them: they are pages
        // that carry a packet's payload, and page cache and memory of processes are refused
        // (`can_map_frag()`: no `page->mapping`); the mapping holds them, so that their driver
        // cannot reuse them.
        unsafe { slice::from_raw_parts(self.mapping.start().cast(), self.mapped) }
    }

    /// Give the pages back to the kernel.
    pub(crate) fn clear(&mut self) {
        self.mapped = 0;
        // SAFETY: the range is a mapping of ours (invariant), of which nothing is borrowed, as
        // `self` is borrowed mutably. What it held is not read again before `receive` has filled
        // it.
        unsafe {
            libc::madvise(
                self.mapping.start(),
                self.mapping.length(),
                libc::MADV_DONTNEED,
            )
        };
    }
}

/// The size of a page, in bytes.
pub(crate) fn page_size() -> usize {
    // SAFETY: takes no pointer.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).expect("every system has a page size")
}
