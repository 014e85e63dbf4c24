//! Name generated files by their paths below the repository.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The contents of generated files, by path below the repository.
pub(crate) type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Return the repository's folder.
pub(crate) fn root() -> &'static Path {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.ancestors().nth(2).unwrap_or(Path::new("."))
}
