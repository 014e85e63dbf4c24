//! The repository's folder.

use std::path::Path;

/// Return it.
pub(crate) fn root() -> &'static Path {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().unwrap_or(Path::new("."))
}
