//! Integers in the order of this machine, at a place in bytes.

macro_rules! integer_at {
    ($($name:ident: $integer:ty;)*) => {
        $(
            /// `None` where the bytes end before.
            pub(super) fn $name(bytes: &[u8], at: usize) -> Option<$integer> {
                let end = at.checked_add(size_of::<$integer>())?;
                Some(<$integer>::from_ne_bytes(bytes.get(at..end)?.try_into().ok()?))
            }
        )*
    };
}

integer_at! {
    u8_at: u8;
    u16_at: u16;
    u32_at: u32;
    i32_at: i32;
    i64_at: i64;
    usize_at: usize;
}

/// `N` bytes at a place.
pub(super) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}
