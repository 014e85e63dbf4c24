//! Write packets as pcapng: draft-ietf-opsawg-pcapng. Written here, because only five kinds of
//! blocks are needed, and the crates for pcapng have no option `epb_packetid`.

use std::io::{self, Write};

/// The kinds of blocks: sections 4.1 to 4.6.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

/// Packets begin with the header of IPv4 or IPv6 (LINKTYPE_RAW of pcap-linktype(7)).
const LINKTYPE_RAW: u32 = 101;

/// Options.
const COMMENT: u16 = 1;
const SECTION_HARDWARE_OS: u16 = 3;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_DESCRIPTION: u16 = 3;
const INTERFACE_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;
const PACKET_ID: u16 = 5;
const STATISTICS_OS_DROP: u16 = 7;

/// Times are nanoseconds: 10^-9 s.
const NANOSECONDS: u8 = 9;
/// Longest text of an option: its length is a number of two bytes, and no reader reads more.
const TEXT: usize = 4096;

/// Bytes that are collected before they are passed on: a system call costs as much as some packets.
const COLLECTED: usize = 1 << 18;

/// A packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The number of its interface.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub time: u64,
    /// Its length.
    pub length: u32,
    /// Its first bytes.
    pub bytes: &'a [u8],
    /// The same for one packet at several interfaces.
    pub id: u64,
    /// True if it was sent, not received.
    pub sent: bool,
    /// A comment.
    pub comment: &'a str,
}

/// Writes one section. Blocks are formed where they are collected, so a packet is copied once.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    collected: Vec<u8>,
    interfaces: u32,
}

impl<W: Write> Writer<W> {
    /// Begin the section.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn new(output: W, application: &str, os: &str) -> io::Result<Self> {
        let mut writer = Self {
            output,
            collected: Vec::new(),
            interfaces: 0,
        };
        let begin = writer.begin(SECTION);
        // Byte order, version 1.0, and a length that is not known.
        writer.words([0x1a2b_3c4d, 1, u32::MAX, u32::MAX]);
        writer.text(SECTION_HARDWARE_OS, os);
        writer.text(SECTION_APPLICATION, application);
        writer.end(begin)?;
        Ok(writer)
    }

    /// Add an interface, and return its number.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn interface(&mut self, name: &str, description: &str) -> io::Result<u32> {
        let number = self.interfaces;
        let begin = self.begin(INTERFACE);
        // No limit to the bytes of a packet.
        self.words([LINKTYPE_RAW, 0]);
        self.text(INTERFACE_NAME, name);
        self.text(INTERFACE_DESCRIPTION, description);
        self.option(INTERFACE_RESOLUTION, &[NANOSECONDS]);
        self.end(begin)?;
        self.interfaces += 1;
        Ok(number)
    }

    /// Write a packet.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        let begin = self.begin(PACKET);
        let captured = length(packet.bytes.len());
        let [high, low] = halves(packet.time);
        self.words([
            packet.interface,
            high,
            low,
            captured,
            packet.length.max(captured),
        ]);
        self.padded(packet.bytes);
        if !packet.comment.is_empty() {
            self.text(COMMENT, packet.comment);
        }
        // Inbound or outbound: section 4.3.1.
        let flags = if packet.sent { 2 } else { 1 };
        let [id_high, id_low] = halves(packet.id);
        self.words([
            head(PACKET_FLAGS, 4),
            flags,
            head(PACKET_ID, 8),
            id_low,
            id_high,
        ]);
        self.end(begin)
    }

    /// Write how many packets an interface has lost, with a comment.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn lost(&mut self, interface: u32, time: u64, count: u64, comment: &str) -> io::Result<()> {
        let begin = self.begin(STATISTICS);
        let [high, low] = halves(time);
        self.words([interface, high, low]);
        self.text(COMMENT, comment);
        self.option(STATISTICS_OS_DROP, &count.to_le_bytes());
        self.end(begin)
    }

    /// Pass everything on.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.pass_on()?;
        self.output.flush()
    }

    fn pass_on(&mut self) -> io::Result<()> {
        let written = self.output.write_all(&self.collected);
        self.collected.clear();
        written
    }

    fn words<const N: usize>(&mut self, words: [u32; N]) {
        self.collected
            .extend_from_slice(words.map(u32::to_le_bytes).as_flattened());
    }

    /// Every block has a multiple of four bytes, so what is collected has, too.
    fn padded(&mut self, bytes: &[u8]) {
        self.collected.extend_from_slice(bytes);
        let end = self.collected.len().next_multiple_of(4);
        self.collected.extend_from_slice(&[0; 3]);
        self.collected.truncate(end);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.words([head(code, length)]);
        self.padded(value);
    }

    fn text(&mut self, code: u16, text: &str) {
        let end = (0..=TEXT.min(text.len()))
            .rev()
            .find(|&end| text.is_char_boundary(end));
        self.option(code, &text.as_bytes()[..end.unwrap_or(0)]);
    }

    /// Begin a block, with room for its length. Return its place.
    fn begin(&mut self, kind: u32) -> usize {
        let begin = self.collected.len();
        self.words([kind, 0]);
        begin
    }

    /// End the block behind the end of its options: its length stands at both ends.
    fn end(&mut self, begin: usize) -> io::Result<()> {
        let total = length(self.collected.len() + 8 - begin);
        self.words([0, total]);
        self.collected[begin + 4..begin + 8].copy_from_slice(&total.to_le_bytes());
        match self.collected.len() < COLLECTED {
            true => Ok(()),
            false => self.pass_on(),
        }
    }
}

/// Return the first word of an option.
#[inline]
fn head(code: u16, length: u16) -> u32 {
    u32::from(length) << 16 | u32::from(code)
}

/// Return the high and the low half of a number.
#[inline]
fn halves(number: u64) -> [u32; 2] {
    let [a, b, c, d, low @ ..] = number.to_be_bytes();
    [[a, b, c, d], low].map(u32::from_be_bytes)
}

#[inline]
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds and bodies of blocks.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, &[u8])> {
        let word =
            |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let mut blocks = Vec::new();
        while !bytes.is_empty() {
            let total = word(bytes, 4) as usize;
            assert_eq!(total % 4, 0);
            assert_eq!(word(bytes, total - 4) as usize, total);
            blocks.push((word(bytes, 0), &bytes[8..total - 4]));
            bytes = &bytes[total..];
        }
        blocks
    }

    fn written(comment: &str) -> Vec<u8> {
        let mut output = Vec::new();
        let mut writer = Writer::new(&mut output, "test", "Linux").unwrap();
        let interface = writer.interface("eth0", "driver").unwrap();
        let packet = Packet {
            interface,
            time: (3 << 32) + 5,
            length: 1500,
            bytes: &[0x45, 0, 0],
            id: 7,
            sent: true,
            comment,
        };
        writer.packet(&packet).unwrap();
        writer.lost(interface, 9, 2, "lost").unwrap();
        writer.flush().unwrap();
        output
    }

    #[test]
    fn blocks_have_their_lengths_at_both_ends() {
        let output = written("pid=1");
        let blocks = blocks(&output);
        let kinds: Vec<_> = blocks.iter().map(|block| block.0).collect();
        assert_eq!(kinds, [SECTION, INTERFACE, PACKET, STATISTICS]);
        let packet = blocks[2].1;
        assert_eq!(
            &packet[..20],
            [
                0, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 0xdc, 5, 0, 0
            ]
        );
        assert_eq!(&packet[20..24], [0x45, 0, 0, 0]);
        // The comment, the direction and the number: section 4.3.1.
        assert_eq!(&packet[24..36], b"\x01\0\x05\0pid=1\0\0\0");
        assert_eq!(&packet[36..44], [2, 0, 4, 0, 2, 0, 0, 0]);
        assert_eq!(
            &packet[44..],
            [5, 0, 8, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn a_long_comment_is_cut_at_a_character() {
        let output = written(&"ß".repeat(50_000));
        let packet = blocks(&output)[2].1;
        let length = u16::from_le_bytes([packet[26], packet[27]]);
        assert_eq!(usize::from(length), TEXT);
    }
}
