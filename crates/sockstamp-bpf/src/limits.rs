//! Divide the memory for the state of connections and of UDP sockets.

use crate::error::{Error, Tried};
use crate::options::Options;
use crate::skeleton::sockstamp::OpenSockstampMaps;

/// Overhead of an element of a hash map: `struct htab_elem` and the key (kernel/bpf/hashtab.c,
/// Linux 6.18), rounded up.
const ELEMENT_HEAD: u64 = 64;

/// The sizes of the maps of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Flows of TCP and sockets of UDP with state.
    pub flows: u64,
    /// Bytes of slab that this state takes.
    pub state: u64,
    /// Flows with a reader that lags.
    pub unread: u32,
    /// Flows that wait for a missing segment.
    pub reordered: u32,
    /// Chunks of messages in flight, of flows that have more than one.
    pub in_flight: u32,
    /// Datagrams of readers that lag.
    pub datagrams: u32,
}

/// The sizes of values, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub unread: u32,
    pub reordered: u32,
    pub in_flight: u32,
    pub datagrams: u32,
}

impl Limits {
    /// Set the limits, and the sizes of the maps that they are of.
    pub(crate) fn apply(maps: &mut OpenSockstampMaps<'_>, options: &Options) -> Result<(), Error> {
        let sizes = Sizes {
            unread: maps.unread.value_size(),
            reordered: maps.reordered.value_size(),
            in_flight: maps.tx_chunks.value_size(),
            datagrams: maps.udp_behind.value_size(),
        };
        let limits = Self::new(options.memory, options.max_flows, sizes);
        if let Some(constants) = maps.rodata_data.as_mut() {
            constants.setting_max_flows = limits.flows;
            constants.setting_max_state = limits.state;
        }
        maps.unread
            .set_max_entries(limits.unread)
            .tried("size the map of unread arrivals")?;
        maps.reordered
            .set_max_entries(limits.reordered)
            .tried("size the map of segments out of order")?;
        maps.tx_chunks
            .set_max_entries(limits.in_flight)
            .tried("size the map of messages in flight")?;
        maps.udp_behind
            .set_max_entries(limits.datagrams)
            .tried("size the map of unread datagrams")
    }

    /// Divide `memory`: half of it for the state of flows, a quarter for readers that lag, an
    /// eighth for messages in flight, a sixteenth for missing segments, a thirty-second for
    /// datagrams. A thirty-second remains for the buckets of the maps, and for the allocator's
    /// reserve.
    pub(crate) fn new(memory: u64, max_flows: Option<u32>, sizes: Sizes) -> Self {
        let room = |part: u64, size: u32| {
            let object = (u64::from(size) + ELEMENT_HEAD).next_power_of_two();
            u32::try_from(memory / part / object)
                .unwrap_or(u32::MAX)
                .max(1)
        };
        Self {
            flows: max_flows.map_or(u64::MAX, u64::from),
            state: memory / 2,
            unread: room(4, sizes.unread),
            reordered: room(16, sizes.reordered),
            in_flight: room(8, sizes.in_flight),
            datagrams: room(32, sizes.datagrams),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        unread: 8000,
        reordered: 3992,
        in_flight: 1216,
        datagrams: 56,
    };

    #[test]
    fn memory_is_shared_out() {
        let limits = Limits::new(256 << 20, None, SIZES);
        assert_eq!((limits.flows, limits.state), (u64::MAX, 128 << 20));
        assert_eq!(
            (limits.unread, limits.reordered, limits.in_flight),
            (8192, 4096, 16_384)
        );
        assert_eq!(limits.datagrams, 65_536);
    }

    #[test]
    fn no_map_is_without_room_and_the_number_of_flows_is_what_was_asked_for() {
        let limits = Limits::new(0, Some(100), SIZES);
        assert_eq!((limits.flows, limits.unread, limits.in_flight), (100, 1, 1));
    }
}
