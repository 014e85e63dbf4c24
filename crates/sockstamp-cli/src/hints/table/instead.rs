//! The answer to a word of another program.

/// The answer to a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::hints) enum Instead {
    /// An option that had this name before.
    Renamed(&'static str),
    /// The long name of an option, and how it is written.
    Option(&'static str, &'static str),
    /// A filter that is written without an option.
    Filter(&'static str),
    /// A recording, which is named without an option.
    Recording,
    /// No option: what this one does is always so, or not done.
    Nothing(&'static str),
    /// The purpose, and the command line for it.
    Line(&'static str, &'static str),
}

/// Subcommands, all if none is named; options of theirs, with a value where that matters, # for
/// numbers, ~ for times with a unit, - for a range, a comma for a list of numbers, *.service for
/// units, *.pcap for captures, * for what is no file, or with no value; and the answer. The first
/// entry that fits a subcommand is the answer.
pub(in crate::hints) type Entry = (&'static str, &'static str, Instead);
