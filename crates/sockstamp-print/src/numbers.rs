//! Numbers with their nouns.

/// Return a number with its noun.
pub fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Return an estimate with its noun and, in percent, half of the interval around it.
pub(super) fn estimated(count: u64, error: Option<u64>, noun: &str) -> String {
    let Some(error) = error else {
        return format!(
            "~ {} {noun}s, by too few windows to tell the error",
            scaled(count)
        );
    };
    if error == 0 {
        return counted(count, noun);
    }
    let percent = 100.0 * error as f64 / count.max(1) as f64;
    let digits = usize::from(percent < 1.0);
    format!("~ {} {noun}s ± {percent:.digits$} %", scaled(count))
}

/// Return a number by its first digits.
fn scaled(count: u64) -> String {
    let number = count as f64;
    let units = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e4, " k")];
    match units.into_iter().find(|&(least, _)| number >= least) {
        Some((_, " k")) => format!("{:.1} k", number / 1e3),
        Some((unit, name)) => format!("{:.2}{name}", number / unit),
        None => count.to_string(),
    }
}
