//! The room that the files of a recording take, and what is left beside them.

use std::fs;
use std::io;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use nix::sys::statvfs::statvfs;

use super::{Current, Finished, Place};
use crate::recordings::WAITS;

impl Place {
    /// Refuse to go on if the file system has less left than the user asked for.
    pub(super) fn check_free(&self) -> Result<()> {
        let Some(current) = &self.current else {
            return Ok(());
        };
        let path = current.messages.path();
        let system = statvfs(path)
            .with_context(|| format!("cannot read the free space of {}", path.display()))?;
        let free = system
            .blocks_available()
            .saturating_mul(system.fragment_size());
        if free < self.limits.free_bytes {
            bail!(
                "the file system of {} has {} MB left, less than --min-free {}: recording stops",
                path.display(),
                free >> 20,
                self.limits.free_bytes >> 20
            );
        }
        Ok(())
    }

    /// Remove the oldest files while all of them together are above the limit.
    pub(super) fn keep_below_limit(&mut self) -> Result<()> {
        let Some(limit) = self.limits.all_bytes.filter(|_| self.is_directory) else {
            return Ok(());
        };
        let current = self.current.as_ref().map_or(0, Current::length);
        let mut all = current + self.finished.iter().map(|files| files.bytes).sum::<u64>();
        while all > limit {
            // Only files that this process has made are removed.
            let Some(oldest) = self.finished.pop_front() else {
                // This one makes room for the next batch.
                return self.begin_another();
            };
            self.remove(&oldest)?;
            all -= oldest.bytes;
        }
        Ok(())
    }

    fn remove(&mut self, files: &Finished) -> Result<()> {
        for path in [&files.messages].into_iter().chain(&files.others) {
            match fs::remove_file(path) {
                // Somebody else has removed it, or moved it away to keep it.
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot remove {}", path.display()));
                }
                _ => {}
            }
        }
        self.messages.removed += 1;
        if let Some(written) = &mut self.packets {
            written.removed += 1;
        }
        let of_waits = |path: &&PathBuf| path.extension().is_some_and(|name| name == WAITS);
        self.waits.removed += files.others.iter().filter(of_waits).count() as u64;
        Ok(())
    }
}
