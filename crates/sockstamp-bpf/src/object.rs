//! Operate objects of programs of any kind.

use std::mem::MaybeUninit;

use libbpf_rs::skel::{Skel, SkelBuilder};
use libbpf_rs::{Link, PrintLevel, ProgramAttachType, ProgramMut, ProgramType};

use crate::error::{Error, Tried};

/// Open programs that outlive this call. The skeleton borrows its object, so they need a place
/// that does, too: a few bytes each time that are never given back; the object in them is.
///
/// # Errors
///
/// [`Error::Bpf`] if they cannot be read.
pub fn open<B: SkelBuilder<'static>>(builder: B) -> Result<B::Output, Error> {
    quiet_libbpf();
    let place = Box::leak(Box::new(MaybeUninit::uninit()));
    builder.open(place).tried("read our own programs")
}

/// Attach the loaded programs whose sections name their hooks.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn attach_traced(skeleton: &mut impl Skel<'static>) -> Result<Vec<Link>, Error> {
    let programs = skeleton.object_mut().progs_mut();
    programs
        .filter(|program| program.prog_type() == ProgramType::Tracing && program.autoload())
        .filter(|program| !matches!(program.attach_type(), ProgramAttachType::TraceIter))
        .map(|program| {
            let name = program.name().to_string_lossy().into_owned();
            program.attach().tried(format!("attach {name}"))
        })
        .collect()
}

/// Return the program of this name.
pub(crate) fn find<'a>(skeleton: &'a mut impl Skel<'static>, name: &str) -> ProgramMut<'a> {
    let mut programs = skeleton.object_mut().progs_mut();
    programs
        .find(|program| program.name() == name)
        .unwrap_or_else(|| unreachable!("{name} is a program of ours"))
}

/// Silence libbpf, except for debugging.
pub(crate) fn quiet_libbpf() {
    let debug = std::env::var_os("SOCKSTAMP_DEBUG").is_some();
    libbpf_rs::set_print(debug.then_some((PrintLevel::Warn, |_, text| eprint!("{text}"))));
}
