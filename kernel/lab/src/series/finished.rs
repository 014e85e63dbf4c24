//! Keep what steps of a run have printed until the whole run has passed: a run that was interrupted
//! or that failed goes on where it ended.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache;

/// The steps of runs on one build.
#[derive(Debug)]
pub(crate) struct Finished {
    folder: PathBuf,
}

impl Finished {
    /// A build's own, beside its folder: guests get what is in that.
    pub(crate) fn of(build: &Path) -> Finished {
        Finished {
            folder: build.with_extension("finished"),
        }
    }

    /// Run a step, unless it has passed with the same inputs. Return what it has printed.
    pub(crate) fn once(
        &self,
        inputs: &impl Hash,
        step: impl FnOnce() -> Result<String>,
    ) -> Result<String> {
        let mut hasher = DefaultHasher::new();
        inputs.hash(&mut hasher);
        let file = self.folder.join(format!("{:016x}", hasher.finish()));
        if let Ok(printed) = fs::read_to_string(&file) {
            return Ok(format!("(of the run before this one)\n{printed}"));
        }
        let printed = step()?;
        cache::make(&self.folder)?;
        fs::write(&file, &printed).context("cannot write to the cache")?;
        Ok(printed)
    }

    /// Have the next run begin anew.
    pub(crate) fn forget(&self) -> Result<()> {
        match self.folder.exists() {
            true => fs::remove_dir_all(&self.folder).context("cannot write to the cache"),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_step_that_has_passed_runs_again_after_the_whole_run() {
        let folder = tempfile::tempdir().unwrap();
        let finished = Finished::of(&folder.path().join("build"));
        let passes = |inputs: &str| finished.once(&inputs, || Ok("passed".to_owned())).unwrap();
        assert!(finished.once(&"one", || bail!("failed")).is_err());
        assert_eq!(passes("one"), "passed");
        assert_eq!(passes("one"), "(of the run before this one)\npassed");
        assert_eq!(passes("two"), "passed");
        finished.forget().unwrap();
        assert_eq!(passes("one"), "passed");
    }
}
