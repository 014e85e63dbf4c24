//! A send, and the stamps that it has.

use crate::stamp::{TxKind, TxStamp, TxTime};

#[derive(Debug)]
pub(super) struct Send<T> {
    /// The id of its stamps.
    pub(super) last: u64,
    pub(super) exact: Slots,
    pub(super) merged: Slots,
    pub(super) message: T,
}

impl<T> Send<T> {
    pub(super) fn new(last: u64, message: T) -> Self {
        Self {
            last,
            exact: Slots::default(),
            merged: Slots::default(),
            message,
        }
    }
}

/// Kinds of stamps, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) fn of(kinds: &[TxKind]) -> Self {
        Self(kinds.iter().fold(0, |bits, kind| bits | 1 << *kind as u8))
    }
}

/// Kinds of stamps: the kernel's in the low four bits, the interface's in the high ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Slots(u8);

impl Slots {
    pub(super) fn of(stamp: &TxStamp) -> Self {
        let first = match stamp.time {
            TxTime::Software(_) => 0,
            TxTime::Hardware(_) => 4,
        };
        Self(1 << (stamp.kind as u8 + first))
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn has(self, slot: Self) -> bool {
        self.0 & slot.0 == slot.0
    }

    /// Return true if it has all kinds, from either source.
    pub(super) fn has_all(self, kinds: Kinds) -> bool {
        (self.0 | self.0 >> 4) & kinds.0 == kinds.0
    }
}
