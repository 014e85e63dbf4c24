//! Headings of `--help`.

/// The heading of options that say how messages are measured.
pub(crate) const MEASURING: &str = "Measuring";
