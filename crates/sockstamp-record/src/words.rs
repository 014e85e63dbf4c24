//! Rows for tests.

use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;

use crate::rows::{RowGroup, Rows};
use crate::schema::{Column, Kind};

/// Rows of one text, which are written faster than messages.
#[derive(Default)]
pub(crate) struct Words(pub(crate) Vec<ByteArray>);

impl Rows for Words {
    const VERSION: (&'static str, u32) = ("sockstamp.words", 1);
    const GROWING: &'static [&'static str] = &[];
    const FEW: &'static [&'static str] = &[];

    fn columns() -> Vec<Column> {
        vec![Column {
            name: "word".to_owned(),
            kind: Kind::Text,
            optional: false,
        }]
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_full(&self) -> bool {
        false
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn write(&self, group: &mut RowGroup<'_>) -> Result<(), ParquetError> {
        group.texts(&self.0, None)
    }
}
