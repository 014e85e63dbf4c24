//! The rows of a part of a file, decoded, column by column.

use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use parquet::data_type::ByteArray;
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::interface::Interface;
use sockstamp_model::name::Name;

use crate::schema::Column;

/// Integers of a column, with a place for each row once there is a value.
#[derive(Debug, Default)]
pub(super) struct Integers {
    values: Vec<i64>,
    /// Empty if all values are present, or none is.
    there: Vec<bool>,
}

impl Integers {
    pub(super) fn new(mut dense: Vec<i64>, levels: Vec<i16>, optional: bool) -> Self {
        if !optional || dense.is_empty() || dense.len() == levels.len() {
            return Self {
                values: dense,
                there: Vec::new(),
            };
        }
        // Spread from the end, in place.
        let mut next = dense.len();
        dense.resize(levels.len(), 0);
        for row in (0..levels.len()).rev() {
            if levels[row] > 0 && next > 0 {
                next -= 1;
                dense[row] = dense[next];
            }
        }
        Self {
            values: dense,
            there: levels.into_iter().map(|level| level > 0).collect(),
        }
    }

    fn get(&self, row: usize) -> Option<i64> {
        match self.there.get(row) {
            Some(false) => None,
            _ => self.values.get(row).copied(),
        }
    }
}

/// Texts of a column: runs of equal ones are one.
#[derive(Debug, Default)]
pub(super) struct Texts {
    pub(super) texts: Vec<ByteArray>,
    /// For each row the place of its text.
    rows: Vec<Option<u32>>,
}

impl Texts {
    pub(super) fn new(values: Vec<ByteArray>, levels: &[i16], optional: bool) -> Self {
        let mut texts: Vec<ByteArray> = Vec::new();
        let mut place = |value: ByteArray| {
            if !texts.last().is_some_and(|last| is_same(last, &value)) {
                texts.push(value);
            }
            u32::try_from(texts.len() - 1).ok()
        };
        let mut values = values.into_iter();
        let rows = match optional {
            false => values.map(&mut place).collect(),
            true => levels
                .iter()
                .map(|&level| {
                    (level > 0)
                        .then(|| values.next())
                        .flatten()
                        .and_then(&mut place)
                })
                .collect(),
        };
        Self { texts, rows }
    }
}

/// Texts of one place in a dictionary lie at one address.
fn is_same(a: &ByteArray, b: &ByteArray) -> bool {
    std::ptr::eq(a.data(), b.data()) || a == b
}

#[derive(Debug)]
pub(super) enum Values {
    Absent,
    Integers(Integers),
    Flags(Vec<bool>),
    Texts(Texts),
}

/// A row group, decoded.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) count: usize,
    pub(super) names: Arc<[Column]>,
    pub(super) columns: Vec<Values>,
}

impl Decoded {
    pub(crate) fn integer(&self, column: usize, row: usize) -> Option<i64> {
        match &self.columns[column] {
            Values::Integers(integers) => integers.get(row),
            _ => None,
        }
    }

    /// Return true if some row may have a value.
    pub(crate) fn has(&self, column: usize) -> bool {
        match &self.columns[column] {
            Values::Absent => false,
            Values::Integers(integers) => !integers.values.is_empty(),
            Values::Flags(_) | Values::Texts(_) => true,
        }
    }

    /// Return for each row whether it may differ from the one before it in these columns.
    pub(crate) fn turns(&self, columns: Range<usize>) -> Vec<bool> {
        let mut turns = vec![false; self.count];
        for values in &self.columns[columns] {
            match values {
                Values::Absent => {}
                Values::Integers(integers) => {
                    mark_turns(&mut turns, &integers.values);
                    mark_turns(&mut turns, &integers.there);
                }
                Values::Flags(flags) => mark_turns(&mut turns, flags),
                Values::Texts(texts) => mark_turns(&mut turns, &texts.rows),
            }
        }
        turns
    }

    pub(crate) fn flag(&self, column: usize, row: usize) -> Option<bool> {
        match &self.columns[column] {
            Values::Flags(flags) => flags.get(row).copied(),
            _ => None,
        }
    }

    fn place(&self, column: usize, row: usize) -> Option<u32> {
        match &self.columns[column] {
            Values::Texts(texts) => texts.rows.get(row).copied().flatten(),
            _ => None,
        }
    }

    pub(crate) fn text(&self, column: usize, row: usize) -> Option<&[u8]> {
        let place = self.place(column, row)?;
        match &self.columns[column] {
            Values::Texts(texts) => Some(texts.texts.get(place as usize)?.data()),
            _ => None,
        }
    }

    pub(crate) fn word<T: FromStr>(&self, column: usize, row: usize) -> Result<T, String> {
        self.text(column, row)
            .and_then(|text| str::from_utf8(text).ok()?.parse().ok())
            .ok_or_else(|| self.wrong(column))
    }

    /// Return a word of an optional column.
    pub(crate) fn word_if_there<T: FromStr>(
        &self,
        column: usize,
        row: usize,
    ) -> Result<Option<T>, String> {
        match self.text(column, row) {
            Some(_) => self.word(column, row).map(Some),
            None => Ok(None),
        }
    }

    /// Return a number of an optional column.
    pub(crate) fn number_if_there<T: TryFrom<i64>>(
        &self,
        column: usize,
        row: usize,
    ) -> Result<Option<T>, String> {
        match self.integer(column, row) {
            Some(_) => self.number(column, row).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn number<T: TryFrom<i64>>(&self, column: usize, row: usize) -> Result<T, String> {
        self.integer(column, row)
            .and_then(|value| T::try_from(value).ok())
            .ok_or_else(|| self.wrong(column))
    }

    /// Return the interface whose name, index and namespace begin at this column.
    pub(crate) fn interface(&self, column: usize, row: usize) -> Result<Option<Interface>, String> {
        let Some(name) = self.text(column, row) else {
            return Ok(None);
        };
        Ok(Some(Interface {
            name: Name::from(name),
            index: self.number(column + 1, row)?,
            netns: NetnsInode(self.number(column + 2, row)?),
        }))
    }

    /// Report that a column has an impossible value.
    pub(crate) fn wrong(&self, column: usize) -> String {
        let name = self
            .names
            .get(column)
            .map_or("", |column| column.name.as_str());
        format!("column {name}: it has an impossible value")
    }
}

/// A column alone is compared fast.
fn mark_turns<T: PartialEq>(turns: &mut [bool], rows: &[T]) {
    for (turn, pair) in turns.iter_mut().skip(1).zip(rows.windows(2)) {
        *turn |= pair[0] != pair[1];
    }
}
