//! Words for a name that nothing has.

/// A name that is not in the list it was looked up in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {what} is named {name:?}")]
pub struct UnknownName {
    /// The kind of name: "stage", "verdict", ...
    pub what: &'static str,
    /// The name as it was given.
    pub name: String,
}

/// Find what has a name among all of its kind.
pub(crate) fn find<T: Copy>(
    what: &'static str,
    all: impl IntoIterator<Item = T>,
    name_of: impl Fn(T) -> &'static str,
    name: &str,
) -> Result<T, UnknownName> {
    let found = all.into_iter().find(|one| name_of(*one) == name);
    found.ok_or_else(|| UnknownName {
        what,
        name: name.to_owned(),
    })
}
