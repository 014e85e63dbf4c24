//! The boundary to C: its pointers become references, panics and errors become numbers.
//!
//! Only C makes values of the types [`Out`], [`In`], [`Text`] and [`Socket`], as arguments, and
//! likewise the `Option<&T>`, `Option<&mut T>` and `Option<Box<T>>` of `exports`, which are
//! pointers in C. The blocks below rely on the demands of sockstamp.h on every caller:
//!
//! - a pointer is NULL, or points to as many values of its type as the function says; those that
//!   the function reads are initialised, and those that it writes may be written;
//! - nothing else uses the pointed-to memory, or the handle, during the call;
//! - a handle was made by its `_create` and not freed since.

use std::any::Any;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::{io, slice};

use sockstamp::Error;
use sockstamp::completions::protocol::Refusal;

use crate::header::sockstamp_address;

/// A number of errno(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

pub(crate) type Result<T> = std::result::Result<T, Errno>;

impl Errno {
    pub(crate) const BAD_DESCRIPTOR: Self = Self(libc::EBADF);
    pub(crate) const FAULT: Self = Self(libc::EFAULT);
    pub(crate) const INVALID: Self = Self(libc::EINVAL);
    /// A panic.
    pub(crate) const NOT_RECOVERABLE: Self = Self(libc::ENOTRECOVERABLE);
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        match error {
            Error::Call { errno, .. } => errno.into(),
            Error::InterfaceName { .. } => Self::INVALID,
            Error::Refused { refusal, .. } => refused(refusal),
            Error::Untrusted { .. } => Self(libc::EPERM),
            _ => Self(libc::EPROTO),
        }
    }
}

fn refused(refusal: Refusal) -> Errno {
    Errno(match refusal {
        Refusal::TooManyApplications | Refusal::TooManySockets | Refusal::MemoryInUse => {
            libc::ENOSPC
        }
        Refusal::NotASocket => libc::ENOTSOCK,
        Refusal::WrongSocket => libc::EPROTONOSUPPORT,
        Refusal::AlreadyRegistered => libc::EBUSY,
        Refusal::Failed => libc::EIO,
        _ => libc::EPROTO,
    })
}

/// The result of a function that can fail: 0 or more, or a negative errno. Only [`guard`] makes it.
#[repr(transparent)]
pub struct Status(c_int);

impl Status {
    /// Another good end than 0.
    pub(crate) fn with(self, count: u16) -> Self {
        if self.0 < 0 { self } else { Self(count.into()) }
    }
}

/// Do the work of a function: its result must fit into an int, and no panic continues into C.
pub(crate) fn guard(work: impl FnOnce() -> Result<usize>) -> Status {
    let result = catch(work).unwrap_or(Err(Errno::NOT_RECOVERABLE));
    Status(match result {
        // A system call moves less than 2^31 bytes (MAX_RW_COUNT, include/linux/fs.h, v6.18), and
        // so for all else.
        Ok(count) => c_int::try_from(count).unwrap_or(c_int::MAX),
        Err(Errno(number)) => -number,
    })
}

/// Do the same as [`guard`], for functions whose only success is 0.
pub(crate) fn guard_only(work: impl FnOnce() -> Result<()>) -> Status {
    guard(|| work().map(|()| 0))
}

/// Free a handle.
pub(crate) fn free<T>(handle: Option<Box<T>>) {
    let _ = catch(|| drop(handle));
}

/// The panic hook has reported it on stderr.
fn catch<T>(work: impl FnOnce() -> T) -> std::result::Result<T, Box<dyn Any + Send>> {
    // A handle may be in any state after a panic; sockstamp.h then allows only freeing it.
    catch_unwind(AssertUnwindSafe(work))
}

/// An argument that may not be NULL.
pub(crate) trait Required<T> {
    fn required(self) -> Result<T>;
}

impl<T> Required<T> for Option<T> {
    fn required(self) -> Result<T> {
        self.ok_or(Errno::FAULT)
    }
}

/// A pointer for results: to one value or several, which need not be initialised.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Out<'a, T>(Option<NonNull<T>>, PhantomData<&'a mut MaybeUninit<T>>);

impl<'a, T> Out<'a, T> {
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_none()
    }

    /// Several values.
    pub(crate) fn slice(self, count: usize) -> Result<&'a mut [MaybeUninit<T>]> {
        if count == 0 {
            return Ok(&mut []);
        }
        let start = self.0.required()?;
        fits::<T>(count)?;
        // SAFETY: there are `count` values that may be written and that nothing else uses (the
        // module's first lines), with a size that a slice can have; `MaybeUninit` needs none of
        // them initialised.
        Ok(unsafe { slice::from_raw_parts_mut(start.as_ptr().cast(), count) })
    }

    /// Write one value, without dropping the previous one.
    pub(crate) fn write(self, value: T) -> Result<()> {
        self.slice(1)?[0].write(value);
        Ok(())
    }
}

impl Out<'_, c_void> {
    /// Return the address for look-ups; it is not dereferenced.
    pub(crate) fn address(&self) -> usize {
        self.0.map_or(0, |place| place.addr().get())
    }
}

impl<T> Out<'_, Option<Box<T>>> {
    /// A new handle, or NULL where it cannot be made.
    pub(crate) fn create(self, make: impl FnOnce() -> Result<T>) -> Status {
        guard_only(|| {
            let place = &mut self.slice(1)?[0];
            let handle = place.write(None);
            *handle = Some(Box::new(make()?));
            Ok(())
        })
    }
}

/// Several values that C gives.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct In<'a, T>(Option<NonNull<T>>, PhantomData<&'a T>);

impl<'a, T> In<'a, T> {
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn slice(self, count: usize) -> Result<&'a [T]> {
        if count == 0 {
            return Ok(&[]);
        }
        let start = self.0.required()?;
        fits::<T>(count)?;
        // SAFETY: there are `count` initialised values that nothing writes during the call (the
        // module's first lines), with a size that a slice can have.
        Ok(unsafe { slice::from_raw_parts(start.as_ptr(), count) })
    }
}

impl<'a> In<'a, libc::sockaddr> {
    /// An address of `length` bytes, whatever its family.
    pub(crate) fn bytes(self, length: usize) -> Result<&'a [u8]> {
        In::<u8>(self.0.map(NonNull::cast), PhantomData).slice(length)
    }
}

impl<'a> In<'a, c_void> {
    /// Memory of `length` bytes.
    pub(crate) fn bytes(self, length: usize) -> Result<&'a [u8]> {
        In::<u8>(self.0.map(NonNull::cast), PhantomData).slice(length)
    }
}

impl<'a> Out<'a, c_void> {
    /// Memory of `length` bytes, set to 0: a buffer of the kernel's to fill.
    pub(crate) fn buffer(self, length: usize) -> Result<&'a mut [u8]> {
        let bytes = Out::<u8>(self.0.map(NonNull::cast), PhantomData).slice(length)?;
        bytes.fill(MaybeUninit::new(0));
        // SAFETY: each of them was written, in the line before; a `MaybeUninit<u8>` has the layout
        // of the `u8`.
        Ok(unsafe { slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) })
    }
}

fn fits<T>(count: usize) -> Result<()> {
    let size = count.checked_mul(size_of::<T>());
    match size.map(isize::try_from) {
        Some(Ok(_)) => Ok(()),
        _ => Err(Errno::INVALID),
    }
}

/// The bytes of an address of IP, none for AF_UNSPEC.
pub(crate) fn address_bytes(address: &sockstamp_address) -> Result<&[u8]> {
    // SAFETY: the members begin with the family, and C has initialised the one that it says (the
    // module's first lines); with AF_UNSPEC this one.
    let family = unsafe { address.any.sa_family };
    let length = match i32::from(family) {
        libc::AF_UNSPEC => 0,
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => return Err(Errno(libc::EAFNOSUPPORT)),
    };
    // SAFETY: the union is as large as its largest member, and the one of `length` bytes, which has
    // no padding, is initialised.
    Ok(unsafe { slice::from_raw_parts(std::ptr::from_ref(address).cast(), length) })
}

/// A string that C gives.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text<'a>(Option<NonNull<c_char>>, PhantomData<&'a c_char>);

impl<'a> Text<'a> {
    pub(crate) fn get(self) -> Result<&'a CStr> {
        self.optional().required()
    }

    pub(crate) fn optional(self) -> Option<&'a CStr> {
        let start = self.0?;
        // SAFETY: it points to a string that ends with a zero byte and that nothing writes during
        // the call (the module's first lines).
        Some(unsafe { CStr::from_ptr(start.as_ptr()) })
    }
}

/// A file descriptor that C gives.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Socket<'a>(c_int, PhantomData<&'a ()>);

impl<'a> Socket<'a> {
    pub(crate) fn borrow(self) -> Result<BorrowedFd<'a>> {
        if self.0 < 0 {
            return Err(Errno::BAD_DESCRIPTOR);
        }
        // SAFETY: it is not -1. That it is open the kernel checks: the library's system calls say
        // EBADF where it is not, and nothing here relies on it. C closes no descriptor during a
        // call with it.
        Ok(unsafe { BorrowedFd::borrow_raw(self.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_number_and_errors_are_negative() {
        assert_eq!(guard(|| panic!("on purpose")).0, -libc::ENOTRECOVERABLE);
        assert_eq!(guard(|| Err(Errno::FAULT)).0, -libc::EFAULT);
        assert_eq!(guard(|| Ok(7)).0, 7);
        assert_eq!(guard(|| Ok(usize::MAX)).0, c_int::MAX);
    }

    #[test]
    fn a_panic_while_a_handle_is_freed_goes_no_further() {
        struct Faulty;
        impl Drop for Faulty {
            fn drop(&mut self) {
                panic!("on purpose");
            }
        }
        free(Some(Box::new(Faulty)));
    }

    #[test]
    fn null_is_an_error_unless_nothing_is_asked_of_it() {
        let nowhere = Out::<u32>(None, PhantomData);
        assert_eq!(nowhere.write(1), Err(Errno::FAULT));
        assert_eq!(nowhere.slice(0).unwrap().len(), 0);
        assert_eq!(In::<u32>(None, PhantomData).slice(1), Err(Errno::FAULT));
        assert_eq!(Text(None, PhantomData).get(), Err(Errno::FAULT));
        assert_eq!(
            Socket(-1, PhantomData).borrow().unwrap_err(),
            Errno::BAD_DESCRIPTOR
        );
    }

    #[test]
    fn more_than_memory_can_have_is_refused() {
        let mut value = 0_u32;
        let one = Out(Some(NonNull::from(&mut value)), PhantomData);
        for count in [usize::MAX, usize::MAX / 4, usize::MAX / 8 + 1] {
            assert_eq!(one.slice(count).unwrap_err(), Errno::INVALID);
        }
    }

    #[test]
    fn a_handle_that_cannot_be_made_is_null() {
        let mut handle = Some(Box::new(7));
        let place = Out(Some(NonNull::from(&mut handle)), PhantomData);
        assert_eq!(place.create(|| Err(Errno::INVALID)).0, -libc::EINVAL);
        assert_eq!(handle, None);
    }

    #[test]
    fn errors_of_the_library_keep_their_number() {
        let gone = sockstamp::interface::capabilities("sockstamp-none").unwrap_err();
        assert_eq!(Errno::from(gone), Errno(libc::ENODEV));
        let impossible = sockstamp::interface::capabilities("").unwrap_err();
        assert_eq!(Errno::from(impossible), Errno::INVALID);
    }
}
