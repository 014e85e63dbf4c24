use std::time::Duration;

use crate::time::{Monotonic, Timestamp};

/// The state of a TCP connection when a stamp was taken: SCM_TIMESTAMPING_OPT_STATS.
///
/// Values that this kernel does not give are `None`.
///
/// Source: TCP_NLA_* in include/uapi/linux/tcp.h, `tcp_get_timestamping_opt_stats()` in
/// net/ipv4/tcp.c, v6.18.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpStatistics<'a> {
    attributes: &'a [u8],
}

/// The size of `struct nlattr` and the alignment of attributes: NLA_HDRLEN and NLA_ALIGNTO.
const HEADER: usize = 4;

macro_rules! values {
    ($(
        $(#[$doc:meta])*
        $name:ident = $kernel:ident($kind:literal): $integer:ty $(=> $convert:expr => $type:ty)?;
    )*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $name(&self) -> Option<values!(@type $integer $(, $type)?)> {
                let value = <$integer>::from_ne_bytes(self.attribute($kind)?.try_into().ok()?);
                Some(values!(@value value $(, $convert)?))
            }
        )*

        /// The attributes by the names of the kernel.
        #[doc(hidden)]
        pub const NUMBERS: &'static [(&'static str, u16)] =
            &[$((stringify!($kernel), $kind)),*];
    };
    (@type $integer:ty) => { $integer };
    (@type $integer:ty, $type:ty) => { $type };
    (@value $value:ident) => { $value };
    (@value $value:ident, $convert:expr) => { $convert($value) };
}

impl<'a> TcpStatistics<'a> {
    /// Decode the data of the control message; any bytes are accepted.
    #[must_use]
    pub fn from_bytes(attributes: &'a [u8]) -> Self {
        Self { attributes }
    }

    values! {
        /// Time that it was busy sending, to 1 µs.
        busy = TCP_NLA_BUSY(1): u64 => Duration::from_micros => Duration;
        /// Time that the peer's receive window held it, to 1 µs.
        receive_window_limited = TCP_NLA_RWND_LIMITED(2): u64 => Duration::from_micros => Duration;
        /// Time that its own send buffer held it, to 1 µs.
        send_buffer_limited = TCP_NLA_SNDBUF_LIMITED(3): u64 => Duration::from_micros => Duration;
        /// Segments with data sent, again ones included.
        segments_sent = TCP_NLA_DATA_SEGS_OUT(4): u64;
        /// Segments sent again.
        segments_sent_again = TCP_NLA_TOTAL_RETRANS(5): u64;
        /// Bytes per second that the kernel lets it send; 2^64 - 1 for no limit.
        pacing_rate = TCP_NLA_PACING_RATE(6): u64;
        /// Bytes per second that were delivered lately.
        delivery_rate = TCP_NLA_DELIVERY_RATE(7): u64;
        /// The congestion window, in segments.
        congestion_window = TCP_NLA_SND_CWND(8): u32;
        /// Segments by which the network reorders.
        reordering = TCP_NLA_REORDERING(9): u32;
        /// The shortest round trip lately, to 1 µs.
        shortest_round_trip = TCP_NLA_MIN_RTT(10): u32 => micros => Duration;
        /// Consecutive retransmission timeouts.
        timeouts_in_a_row = TCP_NLA_RECUR_RETRANS(11): u8;
        /// True if `delivery_rate` is limited by the application, not by the path.
        delivery_rate_limited_by_application =
            TCP_NLA_DELIVERY_RATE_APP_LMT(12): u8 => is_set => bool;
        /// Bytes in the send queue: not sent, or not acknowledged.
        send_queue = TCP_NLA_SNDQ_SIZE(13): u32;
        /// TCP_CA_Open (0), Disorder, CWR, Recovery, Loss (4).
        congestion_state = TCP_NLA_CA_STATE(14): u8;
        /// The slow start threshold, in segments.
        slow_start_threshold = TCP_NLA_SND_SSTHRESH(15): u32;
        /// Segments delivered.
        segments_delivered = TCP_NLA_DELIVERED(16): u32;
        /// Segments delivered with the mark of congestion (CE).
        segments_delivered_marked = TCP_NLA_DELIVERED_CE(17): u32;
        /// Bytes sent, again ones included.
        bytes_sent = TCP_NLA_BYTES_SENT(18): u64;
        /// Bytes sent again.
        bytes_sent_again = TCP_NLA_BYTES_RETRANS(19): u64;
        /// The smoothed round trip, to 1 µs.
        round_trip = TCP_NLA_SRTT(22): u32 => micros => Duration;
        /// Bytes in the send queue that were not sent yet.
        not_sent = TCP_NLA_BYTES_NOTSENT(24): u32;
        /// The earliest departure time of the packet.
        departure = TCP_NLA_EDT(25): u64 => Timestamp::from_nanos => Timestamp<Monotonic>;
        /// The TTL or hop limit of the ACK; ACK stamps alone.
        ttl = TCP_NLA_TTL(26): u8;
    }

    /// The bytes of an attribute TCP_NLA_*, by its number.
    #[must_use]
    pub fn attribute(&self, kind: u16) -> Option<&'a [u8]> {
        let mut rest = self.attributes;
        while let Some((header, _)) = rest.split_first_chunk::<HEADER>() {
            let [length_low, length_high, kind_low, kind_high] = *header;
            let length = usize::from(u16::from_ne_bytes([length_low, length_high]));
            let value = rest.get(HEADER..length)?;
            if u16::from_ne_bytes([kind_low, kind_high]) == kind {
                return Some(value);
            }
            rest = rest.get(length.next_multiple_of(HEADER)..)?;
        }
        None
    }
}

fn micros(micros: u32) -> Duration {
    Duration::from_micros(micros.into())
}

fn is_set(byte: u8) -> bool {
    byte != 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(HEADER + value.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(HEADER), 0);
        bytes
    }

    #[test]
    fn values_have_their_units() {
        let bytes = [
            attribute(1, &7_u64.to_ne_bytes()),
            attribute(11, &[3]),
            attribute(22, &1_500_u32.to_ne_bytes()),
            attribute(12, &[1]),
        ]
        .concat();
        let statistics = TcpStatistics::from_bytes(&bytes);
        assert_eq!(statistics.busy(), Some(Duration::from_micros(7)));
        assert_eq!(statistics.timeouts_in_a_row(), Some(3));
        assert_eq!(statistics.round_trip(), Some(Duration::from_micros(1_500)));
        assert_eq!(
            statistics.delivery_rate_limited_by_application(),
            Some(true)
        );
        assert_eq!(statistics.ttl(), None);
    }

    #[test]
    fn a_value_of_another_size_is_none() {
        let bytes = attribute(22, &[1, 2]);
        let statistics = TcpStatistics::from_bytes(&bytes);
        assert_eq!(statistics.round_trip(), None);
        assert_eq!(statistics.attribute(22), Some(&[1, 2][..]));
    }

    #[test]
    fn lengths_that_cannot_be_end_the_attributes() {
        for length in [0_u16, 3, 9, u16::MAX] {
            let mut bytes = [length.to_ne_bytes(), 1_u16.to_ne_bytes()].concat();
            bytes.extend(attribute(11, &[3]).iter().take(4));
            assert_eq!(
                TcpStatistics::from_bytes(&bytes).attribute(11),
                None,
                "{length}"
            );
        }
    }

    proptest! {
        #[test]
        fn attributes_are_found_among_others(
            values in prop::collection::btree_map(
                1_u16..40,
                prop::collection::vec(any::<u8>(), 0..12),
                0..20,
            ),
        ) {
            let bytes: Vec<u8> = values
                .iter()
                .flat_map(|(kind, value)| attribute(*kind, value))
                .collect();
            let statistics = TcpStatistics::from_bytes(&bytes);
            for kind in 0..41 {
                prop_assert_eq!(
                    statistics.attribute(kind),
                    values.get(&kind).map(|value| &value[..]),
                );
            }
        }

        #[test]
        fn parsing_any_statistics_ends(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
            kind: u16,
        ) {
            let value = TcpStatistics::from_bytes(&bytes).attribute(kind);
            prop_assert!(value.is_none_or(|value| value.len() + HEADER <= bytes.len()));
        }
    }
}
