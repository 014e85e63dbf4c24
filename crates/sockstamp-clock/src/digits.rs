//! Text of numbers, put together in place: for what is printed once per message.
//!
//! A copy whose length is known when this is compiled is a move or two; one of any length is a
//! call. So text is copied whole, with what follows it in its array. Digits come three at a time
//! from a table: one by one, each is a division.

use std::fmt;

/// Text of at most `N` bytes; the rest is cut off.
#[derive(Clone, Copy)]
pub struct Digits<const N: usize> {
    /// The text; bytes after it have no meaning.
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

    /// Put together texts that are known when this is compiled, where they must have room.
    #[must_use]
    pub const fn of(texts: &[&str]) -> Self {
        let mut digits = Self::new();
        let mut next = 0;
        while next < texts.len() {
            let text = texts[next].as_bytes();
            let mut at = 0;
            while at < text.len() {
                digits.bytes[digits.length] = text[at];
                digits.length += 1;
                at += 1;
            }
            next += 1;
        }
        digits
    }

    /// Add text.
    #[must_use]
    #[inline]
    pub fn text(self, text: &str) -> Self {
        self.add(text.as_bytes())
    }

    /// Add characters of ASCII.
    #[must_use]
    #[inline]
    pub fn ascii<const M: usize>(self, characters: [u8; M]) -> Self {
        self.add(&characters)
    }

    /// Add a number.
    #[must_use]
    pub fn number(self, number: u64) -> Self {
        match number {
            0..1_000 => self.leading_digits(number),
            _ => self
                .number(number / 1_000)
                .ascii(three_digits(number % 1_000)),
        }
    }

    /// Add a number below 1000.
    #[must_use]
    #[inline]
    pub fn leading_digits(mut self, number: u64) -> Self {
        let (digits, count) = leading_digits(number);
        let room = self.bytes.get_mut(self.length..).unwrap_or_default();
        match room.first_chunk_mut() {
            Some(room) => {
                *room = digits;
                self.length += count;
                self
            }
            None => self.add(&digits[..count]),
        }
    }

    #[inline]
    fn add(mut self, bytes: &[u8]) -> Self {
        let end = self.length + bytes.len();
        if let Some(room) = self.bytes.get_mut(self.length..end) {
            room.copy_from_slice(bytes);
            self.length = end;
        }
        self
    }

    /// Append the text to a line.
    #[inline]
    pub fn append_to(&self, line: &mut Vec<u8>) {
        append(line, &self.bytes, self.length);
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

/// Append a number to a line.
#[inline]
pub fn append_number(line: &mut Vec<u8>, number: u64) {
    match number {
        0..1_000 => append_leading(line, number),
        1_000..1_000_000 => {
            append_leading(line, number / 1_000);
            line.extend_from_slice(&three_digits(number % 1_000));
        }
        _ => append_long(line, number),
    }
}

fn append_long(line: &mut Vec<u8>, number: u64) {
    append_number(line, number / 1_000_000);
    let [a, b, c] = three_digits(number / 1_000 % 1_000);
    let [d, e, f] = three_digits(number % 1_000);
    line.extend_from_slice(&[a, b, c, d, e, f]);
}

#[inline]
fn append_leading(line: &mut Vec<u8>, number: u64) {
    let (digits, count) = leading_digits(number);
    append(line, &digits, count);
}

/// Append the first bytes of an array, so many of them.
#[inline]
fn append<const N: usize>(line: &mut Vec<u8>, bytes: &[u8; N], length: usize) {
    let end = line.len() + length;
    line.extend_from_slice(bytes);
    line.truncate(end);
}

/// Return the digits of a number below 1000 from the first that is not 0, and their count.
#[inline]
fn leading_digits(number: u64) -> ([u8; 4], usize) {
    let digits = entry(&LEADING, number);
    (digits, usize::from(digits[3]))
}

/// Return the three digits of a number below 1000.
#[must_use]
#[inline]
pub fn three_digits(number: u64) -> [u8; 3] {
    let [a, b, c, _] = entry(&THREES, number);
    [a, b, c]
}

#[inline]
fn entry(table: &[[u8; 4]; 1_000], number: u64) -> [u8; 4] {
    let place = usize::try_from(number).ok();
    *place
        .and_then(|place| table.get(place))
        .unwrap_or(&table[999])
}

/// The digits of each number. One more byte keeps an entry from crossing a cache line.
static THREES: [[u8; 4]; 1_000] = {
    let mut threes = [*b"0000"; 1_000];
    let mut at = 1;
    while at < threes.len() {
        threes[at] = threes[at - 1];
        let mut place = 2;
        while threes[at][place] == b'9' {
            threes[at][place] = b'0';
            place -= 1;
        }
        threes[at][place] += 1;
        at += 1;
    }
    threes
};

/// The same without zeros in front, and the count of digits in the last byte.
static LEADING: [[u8; 4]; 1_000] = {
    let mut all = THREES;
    let mut at = 0;
    while at < all.len() {
        let [a, b, c, _] = all[at];
        all[at] = match at {
            0..10 => [c, 0, 0, 1],
            10..100 => [b, c, 0, 2],
            _ => [a, b, c, 3],
        };
        at += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn three_digits_have_zeros_in_front() {
        for number in 0..1_000 {
            let text = Digits::<3>::new().ascii(three_digits(number));
            assert_eq!(text.as_str(), format!("{number:03}"));
            assert_eq!(format!("{text:>5}|"), format!("  {number:03}|"));
        }
    }

    #[test]
    fn text_without_room_is_left_out() {
        assert_eq!(
            Digits::<3>::new().number(12).text("µs").number(3).as_str(),
            "123"
        );
    }

    #[test]
    fn texts_are_put_together_and_appended() {
        const LABEL: Digits<8> = Digits::of(&["  ", "sent", " "]);
        let mut line = b"64 B".to_vec();
        LABEL.append_to(&mut line);
        assert_eq!(line, b"64 B  sent ");
    }

    proptest! {
        #[test]
        fn a_number_is_written_as_by_the_standard_library(number: u64, digits in 0..64) {
            let number = number >> digits;
            let text = Digits::<20>::new().number(number);
            prop_assert_eq!(text.as_str(), number.to_string());
            let mut line = b"at ".to_vec();
            append_number(&mut line, number);
            prop_assert_eq!(line, format!("at {number}").into_bytes());
        }
    }
}
