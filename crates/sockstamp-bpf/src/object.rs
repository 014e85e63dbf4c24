//! Operate objects of programs of any kind.

use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr;

use libbpf_rs::libbpf_sys::bpf_object_open_opts;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, OpenObject, PrintLevel, ProgramMut};

use crate::btf;
use crate::error::{Error, Tried};
use crate::facts::Hook;
use crate::programs::Program;
use crate::sched;
use crate::target::Cgroups;

/// Open programs that outlive this call. The skeleton borrows its object, so they need a place
/// that does, too: a few bytes each time that are never given back; the object in them is.
///
/// # Errors
///
/// [`Error::Bpf`] if they cannot be read.
pub fn open<B: SkelBuilder<'static>>(builder: B) -> Result<B::Output, Error> {
    let place = Box::leak(Box::new(MaybeUninit::uninit()));
    open_at(place, builder).tried("read our own programs")
}

/// Open programs in a place of the caller's. What libbpf looks up of the kernel's types is in an
/// excerpt of those.
pub(crate) fn open_at<'place, B: SkelBuilder<'place>>(
    place: &'place mut MaybeUninit<OpenObject>,
    builder: B,
) -> libbpf_rs::Result<B::Output> {
    quiet_libbpf();
    let types = btf::excerpt_path();
    let options = bpf_object_open_opts {
        sz: size_of::<bpf_object_open_opts>() as _,
        btf_custom_path: types.as_ref().map_or(ptr::null(), |path| path.as_ptr()),
        ..bpf_object_open_opts::default()
    };
    builder.open_opts(options, place)
}

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
        (Hook::Timer, None) => sched::attach_clock(&program),
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

/// Silence libbpf, except for debugging.
pub(crate) fn quiet_libbpf() {
    let debug = std::env::var_os("SOCKSTAMP_DEBUG").is_some();
    libbpf_rs::set_print(debug.then_some((PrintLevel::Warn, |_, text| eprint!("{text}"))));
}
