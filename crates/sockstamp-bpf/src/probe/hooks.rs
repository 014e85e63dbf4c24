//! Try which hooks the running kernel accepts: load each program alone, attach it where that
//! touches no cgroup, and remove it at once.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;

use libbpf_rs::ProgramType;
use libbpf_rs::skel::{OpenSkel, Skel};

use super::cgroup::try_cgroups;
use crate::error::Error;
use crate::facts::{Facts, Trial, TriedHook};
use crate::object::sections;
use crate::opening::open_at;
use crate::options::Options;
use crate::plan::{self, Plan, missing_capabilities};
use crate::programs::{self, PROGRAMS};
use crate::settings;
use crate::skeleton::probe::ProbeSkelBuilder;
use crate::skeleton::sockstamp::SockstampSkelBuilder;
use crate::{sched, timer};

/// Try every hook that a measurement would use, including those of each option that costs hooks,
/// and the substitutes of refused ones. Takes some hundredths of a second per hook; no connection
/// is touched.
///
/// Return the facts including the results, and those of [`try_what_is_used`]: a measurement is
/// planned by the same.
///
/// # Errors
///
/// Those of [`try_what_is_used`]. That of a loader that refuses is in the [`Trial`].
pub fn try_all(facts: &Facts, options: &Options) -> Result<(Facts, Vec<TriedHook>), Error> {
    let obstacle = obstacle(facts);
    let attempt = |outcome: &dyn Fn() -> libbpf_rs::Result<()>| match obstacle {
        Some(reason) => Trial::Unknown(reason.to_owned()),
        None => outcome().map_or_else(
            |error| Trial::Refused(root_cause(&error)),
            |()| Trial::Works,
        ),
    };
    let request = options.request().with_every_program();
    let mut found = facts.clone();
    let mut tried = BTreeSet::new();
    let mut hooks = Vec::new();
    loop {
        let plan = Plan::outlook(&found, &request);
        let untried: Vec<_> = programs::needed(&plan)
            .filter(|program| tried.insert(program.name))
            .collect();
        if untried.is_empty() {
            break;
        }
        for program in untried {
            let trial = attempt(&|| try_ours(&plan, options, program.name));
            if matches!(trial, Trial::Refused(_)) {
                found.refuse(program.hook);
            }
            hooks.push(TriedHook {
                section: program.hook.section(),
                used: true,
                trial,
            });
        }
    }
    if !found.functions_refused.is_empty() {
        found = found.with_functions_traced(functions_can_be_traced());
    }
    let found = try_what_is_used(found, options)?;
    let optional = sections(ProbeSkelBuilder::default())?.into_iter();
    let optional = optional.filter(|(_, section)| !is_used(section));
    for (name, section) in optional {
        let trial = attempt(&|| {
            try_one(
                open_at(&mut MaybeUninit::uninit(), ProbeSkelBuilder::default())?,
                &name,
            )
        });
        hooks.push(TriedHook {
            section,
            used: false,
            trial,
        });
    }
    Ok((found, hooks))
}

fn is_used(section: &str) -> bool {
    PROGRAMS
        .iter()
        .any(|program| program.hook.section() == section)
}

/// Add the results of the trials that every start makes: they are quick, and tell what loading the
/// programs would not.
///
/// # Errors
///
/// Those of opening the target's cgroup, and of attaching to it.
pub fn try_what_is_used(mut facts: Facts, options: &Options) -> Result<Facts, Error> {
    let request = options.request();
    if !plan::obstacles(&facts, &request).is_empty() {
        return Ok(facts);
    }
    if facts.perf_events == Some(true) {
        facts.perf_events = Some(sched::clock_is_shown());
    }
    if Plan::outlook(&facts, &request).traces_functions() {
        facts = facts.with_functions_traced(functions_can_be_traced());
    }
    try_cgroups(&mut facts, options)?;
    Ok(facts)
}

/// Return true if the kernel lets functions be traced: load, attach and remove an empty program on
/// a function that every kernel has.
#[must_use]
pub fn functions_can_be_traced() -> bool {
    let mut place = MaybeUninit::uninit();
    let open = open_at(&mut place, ProbeSkelBuilder::default());
    open.and_then(|open| try_one(open, "probe_fentry")).is_ok()
}

/// Return why trying would tell nothing about the kernel, if so.
pub(crate) fn obstacle(facts: &Facts) -> Option<&'static str> {
    if !facts.confinement.is_empty() {
        return Some("this process is confined");
    }
    match facts.btf {
        Some(false) => Some("no kernel BTF"),
        None => Some("kernel BTF not readable"),
        Some(true) => (!missing_capabilities(facts).is_empty()).then_some("missing capabilities"),
    }
}

/// Try one of the measuring programs, with its settings.
fn try_ours(plan: &Plan, options: &Options, name: &str) -> libbpf_rs::Result<()> {
    let mut place = MaybeUninit::uninit();
    let mut open = open_at(&mut place, SockstampSkelBuilder::default())?;
    settings::set_constants(&mut open, plan, options);
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
    let over_a_map = program.section().to_string_lossy().ends_with("_map");
    match program.prog_type() {
        // A walk over the elements of a map is attached to that map; loading it tells enough.
        ProgramType::Tracing if over_a_map => Ok(()),
        ProgramType::Tracing | ProgramType::Kprobe => program.attach().map(drop),
        ProgramType::PerfEvent => timer::attach(&program).map(drop),
        // Do not attach it: in a cgroup it would see, and select, the traffic of others.
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
