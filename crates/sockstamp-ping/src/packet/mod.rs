//! Encode probes and decode answers. No system call is made here, and received bytes are not
//! trusted.

#[cfg(fuzzing)]
pub mod fuzzing;
pub(crate) mod icmp;
pub(crate) mod tcp;

use crate::Settings;

/// A number that a forger does not know, at the start of each payload.
pub(crate) const COOKIE: usize = 8;

/// RFC 1071, of `parts` as if they were one; each but the last has an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum: u64 = words
        .map(|word| {
            u64::from(u16::from_be_bytes([
                word[0],
                word.get(1).copied().unwrap_or(0),
            ]))
        })
        .sum();
    // A packet has at most 2^15 words: two rounds carry all that is above 16 bits.
    let carried = (sum & 0xffff) + (sum >> 16);
    let carried = (carried & 0xffff) + (carried >> 16);
    !u16::try_from(carried).unwrap_or(u16::MAX)
}

/// The bytes of a probe after its header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Content {
    /// Bytes.
    pub(crate) length: usize,
    /// Fills the payload after the cookie; if empty, bytes that count up do.
    pub(crate) pattern: Vec<u8>,
    /// Every probe has the same checksum.
    pub(crate) one_sum: bool,
}

impl Content {
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            length: settings.payload,
            pattern: settings.pattern.clone(),
            one_sum: settings.one_path,
        }
    }

    /// Append the cookie, as far as there is room, and the rest.
    pub(crate) fn write(&self, packet: &mut Vec<u8>, cookie: u64) {
        let start = packet.len();
        packet.extend(&cookie.to_be_bytes()[..self.length.min(COOKIE)]);
        let rest = self.length.saturating_sub(COOKIE);
        match self.pattern.as_slice() {
            [] => packet.extend((0_u8..=u8::MAX).cycle().take(rest)),
            pattern => packet.extend(pattern.iter().cycle().take(rest)),
        }
        debug_assert_eq!(packet.len() - start, self.length);
        if self.one_sum {
            balance(packet, start + COOKIE);
        }
    }
}

/// Set the two bytes at `at` so that the packet has the same checksum as any other.
fn balance(packet: &mut [u8], at: usize) {
    /// Any but 0 and 0xffff, which mean "none" to UDP.
    const SUM: u16 = 0x5aa5;
    let Some(word) = packet.get_mut(at..at + 2) else {
        return;
    };
    word.copy_from_slice(&[0, 0]);
    let rest = checksum(&[packet]);
    let (sum, carry) = rest.overflowing_add(SUM);
    packet[at..at + 2].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

/// Strip the header of an IPv4 packet, which raw IPv4 sockets receive.
pub(crate) fn without_ipv4_header(packet: &[u8]) -> Option<&[u8]> {
    let words = usize::from(packet.first()? & 0xf);
    packet.get((words >= 5).then_some(4 * words)?..)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_checksum_of_the_rfcs_example_is_right() {
        // RFC 1071, section 3: the sum is ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&[&bytes]), !0xddf2);
        assert_eq!(checksum(&[&bytes[..4], &bytes[4..]]), !0xddf2);
    }

    #[test]
    fn a_pattern_fills_the_payload_after_the_cookie() {
        let content = Content {
            length: 13,
            pattern: vec![0xab, 0xcd],
            one_sum: false,
        };
        let mut packet = Vec::new();
        content.write(&mut packet, 0);
        assert_eq!(packet[8..], [0xab, 0xcd, 0xab, 0xcd, 0xab]);
    }

    proptest! {
        #[test]
        fn probes_of_one_path_have_one_checksum(
            one: (u16, u64),
            other: (u16, u64),
            length in crate::ONE_PATH_PAYLOAD..100,
        ) {
            let content = Content { length, one_sum: true, ..Content::default() };
            let sum = |(sequence, cookie)| {
                let mut packet = Vec::new();
                icmp::write_request(&mut packet, icmp::V4, 7, sequence, cookie, &content);
                (checksum(&[&packet]), packet[2..4].to_vec())
            };
            prop_assert_eq!(sum(one), sum(other));
            prop_assert_eq!(sum(one).0, 0);
        }

        #[test]
        fn a_packet_with_its_checksum_sums_to_zero(
            mut bytes in prop::collection::vec(any::<u8>(), 2..200),
        ) {
            bytes[..2].copy_from_slice(&[0, 0]);
            let sum = checksum(&[&bytes]);
            bytes[..2].copy_from_slice(&sum.to_be_bytes());
            prop_assert_eq!(checksum(&[&bytes]), 0);
        }

        #[test]
        fn a_header_is_cut_off_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(rest) = without_ipv4_header(&bytes) {
                prop_assert!(bytes.ends_with(rest) && bytes.len() - rest.len() >= 20);
            }
        }
    }
}
