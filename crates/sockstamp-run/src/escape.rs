//! The ways out of this program for text that others may have chosen. The lints of the crates of
//! programs keep all but these from standard output and standard error.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};
use sockstamp_model::name::{Escaped, shows};

/// Print one line on standard error, escaped: an error may quote a file name or an argument.
pub fn complain(text: impl fmt::Display) {
    let text = text.to_string();
    // Ignore the error: a broken standard error cannot be reported.
    let _ = writeln!(io::stderr(), "sockstamp: {}", Escaped(text.as_bytes()));
}

/// Print lines on standard error, with hidden characters escaped.
pub fn complain_lines(text: &str) {
    for line in text.lines() {
        let _ = writeln!(io::stderr(), "{}", Escaped(line.as_bytes()));
    }
}

/// Write a JSON value. Its strings are exact; characters that do not show as themselves are
/// written `\uNNNN`, of which JSON itself demands the control characters of ASCII alone (RFC 8259,
/// section 7).
///
/// # Errors
///
/// If the output takes no more.
pub fn json(output: impl Write, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(
        output,
        Visible(CompactFormatter),
    ))
}

struct Visible(CompactFormatter);

impl Formatter for Visible {
    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(|character| !shows(character)) {
            self.0.write_string_fragment(writer, &rest[..at])?;
            let mut characters = rest[at..].chars();
            for unit in characters.by_ref().take(1).flat_map(utf16) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = characters.as_str();
        }
        self.0.write_string_fragment(writer, rest)
    }

    fn write_char_escape<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        self.0.write_char_escape(writer, escape)
    }
}

/// Return one unit, or a surrogate pair.
fn utf16(character: char) -> impl Iterator<Item = u16> {
    let mut units = [0; 2];
    let length = character.encode_utf16(&mut units).len();
    units.into_iter().take(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &str) -> String {
        let mut output = Vec::new();
        json(&mut output, &value).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn json_shows_every_character_and_reads_back_exactly() {
        let hostile = "a\u{1b}\u{9b}2J\u{7f}\u{202e}é\u{e0041}\"\\\n服\u{feff}";
        let json = written(hostile);
        assert_eq!(
            json,
            r#""a\u001b\u009b2J\u007f\u202eé\udb40\udc41\"\\\n服\ufeff""#
        );
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), hostile);
    }

    #[test]
    fn json_without_hidden_characters_equals_that_of_serde_json() {
        for text in ["", "nginx", "größe µs \"quoted\" \\ /", "服务"] {
            assert_eq!(written(text), serde_json::to_string(text).unwrap());
        }
    }
}
