//! Attach programs by their sections.

use anyhow::{Context, Result};
use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, ProgramAttachType, ProgramType};

/// Attach the loaded programs whose sections name their hooks.
pub(crate) fn attach_traced(skeleton: &mut impl Skel<'static>) -> Result<Vec<Link>> {
    let programs = skeleton.object_mut().progs_mut();
    programs
        .filter(|program| program.prog_type() == ProgramType::Tracing && program.autoload())
        .filter(|program| !matches!(program.attach_type(), ProgramAttachType::TraceIter))
        .map(|program| {
            let name = program.name().to_string_lossy().into_owned();
            program
                .attach()
                .with_context(|| format!("cannot attach {name}"))
        })
        .collect()
}
