//! How much memory the state of connections may take, and for what.

/// What a slab object holds beside the state of a flow: `struct bpf_local_storage_elem` (include/linux/bpf_local_storage.h,
/// Linux 6.18), rounded up.
const STORAGE_HEAD: u64 = 128;
/// What it holds beside an element of a hash map: `struct htab_elem` and the key (kernel/bpf/hashtab.c, Linux 6.18), rounded up.
const ELEMENT_HEAD: u64 = 64;

/// What the maps of connections may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Flows with state.
    pub flows: u32,
    /// Flows whose reader is behind.
    pub unread: u32,
    /// Flows that wait for a missing segment.
    pub reordered: u32,
    /// Chunks of messages in flight, of flows that have more than one.
    pub in_flight: u32,
}

/// The sizes of values, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub flow: u32,
    pub unread: u32,
    pub reordered: u32,
    pub in_flight: u32,
}

impl Limits {
    /// Shares out `memory`: half of it for flows, a quarter for readers that are behind, an eighth for messages in
    /// flight, a sixteenth for missing segments. A sixteenth stays for the buckets of the maps, and for what the
    /// allocator holds ready.
    pub(crate) fn new(memory: u64, max_flows: Option<u32>, sizes: Sizes) -> Self {
        let room = |part: u64, size: u32, head: u64| {
            let object = (u64::from(size) + head).next_power_of_two();
            u32::try_from(memory / part / object).unwrap_or(u32::MAX).max(1)
        };
        let flows = room(2, sizes.flow, STORAGE_HEAD);
        Self {
            flows: max_flows.map_or(flows, |most| most.min(flows)),
            unread: room(4, sizes.unread, ELEMENT_HEAD),
            reordered: room(16, sizes.reordered, ELEMENT_HEAD),
            in_flight: room(8, sizes.in_flight, ELEMENT_HEAD),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        flow: 800,
        unread: 8000,
        reordered: 1928,
        in_flight: 1216,
    };

    #[test]
    fn memory_is_shared_out() {
        let limits = Limits::new(256 << 20, None, SIZES);
        assert_eq!(
            (limits.flows, limits.unread, limits.reordered, limits.in_flight),
            (131_072, 8192, 8192, 16_384)
        );
    }

    #[test]
    fn the_memory_bounds_the_number_of_flows_that_was_asked_for() {
        assert_eq!(Limits::new(256 << 20, Some(100), SIZES).flows, 100);
        assert_eq!(Limits::new(1 << 20, Some(1_000_000), SIZES).flows, 512);
        assert_eq!(Limits::new(0, None, SIZES).flows, 1);
    }
}
