//! Conditions of `--fail-if`, such as `tx.qdisc.p99 > +20%`.

use std::fmt;

use sockstamp_explain::diff::{Change, Measure, Population, QUANTILES, enough, having};
use sockstamp_run::duration::duration;

/// A limit of one quantile.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    text: String,
    measure: Measure,
    /// The place in [`QUANTILES`].
    quantile: usize,
    above: bool,
    limit: Limit,
}

/// The border of a change.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    /// Relative: 0.2 for 20 %.
    Relative(f64),
    /// In nanoseconds.
    Absolute(f64),
}

/// The result of looking at a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// True beyond chance: the whole interval of the change is beyond the limit.
    Yes,
    /// Not true beyond chance.
    No,
    /// There are too few messages, or all came in one moment.
    Unknown,
}

/// Read a condition.
pub(super) fn condition(text: &str) -> Result<Condition, String> {
    let shape = "such as 'tx.qdisc.p99 > +20%', 'rx.total.p50 > +2ms' or 'tx.sent.p90 < -10%'";
    let place = text.find(['<', '>']);
    let at = place.ok_or_else(|| format!("a condition is {shape}"))?;
    let (figure, limit) = text.split_at(at);
    let figure = figure.trim();
    if let Some(line) = without_measure(figure, &text[at..]) {
        return Err(line);
    }
    let (above, limit) = (limit.starts_with('>'), limit[1..].trim());
    let (place, measure) = QUANTILES
        .iter()
        .enumerate()
        .find_map(|(place, (name, _))| Some((place, figure.strip_suffix(name)?.strip_suffix('.')?)))
        .ok_or_else(|| format!("{figure:?} does not end with p50, p90, p99 or p99.9: {shape}"))?;
    let read = read_limit(limit).ok_or_else(|| match read_limit(&format!("+{limit}")) {
        Some(_) => format!(
            "changes are judged, and have a sign: write '{figure} {} +{limit}'; a limit of one \
             recording is for jq -e, behind sockstamp report --format json FILE",
            &text[at..=at]
        ),
        None => format!("{limit:?} is not a signed percentage or time: {shape}"),
    })?;
    if !above && matches!(read, Limit::Relative(least) if least <= -1.0) {
        return Err(format!(
            "{text:?} cannot hold: no time falls by more than all of it"
        ));
    }
    Ok(Condition {
        text: text.to_owned(),
        measure: measure.parse()?,
        quantile: place,
        above,
        limit: read,
    })
}

/// Return what to type for a percentile alone, or of a total without its direction.
fn without_measure(figure: &str, limit: &str) -> Option<String> {
    let lacks = match figure.strip_prefix("total.") {
        Some(_) => figure,
        None => &format!("total.{figure}"),
    };
    let known = QUANTILES
        .iter()
        .any(|(name, _)| lacks.ends_with(&format!(".{name}")));
    let is_bare = !figure.contains('.') || figure == "p99.9" || figure.starts_with("total.");
    let limit = limit.split_at(1);
    let sign = match limit.1.trim().starts_with(['+', '-']) {
        true => "",
        false => "+",
    };
    (known && is_bare).then(|| {
        format!(
            "{figure} of what? Write 'rx.{lacks} {} {sign}{}', or tx.sent, or a stage",
            limit.0,
            limit.1.trim()
        )
    })
}

fn read_limit(text: &str) -> Option<Limit> {
    let (sign, number) = match text.split_at_checked(1)? {
        ("+", number) => (1.0, number),
        ("-", number) => (-1.0, number),
        _ => return None,
    };
    if let Some(percent) = number.strip_suffix('%') {
        let percent: f64 = percent.trim_end().parse().ok()?;
        let sound = percent >= 0.0 && percent.is_finite();
        return sound.then_some(Limit::Relative(sign * percent / 100.0));
    }
    // A bare number may be meant as a percentage.
    let has_unit = number.ends_with(char::is_alphabetic);
    let time = has_unit.then(|| duration(number))?.ok()?;
    Some(Limit::Absolute(sign * time.as_secs_f64() * 1e9))
}

impl Condition {
    /// Look whether it holds.
    pub(crate) fn held(&self, changes: &[Change]) -> Held {
        let change = changes
            .iter()
            .find(|change| change.measure == self.measure && change.quantile == self.quantile);
        let Some((change, (least, most))) =
            change.and_then(|change| Some((change, change.bounds()?)))
        else {
            return Held::Unknown;
        };
        let limit = match self.limit {
            Limit::Relative(limit) => limit,
            Limit::Absolute(limit) => limit / change.before.max(1.0),
        };
        let held = match self.above {
            true => least > limit,
            false => most < limit,
        };
        if held { Held::Yes } else { Held::No }
    }

    /// Return why it cannot be evaluated.
    pub(crate) fn lacks(&self, sides: [&[Population]; 2]) -> String {
        let [before, after] = sides.map(|side| having(side, self.measure));
        let enough = enough(self.quantile);
        let measure = self.measure;
        match (before, after) {
            (0, 0) => format!("{self} (neither has {measure})"),
            (0, _) => format!("{self} (only after has {measure})"),
            (_, 0) => format!("{self} (only before has {measure})"),
            _ if before.min(after) < enough => format!(
                "{self} (it needs {enough} messages with {measure} a side; before has {before}, \
                 after {after})"
            ),
            _ => format!("{self} (all came in one moment)"),
        }
    }
}

/// As it was written.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::Stage;

    use super::*;

    fn change(after: f64, interval: Option<(f64, f64)>) -> Vec<Change> {
        vec![Change {
            measure: Measure::Stage(Stage::TxQdisc),
            quantile: 2,
            before: 1e6,
            after,
            interval: interval.map(|(least, most): (f64, f64)| (least.ln(), most.ln())),
            chance: 0.0,
            needed: 1.0,
            matters: true,
        }]
    }

    #[test]
    fn a_condition_holds_if_the_whole_interval_is_beyond_the_limit() {
        let held =
            |text: &str, after, interval| condition(text).unwrap().held(&change(after, interval));
        let doubled = Some((1.5, 2.5));
        assert_eq!(held("tx.qdisc.p99 > +20%", 2e6, doubled), Held::Yes);
        assert_eq!(held("tx.qdisc.p99>+49.9 %", 2e6, doubled), Held::Yes);
        assert_eq!(held("tx.qdisc.p99 > +60%", 2e6, doubled), Held::No);
        assert_eq!(held("tx.qdisc.p99 > +400us", 2e6, doubled), Held::Yes);
        assert_eq!(held("tx.qdisc.p99 > +0.6ms", 2e6, doubled), Held::No);
        assert_eq!(
            held("tx.qdisc.p99 < -20%", 5e5, Some((0.4, 0.7))),
            Held::Yes
        );
        assert_eq!(held("tx.qdisc.p99 < -20%", 5e5, Some((0.4, 0.9))), Held::No);
        assert_eq!(held("tx.qdisc.p99 > +20%", 2e6, None), Held::Unknown);
        assert_eq!(held("tx.qdisc.p50 > +20%", 2e6, doubled), Held::Unknown);
    }

    #[test]
    fn other_words_are_no_condition() {
        for text in [
            "",
            "tx.qdisc.p99",
            "tx.qdisc > +20%",
            "tx.disc.p99 > +20%",
            "tx.qdisc.p99 > 20%",
            "tx.qdisc.p99 > +x%",
            "tx.qdisc.p99 > +-5%",
            "tx.qdisc.p99 > +20",
            "tx.qdisc.p98 > +20%",
            "tx.qdisc.p99 > ",
            "tx.qdisc.p99 > +inf%",
            "tx.qdisc.p99 > +ä",
        ] {
            assert!(condition(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_figure_that_lacks_its_measure_is_written_whole() {
        for (text, written) in [
            ("p99>5ms", "'rx.total.p99 > +5ms'"),
            ("p99.9 > +5ms", "'rx.total.p99.9 > +5ms'"),
            ("total.p99 > +20%", "'rx.total.p99 > +20%'"),
        ] {
            let told = condition(text).unwrap_err();
            assert!(told.contains(written), "{told}");
            assert!(condition(written.trim_matches('\'')).is_ok());
        }
        let told = condition("rx.total.p99 > 5ms").unwrap_err();
        assert!(
            told.contains("'rx.total.p99 > +5ms'") && told.contains("jq -e"),
            "{told}"
        );
    }

    #[test]
    fn a_limit_that_nothing_can_pass_is_refused() {
        for text in ["rx.total.p50 < -100%", "rx.total.p50 < -500%"] {
            let told = condition(text).unwrap_err();
            assert!(told.contains("cannot hold"), "{told}");
        }
        for text in [
            "rx.total.p50 < -99%",
            "rx.total.p50 > -100%",
            "rx.total.p50 < -2ms",
        ] {
            assert!(condition(text).is_ok(), "{text}");
        }
    }
}
