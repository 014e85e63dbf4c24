//! Memory that another process shares with us, read-only.

use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use nix::errno::Errno;

/// Words that the kernel may change at any time.
///
/// Invariant: `start` is a mapping of `words` words that stays until this is dropped, and begins at a page.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is read through atomic loads alone.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Maps the first `words` words of `file`, a BPF array map whose whole length is asked for: the kernel refuses
    /// to map more than there is (remap_vmalloc_range_partial(), mm/vmalloc.c, v6.18), and such a map does not shrink.
    pub(crate) fn map(file: impl AsFd, words: NonZeroUsize) -> nix::Result<Self> {
        let length = words.get().checked_mul(size_of::<u64>()).ok_or(Errno::EINVAL)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use. The descriptor
        // is open, as it is borrowed for the call.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_fd().as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let start = NonNull::new(start.cast()).ok_or(Errno::EINVAL)?;
        Ok(Self {
            start,
            words: words.get(),
        })
    }

    /// To be loaded with [`Relaxed`](std::sync::atomic::Ordering::Relaxed) alone: the memory is read-only, of which
    /// std::sync::atomic allows no more.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: by the invariant that many words are mapped, aligned, since a mapping begins at a page, and
        // initialised: any bytes are a valid AtomicU64, which may change while it is borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: by the invariant this is our mapping, in its full length; no borrow of it is left.
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.words * size_of::<u64>());
        }
    }
}
