//! The findings of a diagnosis: for people, and as JSON.

use std::io::{self, Write};

use serde::Serialize;
use sockstamp_explain::diagnosis::{Diagnosis, JSON_VERSION, Why};
use sockstamp_model::clock::Nanos;

use crate::print::colour::Brush;
use crate::print::paragraph::wrapped;

/// Findings as they are printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) diagnosis: &'a Diagnosis,
    /// Also what stands behind each, how to check it, and its usual cure.
    pub(crate) why: bool,
}

impl Shown<'_> {
    /// Print the worst findings, the number of others, and notes.
    pub(crate) fn print(&self, output: &mut dyn Write, brush: Brush) -> io::Result<()> {
        let (printed, others) = self.diagnosis.printed();
        for finding in printed {
            let words = format!("{} → {}", finding.sentence, finding.next);
            let sentence = wrapped(" diagnosis:", words.split(' '), "");
            writeln!(output, "{}", brush.bold(&sentence))?;
            if self.why {
                why(output, &finding.why)?;
            }
        }
        if others > 0 {
            writeln!(output, "            and {others} more: stat --by peer,port")?;
        }
        for note in &self.diagnosis.notes {
            writeln!(output, "{}", wrapped(" note:", note.split(' '), ""))?;
        }
        Ok(())
    }
}

fn why(output: &mut dyn Write, why: &Why) -> io::Result<()> {
    for (label, words) in [
        ("   evidence:", why.evidence),
        ("   the same from here:", why.alike),
        ("   check:", why.check),
        ("   usual cure:", why.cure),
    ] {
        writeln!(output, "{}", wrapped(label, words.split(' '), ""))?;
    }
    Ok(())
}

/// The object `diagnosis` of `--format json`.
#[derive(Debug, Serialize)]
pub(crate) struct Json<'a> {
    version: u32,
    /// What counted as slow.
    slow_ns: Nanos,
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
}

impl<'a> Json<'a> {
    pub(crate) fn new(diagnosis: &'a Diagnosis, slow: Nanos) -> Self {
        Self {
            version: JSON_VERSION,
            slow_ns: slow,
            diagnosis,
        }
    }
}
