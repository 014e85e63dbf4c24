//! Compile an expression into a list of tests that only jump forward, which the kernel can evaluate
//! in bounded time.

use super::expression::{Expression, Pattern, Primitive, Version, Which};
use super::net::Net;
use crate::flow::Protocol;

/// The room in the kernel's copy.
pub const MAX_TESTS: usize = 64;

/// The tests in the order in which they are made, from the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    tests: Vec<Test>,
}

/// A condition, and the next steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Test {
    /// The condition to test.
    pub condition: Condition,
    /// If it holds.
    pub on_true: Next,
    /// If it does not.
    pub on_false: Next,
}

/// A condition of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The protocol equals this one.
    Protocol(Protocol),
    /// The address, with IPv4 in its place in IPv6, is `network` under `mask`.
    Address {
        /// The end of the message.
        end: End,
        /// The bits that must be.
        network: u128,
        /// The bits that matter.
        mask: u128,
    },
    /// The port is one of these.
    Ports {
        /// The end of the message.
        end: End,
        /// The lowest.
        first: u16,
        /// The highest.
        last: u16,
    },
}

/// An end of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The end that sends it.
    Source,
    /// The end that reads it.
    Destination,
}

/// The step after a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The test with this index, which is higher than its own.
    Test(u8),
    /// The expression holds.
    Accept,
    /// The filter does not match.
    Reject,
}

impl Table {
    pub(super) fn of(expression: &Expression) -> Self {
        let mut builder = Builder::default();
        builder.expression(expression, Next::Accept, Next::Reject);
        builder.finish()
    }

    /// The tests.
    #[must_use]
    pub fn tests(&self) -> &[Test] {
        &self.tests
    }
}

/// Return the number of tests for a primitive.
pub(super) fn tests_of(primitive: &Primitive) -> usize {
    let mut builder = Builder::default();
    builder.primitive(primitive, Next::Accept, Next::Reject);
    builder.reversed.len()
}

/// Build from the end, because a test refers to its successors. Until the table is finished,
/// indices count from the end too.
#[derive(Default)]
struct Builder {
    reversed: Vec<Test>,
}

impl Builder {
    /// Prepend an expression and return its first test.
    fn expression(&mut self, expression: &Expression, on_true: Next, on_false: Next) -> Next {
        match expression {
            Expression::Primitive(primitive) => self.primitive(primitive, on_true, on_false),
            Expression::Not(inner) => self.expression(inner, on_false, on_true),
            Expression::And(left, right) => {
                let right = self.expression(right, on_true, on_false);
                self.expression(left, right, on_false)
            }
            Expression::Or(left, right) => {
                let right = self.expression(right, on_true, on_false);
                self.expression(left, on_true, right)
            }
        }
    }

    fn primitive(&mut self, primitive: &Primitive, on_true: Next, on_false: Next) -> Next {
        let is_v4 = Pattern::Net(Net::IPV4);
        match primitive {
            Primitive::Protocol(protocol) => {
                self.test(Condition::Protocol(*protocol), on_true, on_false)
            }
            Primitive::Version(Version::V4) => self.ends(Which::Either, &is_v4, on_true, on_false),
            Primitive::Version(Version::V6) => self.ends(Which::Either, &is_v4, on_false, on_true),
            Primitive::Match(which, pattern) => self.ends(*which, pattern, on_true, on_false),
        }
    }

    fn ends(&mut self, which: Which, pattern: &Pattern, on_true: Next, on_false: Next) -> Next {
        match which {
            Which::Source => self.end(End::Source, pattern, on_true, on_false),
            Which::Destination => self.end(End::Destination, pattern, on_true, on_false),
            Which::Either => {
                let destination = self.end(End::Destination, pattern, on_true, on_false);
                self.end(End::Source, pattern, on_true, destination)
            }
            Which::Both => {
                let destination = self.end(End::Destination, pattern, on_true, on_false);
                self.end(End::Source, pattern, destination, on_false)
            }
        }
    }

    fn end(&mut self, end: End, pattern: &Pattern, on_true: Next, on_false: Next) -> Next {
        let in_net = |net: &Net| {
            let (network, mask) = net.bits();
            Condition::Address { end, network, mask }
        };
        match *pattern {
            Pattern::Ports { first, last } => {
                self.test(Condition::Ports { end, first, last }, on_true, on_false)
            }
            Pattern::Net(net) if net.covers_mapped() => {
                let found = self.test(in_net(&net), on_true, on_false);
                self.test(in_net(&Net::IPV4), on_false, found)
            }
            Pattern::Net(net) => self.test(in_net(&net), on_true, on_false),
        }
    }

    fn test(&mut self, condition: Condition, on_true: Next, on_false: Next) -> Next {
        // The parser refuses what would overflow; it counts with `tests_of()`.
        let index = u8::try_from(self.reversed.len()).unwrap_or(u8::MAX);
        self.reversed.push(Test {
            condition,
            on_true,
            on_false,
        });
        Next::Test(index)
    }

    fn finish(self) -> Table {
        let count = self.reversed.len();
        let from_start = |next| match next {
            Next::Test(index) => {
                Next::Test(u8::try_from(count - 1 - usize::from(index)).unwrap_or(u8::MAX))
            }
            end => end,
        };
        let tests = self.reversed.into_iter().rev().map(|test| Test {
            on_true: from_start(test.on_true),
            on_false: from_start(test.on_false),
            ..test
        });
        Table {
            tests: tests.collect(),
        }
    }
}
