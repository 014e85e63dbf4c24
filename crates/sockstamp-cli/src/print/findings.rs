//! The findings of a diagnosis: for people, and as JSON.

use std::io::{self, Write};

use serde::Serialize;
use sockstamp_explain::diagnosis::{Diagnosis, JSON_VERSION};
use sockstamp_model::clock::Nanos;

use crate::print::colour::Brush;
use crate::print::paragraph::wrapped;

/// Print the worst findings, the number of others, and notes.
pub(crate) fn all(output: &mut dyn Write, diagnosis: &Diagnosis, brush: Brush) -> io::Result<()> {
    let (printed, others) = diagnosis.printed();
    for finding in printed {
        let words = format!("{} → {}", finding.sentence, finding.next);
        let sentence = wrapped(" diagnosis:", words.split(' '), "");
        writeln!(output, "{}", brush.bold(&sentence))?;
    }
    if others > 0 {
        writeln!(output, "            and {others} more: stat --by peer,port")?;
    }
    for note in &diagnosis.notes {
        writeln!(output, "{}", wrapped(" note:", note.split(' '), ""))?;
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
