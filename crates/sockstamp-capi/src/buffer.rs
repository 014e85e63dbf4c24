//! Buffers that go to the program, to the kernel and back.

use memmap2::MmapMut;
use sockstamp::zerocopy::StableBuffer;

use crate::boundary::{Errno, Result};

/// Pages of memory, and how many of their bytes are to be sent.
///
/// While the program has it, C writes to its memory. It is read only after C has submitted it.
pub(crate) struct Buffer {
    pages: MmapMut,
    length: usize,
}

impl Buffer {
    pub(crate) fn new(size: usize) -> Result<Self> {
        let pages = MmapMut::map_anon(size).map_err(Errno::from)?;
        Ok(Self { pages, length: 0 })
    }

    pub(crate) fn start(&mut self) -> *mut u8 {
        self.pages.as_mut_ptr()
    }

    pub(crate) fn is_at(&self, address: usize) -> bool {
        self.pages.as_ptr().addr() == address
    }

    pub(crate) fn set_length(&mut self, length: usize) -> Result<()> {
        if length > self.pages.len() {
            return Err(Errno(libc::EMSGSIZE));
        }
        self.length = length;
        Ok(())
    }
}

// SAFETY: the bytes are in a mapping of this value's own, which stays where it is until the value
// is dropped, whatever moves the value. Rust writes to it by `&mut self` alone; C, which has its
// address since it was acquired, writes to it no more once it has been submitted
// (sockstamp_sender_submit(3)). `length` changes by `&mut self` alone.
unsafe impl StableBuffer for Buffer {
    fn parts<'a>(&'a self, part: &mut dyn FnMut(&'a [u8])) {
        part(&self.pages[..self.length]);
    }
}
