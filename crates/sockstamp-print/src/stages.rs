//! The rows of stages, and of their parts.

use std::io::{self, Write};

use sockstamp_model::histogram::mean;
use sockstamp_model::part::{Part, PartSummary};
use sockstamp_model::percent::share;
use sockstamp_model::stage::{Direction, Stage};
use sockstamp_model::summary::{DirectionSummary, Summary};

use crate::bar::share_and_bar;
use crate::colour::Brush;
use crate::columns::{Column, titles};
use crate::directions::{are_lives, directions};
use crate::row::{NAME_AND_COUNT, row};

pub(super) fn all_stages(
    output: &mut dyn Write,
    summary: &Summary,
    columns: &[Column],
    brush: Brush,
) -> io::Result<()> {
    let titles = titles(columns);
    let heads = format!(" {:<12}{:>9}{titles}{:>8}", "stage", "count", "share");
    writeln!(output, "\n{}", brush.bold(&heads))?;
    for direction in directions(summary) {
        stages(output, direction, summary, columns, brush)?;
    }
    Ok(())
}

/// The stages of a direction: those that are a share of its time, their sum, and what comes after
/// a message and between messages.
fn stages(
    output: &mut dyn Write,
    direction: Direction,
    summary: &Summary,
    columns: &[Column],
    brush: Brush,
) -> io::Result<()> {
    let part = summary.direction(direction);
    let all = Stage::ALL
        .into_iter()
        .filter(|stage| stage.direction() == direction);
    let (mut shared, others): (Vec<_>, Vec<_>) = all.partition(|stage| stage.has_share());
    if direction == Direction::Tx && are_lives(summary) {
        shared = Stage::WAY.into();
    }
    for stage in shared {
        stage_rows(output, direction, stage, summary, columns, brush)?;
    }
    let name = match direction {
        Direction::Tx if are_lives(summary) => "life",
        Direction::Tx => "tx sent",
        Direction::Rx => "rx total",
    };
    let time = part.time(direction);
    row(
        output,
        name,
        time,
        columns,
        &format!("{:>8}", share(time.sum_ns(), time.sum_ns())),
    )?;
    for stage in others {
        stage_rows(output, direction, stage, summary, columns, brush)?;
    }
    Ok(())
}

/// Print a stage of messages of a direction, and its parts: a life has the stages of both ends.
fn stage_rows(
    output: &mut dyn Write,
    direction: Direction,
    stage: Stage,
    summary: &Summary,
    columns: &[Column],
    brush: Brush,
) -> io::Result<()> {
    let part = summary.direction(direction);
    match (&part.stages[stage], summary.absent.get(&stage)) {
        (Some(histogram), _) if stage.is_of_connection() && histogram.count() == 0 => Ok(()),
        (Some(histogram), _) => {
            let share = match stage {
                Stage::TxNetwork | Stage::NetBack => format!("{:>8}", "after"),
                stage if stage.is_between_messages() => format!("{:>8}", "-"),
                _ => {
                    let whole = part.time(direction).sum_ns();
                    share_and_bar(histogram.sum_ns(), whole, "", brush)
                }
            };
            row(output, stage.name(), histogram, columns, &share)?;
            parts(output, stage, part, columns, brush)
        }
        (None, Some(reason)) => writeln!(
            output,
            " {}{:>2$}  {reason}",
            stage.name(),
            "-",
            NAME_AND_COUNT - stage.name().len()
        ),
        (None, None) => Ok(()),
    }
}

/// Print the parts that took time, unless only the rest did. Their share is of the same whole as
/// that of their stage; between messages it is of the stage.
fn parts(
    output: &mut dyn Write,
    stage: Stage,
    whole: &DirectionSummary,
    columns: &[Column],
    brush: Brush,
) -> io::Result<()> {
    let took_time = |sum: &PartSummary| sum.sum_ns > 0;
    if !whole
        .parts
        .of(stage)
        .any(|(part, sum)| took_time(sum) && !part.is_rest())
    {
        return Ok(());
    }
    let of = match &whole.stages[stage] {
        Some(alone) if !stage.has_share() => alone.sum_ns(),
        _ => whole.time(stage.direction()).sum_ns(),
    };
    for (part, sum) in whole.parts.of(stage).filter(|(_, sum)| took_time(sum)) {
        // An upper bound.
        let sign = if part == Part::DelayedAck { "≤" } else { "" };
        // Such stages lie outside the messages' time: large ones make nothing slow.
        let share = match stage.has_share() {
            true => share_and_bar(sum.sum_ns, of, sign, brush),
            false => format!("{:>8}", format!("{sign}{}", share(sum.sum_ns, of))),
        };
        writeln!(
            output,
            "   {:<12}{:>7}{}{share}",
            part.name(),
            sum.count,
            part_cells(sum, columns)
        )?;
    }
    Ok(())
}

/// Return the columns of a part, which has a mean and may have a longest time, and no distribution.
fn part_cells(sum: &PartSummary, columns: &[Column]) -> String {
    let cell = |column: &Column| {
        let figure = match column {
            Column::Mean => mean(sum.sum_ns, sum.count),
            Column::Max => sum.max_ns,
            _ => return format!("{:9}", ""),
        };
        format!(
            "{:>9}",
            figure.map_or_else(|| "-".to_owned(), |figure| figure.to_string())
        )
    };
    columns.iter().map(cell).collect()
}
