//! Bars of shares and of times.

use sockstamp_model::clock::Nanos;
use sockstamp_model::percent::share;

use crate::colour::Brush;

/// Columns of a bar of the whole.
const BAR: usize = 4;

/// Return a share of the time as a number, after a sign, and as a bar.
pub(super) fn share_and_bar(part: u128, whole: u128, sign: &str, brush: Brush) -> String {
    let number = format!("{:>8}", format!("{sign}{}", share(part, whole)));
    let bar = bar(part, whole);
    match bar.is_empty() {
        true => brush.share(part, whole, &number),
        false => brush.share(part, whole, &format!("{number} {bar}")),
    }
}

/// Return a bar in eighths of a column; the smallest share that shows has one.
fn bar(part: u128, whole: u128) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let most = (BAR * 8) as u128;
    let eighths = (part.min(whole) * most + whole / 2).checked_div(whole);
    let eighths = usize::try_from(eighths.unwrap_or(0)).unwrap_or(0);
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// Return a bar that shows the place of a time in a whole, with a mark at the end of the whole.
pub fn bar_between(begin: Nanos, duration: Nanos, whole: Nanos) -> String {
    const COLUMNS: usize = 40;
    let column = |time: Nanos| {
        let column = u128::from(time.0) * COLUMNS as u128 / u128::from(whole.0.max(1));
        usize::try_from(column).unwrap_or(usize::MAX).min(COLUMNS)
    };
    // The shortest is still seen.
    let first = column(begin).min(COLUMNS - 1);
    let last = column(begin + duration).max(first + 1);
    let bar = format!("{}{}", " ".repeat(first), "█".repeat(last - first));
    format!("{bar:<COLUMNS$}▏")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_the_length_of_the_share() {
        assert_eq!(bar(1, 1), "████");
        assert_eq!(bar(1, 2), "██");
        assert_eq!(bar(1, 32), "▏");
        assert_eq!(bar(1, 100), "");
        assert_eq!(bar(0, 0), "");
        // More than the whole: of a rest that is rounded.
        assert_eq!(bar(3, 2), "████");
    }
}
