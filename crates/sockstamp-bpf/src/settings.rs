//! Set the programs' constants from a plan and a request, before loading.

use std::num::NonZeroU32;

use nix::unistd::{SysconfVar, sysconf};

use crate::abi::raw::{HOPS, INTERFACES};
use crate::error::{Error, Tried};
use crate::facts::Facts;
use crate::filter;
use crate::group;
use crate::limits::{Limits, Sizes};
use crate::object;
use crate::options::{Options, Sampling};
use crate::plan::{Datagrams, Entry, Plan, Reads};
use crate::programs::PROGRAMS;
use crate::sched::WakeFunctions;
use crate::skeleton::sockstamp::OpenSockstampSkel;

/// Set the constants that depend only on the plan.
pub(crate) fn of_plan(open: &mut OpenSockstampSkel<'_>, plan: &Plan, facts: &Facts) {
    if let Some(settings) = open.maps.rodata_data.as_mut() {
        settings.setting_casts = facts.casts == Some(true);
        settings.setting_bit = plan.uses_bit();
        settings.setting_by_packets = plan.looks_at_packets();
        settings.setting_udp = plan.measures_udp();
        settings.setting_half_closed = plan.half_closed;
        settings.setting_causes = plan.causes;
        settings.setting_on_demand = plan.on_demand;
        settings.setting_udp_entries = plan.udp_entries;
        settings.setting_udp_functions = matches!(plan.udp, Ok(Datagrams::Functions { .. }));
        if let Some(callbacks) = facts
            .receive_callbacks
            .filter(|_| plan.rx == Some(Reads::Callbacks))
        {
            settings.setting_receive_bit = callbacks.bit;
            settings.setting_segment_callback = if plan.segments { callbacks.segment } else { 0 };
            settings.setting_ready_callback = callbacks.ready;
            settings.setting_read_callback = callbacks.read;
        }
        if let Some(callbacks) = facts
            .datagram_callbacks
            .filter(|_| plan.udp == Ok(Datagrams::Callbacks))
        {
            settings.setting_packet_bit = callbacks.packet_bit;
            settings.setting_end_callback = callbacks.end;
            settings.setting_bound_callback = callbacks.bound;
            settings.setting_datagram_callback = facts.begin_callback.unwrap_or_default();
        }
    }
}

/// Set the constants, size the maps, and leave out unused programs.
pub(crate) fn apply(
    open: &mut OpenSockstampSkel<'_>,
    options: &Options,
    plan: &Plan,
    facts: &Facts,
    cgroup_id: u64,
) -> Result<(), Error> {
    of_plan(open, plan, facts);
    let target = &options.target;
    if let Some(settings) = open.maps.rodata_data.as_mut() {
        settings.setting_record = options.record;
        settings.setting_by_pid = plan.by_process;
        settings.setting_spare_own = plan.spare_own;
        settings.setting_pids = !target.pids.is_empty();
        settings.setting_comms = !target.comms.is_empty();
        settings.setting_adopt = plan.existing;
        settings.setting_cgroup = cgroup_id;
        settings.setting_entry = plan.entry.is_some();
        settings.setting_entry_callback = plan.entry == Some(Entry::Callback);
        settings.setting_begin_callback = facts
            .begin_callback
            .filter(|_| plan.entry == Some(Entry::Begin))
            .unwrap_or_default();
        settings.setting_groups = group::setting(options.groups.as_ref());
        settings.setting_netns = target.netns.map_or(0, |netns| netns.0);
        settings.setting_interface = target.interface.map_or(0, NonZeroU32::get);
        settings.setting_host_path = plan.host_path;
        settings.setting_nic_interval = nic_interval(options, plan);
        settings.setting_path_mask = paths(options) - 1;
        settings.setting_hops = plan.follows_datagrams;
        settings.setting_hop_mask = hops(options) - 1;
        settings.setting_interface_mask =
            options.interfaces.clamp(1, INTERFACES).next_power_of_two() - 1;
        if let Some(filter) = &target.filter {
            filter::set_filter!(&mut *settings, filter);
        }
        (settings.setting_rate_cap, settings.setting_sample) = match options.sampling {
            Sampling::Every => (0, 0),
            Sampling::RateCap(cap) | Sampling::InStep { cap, .. } => (cap, 0),
            Sampling::OneIn(count) => (0, count),
        };
        settings.setting_in_step = match options.sampling {
            Sampling::InStep { bits, .. } => 1 << bits.min(Sampling::MOST_BITS),
            _ => 0,
        };
        settings.setting_tag = options.tag;
        settings.setting_slower_ns = options.slower_than.map_or(0, |least| least.0);
        settings.setting_notable = options.notable;
        settings.setting_windows =
            options.windows.is_some() || (options.may_have_windows() && plan.has_windows());
        settings.setting_hol = options.hol as u32;
        settings.setting_ring_wakeup = u64::from(options.ring_bytes / 4);
    }
    if plan.sched {
        set_wake_functions(open, WakeFunctions::find()?);
    }
    let processors = u32::try_from(facts.processors).unwrap_or(u32::MAX);
    open.maps
        .banks
        .set_max_entries(processors)
        .tried("size the counters")?;
    let limits = Limits::new(
        options.memory,
        options.max_flows,
        Sizes {
            unread: open.maps.unread.value_size(),
            reordered: open.maps.reordered.value_size(),
            in_flight: open.maps.tx_chunks.value_size(),
            datagrams: open.maps.udp_behind.value_size(),
        },
    );
    if let Some(settings) = open.maps.rodata_data.as_mut() {
        settings.setting_max_flows = limits.flows;
        settings.setting_max_state = limits.state;
    }
    open.maps
        .unread
        .set_max_entries(limits.unread)
        .tried("size the map of unread arrivals")?;
    open.maps
        .reordered
        .set_max_entries(limits.reordered)
        .tried("size the map of segments out of order")?;
    open.maps
        .tx_chunks
        .set_max_entries(limits.in_flight)
        .tried("size the map of messages in flight")?;
    open.maps
        .udp_behind
        .set_max_entries(limits.datagrams)
        .tried("size the map of unread datagrams")?;
    if !options.tag {
        open.maps
            .tag_peers
            .set_max_entries(1)
            .tried("size the map of peers")?;
    }
    group::size_maps(&mut open.maps, options.groups.as_ref())?;
    let ring_bytes = if options.record {
        options.ring_bytes
    } else {
        page_size()
    };
    open.maps
        .records
        .set_max_entries(ring_bytes)
        .tried("size the ring buffer")?;
    open.maps
        .paths
        .set_max_entries(if plan.host_path { paths(options) } else { 1 })
        .tried("size the table of packets")?;
    let hops = if plan.follows_datagrams {
        hops(options)
    } else {
        1
    };
    for map in [&mut open.maps.hops, &mut open.maps.hop_names] {
        map.set_max_entries(hops)
            .tried("size the table of followed datagrams")?;
    }
    object::choose(open, &PROGRAMS, plan);
    Ok(())
}

fn set_wake_functions(open: &mut OpenSockstampSkel<'_>, functions: WakeFunctions) {
    if let Some(settings) = open.maps.rodata_data.as_mut() {
        settings.setting_sched = true;
        settings.setting_wake_stream = functions.stream;
        settings.setting_wake_datagram = functions.datagram;
        settings.setting_wake_poll = functions.poll;
        settings.setting_wake_epoll = functions.epoll;
        settings.setting_wake_uring = functions.uring;
    }
}

/// Return the time between requests for NIC stamps, in nanoseconds; 0 means never, or with each
/// packet that requests stamps.
fn nic_interval(options: &Options, plan: &Plan) -> u64 {
    let rate = options.nic_stamps.filter(|_| plan.spares_nics());
    rate.map_or(0, |rate| 1_000_000_000 / u64::from(rate.get()))
}

/// The number of slots that a mask can distinguish.
fn paths(options: &Options) -> u32 {
    options.paths.clamp(1, 1 << 20).next_power_of_two()
}

/// As [`paths`], with fewer of them: a slot holds a whole message.
fn hops(options: &Options) -> u32 {
    paths(options).min(HOPS)
}

fn page_size() -> u32 {
    sysconf(SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|size| u32::try_from(size).ok())
        .unwrap_or(4096)
}
