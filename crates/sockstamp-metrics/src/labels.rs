//! The labels of a series.

use std::borrow::Cow;

/// Names and values, in the order in which they are printed.
pub type Labels = Vec<(Cow<'static, str>, String)>;
