//! Show figures: as text during the run, or as one JSON object at its end.

use std::io::{self, Write};

use serde::Serialize;

use crate::machine::Machine;
use crate::paired::Spread;

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Budget {
    AtMost(f64),
    AtLeast(f64),
    Exactly(f64),
}

impl Budget {
    /// The median decides, or every round if an exact value is required.
    fn is_met(self, spread: &Spread) -> bool {
        match self {
            Self::AtMost(limit) => spread.median <= limit,
            Self::AtLeast(limit) => spread.median >= limit,
            Self::Exactly(wanted) => spread.min == wanted && spread.max == wanted,
        }
    }
}

impl std::fmt::Display for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "≤ {limit}"),
            Self::AtLeast(limit) => write!(f, "≥ {limit}"),
            Self::Exactly(wanted) => write!(f, "= {wanted}"),
        }
    }
}

/// A figure: the median counts, minimum and maximum show its reliability.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    name: String,
    unit: &'static str,
    #[serde(flatten)]
    spread: Spread,
    budget: Option<Budget>,
    met: Option<bool>,
}

/// The cost of one program per message.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct PerMessage {
    pub(crate) runs: f64,
    pub(crate) ns: f64,
}

/// A hook, with an empty program and with ours.
#[derive(Debug, Serialize)]
pub(crate) struct HookCost {
    pub(crate) hook: String,
    pub(crate) floor: PerMessage,
    pub(crate) selected: PerMessage,
    pub(crate) unselected: PerMessage,
}

impl HookCost {
    pub(crate) fn ran(&self) -> bool {
        [self.floor, self.selected, self.unselected]
            .iter()
            .any(|cost| cost.runs > 0.0)
    }
}

/// Everything found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    version: u32,
    machine: Machine,
    figures: Vec<Figure>,
    hooks: Vec<HookCost>,
    #[serde(skip)]
    text: bool,
    #[serde(skip)]
    part: String,
}

impl Report {
    /// `part` is in the names of those figures that are wanted, of benchmarks that ask.
    pub(crate) fn new(machine: Machine, text: bool, part: String) -> Self {
        if text {
            println!("{machine}\n");
            println!(
                "{:<34} {:>10} {:>9} {:>9} {:<5} {:>6}  budget",
                "figure", "median", "min", "max", "unit", "rounds"
            );
        }
        Self {
            version: 1,
            machine,
            figures: Vec::new(),
            hooks: Vec::new(),
            text,
            part,
        }
    }

    /// Return true if figures with such names are wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        name.contains(&self.part)
    }

    /// Print a remark that is not a figure.
    pub(crate) fn note(&self, text: impl std::fmt::Display) {
        if self.text {
            println!("{text}");
        }
    }

    pub(crate) fn add(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        spread: Spread,
        budget: Option<Budget>,
    ) {
        let met = budget.map(|budget| budget.is_met(&spread));
        let figure = Figure {
            name: name.into(),
            unit,
            spread,
            budget,
            met,
        };
        if self.text {
            println!("{figure}");
        }
        self.figures.push(figure);
    }

    pub(crate) fn add_hooks(&mut self, hooks: Vec<HookCost>) {
        if self.text {
            println!("{}", HookTable(&hooks));
        }
        self.hooks = hooks;
    }

    pub(crate) fn finish(&self, output: &mut dyn Write) -> io::Result<()> {
        if !self.text {
            serde_json::to_writer(&mut *output, self)?;
            return writeln!(output);
        }
        let missed: Vec<_> = self
            .figures
            .iter()
            .filter(|figure| figure.met == Some(false))
            .collect();
        if missed.is_empty() {
            return writeln!(output, "\nEvery budget is met.");
        }
        writeln!(output, "\n{} budgets are missed:", missed.len())?;
        missed
            .iter()
            .try_for_each(|figure| writeln!(output, "{figure}"))
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Spread {
            median,
            min,
            max,
            rounds,
        } = self.spread;
        write!(
            f,
            "{:<34} {median:>10.3} {min:>9.3} {max:>9.3} {:<5} {rounds:>6}  ",
            self.name, self.unit
        )?;
        match (self.budget, self.met) {
            (Some(budget), Some(true)) => write!(f, "{budget}  ok"),
            (Some(budget), _) => write!(f, "{budget}  MISSED"),
            (None, _) => write!(f, "-"),
        }
    }
}

struct HookTable<'a>(&'a [HookCost]);

impl std::fmt::Display for HookTable<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "\n{:<20} {:^19} {:^27} {:^19}\n{:<20} {:>9} {:>9} {:>9} {:>9} {:>7} {:>9} {:>9}",
            "per message",
            "floor",
            "selected",
            "unselected",
            "hook",
            "runs",
            "ns",
            "runs",
            "ns",
            "ratio",
            "runs",
            "ns",
        )?;
        for HookCost {
            hook,
            floor,
            selected,
            unselected,
        } in self.0
        {
            writeln!(
                f,
                "{hook:<20} {:>9.2} {:>9.1} {:>9.2} {:>9.1} {:>7.2} {:>9.2} {:>9.1}",
                floor.runs,
                floor.ns,
                selected.runs,
                selected.ns,
                selected.ns / floor.ns,
                unselected.runs,
                unselected.ns,
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_decides_over_a_limit() {
        let spread = Spread::of(&[0.9, 1.0, 4.0]);
        assert!(Budget::AtMost(1.0).is_met(&spread) && Budget::AtLeast(1.0).is_met(&spread));
        assert!(!Budget::AtMost(0.99).is_met(&spread) && !Budget::AtLeast(1.01).is_met(&spread));
    }

    #[test]
    fn an_exact_budget_holds_in_every_round() {
        assert!(Budget::Exactly(0.0).is_met(&Spread::of(&[0.0, 0.0, 0.0])));
        assert!(!Budget::Exactly(0.0).is_met(&Spread::of(&[0.0, 0.0, 0.1])));
    }

    #[test]
    fn a_figure_that_is_no_number_meets_nothing() {
        let spread = Spread::of(&[f64::NAN]);
        let budgets = [
            Budget::AtMost(1.0),
            Budget::AtLeast(1.0),
            Budget::Exactly(1.0),
        ];
        assert!(!budgets.into_iter().any(|budget| budget.is_met(&spread)));
    }
}
