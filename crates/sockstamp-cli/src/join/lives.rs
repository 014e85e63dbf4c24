//! Write whole lives to files.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sockstamp_join::Life;
use sockstamp_record::{Batch, Rows, Writer};

use super::Options;
use crate::escape;

/// The files that lives are written to.
pub(super) struct Lives {
    lines: Option<Lines>,
    recording: Option<Recording>,
}

impl Lives {
    /// Create those files that are asked for.
    pub(super) fn create(options: &Options) -> Result<Self> {
        Ok(Self {
            lines: options.lives.as_deref().map(Lines::create).transpose()?,
            recording: options.output.as_deref().map(Recording::create).transpose()?,
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
    path: PathBuf,
    file: BufWriter<File>,
}

impl Lines {
    fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
        })
    }

    fn write(&mut self, life: &Life) -> Result<()> {
        escape::json(&mut self.file, life)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(self.file))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    fn finish(mut self) -> Result<()> {
        self.file
            .flush()
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// A recording, for `report`, `explain`, `diff` and SQL.
struct Recording {
    writer: Writer,
    batch: Box<Batch>,
}

impl Recording {
    fn create(path: &Path) -> Result<Self> {
        let facts = [("version", env!("CARGO_PKG_VERSION").to_owned())];
        Ok(Self {
            writer: Writer::create(path, &facts)?,
            batch: Box::new(Batch::new()),
        })
    }

    fn write(&mut self, life: &Life) -> Result<()> {
        let Some(message) = life.to_message() else {
            bail!(
                "a message stands for {} others: a recording holds 2^32",
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
        Ok(())
    }
}
