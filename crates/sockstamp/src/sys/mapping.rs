use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};

use nix::errno::Errno;

/// The memory of a descriptor, mapped read-only and shared with all its writers.
///
/// Invariant: `start` is a mapping of `length` bytes that begins at a page and stays until this is
/// dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<c_void>,
    length: usize,
}

impl Mapping {
    pub(super) fn new(file: impl AsFd, length: usize) -> nix::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in
        // use. The descriptor is open, as it is borrowed for the call.
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
        let start = NonNull::new(start).ok_or(Errno::EINVAL)?;
        Ok(Self { start, length })
    }

    pub(super) fn start(&self) -> *mut c_void {
        self.start.as_ptr()
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }
}

// SAFETY: the mapping belongs to the process, no thread in particular, and this value is its one
// owner.
unsafe impl Send for Mapping {}

// SAFETY: by itself it gives its address and length alone, which do not change.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: by the invariant it is our mapping, in its full length. Borrows of it go through
        // its owner, which is being dropped.
        unsafe { libc::munmap(self.start.as_ptr(), self.length) };
    }
}
