//! Record the kernel's answer to a trial.

/// The result of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// The kernel took the program.
    Works,
    /// The kernel refused, with this reason.
    Refused(String),
    /// Not tried, for this reason.
    Unknown(String),
}

/// One of our programs and the kernel's answer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedHook {
    /// The section of the program, such as `tp_btf/sk_data_ready`.
    pub section: String,
    /// True if sockstamp uses it; the others are only shown.
    pub used: bool,
    /// The result of the trial.
    pub trial: Trial,
}
