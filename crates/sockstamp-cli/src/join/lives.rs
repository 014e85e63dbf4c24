//! Write whole lives to files.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use sockstamp_join::Life;
use sockstamp_print::output::Unfinished;
use sockstamp_record::{Batch, Rows, Writer};
use sockstamp_run::escape;

use super::options::Options;

/// The files that lives are written to.
pub(super) struct Lives {
    lines: Option<Lines>,
    recording: Option<Recording>,
}

impl Lives {
    /// Create the requested files.
    pub(super) fn create(options: &Options, read: &[PathBuf]) -> Result<Self> {
        let lives = options.lives.as_deref();
        let lives = lives.map(|path| Unfinished::new(path, read)).transpose()?;
        let output = options.output.as_deref();
        let output = output.map(|path| Unfinished::new_alone(path, read));
        Ok(Self {
            lines: lives.map(Lines::create).transpose()?,
            recording: output.transpose()?.map(Recording::create).transpose()?,
        })
    }

    pub(super) fn write(&mut self, life: &Life) -> Result<()> {
        if let Some(lines) = &mut self.lines {
            lines.write(life)?;
        }
        match &mut self.recording {
            Some(recording) => recording.write(life),
            None => Ok(()),
        }
    }

    pub(super) fn finish(self) -> Result<()> {
        self.lines.map_or(Ok(()), Lines::finish)?;
        self.recording.map_or(Ok(()), Recording::finish)
    }
}

/// A JSON object per line.
struct Lines {
    output: BufWriter<File>,
    file: Unfinished,
}

impl Lines {
    fn create(file: Unfinished) -> Result<Self> {
        Ok(Self {
            output: file.create()?,
            file,
        })
    }

    fn write(&mut self, life: &Life) -> Result<()> {
        escape::json(&mut self.output, life)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(self.output))
            .context("cannot write lives")
    }

    fn finish(mut self) -> Result<()> {
        self.output.flush().context("cannot write lives")?;
        self.file.finish()
    }
}

/// A recording, for `report`, `explain`, `diff` and SQL.
struct Recording {
    writer: Writer,
    batch: Box<Batch>,
    file: Unfinished,
}

impl Recording {
    fn create(file: Unfinished) -> Result<Self> {
        let facts = [("version", env!("CARGO_PKG_VERSION").to_owned())];
        Ok(Self {
            writer: Writer::create(file.path(), &facts)?,
            batch: Box::new(Batch::new()),
            file,
        })
    }

    fn write(&mut self, life: &Life) -> Result<()> {
        let Some(message) = life.to_message() else {
            bail!(
                "a message has the weight {}: a recording holds weights below 2^32",
                life.weight
            );
        };
        self.batch.push(&message);
        if self.batch.is_full() {
            self.writer.write(&self.batch)?;
            self.batch.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.writer.write(&self.batch)?;
        self.writer.finish()?;
        self.file.finish()
    }
}
