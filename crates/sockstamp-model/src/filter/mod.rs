//! Filter flows by expressions in the syntax of pcap-filter(7): `tcp port 443 and net 10.0.0.0/8`.
//!
//! An expression selects messages: the source is the end that sends the message. It may therefore
//! hold for only one direction of a flow: `src port 443` selects what a server sends and its client
//! reads. docs/filter.md defines the syntax and its differences from pcap's.
//!
//! [`Filter`] is parsed once and turned into a [`Table`] of bounded length, which the kernel
//! evaluates.

mod error;
mod expression;
mod net;
mod parse;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use error::{FilterError, Problem};
pub use table::{Condition, End, MAX_TESTS, Next, Table, Test};

use crate::flow::{Flow, Protocol};
use crate::stage::Direction;
use expression::{Ends, Expression};

/// A filter expression whose table has at most [`MAX_TESTS`] tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    expression: Expression,
}

impl Filter {
    /// Return true if messages of the flow in this direction are selected.
    #[must_use]
    pub fn selects(&self, flow: &Flow, direction: Direction) -> bool {
        self.expression.holds(&Ends::of(flow, direction))
    }

    /// Return true if any flow of this protocol can be selected. It may return true without such a
    /// flow, but never false with one.
    #[must_use]
    pub fn wants(&self, protocol: Protocol) -> bool {
        self.expression.can(protocol).hold
    }

    /// Return the table for the kernel.
    #[must_use]
    pub fn table(&self) -> Table {
        Table::of(&self.expression)
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Ok(Self {
            expression: parse::expression(text)?,
        })
    }
}

/// Print all qualifiers and parentheses, so that the text parses to the same filter.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expression.fmt(f)
    }
}
