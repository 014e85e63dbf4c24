//! Operate objects of programs of any kind, once they are open.

use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, ProgramMut};

use crate::error::{Error, Tried};
use crate::facts::Hook;
use crate::programs::Program;
use crate::target::Cgroups;
use crate::timer;

/// Load the programs that a plan needs, and no others.
pub(crate) fn choose<'obj, P>(open: &mut impl OpenSkel<'obj>, table: &[Program<P>], plan: &P) {
    for mut program in open.open_object_mut().progs_mut() {
        let mut lines = table.iter().filter(|line| line.is_needed(plan));
        let needed = lines.any(|line| program.name() == line.name);
        program.set_autoload(needed);
    }
}

/// Attach a program to its hook.
pub(crate) fn attach(
    skeleton: &mut impl Skel<'static>,
    line: &Program<impl Sized>,
    cgroups: &Cgroups,
) -> Result<Link, Error> {
    let program = find(skeleton, line.name);
    let link = match (line.hook, cgroups.of(line.hook)) {
        (_, Some(cgroup)) => program.attach_cgroup(cgroup.as_raw_fd()),
        (Hook::Timer, None) => timer::attach(&program),
        (_, None) => program.attach(),
    };
    link.tried(format!("attach {}", line.name))
}

/// Return the program of this name.
pub(crate) fn find<'a>(skeleton: &'a mut impl Skel<'static>, name: &str) -> ProgramMut<'a> {
    let mut programs = skeleton.object_mut().progs_mut();
    programs
        .find(|program| program.name() == name)
        .unwrap_or_else(|| unreachable!("{name} is a program of ours"))
}

/// Return the name and the section of every program.
pub(crate) fn sections(
    builder: impl for<'place> SkelBuilder<'place>,
) -> Result<Vec<(String, String)>, Error> {
    let mut place = MaybeUninit::uninit();
    let open = builder.open(&mut place).tried("read our own programs")?;
    let names = open.open_object().progs().map(|program| {
        let (name, section) = (
            program.name().to_string_lossy(),
            program.section().to_string_lossy(),
        );
        (name.into_owned(), section.into_owned())
    });
    Ok(names.collect())
}
