//! Text of numbers, put together in place: for what is printed once per message.

use std::fmt;

/// Text of at most `N` bytes; the rest is cut off.
#[derive(Clone, Copy)]
pub struct Digits<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Digits<N> {
    /// No text.
    #[must_use]
    #[inline]
    pub const fn new() -> Self {
        Self {
            bytes: [0; N],
            length: 0,
        }
    }

    /// Add text.
    #[must_use]
    #[inline]
    pub fn text(mut self, text: &str) -> Self {
        let end = self.length + text.len();
        if let Some(room) = self.bytes.get_mut(self.length..end) {
            room.copy_from_slice(text.as_bytes());
            self.length = end;
        }
        self
    }

    /// Add a number.
    #[must_use]
    #[inline]
    pub fn number(self, number: u64) -> Self {
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        self.places(number, digits)
    }

    /// Add this many of the last digits of a number.
    #[must_use]
    #[inline]
    pub fn places(mut self, mut number: u64, digits: usize) -> Self {
        let end = self.length + digits;
        if let Some(room) = self.bytes.get_mut(self.length..end) {
            for place in room.iter_mut().rev() {
                *place = b'0' + u8::try_from(number % 10).unwrap_or_default();
                number /= 10;
            }
            self.length = end;
        }
        self
    }

    /// Return the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// Return the text as bytes, without a check of UTF-8.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl<const N: usize> Default for Digits<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> fmt::Display for Digits<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<const N: usize> fmt::Debug for Digits<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_are_filled_with_zeros_and_cut_off_in_front() {
        let text = Digits::<16>::new().places(7, 2).text(":").places(123, 2);
        assert_eq!(text.as_str(), "07:23");
        assert_eq!(format!("{text:>7}|"), "  07:23|");
    }

    #[test]
    fn text_without_room_is_left_out() {
        assert_eq!(Digits::<3>::new().number(12).text("µs").number(3).as_str(), "123");
    }

    proptest! {
        #[test]
        fn a_number_is_written_as_by_the_standard_library(number: u64) {
            let text = Digits::<20>::new().number(number);
            prop_assert_eq!(text.as_str(), number.to_string());
        }
    }
}
