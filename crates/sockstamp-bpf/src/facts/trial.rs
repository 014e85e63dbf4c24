//! What the kernel said when something was tried.

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// The kernel took the program.
    Works,
    /// It refused, with this reason.
    Refused(String),
    /// Not tried, for this reason.
    Unknown(String),
}

/// A program of ours and what the kernel says to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedHook {
    /// Where it attaches: the section of the program, such as `tp_btf/sk_data_ready`.
    pub section: String,
    /// Whether sockstamp uses it; the others are only looked at.
    pub used: bool,
    /// What became of the attempt.
    pub trial: Trial,
}
