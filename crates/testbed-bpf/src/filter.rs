//! The filter expression alone, as sockstamp's programs evaluate it.

use anyhow::{Context, Result};
use libbpf_rs::ProgramInput;
use libbpf_rs::skel::OpenSkel;
use sockstamp_bpf::opening;

pub use crate::skeleton::filter::types::rodata as Settings;
use crate::skeleton::filter::{FilterSkel, FilterSkelBuilder};

/// The loaded programs of one expression.
pub struct Filter(FilterSkel<'static>);

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filter").finish_non_exhaustive()
    }
}

impl Filter {
    /// Load the programs for the expression that `set` writes.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn load(set: impl FnOnce(&mut Settings)) -> Result<Self> {
        let mut open = opening::open(FilterSkelBuilder::default())?;
        let settings = open.maps.rodata_data.as_deref_mut();
        set(settings.context("the programs have no settings")?);
        let skeleton = open.load().context("cannot load the filter")?;
        Ok(Self(skeleton))
    }

    /// Return true if the expression accepts a message with these ends: a `struct filter_question`.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to run the program.
    pub fn accepts(&self, question: &mut [u8]) -> Result<bool> {
        let input = ProgramInput {
            context_in: Some(question),
            ..ProgramInput::default()
        };
        let run = self.0.progs.answer.test_run(input);
        Ok(run.context("cannot run the filter")?.return_value == 1)
    }
}
