//! Packets that this host's own firewall dropped, by connection.

use std::mem::offset_of;

use libbpf_rs::MapCore;
use sockstamp_model::flow::{NetnsInode, canonical};
use sockstamp_model::wait::Barred;

use crate::abi::raw::{firewall_drops as Drops, firewall_key as RawKey};
use crate::abi::{self, raw};
use crate::error::{Error, Tried};
use crate::skeleton::sockstamp::SockstampMaps;

/// Take those that were counted since the last time.
pub(crate) fn take(maps: &SockstampMaps<'_>) -> Result<Vec<Barred>, Error> {
    let keys: Vec<_> = maps.firewall.keys().collect();
    let mut taken = Vec::with_capacity(keys.len());
    for key in keys {
        let drops = maps.firewall.lookup_and_delete(&key);
        if let Some(drops) = drops.tried("read the firewall's drops")? {
            taken.extend(barred(&key, &drops));
        }
    }
    Ok(taken)
}

/// The model's view of an element.
fn barred(key: &[u8], drops: &[u8]) -> Option<Barred> {
    let mut ends = raw::flow_identity {
        family: number(key, offset_of!(RawKey, family), u16::from_ne_bytes)?,
        local_port: number(key, offset_of!(RawKey, source_port), u16::from_ne_bytes)?,
        remote_port: number(
            key,
            offset_of!(RawKey, destination_port),
            u16::from_ne_bytes,
        )?,
        netns: number(key, offset_of!(RawKey, netns), u32::from_ne_bytes)?,
        ..raw::flow_identity::default()
    };
    ends.local_address = *key.get(offset_of!(RawKey, source)..)?.first_chunk()?;
    ends.remote_address = *key.get(offset_of!(RawKey, destination)..)?.first_chunk()?;
    let flow = abi::flow(&ends);
    Some(Barred {
        netns: NetnsInode(ends.netns),
        from: canonical(flow.local),
        to: canonical(flow.remote),
        packets: number(drops, offset_of!(Drops, packets), u64::from_ne_bytes)?,
        syns: number(drops, offset_of!(Drops, syns), u64::from_ne_bytes)?,
    })
}

fn number<const BYTES: usize, T>(
    bytes: &[u8],
    offset: usize,
    read: fn([u8; BYTES]) -> T,
) -> Option<T> {
    bytes.get(offset..)?.first_chunk().copied().map(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_read_by_its_fields() {
        let mut key = vec![0; size_of::<RawKey>()];
        let mut set = |offset: usize, bytes: &[u8]| {
            key[offset..offset + bytes.len()].copy_from_slice(bytes);
        };
        set(offset_of!(RawKey, source), &[10, 0, 0, 1]);
        set(offset_of!(RawKey, destination), &[10, 0, 0, 2]);
        set(offset_of!(RawKey, source_port), &40_000_u16.to_ne_bytes());
        set(offset_of!(RawKey, destination_port), &80_u16.to_ne_bytes());
        set(offset_of!(RawKey, family), &2_u16.to_ne_bytes());
        set(offset_of!(RawKey, netns), &9_u32.to_ne_bytes());
        let mut drops = vec![0; size_of::<Drops>()];
        drops[offset_of!(Drops, packets)] = 5;
        drops[offset_of!(Drops, syns)] = 3;
        let read = barred(&key, &drops).unwrap();
        assert_eq!(read.from.to_string(), "10.0.0.1:40000");
        assert_eq!(read.to.to_string(), "10.0.0.2:80");
        assert_eq!((read.packets, read.syns, read.netns.0), (5, 3, 9));
        assert_eq!(barred(&key[..8], &drops), None);
    }
}
