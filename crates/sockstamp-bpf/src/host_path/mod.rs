//! The path of packets through the host, and the interfaces on it, for the model.

use std::cmp::Reverse;
use std::mem::offset_of;

use libbpf_rs::{MapCore, MapFlags};
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::interface::{Interface, InterfaceSummary, Medium};
use sockstamp_model::name::Name;

use crate::abi::raw::{HOPS, INTERFACES};
use crate::abi::{Bank, field, raw};
use crate::error::{Error, Tried};
use crate::options::Options;
use crate::plan::Plan;
use crate::skeleton::Constants;
use crate::skeleton::sockstamp::OpenSockstampMaps;

/// Packets on their way by a redirection, without `--host-path`: 48 bytes each.
const PATHS_OF_COPIES: u32 = 2048;

/// Set the constants of interfaces, and of packets that are followed through the host.
pub(crate) fn constants(constants: &mut Constants, plan: &Plan, options: &Options) {
    constants.setting_host_path = plan.host_path;
    constants.setting_path_mask = paths(plan, options) - 1;
    constants.setting_hops = plan.follows_datagrams;
    constants.setting_hop_mask = hops(options) - 1;
    constants.setting_interface_mask =
        options.interfaces.clamp(1, INTERFACES).next_power_of_two() - 1;
}

/// Set the sizes of the tables of followed packets.
pub(crate) fn size_maps(
    maps: &mut OpenSockstampMaps<'_>,
    plan: &Plan,
    options: &Options,
) -> Result<(), Error> {
    maps.paths
        .set_max_entries(paths(plan, options))
        .tried("size the table of packets")?;
    let hops = if plan.follows_datagrams {
        hops(options)
    } else {
        1
    };
    for map in [&mut maps.hops, &mut maps.hop_names] {
        map.set_max_entries(hops)
            .tried("size the table of followed datagrams")?;
    }
    Ok(())
}

/// Return the size of the table of packets: those that go on as copies are few.
fn paths(plan: &Plan, options: &Options) -> u32 {
    if plan.host_path {
        slots(options)
    } else {
        slots(options).min(PATHS_OF_COPIES)
    }
}

/// Return the number of slots that a mask can distinguish.
fn slots(options: &Options) -> u32 {
    options.paths.clamp(1, 1 << 20).next_power_of_two()
}

/// As [`slots`], with fewer of them: a slot holds a whole message.
fn hops(options: &Options) -> u32 {
    slots(options).min(HOPS)
}

/// Return messages per interface, the busiest first. Only interfaces with messages are looked up.
pub(crate) fn interfaces(
    banks: &[Bank],
    plan: &Plan,
    table: &impl MapCore,
) -> Vec<InterfaceSummary> {
    let mut found: Vec<_> = (0..raw::INTERFACE_SLOTS)
        .filter_map(|slot| {
            let messages = banks
                .iter()
                .map(|bank| bank.interfaces[slot as usize])
                .sum();
            (messages > 0).then(|| summary(slot, messages, plan, table))
        })
        .collect();
    found.sort_by_key(|summary| Reverse(summary.messages));
    found
}

/// Slot 0 stands for those that found no room.
fn summary(slot: u32, messages: u64, plan: &Plan, table: &impl MapCore) -> InterfaceSummary {
    let entry = (slot != 0)
        .then(|| {
            table
                .lookup(&slot.to_ne_bytes(), MapFlags::ANY)
                .ok()
                .flatten()
        })
        .flatten();
    let (interface, medium) = entry.as_deref().and_then(parse).unzip();
    InterfaceSummary {
        interface,
        leads_on: !plan.host_path && medium.as_ref().is_some_and(Medium::leads_on),
        medium,
        messages,
    }
}

/// A `struct interface` of abi.h.
fn parse(entry: &[u8]) -> Option<(Interface, Medium)> {
    let id = u64::from_ne_bytes(field(entry, offset_of!(raw::interface, id))?);
    let name: [u8; 16] = field(entry, offset_of!(raw::interface, name))?;
    let kind: [u8; 16] = field(entry, offset_of!(raw::interface, kind))?;
    let medium = u32::from_ne_bytes(field(entry, offset_of!(raw::interface, medium))?);
    let [netns, index] = [id >> 32, id & 0xffff_ffff].map(|half| u32::try_from(half).ok());
    let interface = Interface {
        name: Name::from_c(&name),
        index: index?,
        netns: NetnsInode(netns?),
    };
    let medium = match medium {
        raw::medium::MEDIUM_PHYSICAL => Medium::Physical,
        raw::medium::MEDIUM_LOOPBACK => Medium::Loopback,
        _ => Medium::Virtual(Name::from_c(&kind).to_string()),
    };
    Some((interface, medium))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(medium: u32) -> Vec<u8> {
        let mut entry = vec![0; size_of::<raw::interface>()];
        entry[..8].copy_from_slice(&(4_026_531_840_u64 << 32 | 7).to_ne_bytes());
        entry[8..12].copy_from_slice(b"eth0");
        entry[24..28].copy_from_slice(b"veth");
        entry[40..44].copy_from_slice(&medium.to_ne_bytes());
        entry
    }

    #[test]
    fn entries_are_read_as_the_kernel_writes_them() {
        let (interface, medium) = parse(&entry(raw::medium::MEDIUM_VIRTUAL)).unwrap();
        assert_eq!(interface.name, "eth0");
        assert_eq!(interface.index, 7);
        assert_eq!(interface.netns, NetnsInode(4_026_531_840));
        assert_eq!(medium, Medium::Virtual("veth".to_owned()));
        let (_, medium) = parse(&entry(raw::medium::MEDIUM_PHYSICAL)).unwrap();
        assert_eq!(medium, Medium::Physical);
    }

    #[test]
    fn an_entry_that_is_cut_off_is_none() {
        assert!(parse(&entry(0)[..43]).is_none());
    }
}
