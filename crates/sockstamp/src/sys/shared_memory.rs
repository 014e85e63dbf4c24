//! Memory that another process shares with us, read-only.

use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;

use nix::errno::Errno;

use super::mapping::Mapping;

/// Words that the kernel may change at any time, read through atomic loads alone.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    mapping: Mapping,
}

impl SharedMemory {
    /// Map the first `words` words of `file`, a BPF array map, in its whole length: the kernel
    /// refuses to map more than there is (remap_vmalloc_range_partial(), mm/vmalloc.c, v6.18), and
    /// such a map does not shrink.
    pub(crate) fn map(file: impl AsFd, words: NonZeroUsize) -> nix::Result<Self> {
        let length = words
            .get()
            .checked_mul(size_of::<u64>())
            .ok_or(Errno::EINVAL)?;
        let mapping = Mapping::new(file, length)?;
        Ok(Self { mapping })
    }

    /// Load words with [`Relaxed`](std::sync::atomic::Ordering::Relaxed) only: std::sync::atomic
    /// allows no other ordering on read-only memory.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let words = self.mapping.length() / size_of::<u64>();
        // SAFETY: that many words are mapped for as long as `self` is borrowed, aligned, since a
        // mapping begins at a page, and initialised: any bytes are a valid AtomicU64, which may
        // change while it is borrowed.
        unsafe { std::slice::from_raw_parts(self.mapping.start().cast(), words) }
    }
}
