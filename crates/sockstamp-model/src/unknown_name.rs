//! What is said of a name that nothing has.

/// A name that is not in the list it was looked up in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {what} is named {name:?}")]
pub struct UnknownName {
    /// The kind of name: "stage", "verdict", ...
    pub what: &'static str,
    /// The name as it was given.
    pub name: String,
}
