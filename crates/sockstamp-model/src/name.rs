//! Names that other users chose, and how they become text.
//!
//! A task chooses its own name (prctl(2), `PR_SET_NAME`), and almost any byte may be in the name of
//! a cgroup, or of an interface in a user's own network namespace. Printed raw, such a name can be
//! a terminal command, or a forged line. The only text of a [`Name`] is therefore its `Display`,
//! which escapes.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;

use serde::{Serialize, Serializer};

/// A name as the kernel has it: any bytes.
///
/// It escapes every character that does not show as itself ([`shows`]): `\n`, `\t`, `\r`, `\xNN`
/// for other ASCII control characters and for bytes that are not UTF-8, `\u{NNNN}` for the rest. A
/// backslash stays as it is, so that a name without hidden characters can be copied back into an
/// option.
///
/// In JSON it is the exact string, unless it is not UTF-8: then each invalid byte is written as
/// `\xNN`. It is always a string, so that no user can change the type of a key.
#[derive(Clone)]
pub struct Name(Bytes);

/// The names of tasks and interfaces have at most 15 bytes (TASK_COMM_LEN, IFNAMSIZ). They are in
/// every message: they stay in place, so that a message takes no memory of its own.
#[derive(Clone)]
enum Bytes {
    Short { bytes: [u8; SHORT], length: u8 },
    Long(Box<[u8]>),
}

/// The most that takes no more room than a long one.
const SHORT: usize = 22;

impl Name {
    /// The name in a field of the kernel's: the bytes before the first zero, which ends a string of
    /// C; all of them if there is none.
    #[must_use]
    #[inline]
    pub fn from_c(field: &[u8; 16]) -> Self {
        let mut bytes = [0; SHORT];
        bytes[..16].copy_from_slice(field);
        let length = before_zero(*field);
        Self(Bytes::Short { bytes, length })
    }

    /// The bytes, as the kernel has them.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Short { bytes, length } => &bytes[..usize::from(*length)],
            Bytes::Long(bytes) => bytes,
        }
    }

    /// Return the bytes if the name prints as they are: if they are ASCII that shows as itself, as
    /// those of nearly every name.
    #[must_use]
    #[inline]
    pub fn plain(&self) -> Option<&[u8]> {
        Some(self.as_bytes()).filter(|bytes| is_plain(bytes))
    }

    /// Return true if the name is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }
}

/// Return the number of bytes before the first zero, by all bytes at once: the subtraction borrows
/// into the highest bit of the first byte that is zero, and of none before it.
#[inline]
fn before_zero(field: [u8; 16]) -> u8 {
    const EACH: u128 = u128::MAX / 0xff;
    let word = u128::from_le_bytes(field);
    let zeros = word.wrapping_sub(EACH) & !word & (EACH << 7);
    let bits = u8::try_from(zeros.trailing_zeros()).unwrap_or(u8::MAX);
    bits / 8
}

impl Default for Name {
    fn default() -> Self {
        Self::from("")
    }
}

impl PartialEq for Name {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        text.as_bytes().into()
    }
}

impl From<&[u8]> for Name {
    fn from(name: &[u8]) -> Self {
        let mut bytes = [0; SHORT];
        match (bytes.get_mut(..name.len()), u8::try_from(name.len())) {
            (Some(room), Ok(length)) => {
                room.copy_from_slice(name);
                Self(Bytes::Short { bytes, length })
            }
            _ => Self(Bytes::Long(name.into())),
        }
    }
}

impl From<&OsStr> for Name {
    fn from(text: &OsStr) -> Self {
        text.as_bytes().into()
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.width().is_none() && f.precision().is_none() {
            return Escaped(self.as_bytes()).fmt(f);
        }
        f.pad(&Escaped(self.as_bytes()).to_string())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl Name {
    /// Return the exact string; where bytes are not UTF-8, each of them as `\xNN`. It is not
    /// escaped: other programs read it.
    #[must_use]
    pub fn exact(&self) -> Cow<'_, str> {
        if let Ok(text) = str::from_utf8(self.as_bytes()) {
            return text.into();
        }
        let mut text = String::new();
        for chunk in self.as_bytes().utf8_chunks() {
            text += chunk.valid();
            // Ignore the result: writing to a string cannot fail.
            let _ = invalid(&mut text, chunk.invalid());
        }
        text.into()
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.exact())
    }
}

/// Bytes whose text has nothing that a terminal would interpret or a reader would not see; see
/// [`Name`].
#[derive(Debug, Clone, Copy)]
pub struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (true, Ok(text)) = (is_plain(self.0), str::from_utf8(self.0)) {
            return f.write_str(text);
        }
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                escape(f, character)?;
            }
            invalid(f, chunk.invalid())?;
        }
        Ok(())
    }
}

/// Return true for ASCII that shows as itself.
#[inline]
fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b' '..=b'~'))
}

fn escape(output: &mut impl Write, character: char) -> fmt::Result {
    match character {
        _ if shows(character) => output.write_char(character),
        '\n' | '\t' | '\r' => write!(output, "{}", character.escape_default()),
        _ if character.is_ascii() => write!(output, "\\x{:02x}", u32::from(character)),
        _ => write!(output, "{}", character.escape_unicode()),
    }
}

fn invalid(output: &mut impl Write, bytes: &[u8]) -> fmt::Result {
    bytes
        .iter()
        .try_for_each(|byte| write!(output, "\\x{byte:02x}"))
}

/// Letters and symbols of no ink, which Unicode counts among those that have some: fillers of
/// Hangul, an empty pattern of Braille.
const BLANK: [char; 5] = ['\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{ffa0}'];

/// Return true if a character shows as itself in any context. Control characters do not, nor do
/// characters that change the direction of text or have no width, nor any blank except the ASCII
/// space.
#[must_use]
pub fn shows(character: char) -> bool {
    // The standard library also escapes unprintable and combining characters, and these three.
    matches!(character, '\'' | '"' | '\\')
        || character.escape_debug().len() == 1 && !BLANK.contains(&character)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(bytes: &[u8]) -> String {
        Name::from(bytes).to_string()
    }

    fn json(bytes: &[u8]) -> String {
        serde_json::to_string(&Name::from(bytes)).unwrap()
    }

    #[test]
    fn ordinary_names_print_as_they_are() {
        for name in [
            "nginx",
            "Web Content",
            "kworker/0:1-ev",
            "größe",
            "服务",
            "it's \"so\"",
            r"dev-disk\x2dby.slice",
            "(sd-pam)",
            "",
        ] {
            assert_eq!(text(name.as_bytes()), name);
            assert_eq!(Name::from(name), name);
        }
    }

    #[test]
    fn terminal_commands_are_escaped() {
        assert_eq!(text(b"\x1b]0;x\x07\n"), r"\x1b]0;x\x07\n");
        assert_eq!(text(b"a\tb\rc\x7fd\x08"), r"a\tb\rc\x7fd\x08");
        // CSI as one character of C1, and as one byte.
        assert_eq!(text("\u{9b}2J".as_bytes()), r"\u{9b}2J");
        assert_eq!(text(b"\x9b2J"), r"\x9b2J");
    }

    #[test]
    fn misleading_characters_are_escaped() {
        for hidden in [
            '\u{202e}',
            '\u{2066}',
            '\u{200f}',
            '\u{61c}', // directions
            '\u{200b}',
            '\u{200d}',
            '\u{feff}',
            '\u{2060}',
            '\u{ad}',
            '\u{e0041}', // no width
            '\u{301}',
            '\u{fe0f}',
            '\u{34f}', // of the character before
            '\u{a0}',
            '\u{2003}',
            '\u{3000}',
            '\u{3164}',
            '\u{2800}', // blanks
            '\u{2028}',
            '\u{2029}',
            '\u{85}', // ends of lines
            '\u{e000}',
            '\u{fff9}', // no meaning of their own
        ] {
            assert!(!shows(hidden), "{hidden:?}");
            let expected = format!("a\\u{{{:x}}}b", u32::from(hidden));
            assert_eq!(text(format!("a{hidden}b").as_bytes()), expected);
        }
    }

    #[test]
    fn names_in_json_are_exact() {
        let hostile = "\u{1b}]0;x\u{7}\n\u{202e}";
        let read: String = serde_json::from_str(&json(hostile.as_bytes())).unwrap();
        assert_eq!(read, hostile);
        assert_eq!(json(b"caf\xe9\n"), r#""caf\\xe9\n""#);
    }

    #[test]
    fn a_name_is_the_same_at_any_length() {
        for length in 0..2 * SHORT {
            let bytes = vec![b'a'; length];
            let name = Name::from(&*bytes);
            assert_eq!(name.as_bytes(), bytes);
            assert!(name < Name::from(&*[&bytes[..], b"a"].concat()));
        }
    }

    #[test]
    fn a_name_of_c_ends_with_its_zero_or_its_buffer() {
        assert_eq!(Name::from_c(b"lo\0\0x\0\0\0\0\0\0\0\0\0\0\0"), "lo");
        assert_eq!(Name::from_c(b"redis-benchmark\0"), "redis-benchmark");
        assert_eq!(Name::from_c(b"sixteen of bytes"), "sixteen of bytes");
        assert!(Name::from_c(&[0; 16]).is_empty());
    }

    #[test]
    fn a_name_takes_the_room_of_three_words() {
        assert_eq!(size_of::<Name>(), 24);
    }

    #[test]
    fn columns_are_as_wide_as_the_printed_text() {
        assert_eq!(format!("{:<6}|", Name::from("a\n")), "a\\n   |");
        assert_eq!(format!("{:?}", Name::from("a\n")), "\"a\\n\"");
    }

    proptest! {
        #[test]
        fn no_byte_gets_through(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(text(&bytes).chars().all(shows));
            prop_assert!(text(&bytes).chars().all(|character| !character.is_control()));
        }

        #[test]
        fn no_character_gets_through(name in any::<String>()) {
            prop_assert!(text(name.as_bytes()).chars().all(shows));
            let read: String = serde_json::from_str(&json(name.as_bytes())).unwrap();
            prop_assert_eq!(read, name);
        }

        #[test]
        fn names_are_kept_and_ordered_as_their_bytes(
            one in prop::collection::vec(any::<u8>(), 0..32),
            other in prop::collection::vec(any::<u8>(), 0..32),
        ) {
            let names = [&one, &other].map(|bytes| Name::from(&bytes[..]));
            prop_assert_eq!(names[0].as_bytes(), &one);
            prop_assert_eq!(names[0].cmp(&names[1]), one.cmp(&other));
            prop_assert_eq!(names[0] == names[1], one == other);
        }

        #[test]
        fn a_plain_name_prints_as_it_is(bytes in prop::collection::vec(any::<u8>(), 0..8)) {
            let name = Name::from(&bytes[..]);
            if let Some(plain) = name.plain() {
                let text = name.to_string();
                prop_assert_eq!(plain, text.as_bytes());
            }
        }

        #[test]
        fn escaped_text_is_escaped_no_further(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let once = text(&bytes);
            prop_assert_eq!(text(once.as_bytes()), once);
        }
    }
}
