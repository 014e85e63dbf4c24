//! Draw what a view has summed: composition, distribution, heat map.

use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::{range_ns, slot};
use sockstamp_print::line::time_of_day;

use super::markup::{Text, percent, table};
use super::view::View;

/// Quantiles whose composition is shown.
const COMPOSED: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
/// Quantiles of the table of a distribution.
const QUANTILES: [(&str, f64); 9] = [
    ("p1", 0.01),
    ("p10", 0.1),
    ("p25", 0.25),
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];
/// Shares of the scale of a distribution, whose distances are as those of nines.
const MARKS: [(&str, f64); 6] = [
    ("0 %", 0.0),
    ("50 %", 0.5),
    ("90 %", 0.9),
    ("99 %", 0.99),
    ("99.9 %", 0.999),
    ("99.99 %", 0.9999),
];
const NINES: f64 = 4.0;
/// Levels of colour in a heat map.
const LEVELS: usize = 8;

/// Mark the part of a page to which a figure belongs.
pub(super) struct Place<'a> {
    /// Unique in the page.
    pub(super) id: &'a str,
    /// The group.
    pub(super) of: &'a str,
}

impl Place<'_> {
    fn begin(&self, html: &mut String, figure: &str, title: &str) {
        let (id, of) = (self.id, Text(self.of));
        *html += &format!(
            "<figure role=figure class={figure} aria-labelledby={id}-{figure}>\
             <figcaption id={id}-{figure}>{title}<span class=of> ({of})</span></figcaption>"
        );
    }
}

/// Draw of which stages and parts messages at some quantiles consist.
pub(super) fn composition(html: &mut String, view: &View, place: &Place<'_>) {
    let quantiles = COMPOSED.map(|(name, q)| {
        let time = view.times.quantile(q).unwrap_or(Nanos::ZERO);
        (name, time, view.means(slot(time.0)))
    });
    let is_there = |index: usize| quantiles.iter().any(|(_, _, means)| means[index] > 0.0);
    let there: Vec<usize> = (0..view.components.len())
        .filter(|&index| is_there(index))
        .collect();
    place.begin(html, "composition", "What messages are made of");
    for (name, time, means) in &quantiles {
        let whole: f64 = means.iter().sum::<f64>().max(1.0);
        *html += &format!(
            "<div class=row><span>{name}</span><svg viewBox=\"0 0 100 1\" preserveAspectRatio=none aria-hidden=true>"
        );
        let mut at = 0.0;
        for &index in &there {
            let share = means[index] / whole;
            *html += &format!(
                "<rect class=c{index} x={} width={} height=1 />",
                percent(at),
                percent(share)
            );
            at += share;
        }
        *html += &format!("</svg><span>{time}</span></div>");
    }
    *html += "<ul class=legend>";
    for &index in &there {
        *html += &format!(
            "<li><i class=c{index}></i>{}</li>",
            Text(view.components[index])
        );
    }
    *html += "</ul><details><summary>Table</summary>";
    let rows = there.iter().map(|&index| {
        let mean = |means: &Vec<f64>| rounded(means[index]).to_string();
        let means = quantiles.iter().map(|(_, _, means)| mean(means));
        std::iter::once(view.components[index].to_string())
            .chain(means)
            .collect()
    });
    table(
        html,
        "Mean time in messages of the bucket of each quantile",
        &["stage", "p50", "p90", "p99", "p99.9"],
        rows,
    );
    *html += "</details></figure>";
}

/// Draw which share of the messages takes at most which time.
pub(super) fn distribution(html: &mut String, view: &View, place: &Place<'_>) {
    let Some(scale) = Scale::of(view) else {
        return;
    };
    place.begin(
        html,
        "distribution",
        "How many messages take at most how long",
    );
    let count = view.times.count() as f64;
    let mut path = format!("M0 {}", height(0.0));
    let mut so_far = 0;
    for slot in scale.first..=scale.last {
        so_far += view.times.buckets()[slot].count;
        let (_, end) = range_ns(slot);
        let (x, y) = (percent(scale.place(end)), height(so_far as f64 / count));
        path += &format!("H{x}V{y}");
    }
    let rows: Vec<(&str, Nanos)> = QUANTILES
        .iter()
        .filter_map(|(name, q)| Some((*name, view.times.quantile(*q)?)))
        .chain(view.times.max().map(|max| ("max", max)))
        .collect();
    let places: Vec<String> = rows
        .iter()
        .map(|(_, time)| percent(scale.place(time.0)))
        .collect();
    *html += "<div class=chart><div class=y>";
    for (name, share) in MARKS {
        *html += &format!("<span style=\"top:{}%\">{name}</span>", height(share));
    }
    *html += &format!(
        "</div>{}<svg viewBox=\"0 0 100 100\" preserveAspectRatio=none aria-hidden=true>",
        cursor("Distribution", &places)
    );
    for (_, share) in MARKS {
        *html += &format!("<path class=grid d=\"M0 {}H100\" />", height(share));
    }
    *html += &format!("<path class=line d=\"{path}\" /></svg></div></div>");
    scale.axis(html);
    *html += "<output></output><details><summary>Table</summary>";
    let rows = rows
        .into_iter()
        .map(|(name, time)| vec![name.to_owned(), time.to_string()]);
    table(
        html,
        "Quantiles, off by 4.5 % at most; the maximum is exact",
        &["quantile", "time"],
        rows,
    );
    *html += "</details></figure>";
}

/// Draw how many messages took how long at which time.
pub(super) fn heat(html: &mut String, view: &View, place: &Place<'_>, [first, last]: [u64; 2]) {
    let Some(scale) = Scale::of(view) else {
        return;
    };
    let columns = view.heat.columns;
    let slots = scale.last + 1 - scale.first;
    // All messages are drawn finer than those of a group.
    let each = slots.div_ceil(columns / 2);
    let rows = slots.div_ceil(each);
    let cells: Vec<Vec<u64>> = (0..columns)
        .map(|column| {
            let slots = &view.heat.column(column)[scale.first..=scale.last];
            slots.chunks(each).map(|slots| slots.iter().sum()).collect()
        })
        .collect();
    let most = cells.iter().flatten().copied().max().unwrap_or(0);
    place.begin(html, "heat", "How long messages took over time");
    let places: Vec<String> = (0..columns)
        .map(|column| percent((column as f64 + 0.5) / columns as f64))
        .collect();
    *html += &format!(
        "<div class=chart><div class=y><span style=\"top:0%\">{}</span><span style=\"top:100%\">{}</span></div>{}\
         <svg viewBox=\"0 0 {columns} {rows}\" preserveAspectRatio=none aria-hidden=true>",
        Nanos(
            range_ns(scale.last)
                .1
                .min(view.times.max().map_or(0, |max| max.0))
        ),
        Nanos(range_ns(scale.first).0),
        cursor("Heat map", &places),
    );
    for level in 1..=LEVELS {
        let path = runs(&cells, rows, |count| level_of(count, most) == level);
        if !path.is_empty() {
            *html += &format!("<path class=h{level} d=\"{path}\" />");
        }
    }
    *html += "</svg></div></div>";
    let begin = |column: usize| {
        let span = u128::from(last - first) * column as u128 / columns as u128;
        time_of_day(first + u64::try_from(span).unwrap_or(0))
    };
    *html += &format!(
        "<div class=x><span style=\"left:0%\">{}</span><span style=\"left:100%\">{}</span></div>",
        begin(0).as_str(),
        time_of_day(last).as_str()
    );
    *html += &format!(
        "<ul class=legend><li><i class=h1></i>1 message</li><li><i class=h{LEVELS}></i>{most}</li></ul>\
         <output></output><details><summary>Table</summary>"
    );
    let rows = (0..columns).map(|column| {
        let counts = view.heat.column(column);
        let messages: u64 = counts.iter().sum();
        let at_most = |q: f64| {
            quantile(counts, messages, q).map_or_else(String::new, |time| time.to_string())
        };
        vec![
            begin(column).as_str().to_owned(),
            messages.to_string(),
            at_most(0.5),
            at_most(0.99),
        ]
    });
    table(
        html,
        "Messages from each time on (UTC); quantiles are at most these",
        &["from", "messages", "p50", "p99"],
        rows,
    );
    *html += "</details></figure>";
}

/// Return the upper bound of the bucket of a quantile.
fn quantile(counts: &[u64], messages: u64, q: f64) -> Option<Nanos> {
    let rank = q * messages as f64;
    let mut so_far = 0;
    let slot = counts.iter().position(|count| {
        so_far += count;
        so_far > 0 && so_far as f64 >= rank
    })?;
    Some(Nanos(range_ns(slot).1))
}

/// Return the outlines of all cells of a level, those side by side as one.
fn runs(cells: &[Vec<u64>], rows: usize, is_of: impl Fn(u64) -> bool) -> String {
    let mut path = String::new();
    for row in 0..rows {
        let mut column = 0;
        while column < cells.len() {
            let alike = cells[column..]
                .iter()
                .take_while(|counts| is_of(counts[row]))
                .count();
            if alike > 0 {
                // Long times are at the top.
                path += &format!("M{column} {}h{alike}v1h-{alike}z", rows - 1 - row);
            }
            column += alike.max(1);
        }
    }
    path
}

/// Return the level of a count, by its logarithm; zero for none.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the share is between 0 and 1"
)]
fn level_of(count: u64, most: u64) -> usize {
    let share = (count as f64).ln_1p() / (most as f64).ln_1p().max(1e-9);
    ((share * LEVELS as f64).ceil() as usize).min(LEVELS)
}

fn rounded(nanos: f64) -> Nanos {
    Nanos::from(std::time::Duration::try_from_secs_f64(nanos / 1e9).unwrap_or_default())
}

/// Begin the part of a chart on which a cursor moves between places.
fn cursor(name: &str, places: &[String]) -> String {
    let last = places.len().saturating_sub(1);
    format!(
        "<div class=plot role=slider tabindex=0 aria-label=\"{name}: arrow keys show values\" aria-valuemin=0 \
         aria-valuemax={last} aria-valuenow=0 data-places=\"{}\"><span class=cursor hidden></span>",
        places.join(" ")
    )
}

/// Return the place of a share from the top, in percent.
fn height(share: f64) -> String {
    let nines = -(1.0 - share).max(1e-9).log10();
    percent(1.0 - nines.min(NINES) / NINES)
}

/// A logarithmic axis of times.
struct Scale {
    first: usize,
    last: usize,
    low: f64,
    high: f64,
}

/// The buckets of the zero and of what is too long have no bounds to draw.
const SHORTEST: u64 = 30;
const LONGEST: u64 = 200_000_000_000;

impl Scale {
    fn of(view: &View) -> Option<Self> {
        let (first, last) = view.slots()?;
        let logarithm = |time: u64| (time.clamp(SHORTEST, LONGEST) as f64).ln();
        Some(Self {
            first,
            last,
            low: logarithm(range_ns(first).0),
            high: logarithm(range_ns(last).1),
        })
    }

    /// Return the place of a time between the shortest and the longest, of 1.
    fn place(&self, time: u64) -> f64 {
        let logarithm = (time.clamp(SHORTEST, LONGEST) as f64).ln();
        ((logarithm - self.low) / (self.high - self.low).max(1e-9)).clamp(0.0, 1.0)
    }

    /// Print the powers of ten on the axis, or more if these are few, or both ends.
    fn axis(&self, html: &mut String) {
        let inside = |time: &u64| (self.low..=self.high).contains(&(*time as f64).ln());
        let powers = (1..=11).map(|power| 10_u64.pow(power));
        let mut marks: Vec<u64> = powers.clone().filter(inside).collect();
        if marks.len() < 3 {
            let steps = powers.flat_map(|power| [power, 2 * power, 5 * power]);
            marks = steps.filter(inside).collect();
        }
        if marks.len() < 2 {
            marks = vec![range_ns(self.first).0, range_ns(self.last).1.min(LONGEST)];
        }
        *html += "<div class=x>";
        for mark in marks {
            *html += &format!(
                "<span style=\"left:{}%\">{}</span>",
                percent(self.place(mark)),
                Nanos(mark)
            );
        }
        *html += "</div>";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_side_by_side_are_one_outline() {
        let cells = vec![vec![1, 0], vec![1, 5], vec![0, 5]];
        let path = runs(&cells, 2, |count| count > 0);
        assert_eq!(path, "M0 1h2v1h-2zM1 0h2v1h-2z");
        let levels = [0, 1, 3, 1000].map(|count| level_of(count, 1000));
        assert_eq!(levels, [0, 1, 2, LEVELS]);
    }

    #[test]
    fn nines_have_equal_distances() {
        let heights = MARKS.map(|(_, share)| height(share));
        assert_eq!(heights, ["100", "92.47", "75", "50", "25", "0"]);
        assert_eq!(height(1.0), "0");
    }

    #[test]
    fn a_quantile_is_at_most_the_end_of_its_bucket() {
        let mut counts = vec![0; sockstamp_model::histogram::BUCKETS];
        counts[slot(1_000)] = 99;
        counts[slot(1_000_000)] = 1;
        assert_eq!(
            quantile(&counts, 100, 0.5),
            Some(Nanos(range_ns(slot(1_000)).1))
        );
        assert_eq!(
            quantile(&counts, 100, 0.999),
            Some(Nanos(range_ns(slot(1_000_000)).1))
        );
        assert_eq!(quantile(&vec![0; 242], 0, 0.5), None);
    }
}
