//! Try whether the target's cgroups admit our programs next to those of others.

use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use libbpf_rs::skel::{OpenSkel, Skel};
use libbpf_rs::{ErrorKind, ProgramMut};

use crate::error::{Error, Tried};
use crate::facts::{Facts, Hook};
use crate::opening::open_at;
use crate::options::Options;
use crate::plan::Plan;
use crate::programs::{self, Program};
use crate::skeleton::probe::ProbeSkelBuilder;
use crate::target::Cgroups;

/// Add the hooks of the target's cgroups that a measurement would use, and that others have for
/// themselves: the kernel refuses ours where one was attached without BPF_F_ALLOW_MULTI, to the
/// cgroup or above (`hierarchy_allows_attach()` and `__cgroup_bpf_attach()`, kernel/bpf/cgroup.c,
/// v6.18). Empty programs are attached and taken away. Callbacks of TCP sockets are not tried:
/// without them nothing can be measured, and the start says so.
pub(super) fn try_cgroups(facts: &mut Facts, options: &Options) -> Result<(), Error> {
    let Some(cgroup2) = &facts.cgroup2 else {
        return Ok(());
    };
    let cgroups = Cgroups::open(&options.target, cgroup2)?;
    let plan = Plan::outlook(facts, &options.request());
    let used: Vec<_> = programs::needed(&plan)
        .filter(|program| is_tried(program))
        .collect();
    let mut place = MaybeUninit::uninit();
    let mut open =
        open_at(&mut place, ProbeSkelBuilder::default()).tried("read our own programs")?;
    for mut program in open.open_object_mut().progs_mut() {
        let section = program.section().to_string_lossy().into_owned();
        program.set_autoload(used.iter().any(|used| used.hook.section() == section));
    }
    // A kernel without one of these hooks refuses our own program, too, and the start finds out.
    let Ok(mut loaded) = open.load() else {
        return Ok(());
    };
    for program in used {
        let mut empty = loaded.object_mut().progs_mut();
        let of_hook = |empty: &ProgramMut<'_>| *empty.section() == *program.hook.section();
        let Some(empty) = empty.find(of_hook) else {
            continue;
        };
        let Some(cgroup) = cgroups.of(program.hook) else {
            continue;
        };
        match empty.attach_cgroup(cgroup.as_raw_fd()) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                facts.find_taken(program.hook)
            }
            attached => drop(attached.tried(format!("attach {}", program.name))?),
        }
    }
    Ok(())
}

fn is_tried(program: &Program) -> bool {
    matches!(program.hook, Hook::Cgroup(_) | Hook::EveryCgroup(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::sections;
    use crate::programs::PROGRAMS;

    #[test]
    fn each_hook_of_cgroups_has_an_empty_program() {
        let empty = sections(ProbeSkelBuilder::default()).unwrap();
        for program in PROGRAMS.iter().filter(|program| is_tried(program)) {
            let section = program.hook.section();
            let has = empty.iter().filter(|(_, of)| *of == section).count();
            assert_eq!(has, 1, "{section}");
        }
    }
}
