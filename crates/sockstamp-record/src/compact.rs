//! Walk over structures of a file without decoding them.
//!
//! They are in the compact protocol of Apache Thrift ("Thrift Compact protocol encoding", field
//! headers, values and lists).

/// Types of values.
pub(crate) const TRUE: u8 = 1;
pub(crate) const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
pub(crate) const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
pub(crate) const STRUCT: u8 = 12;

/// Elements that a list may claim: the decoder takes memory for all of them before it reads one.
pub(crate) const ELEMENTS: u64 = 4096;

/// Bytes that were not walked over yet.
pub(crate) struct Compact<'a>(pub(crate) &'a [u8]);

impl Compact<'_> {
    /// Read the number and the type of a field; `Some(None)` at the end of a structure.
    pub(crate) fn field(&mut self, last: &mut u64) -> Option<Option<(u64, u8)>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        // Our writer leaves out the numbers of few fields between two, and never goes back.
        let step = byte >> 4;
        *last += u64::from(step);
        (step > 0).then_some(Some((*last, byte & 0xf)))
    }

    /// Walk over a value with at most `depth` values within each other; return `None` if it is cut
    /// off, or has a list of more than [`ELEMENTS`].
    pub(crate) fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        match kind {
            TRUE | FALSE => Some(()),
            BYTE => self.byte().map(drop),
            I16 | I32 | I64 => self.varint().map(drop),
            DOUBLE => self.bytes(8),
            BINARY => {
                let length = self.varint()?;
                self.bytes(usize::try_from(length).ok()?)
            }
            LIST | SET => self.elements(depth.checked_sub(1)?),
            STRUCT => self.structure(depth.checked_sub(1)?),
            _ => None,
        }
    }

    fn structure(&mut self, depth: u32) -> Option<()> {
        loop {
            let byte = self.byte()?;
            if byte == 0 {
                return Some(());
            }
            if byte >> 4 == 0 {
                // The field's number follows.
                self.varint()?;
            }
            self.skip(byte & 0xf, depth)?;
        }
    }

    fn elements(&mut self, depth: u32) -> Option<()> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            0xf => self.varint()?,
            count => u64::from(count),
        };
        if count > ELEMENTS {
            return None;
        }
        (0..count).try_for_each(|_| match byte & 0xf {
            // In a list they have a byte each.
            TRUE | FALSE => self.byte().map(drop),
            kind => self.skip(kind, depth),
        })
    }

    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn bytes(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.get(count..)?;
        Some(())
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A structure whose first field is a list of this many empty structures.
    fn list(claimed: u16, there: usize) -> Vec<u8> {
        let count = [claimed & 0x7f | 0x80, claimed >> 7].map(|byte| u8::try_from(byte).unwrap());
        let mut bytes = vec![1 << 4 | LIST, 0xf << 4 | STRUCT];
        bytes.extend(count);
        bytes.resize(bytes.len() + there + 1, 0);
        bytes
    }

    #[test]
    fn lists_have_as_many_elements_as_they_claim_and_no_more_than_ours() {
        let is_sound = |bytes: &[u8]| Compact(bytes).skip(STRUCT, 4).is_some();
        assert!(is_sound(&list(4096, 4096)));
        assert!(!is_sound(&list(4097, 4097)));
        assert!(!is_sound(&list(4096, 4094)));
    }

    #[test]
    fn values_within_each_other_have_a_limit() {
        let mut bytes = vec![1 << 4 | STRUCT; 20];
        bytes.resize(41, 0);
        assert!(Compact(&bytes).skip(STRUCT, 21).is_some());
        assert!(Compact(&bytes).skip(STRUCT, 20).is_none());
    }
}
