//! Set the programs' constants and the sizes of their maps from a plan and options, before loading:
//! those of each feature are in its folder.

use crate::error::{Error, Tried};
use crate::limits::Limits;
use crate::object;
use crate::options::Options;
use crate::plan::Plan;
use crate::programs::PROGRAMS;
use crate::skeleton::sockstamp::{OpenSockstampMaps, OpenSockstampSkel};
use crate::{demand, group, host_path, nic, record, sample, sched, select, tcp, udp, wait, window};

/// Set the constants of all features but those that are found on the host: addresses, a cgroup.
pub(crate) fn set_constants(open: &mut OpenSockstampSkel<'_>, plan: &Plan, options: &Options) {
    let Some(constants) = open.maps.rodata_data.as_deref_mut() else {
        return;
    };
    constants.setting_casts = plan.casts;
    demand::constants(constants, plan);
    group::constants(constants, options.groups.as_ref());
    host_path::constants(constants, plan, options);
    record::constants(constants, options);
    nic::constants(constants, options, plan);
    sample::constants(constants, options.sampling);
    select::constants(constants, plan, &options.target);
    #[cfg(feature = "series")]
    crate::series::constants(constants, plan);
    tcp::constants(constants, plan, options);
    udp::constants(constants, plan);
    wait::constants(constants, options);
    window::constants(constants, plan, options);
}

/// Set the constants, size the maps, and leave out unused programs.
pub(crate) fn apply(
    open: &mut OpenSockstampSkel<'_>,
    options: &Options,
    plan: &Plan,
    cgroup_id: u64,
) -> Result<(), Error> {
    set_constants(open, plan, options);
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.setting_cgroup = cgroup_id;
        sched::constants(constants, plan)?;
    }
    size_maps(&mut open.maps, plan, options)?;
    object::choose(open, &PROGRAMS, plan);
    Ok(())
}

fn size_maps(
    maps: &mut OpenSockstampMaps<'_>,
    plan: &Plan,
    options: &Options,
) -> Result<(), Error> {
    let processors = u32::try_from(plan.processors).unwrap_or(u32::MAX);
    maps.banks
        .set_max_entries(processors)
        .tried("size the counters")?;
    Limits::apply(maps, options)?;
    tcp::size_maps(maps, options)?;
    group::size_maps(maps, options.groups.as_ref())?;
    record::size_maps(maps, options)?;
    nic::size_maps(maps, options, plan)?;
    wait::size_maps(maps, options)?;
    host_path::size_maps(maps, plan, options)
}
