//! Change TCP headers on their way, as some firewalls do.

use crate::nat::mend;
use crate::sys::VNET_HEADER_LEN;

const TCP: u8 = 6;
/// The places in TCP's header that are changed: RFC 9293, section 3.1.
const SEQUENCE: usize = 4;
const ACKNOWLEDGEMENT: usize = 8;
const OPTIONS: usize = 20;
const CHECKSUM: usize = 16;
const NO_OPERATION: u8 = 1;
/// Selective acknowledgements: RFC 2018.
const SACK: u8 = 5;
/// Options for experiments: RFC 4727.
const EXPERIMENTS: [u8; 2] = [253, 254];

/// The treatment of segments with an experimental option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Experiments {
    /// Segments pass.
    #[default]
    Pass,
    /// Segments pass without the option.
    Strip,
    /// The packets are dropped.
    Drop,
    /// Segments pass with another number in the option.
    Alter,
}

/// A TCP segment with its virtio header.
pub(crate) struct Segment<'a> {
    /// The bytes from the header of TCP on.
    tcp: &'a mut [u8],
    /// A device will complete the checksum, which covers no part of the header yet.
    is_partial: bool,
}

impl<'a> Segment<'a> {
    /// Return the segment in a packet of IPv4 or IPv6, if it is one. Extension headers of IPv6 are
    /// not parsed.
    pub(crate) fn in_frame(frame: &'a mut [u8]) -> Option<Self> {
        let (header, packet) = frame.split_at_mut_checked(VNET_HEADER_LEN)?;
        let is_partial = header.first()? & crate::nat::NEEDS_CSUM != 0;
        let (protocol, length) = match packet.first()? >> 4 {
            4 => (*packet.get(9)?, usize::from(packet[0] & 0xf) * 4),
            6 => (*packet.get(6)?, 40),
            _ => return None,
        };
        let tcp = packet.get_mut(length..)?;
        (protocol == TCP && tcp.len() >= OPTIONS).then_some(Self { tcp, is_partial })
    }

    /// Add to the numbers of what the host sends, and take it off the acknowledgements that it
    /// gets.
    pub(crate) fn shift(&mut self, leaves: bool, by: u32) {
        if leaves {
            self.add(SEQUENCE, by);
            return;
        }
        self.add(ACKNOWLEDGEMENT, by.wrapping_neg());
        if let Some((at, length)) = self.option(|kind| kind == SACK) {
            for edge in (at + 2..at + length).step_by(4) {
                self.add(edge, by.wrapping_neg());
            }
        }
    }

    /// Return true if it has an experimental option.
    pub(crate) fn is_experimental(&self) -> bool {
        self.option(|kind| EXPERIMENTS.contains(&kind)).is_some()
    }

    /// Put no-operations in place of an experimental option.
    pub(crate) fn strip(&mut self) {
        let Some((at, length)) = self.option(|kind| EXPERIMENTS.contains(&kind)) else {
            return;
        };
        // The kernel puts such an option where a word begins, and fills the last word up.
        for word in (at..at + length).step_by(2) {
            self.replace(word, [NO_OPERATION; 2]);
        }
    }

    /// Change the last word of an experimental option.
    pub(crate) fn alter(&mut self) {
        let Some((at, length)) = self.option(|kind| EXPERIMENTS.contains(&kind)) else {
            return;
        };
        let word = at + length - 2;
        let [high, low] = [self.tcp[word], self.tcp[word + 1]];
        self.replace(word, [!high, !low]);
    }

    /// Return place and length of the first option of a kind.
    fn option(&self, wanted: impl Fn(u8) -> bool) -> Option<(usize, usize)> {
        let end = usize::from(self.tcp[12] >> 4) * 4;
        let mut at = OPTIONS;
        while at < end.min(self.tcp.len()) {
            let length = match self.tcp[at] {
                0 => return None,
                NO_OPERATION => 1,
                kind => {
                    let length = usize::from(*self.tcp.get(at + 1)?);
                    if wanted(kind) && at + length <= end {
                        return Some((at, length));
                    }
                    length.max(2)
                }
            };
            at += length;
        }
        None
    }

    fn add(&mut self, at: usize, by: u32) {
        let Some(field) = self.tcp.get(at..at + 4) else {
            return;
        };
        let old = u32::from_be_bytes(field.try_into().expect("four bytes"));
        let [a, b, c, d] = old.wrapping_add(by).to_be_bytes();
        self.replace(at, [a, b]);
        self.replace(at + 2, [c, d]);
    }

    fn replace(&mut self, at: usize, to: [u8; 2]) {
        let Some(field) = self.tcp.get_mut(at..at + 2) else {
            return;
        };
        let from = [field[0], field[1]];
        field.copy_from_slice(&to);
        if !self.is_partial {
            // The sum has the bytes of an unaligned word in reverse order.
            let [from, to] = [from, to].map(|word| match at % 2 {
                0 => u16::from_be_bytes(word),
                _ => u16::from_le_bytes(word),
            });
            mend(self.tcp, CHECKSUM, &[from], &[to], false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An acknowledgement of 100 with a selective one of 200 to 300 and an experimental option.
    fn frame() -> Vec<u8> {
        let mut frame = vec![0; VNET_HEADER_LEN];
        let mut packet = [0; 20];
        packet[0] = 0x45;
        packet[9] = TCP;
        frame.extend(packet);
        let mut tcp = vec![0; OPTIONS];
        tcp[SEQUENCE..][..4].copy_from_slice(&7_u32.to_be_bytes());
        tcp[ACKNOWLEDGEMENT..][..4].copy_from_slice(&100_u32.to_be_bytes());
        tcp.extend([NO_OPERATION, NO_OPERATION, SACK, 10]);
        tcp.extend(200_u32.to_be_bytes());
        tcp.extend(300_u32.to_be_bytes());
        tcp.extend([253, 8, 0x53, 0x53, 0, 0, 0, 7]);
        tcp[12] = u8::try_from(tcp.len() / 4).unwrap() << 4;
        let checksum = !sum(&tcp);
        tcp[CHECKSUM..][..2].copy_from_slice(&checksum.to_be_bytes());
        frame.extend(tcp);
        frame
    }

    fn sum(tcp: &[u8]) -> u16 {
        let words = tcp
            .chunks(2)
            .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(sum).unwrap()
    }

    fn number(tcp: &[u8], at: usize) -> u32 {
        u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn numbers_are_shifted_and_the_checksum_still_holds() {
        let mut frame = frame();
        Segment::in_frame(&mut frame)
            .unwrap()
            .shift(true, 0x8000_0005);
        Segment::in_frame(&mut frame).unwrap().shift(false, 50);
        let tcp = &frame[VNET_HEADER_LEN + 20..];
        assert_eq!(number(tcp, SEQUENCE), 0x8000_000c);
        assert_eq!(number(tcp, ACKNOWLEDGEMENT), 50);
        assert_eq!([number(tcp, 24), number(tcp, 28)], [150, 250]);
        assert_eq!(sum(tcp), 0xffff);
    }

    #[test]
    fn the_number_in_an_experimental_option_is_altered() {
        let mut frame = frame();
        Segment::in_frame(&mut frame).unwrap().alter();
        let tcp = &frame[VNET_HEADER_LEN + 20..];
        assert_eq!(number(tcp, 36), 0xfff8);
        assert_eq!(sum(tcp), 0xffff);
    }

    #[test]
    fn an_experimental_option_is_found_and_stripped() {
        let mut frame = frame();
        let mut segment = Segment::in_frame(&mut frame).unwrap();
        assert!(segment.is_experimental());
        segment.strip();
        assert!(!segment.is_experimental());
        let tcp = &frame[VNET_HEADER_LEN + 20..];
        assert_eq!(tcp[32..40], [NO_OPERATION; 8]);
        assert_eq!(sum(tcp), 0xffff);
    }
}
