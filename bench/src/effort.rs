//! Choose the length of a run.

/// The length of the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    Smoke,
    Quick,
    Full,
}

impl Effort {
    /// Return the number of rounds, given that of a quick run.
    pub(crate) fn rounds(self, quick: usize) -> usize {
        match self {
            Self::Smoke => 1,
            Self::Quick => quick,
            Self::Full => quick * 6,
        }
    }
}
