//! Messages of Protocol Buffers: varints, fixed numbers, and fields with a length
//! (protobuf.dev, "Encoding").

/// The fields of a message, encoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<u8>);

const VARINT: u32 = 0;
const FIXED: u32 = 1;
const WITH_LENGTH: u32 = 2;

impl Fields {
    /// A message without fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Add an unsigned integer, a value of an enum or a flag.
    #[must_use]
    pub fn number(mut self, field: u32, value: u64) -> Self {
        self.key(field, VARINT);
        varint(&mut self.0, value);
        self
    }

    /// Add a `sint32` or `sint64`.
    #[must_use]
    pub fn signed(self, field: u32, value: i64) -> Self {
        self.number(field, zigzag(value))
    }

    /// Add a `fixed64`.
    #[must_use]
    pub fn fixed(mut self, field: u32, value: u64) -> Self {
        self.key(field, FIXED);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Add a `double`.
    #[must_use]
    pub fn real(self, field: u32, value: f64) -> Self {
        self.fixed(field, value.to_bits())
    }

    /// Add a `string`.
    #[must_use]
    pub fn text(self, field: u32, text: &str) -> Self {
        self.with_length(field, text.as_bytes())
    }

    /// Add `bytes`.
    #[must_use]
    pub fn with_length(mut self, field: u32, bytes: &[u8]) -> Self {
        self.key(field, WITH_LENGTH);
        varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Add a message.
    #[must_use]
    pub fn message(self, field: u32, message: &Self) -> Self {
        self.with_length(field, &message.0)
    }

    /// Add a message whose fields `fill` adds, without memory of its own.
    #[must_use]
    pub fn nested(mut self, field: u32, fill: impl FnOnce(Self) -> Self) -> Self {
        self.key(field, WITH_LENGTH);
        let begin = self.0.len();
        let mut fields = fill(self);
        fields.insert_length(begin);
        fields
    }

    /// Insert the length of everything after this place.
    fn insert_length(&mut self, begin: usize) {
        let end = self.0.len();
        varint(&mut self.0, (end - begin) as u64);
        let length = self.0.len() - end;
        self.0[begin..].rotate_right(length);
    }

    /// Add all elements of a repeated `uint64` as one, packed.
    #[must_use]
    pub fn packed(self, field: u32, values: impl IntoIterator<Item = u64>) -> Self {
        self.nested(field, |mut fields| {
            values
                .into_iter()
                .for_each(|value| varint(&mut fields.0, value));
            fields
        })
    }

    /// Return the bytes of the message.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Append to existing bytes.
    pub(crate) fn append(bytes: &mut Vec<u8>, add: impl FnOnce(Self) -> Self) {
        *bytes = add(Self(std::mem::take(bytes))).0;
    }

    /// Return the bytes of the message.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        varint(&mut self.0, u64::from(field << 3 | wire_type));
    }
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field<'a> {
    /// An integer of any kind, or a fixed number's bits.
    Number(u64),
    /// Text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
}

/// Read the fields of a message, up to the first that is cut off or of an unknown kind.
pub fn fields(mut message: &[u8]) -> impl Iterator<Item = (u32, Field<'_>)> {
    std::iter::from_fn(move || {
        let key = take_varint(&mut message)?;
        let value = match u32::try_from(key & 7).ok()? {
            VARINT => Field::Number(take_varint(&mut message)?),
            FIXED => {
                let (bits, rest) = message.split_first_chunk()?;
                message = rest;
                Field::Number(u64::from_le_bytes(*bits))
            }
            WITH_LENGTH => {
                let length = usize::try_from(take_varint(&mut message)?).ok()?;
                let (bytes, rest) = message.split_at_checked(length)?;
                message = rest;
                Field::Bytes(bytes)
            }
            _ => return None,
        };
        Some((u32::try_from(key >> 3).ok()?, value))
    })
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

pub(crate) fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

/// Small numbers of either sign become small ones.
pub(crate) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of protobuf.dev, "Encoding".
    #[test]
    fn fields_are_those_of_the_specification() {
        assert_eq!(Fields::new().number(1, 150).bytes(), [0x08, 0x96, 0x01]);
        let text = Fields::new().text(2, "testing");
        assert_eq!(text.bytes(), b"\x12\x07testing");
        let inner = Fields::new().number(1, 150);
        assert_eq!(
            Fields::new().message(3, &inner).bytes(),
            [0x1a, 0x03, 0x08, 0x96, 0x01]
        );
        let nested = Fields::new().nested(3, |message| message.number(1, 150));
        assert_eq!(nested.bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let text = "x".repeat(300);
        let [nested, copied] = [
            Fields::new().nested(3, |message| message.text(1, &text)),
            Fields::new().message(3, &Fields::new().text(1, &text)),
        ];
        assert_eq!(nested, copied, "a length of two bytes");
        assert_eq!(Fields::new().number(16, u64::MAX).bytes().len(), 12);
    }

    #[test]
    fn fields_are_read_as_they_were_written() {
        let message = Fields::new()
            .number(1, u64::MAX)
            .fixed(2, 7)
            .text(3, "abc")
            .packed(400, [300]);
        let read: Vec<_> = fields(message.bytes()).collect();
        let written = [
            (1, Field::Number(u64::MAX)),
            (2, Field::Number(7)),
            (3, Field::Bytes(b"abc")),
            (400, Field::Bytes(&[0xac, 0x02])),
        ];
        assert_eq!(read, written);
        for end in 0..message.bytes().len() {
            let read: Vec<_> = fields(&message.bytes()[..end]).collect();
            assert!(written.starts_with(&read), "{end}: {read:?}");
        }
        assert!(fields(&[0x0d, 1, 2, 3, 4]).next().is_none(), "a fixed32");
    }

    #[test]
    fn long_and_negative_numbers_are_encoded() {
        let mut bytes = Vec::new();
        varint(&mut bytes, 300);
        assert_eq!(bytes, [0xac, 0x02]);
        assert_eq!([0, -1, 1, -2, 2].map(zigzag), [0, 1, 2, 3, 4]);
        assert_eq!(zigzag(i64::MIN), u64::MAX);
        assert_eq!(Fields::new().signed(1, -2).bytes(), [0x08, 3]);
        assert_eq!(
            Fields::new().fixed(1, 2).bytes(),
            [0x09, 2, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(
            Fields::new().packed(4, [3, 270]).bytes(),
            [0x22, 3, 3, 0x8e, 2]
        );
    }
}
