//! Report errors in filter expressions, with their position.

use std::fmt;

use super::table::MAX_TESTS;
use crate::name::shows;

/// An invalid expression. It prints as three lines: the reason, the expression, and a line that
/// points at the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    text: String,
    start: usize,
    length: usize,
    problem: Problem,
}

/// The reason why an expression is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Another word belongs here.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// The expected syntax.
        expected: &'static str,
        /// The text found.
        found: Found,
    },
    /// The address of a network has bits beyond its prefix.
    #[error("the address has bits beyond the prefix: the network is {network}")]
    HostBits {
        /// The network that the address is in.
        network: String,
    },
    /// The first port of a range is above the last.
    #[error("the range ends before it begins")]
    Backwards,
    /// `ip` with an IPv6 address, or `ip6` with an IPv4 address.
    #[error("`{qualifier}` contradicts the IP version of the address")]
    OtherVersion {
        /// The word before it.
        qualifier: &'static str,
    },
    /// The expression needs more than [`MAX_TESTS`] tests.
    #[error(
        "too long: it takes more than {MAX_TESTS} tests (a `host`, `net` or `port` without src or dst takes two)"
    )]
    TooLong,
    /// Parentheses within parentheses, or `not` after `not`.
    #[error("nested too deeply")]
    TooDeep,
}

/// The text found in place of the expected syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// This word or sign.
    Word(String),
    /// Nothing.
    End,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, "`{}`", word.escape_debug()),
            Self::End => f.write_str("the end"),
        }
    }
}

impl FilterError {
    /// `start` and `length` count characters.
    pub(super) fn new(text: &str, start: usize, length: usize, problem: Problem) -> Self {
        // Print the expression in one line, so that the marker points at the right column.
        let in_line = |c: char| if shows(c) { c } else { ' ' };
        Self {
            text: text.chars().map(in_line).collect(),
            start,
            length,
            problem,
        }
    }

    /// Return the position of the error: characters, from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.start + 1
    }

    /// Return the reason.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "filter, column {}: {}", self.column(), self.problem)?;
        writeln!(f, "  {}", self.text)?;
        write!(
            f,
            "  {:start$}{:^<length$}",
            "",
            "",
            start = self.start,
            length = self.length
        )
    }
}

impl std::error::Error for FilterError {}
