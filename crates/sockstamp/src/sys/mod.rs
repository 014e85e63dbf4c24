//! System calls that have no safe wrapper elsewhere.

pub(crate) mod descriptor;
pub(crate) mod driver;
pub(crate) mod epoll;
mod mapping;
pub(crate) mod message;
pub(crate) mod options;
pub(crate) mod phc;
#[cfg(feature = "tokio")]
pub(crate) mod polling;
#[cfg(feature = "io-uring")]
pub(crate) mod ring;
pub(crate) mod shared_memory;
#[cfg(feature = "io-uring")]
pub(crate) mod stamp_ring;
pub(crate) mod zerocopy;

/// Convert a small number to the type that the C library has for it: lengths, flags and requests
/// have other types in musl than in glibc.
pub(crate) fn number<From, To: TryFrom<From>>(number: From) -> To {
    match To::try_from(number) {
        Ok(number) => number,
        Err(_) => panic!("no length, flag or request is that large"),
    }
}

/// The name of an interface as `struct ifreq` holds it: 1 to 15 bytes, none of them zero, and a
/// zero byte.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InterfaceName([libc::c_char; libc::IFNAMSIZ]);

impl InterfaceName {
    /// `None` where no interface can have that name.
    pub(crate) fn new(name: &str) -> Option<Self> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            return None;
        }
        let mut bytes = [0; libc::IFNAMSIZ];
        for (to, from) in bytes.iter_mut().zip(name.bytes()) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        Some(Self(bytes))
    }
}
