//! Attempts: the counts of all waits of a kind, by process and service.

use std::mem::offset_of;

use libbpf_rs::MapCore;
use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::{NetnsInode, Protocol, canonical};
use sockstamp_model::name::Name;
use sockstamp_model::wait::{Attempts, Key, Kind};

use crate::abi::raw::{attempts as Counts, attempts_key as RawKey};
use crate::abi::{self, field, raw};
use crate::error::{Error, Tried};
use crate::skeleton::sockstamp::SockstampMaps;

/// Take those that were counted since the last time.
pub(super) fn take(maps: &SockstampMaps<'_>) -> Result<Vec<Attempts>, Error> {
    let keys: Vec<_> = maps.attempts.keys().collect();
    let mut taken = Vec::with_capacity(keys.len());
    for key in keys {
        let counts = maps.attempts.lookup_and_delete(&key);
        if let Some(counts) = counts.tried("read the attempts")? {
            taken.extend(attempts(&key, &counts));
        }
    }
    Ok(taken)
}

/// The model's view of an element. `None` if a field has a value that no version of ours writes.
fn attempts(key: &[u8], counts: &[u8]) -> Option<Attempts> {
    let kind = u32::from(u16::from_ne_bytes(field(key, offset_of!(RawKey, kind))?));
    let protocol = u8::try_from(u16::from_ne_bytes(field(
        key,
        offset_of!(RawKey, protocol),
    )?))
    .ok()?;
    let mut identity = raw::flow_identity {
        family: u16::from_ne_bytes(field(key, offset_of!(RawKey, family))?),
        remote_port: u16::from_ne_bytes(field(key, offset_of!(RawKey, port))?),
        ..raw::flow_identity::default()
    };
    identity.remote_address = field(key, offset_of!(RawKey, address))?;
    let comm = counts.get(offset_of!(Counts, comm)..)?;
    let count = |offset| field(counts, offset).map(u64::from_ne_bytes);
    Some(Attempts {
        key: Key {
            kind: Kind::from_index(kind)?,
            netns: NetnsInode(u32::from_ne_bytes(field(key, offset_of!(RawKey, netns))?)),
            protocol: Protocol::from_number(protocol)?,
            service: canonical(abi::flow(&identity).remote),
            pid: u32::from_ne_bytes(field(key, offset_of!(RawKey, pid))?),
        },
        comm: Name::from(comm.split(|byte| *byte == 0).next()?),
        count: count(offset_of!(Counts, count))?,
        failed: count(offset_of!(Counts, failed))?,
        sum_ns: count(offset_of!(Counts, sum_ns))?.into(),
        min_ns: Nanos(count(offset_of!(Counts, min_ns))?),
        prompted: count(offset_of!(Counts, prompted))?,
    })
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
        set(offset_of!(RawKey, address), &[10, 0, 0, 2]);
        set(offset_of!(RawKey, pid), &7_u32.to_ne_bytes());
        set(offset_of!(RawKey, port), &80_u16.to_ne_bytes());
        set(offset_of!(RawKey, family), &2_u16.to_ne_bytes());
        set(offset_of!(RawKey, protocol), &6_u16.to_ne_bytes());
        let mut counts = vec![0; size_of::<Counts>()];
        counts[offset_of!(Counts, count)] = 3;
        counts[offset_of!(Counts, failed)] = 2;
        counts[offset_of!(Counts, prompted)] = 1;
        counts[offset_of!(Counts, comm)..][..4].copy_from_slice(b"curl");
        let read = attempts(&key, &counts).unwrap();
        assert_eq!(read.key.service.to_string(), "10.0.0.2:80");
        assert_eq!((read.key.kind, read.key.pid), (Kind::Connect, 7));
        assert_eq!((read.count, read.failed, read.prompted), (3, 2, 1));
        assert_eq!(read.comm.to_string(), "curl");
        assert_eq!(attempts(&key[..8], &counts), None);
    }
}
