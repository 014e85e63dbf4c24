//! Shares as text, the same in all outputs.

/// Return a share of a whole in percent.
#[must_use]
pub fn share(part: u128, whole: u128) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    // Per mille, rounded: whole numbers print the same everywhere.
    let tenths = (part * 1000 + whole / 2) / whole;
    format!("{}.{} %", tenths / 10, tenths % 10)
}
