//! Which hooks the running kernel really takes: each program is loaded alone, attached where that
//! touches no cgroup, and taken away at once.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;

use libbpf_rs::ProgramType;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};

use crate::error::{Error, Tried};
use crate::object::quiet_libbpf;
use crate::plan::{Plan, missing_capabilities, obstacles};
use crate::programs;
use crate::sched;
use crate::settings;
use crate::skeleton::probe::ProbeSkelBuilder;
use crate::skeleton::sockstamp::SockstampSkelBuilder;
use crate::support::Support;

/// What became of the attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// The kernel took the program.
    Works,
    /// It refused, with this reason.
    Refused(String),
    /// Not tried, for this reason.
    Unknown(String),
}

/// A program of ours and what the kernel says to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Where it attaches: the section of the program, such as `tp_btf/sk_data_ready`.
    pub section: String,
    /// Whether sockstamp uses it; the others are only looked at.
    pub used: bool,
    /// What became of the attempt.
    pub trial: Trial,
}

/// Tries every hook that sockstamp would use, and where one is refused those that take its place. Takes
/// some hundredths of a second for each; no connection is touched.
///
/// # Errors
///
/// [`Error::Bpf`] if the programs in this binary cannot be read: that of a loader that refuses is in
/// the [`Trial`].
pub fn try_all(support: &Support) -> Result<Vec<Hook>, Error> {
    let obstacle = obstacle(support);
    let attempt = |outcome: &dyn Fn() -> libbpf_rs::Result<()>| match obstacle {
        Some(reason) => Trial::Unknown(reason.to_owned()),
        None => outcome().map_or_else(|error| Trial::Refused(root_cause(&error)), |()| Trial::Works),
    };
    let sections = sections(SockstampSkelBuilder::default())?;
    let mut tried = BTreeSet::new();
    let mut hooks = Vec::new();
    loop {
        let found = support.clone().after(&hooks);
        let plan = Plan::new(&found);
        let open = tried.len();
        for (name, section) in &sections {
            if programs::all(&plan).contains(&name.as_str()) && tried.insert(name) {
                let trial = attempt(&|| try_ours(&plan, &found, name));
                hooks.push(Hook {
                    section: section.clone(),
                    used: true,
                    trial,
                });
            }
        }
        if tried.len() == open {
            break;
        }
    }
    for (name, section) in crate::hooks::sections(ProbeSkelBuilder::default())? {
        let trial = attempt(&|| {
            try_one(
                ProbeSkelBuilder::default().open(&mut MaybeUninit::uninit())?,
                &name,
            )
        });
        hooks.push(Hook {
            section,
            used: false,
            trial,
        });
    }
    Ok(hooks)
}

/// Adds to what the host has what it lets us do, tried where that would be used.
#[must_use]
pub fn try_what_is_used(mut support: Support) -> Support {
    if !obstacles(&support).is_empty() {
        return support;
    }
    support.perf_events &= sched::clock_is_shown();
    if Plan::new(&support).traces_functions() {
        support = support.with_functions_traced(functions_can_be_traced());
    }
    support
}

/// Whether the kernel lets functions be traced: an empty program on one that every kernel has is loaded,
/// attached, and taken away.
#[must_use]
pub fn functions_can_be_traced() -> bool {
    quiet_libbpf();
    let mut place = MaybeUninit::uninit();
    let open = ProbeSkelBuilder::default().open(&mut place);
    open.and_then(|open| try_one(open, "probe_fentry")).is_ok()
}

/// Why trying would tell nothing about the kernel.
pub(crate) fn obstacle(support: &Support) -> Option<&'static str> {
    if !support.btf {
        return Some("no kernel BTF");
    }
    (!missing_capabilities(support).is_empty()).then_some("missing capabilities")
}

/// Name and section of every program.
fn sections(builder: impl for<'place> SkelBuilder<'place>) -> Result<Vec<(String, String)>, Error> {
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

/// One of the programs that measure, with the settings it would have.
fn try_ours(plan: &Plan, support: &Support, name: &str) -> libbpf_rs::Result<()> {
    let mut place = MaybeUninit::uninit();
    let mut open = SockstampSkelBuilder::default().open(&mut place)?;
    settings::of_plan(&mut open, plan, support);
    try_one(open, name)
}

fn try_one<'place>(mut open: impl OpenSkel<'place>, name: &str) -> libbpf_rs::Result<()> {
    for mut program in open.open_object_mut().progs_mut() {
        let wanted = program.name() == name;
        program.set_autoload(wanted);
    }
    let mut loaded = open.load()?;
    let mut programs = loaded.object_mut().progs_mut();
    let Some(program) = programs.find(|program| program.name() == name) else {
        return Ok(());
    };
    match program.prog_type() {
        ProgramType::Tracing | ProgramType::Kprobe => program.attach().map(drop),
        ProgramType::PerfEvent => sched::attach_clock(&program).map(drop),
        // In a cgroup it would see, and select, what others do there.
        _ => Ok(()),
    }
}

/// The kernel's own words, without the steps of the loader.
fn root_cause(error: &libbpf_rs::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
