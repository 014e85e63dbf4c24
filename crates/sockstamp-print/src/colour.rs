//! Colours of a table, in a terminal that has them.

use std::env;

use clap::{Args, ValueEnum};

use crate::destination::{Output, Stream};

/// Use of colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// In a terminal that has colours, unless NO_COLOR is set
    #[default]
    Auto,
    /// Everywhere, as for less -R
    Always,
    /// Nowhere
    Never,
}

/// The option of what prints text.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Colours {
    /// Use colours in text
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub color: Color,
}

impl Colours {
    /// Return the brush for an output.
    pub fn brush(self, is_terminal: bool) -> Brush {
        self.color.brush(is_terminal)
    }

    /// Return the brush for what is printed there, or to a stream.
    pub fn brush_for(self, output: &Output, otherwise: Stream) -> Brush {
        self.brush(output.is_terminal(otherwise))
    }
}

impl Color {
    /// Return the brush for an output.
    pub fn brush(self, is_terminal: bool) -> Brush {
        Brush {
            colours: self.has(is_terminal),
        }
    }

    /// Return true if an output has colours.
    pub fn has(self, is_terminal: bool) -> bool {
        match self {
            Self::Auto => is_terminal && wanted(),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// NO_COLOR as no-color.org has it; terminals with no colours at all by the names that terminfo(5)
/// gives them.
fn wanted() -> bool {
    let forbidden = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let term = env::var("TERM").unwrap_or_default();
    !forbidden && has_colours(&term)
}

fn has_colours(term: &str) -> bool {
    let is_colourless = term.starts_with("vt") || term.ends_with("-m") || term.ends_with("-mono");
    !is_colourless && !term.is_empty() && term != "dumb"
}

/// Colour text, or leave it as it is. A sequence takes no column: pad the text before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Brush {
    colours: bool,
}

impl Brush {
    pub(crate) const fn has_colours(self) -> bool {
        self.colours
    }

    /// Headings and the conclusion.
    pub fn bold(self, text: &str) -> String {
        self.sequence("1", text)
    }

    /// Text that must not be overlooked.
    pub fn alarm(self, text: &str) -> String {
        self.sequence("1;31", text)
    }

    /// Put a line, with its end, as a whole in the colour of an alarm.
    pub fn alarm_line(self, line: &[u8]) -> Vec<u8> {
        let text = String::from_utf8_lossy(line);
        let line = text.trim_end_matches('\n');
        (self.alarm(line) + &text[line.len()..]).into_bytes()
    }

    /// Put the text in the colour of a share of the time: red from half on, yellow from a quarter
    /// on.
    pub fn share(self, part: u128, whole: u128, text: &str) -> String {
        match part * 4 {
            quarters if whole == 0 || quarters < whole => text.to_owned(),
            quarters if quarters < whole * 2 => self.sequence("33", text),
            _ => self.alarm(text),
        }
    }

    fn sequence(self, sequence: &str, text: &str) -> String {
        match self.colours {
            true => format!("\x1b[{sequence}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_have_them() {
        assert!(has_colours("xterm-256color") && has_colours("linux"));
        for term in ["", "dumb", "vt100", "xterm-mono"] {
            assert!(!has_colours(term), "{term}");
        }
        assert!(!Color::Auto.brush(false).colours);
        assert!(Color::Always.brush(false).colours);
        assert!(!Color::Never.brush(true).colours);
    }

    #[test]
    fn a_share_is_red_from_half_of_the_time_on() {
        let brush = Color::Always.brush(true);
        assert_eq!(brush.share(1, 2, "x"), "\x1b[1;31mx\x1b[0m");
        assert_eq!(brush.share(1, 4, "x"), "\x1b[33mx\x1b[0m");
        assert_eq!(brush.share(1, 5, "x"), "x");
        assert_eq!(brush.share(0, 0, "x"), "x");
        assert_eq!(Brush::default().share(1, 1, "x"), "x");
    }

    #[test]
    fn the_end_of_a_line_has_no_colour() {
        let brush = Color::Always.brush(false);
        assert_eq!(
            brush.alarm_line(b"no answer\n"),
            b"\x1b[1;31mno answer\x1b[0m\n"
        );
        assert_eq!(Brush::default().alarm_line(b"x\n"), b"x\n");
    }
}
