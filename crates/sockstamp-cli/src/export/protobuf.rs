//! Encode protobuf messages: varints, and fields with a length (protobuf.dev, "Encoding").

/// The fields of a message, encoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fields(Vec<u8>);

const VARINT: u32 = 0;
const WITH_LENGTH: u32 = 2;

impl Fields {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Add an integer, a value of an enum or a flag.
    pub(super) fn number(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field << 3 | VARINT));
        self.varint(value);
        self
    }

    pub(super) fn text(self, field: u32, text: &str) -> Self {
        self.with_length(field, text.as_bytes())
    }

    pub(super) fn message(self, field: u32, message: &Self) -> Self {
        self.with_length(field, &message.0)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn with_length(mut self, field: u32, bytes: &[u8]) -> Self {
        self.varint(u64::from(field << 3 | WITH_LENGTH));
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }
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
        assert_eq!(Fields::new().number(16, u64::MAX).bytes().len(), 12);
    }
}
