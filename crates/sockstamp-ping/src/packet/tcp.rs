//! SYNs, and the segments that answer them.

use std::net::IpAddr;

use super::{checksum, u16_at, u32_at};

/// Bytes of a SYN: a header and the largest segment that we would take, which some hosts expect.
pub(crate) const SYN: usize = LENGTH as usize;
const LENGTH: u8 = 24;
/// The offset of the checksum.
pub(crate) const CHECKSUM_AT: u16 = 16;

const FLAG_SYN: u8 = 0x02;
const FLAG_RST: u8 = 0x04;
const FLAG_ACK: u8 = 0x10;
const PROTOCOL: u8 = 6;

/// A SYN. Its checksum is that of IPv4 if the ends are given, else 0: of IPv6 the kernel fills it
/// in.
pub(crate) fn syn(from: u16, to: u16, sequence: u32, ends: Option<(IpAddr, IpAddr)>) -> [u8; SYN] {
    /// Use Ethernet's usual MSS; RFC 9293, section 3.7.1, guarantees 536 on every IPv4 path.
    const OPTION_MSS: [u8; 4] = [2, 4, 0x05, 0xb4];
    const WINDOW: u16 = 64_240;
    let mut segment = [0; SYN];
    segment[..2].copy_from_slice(&from.to_be_bytes());
    segment[2..4].copy_from_slice(&to.to_be_bytes());
    segment[4..8].copy_from_slice(&sequence.to_be_bytes());
    segment[12] = (LENGTH / 4) << 4;
    segment[13] = FLAG_SYN;
    segment[14..16].copy_from_slice(&WINDOW.to_be_bytes());
    segment[20..].copy_from_slice(&OPTION_MSS);
    if let Some((IpAddr::V4(source), IpAddr::V4(destination))) = ends {
        let rest = [0, PROTOCOL, 0, LENGTH];
        let sum = checksum(&[&source.octets(), &destination.octets(), &rest, &segment]);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
    }
    segment
}

/// An answer to a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) from: u16,
    pub(crate) to: u16,
    /// The sequence number of the SYN that it acknowledges.
    pub(crate) acknowledged: u32,
    pub(crate) reset: bool,
}

/// `None` for any other segment, and for one that is cut.
pub(crate) fn parse(segment: &[u8]) -> Option<Segment> {
    let flags = *segment.get(13)?;
    let reset = flags & FLAG_RST != 0;
    let is_answer = flags & FLAG_ACK != 0 && (reset || flags & FLAG_SYN != 0);
    is_answer.then_some(Segment {
        from: u16_at(segment, 0)?,
        to: u16_at(segment, 2)?,
        acknowledged: u32_at(segment, 8)?.wrapping_sub(1),
        reset,
    })
}

/// The ports and the sequence number of a SYN that an ICMP error quotes.
pub(crate) fn quoted(segment: &[u8]) -> Option<(u16, u16, u32)> {
    Some((
        u16_at(segment, 0)?,
        u16_at(segment, 2)?,
        u32_at(segment, 4)?,
    ))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_syn_has_a_right_checksum() {
        let (source, destination) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 9, 8, 7));
        let segment = syn(
            40_000,
            443,
            0x0102_0304,
            Some((source.into(), destination.into())),
        );
        let pseudo = [0, PROTOCOL, 0, 24];
        let sum = checksum(&[&source.octets(), &destination.octets(), &pseudo, &segment]);
        assert_eq!(sum, 0);
        assert_eq!(quoted(&segment), Some((40_000, 443, 0x0102_0304)));
        assert_eq!(parse(&segment), None);
    }

    proptest! {
        #[test]
        fn only_syn_with_ack_and_rst_with_ack_are_answers(flags: u8, acknowledgement: u32) {
            let mut segment = syn(443, 40_000, 1, None);
            segment[13] = flags;
            segment[8..12].copy_from_slice(&acknowledgement.to_be_bytes());
            let parsed = parse(&segment);
            let answers = flags & FLAG_ACK != 0 && flags & (FLAG_SYN | FLAG_RST) != 0;
            prop_assert_eq!(parsed.is_some(), answers);
            if let Some(parsed) = parsed {
                prop_assert_eq!(parsed.acknowledged, acknowledgement.wrapping_sub(1));
                prop_assert_eq!(parsed.reset, flags & FLAG_RST != 0);
            }
        }

        #[test]
        fn any_bytes_are_a_segment_or_none(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert!(parse(&bytes).is_none() || bytes.len() >= 14);
            prop_assert_eq!(quoted(&bytes).is_some(), bytes.len() >= 8);
        }
    }
}
