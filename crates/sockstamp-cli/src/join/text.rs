//! Whole lives as a table.

use std::io::{self, Write};

use sockstamp_join::{Host, Quality, Reason};
use sockstamp_model::clock::{Realtime, Timestamp};
use sockstamp_model::percent::share;
use sockstamp_print::colour::Brush;
use sockstamp_print::columns::{Column, titles};
use sockstamp_print::line::time_of_day;
use sockstamp_print::numbers::counted;
use sockstamp_print::paragraph::wrapped;
use sockstamp_print::row::row;
use sockstamp_run::utc::utc;

use super::halves::Recorded;
use super::joined::Joined;
use super::waterfall;

/// The places of the hosts among the arguments.
const PLACES: [&str; 2] = ["first", "second"];

pub(super) fn all(output: &mut dyn Write, joined: &Joined, brush: Brush) -> io::Result<()> {
    writeln!(output)?;
    for (host, place) in joined.hosts.iter().zip(PLACES) {
        let (name, messages) = (escaped(&host.name), counted(host.messages, "message"));
        writeln!(output, " {place:<7} {name}, {messages}")?;
    }
    writeln!(output, "{}", clocks(joined))?;
    for host in Host::ALL {
        direction(output, joined, host, brush)?;
    }
    let reasons = Reason::ALL
        .into_iter()
        .map(|reason| (reason, joined.join.unmatched()[reason]));
    let reasons: Vec<String> = reasons
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| format!("{} {count}", reason.name()))
        .collect();
    if !reasons.is_empty() {
        writeln!(output, "{}", wrapped(" not joined:", &reasons, ","))?;
    }
    let translated = joined.join.translations().len();
    if translated > 0 {
        let directions = match translated {
            1 => "one direction of a connection".to_owned(),
            directions => format!("{directions} directions of connections"),
        };
        writeln!(output, " NAT: the addresses of {directions} differ")?;
    }
    let clamped = joined.join.clamped();
    let clamped = [("net.forward", clamped.forward), ("net.back", clamped.back)];
    let clamped = clamped.into_iter().filter(|(_, count)| *count > 0);
    let clamped: Vec<String> = clamped
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if !clamped.is_empty() {
        writeln!(
            output,
            "{}",
            wrapped(" below zero, given as zero:", &clamped, ",")
        )?;
    }
    writeln!(output)?;
    output.flush()
}

/// Names come from a file.
fn escaped(name: &str) -> String {
    sockstamp_model::name::Name::from(name.as_bytes()).to_string()
}

/// Return the times of the recordings by their hosts' clocks, if these do not overlap.
pub(super) fn apart([first, second]: &[Recorded; 2]) -> Option<String> {
    let [one, two] = [first.times?, second.times?];
    (one.1 < two.0 || two.1 < one.0).then(|| {
        format!(
            "by their hosts' clocks, the first is of {}, and the second of {}",
            times(one),
            times(two)
        )
    })
}

fn times((first, last): (Timestamp<Realtime>, Timestamp<Realtime>)) -> String {
    let [first, last] = [first, last].map(Timestamp::as_nanos);
    let [[date, ..], [last_date, ..]] = [first, last].map(|time| utc(time / 1_000_000_000));
    let [begin, end] = [first, last].map(|time| time_of_day(time).as_str()[..8].to_owned());
    match date == last_date {
        true => format!("{date} {begin} to {end} UTC"),
        false => format!("{date} {begin} to {last_date} {end} UTC"),
    }
}

fn clocks(joined: &Joined) -> String {
    let clocks = joined.join.clocks();
    let words = match joined
        .middle()
        .map(|time| (clocks.at(time), clocks.drift(time)))
    {
        Some((estimate, Some((least, most)))) if estimate.quality >= Quality::Approximate => {
            format!(
                "{}, the second ahead by {} ± {}, {}",
                estimate.quality.name(),
                estimate.offset.delta(),
                estimate.error,
                drift(least, most),
            )
        }
        Some((estimate, _)) => estimate.quality.name().to_owned(),
        None => Quality::Absent.name().to_owned(),
    };
    let steps = match clocks.steps() {
        0 => String::new(),
        1 => ", one step".to_owned(),
        steps => format!(", {steps} steps"),
    };
    let late = match clocks.late() {
        0 => String::new(),
        late => format!(", without {} that came late", counted(late, "bound")),
    };
    let words = format!("{words}{steps}{late}");
    wrapped(" clocks:", words.split(' '), "")
}

/// Tell how fast the clocks move apart, in nanoseconds a second; a drift is known if none is out of
/// the question.
fn drift(least: f64, most: f64) -> String {
    let (middle, error) = (f64::midpoint(least, most) / 1e3, (most - least) / 2e3);
    match least > 0.0 || most < 0.0 {
        true => format!("drifting {middle:+.1} ± {error:.1} µs/s"),
        false => format!(
            "no drift known (within {:.1} µs/s)",
            least.abs().max(most) / 1e3
        ),
    }
}

/// Name a direction: by the places of the hosts as well, if their names are equal.
fn way(names: [&str; 2], from: Host) -> String {
    let ends = [from as usize, from.peer() as usize];
    let [here, there] = ends.map(|host| escaped(names[host]));
    let way = format!("{here} → {there}");
    match here == there {
        true => format!("{way} ({} to {})", PLACES[ends[0]], PLACES[ends[1]]),
        false => way,
    }
}

fn direction(output: &mut dyn Write, joined: &Joined, from: Host, brush: Brush) -> io::Result<()> {
    let sums = joined.from(from);
    let way = way([&joined.hosts[0].name, &joined.hosts[1].name], from);
    if sums.total.is_empty() {
        return writeln!(output, "\n {way}: no message was joined");
    }
    writeln!(output, "\n {way}")?;
    let columns = &Column::USUAL;
    let titles = titles(columns);
    let heads = format!(" {:<12}{:>9}{titles}{:>8}", "stage", "count", "share");
    writeln!(output, "{}", brush.bold(&heads))?;
    let whole = sums.total.sum_ns();
    for (stage, histogram) in sums.stages() {
        let share = share(histogram.sum_ns(), whole);
        row(
            output,
            stage.name(),
            histogram,
            columns,
            &format!("{share:>8}"),
        )?;
    }
    row(
        output,
        "total",
        &sums.total,
        columns,
        &format!("{:>8}", share(whole, whole)),
    )?;
    if !sums.back.is_empty() {
        row(
            output,
            "net.back",
            &sums.back,
            columns,
            &format!("{:>8}", "after"),
        )?;
    }
    row(
        output,
        "± clocks",
        &sums.error,
        columns,
        &format!("{:>8}", "-"),
    )?;
    for life in sums.slowest() {
        waterfall::one(output, life)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_of_other_times_are_said_to_be() {
        let of = |first: u64, last: u64| Recorded {
            times: Some((
                Timestamp::from_nanos(first * 1_000_000_000),
                Timestamp::from_nanos(last * 1_000_000_000),
            )),
            ..Recorded::default()
        };
        assert_eq!(apart(&[of(10, 20), of(20, 30)]), None);
        assert_eq!(
            apart(&[of(10, 20), of(3_700, 3_710)]).as_deref(),
            Some(
                "by their hosts' clocks, the first is of 1970-01-01 00:00:10 to 00:00:20 UTC, and \
                 the second of 1970-01-01 01:01:40 to 01:01:50 UTC"
            )
        );
        let over_night = apart(&[of(86_390, 86_410), of(200_000, 200_001)]).unwrap();
        let times = "the first is of 1970-01-01 23:59:50 to 1970-01-02 00:00:10 UTC";
        assert!(over_night.contains(times), "{over_night}");
        assert_eq!(apart(&[of(10, 20), Recorded::default()]), None);
    }

    #[test]
    fn a_drift_within_its_error_is_not_known() {
        assert_eq!(drift(-2446.0, 2612.0), "no drift known (within 2.6 µs/s)");
        assert_eq!(drift(-100.0, -80.0), "drifting -0.1 ± 0.0 µs/s");
        assert_eq!(drift(1_000.0, 3_000.0), "drifting +2.0 ± 1.0 µs/s");
    }

    #[test]
    fn directions_between_hosts_of_one_name_can_be_told_apart() {
        let ways = |names| Host::ALL.map(|from| way(names, from));
        assert_eq!(ways(["a", "b"]), ["a → b", "b → a"]);
        assert_eq!(
            ways(["web", "web"]),
            ["web → web (first to second)", "web → web (second to first)"]
        );
    }
}
