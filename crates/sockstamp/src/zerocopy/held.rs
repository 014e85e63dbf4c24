//! The buffers that are not the caller's for now.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::{mem, slice};

use crate::sys::zerocopy::StableBuffer;

/// A buffer that is the caller's again: the kernel reads it no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returned<B> {
    /// The buffer, with the content that was sent.
    pub buffer: B,
    /// The kernel made a copy after all.
    pub copied: bool,
}

/// Bytes that lie together or apart. Most buffers are one piece, which allocates nothing.
#[derive(Debug)]
pub(super) enum Pieces<'a> {
    None,
    One(IoSlice<'a>),
    Several(Vec<IoSlice<'a>>),
}

impl<'a> Pieces<'a> {
    fn push(&mut self, piece: IoSlice<'a>) {
        *self = match mem::replace(self, Self::None) {
            Self::None => Self::One(piece),
            Self::One(first) => Self::Several(vec![first, piece]),
            Self::Several(mut pieces) => {
                pieces.push(piece);
                Self::Several(pieces)
            }
        };
    }

    pub(super) fn as_slice(&self) -> &[IoSlice<'a>] {
        match self {
            Self::None => &[],
            Self::One(piece) => slice::from_ref(piece),
            Self::Several(pieces) => pieces,
        }
    }
}

/// Names a buffer in [`Held`].
pub type Slot = usize;

/// Buffers in flight, at slots that are used again.
#[derive(Debug)]
pub(super) struct Held<B> {
    lent: Vec<Option<LentBuffer<B>>>,
    free: Vec<Slot>,
    returned: VecDeque<Returned<B>>,
}

#[derive(Debug)]
struct LentBuffer<B> {
    buffer: B,
    /// Sends of the buffer that the kernel has not completed.
    sends: u32,
    /// A part of the buffer is not sent yet.
    open: bool,
    copied: bool,
}

impl<B: StableBuffer> Held<B> {
    pub(super) fn put(&mut self, buffer: B) -> Slot {
        let lent = Some(LentBuffer {
            buffer,
            sends: 0,
            open: true,
            copied: false,
        });
        if let Some(slot) = self.free.pop() {
            self.lent[slot] = lent;
            return slot;
        }
        self.lent.push(lent);
        self.lent.len() - 1
    }

    /// Return how many bytes the buffer has.
    pub(super) fn length(&self, slot: Slot) -> usize {
        let mut length = 0;
        let buffer = &self.at(slot).buffer;
        buffer.parts(&mut |part| length += part.len());
        length
    }

    /// Return the bytes of the buffer behind the first `sent`.
    pub(super) fn rest(&self, slot: Slot, mut sent: usize) -> Pieces<'_> {
        let mut pieces = Pieces::None;
        self.at(slot).buffer.parts(&mut |part| {
            let rest = &part[sent.min(part.len())..];
            sent -= part.len() - rest.len();
            if !rest.is_empty() {
                pieces.push(IoSlice::new(rest));
            }
        });
        pieces
    }

    /// Count one more send of the buffer in flight.
    pub(super) fn lend(&mut self, slot: Slot) {
        self.at_mut(slot).sends += 1;
    }

    /// Count one send of the buffer as complete.
    pub(super) fn complete(&mut self, slot: Slot, copied: bool) {
        let lent = self.at_mut(slot);
        lent.sends -= 1;
        lent.copied |= copied;
        self.give_back(slot);
    }

    /// The whole buffer has been sent.
    pub(super) fn close(&mut self, slot: Slot) {
        self.at_mut(slot).open = false;
        self.give_back(slot);
    }

    /// Take the buffer out, unless some of it is in flight.
    pub(super) fn take_idle(&mut self, slot: Slot) -> Option<B> {
        if self.at(slot).sends > 0 {
            return None;
        }
        self.free.push(slot);
        self.lent[slot].take().map(|lent| lent.buffer)
    }

    pub(super) fn next_returned(&mut self) -> Option<Returned<B>> {
        self.returned.pop_front()
    }

    pub(super) fn has_returned(&self) -> bool {
        !self.returned.is_empty()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.lent.len() - self.free.len()
    }

    fn give_back(&mut self, slot: Slot) {
        let lent = self.at(slot);
        if lent.open || lent.sends > 0 {
            return;
        }
        let copied = lent.copied;
        if let Some(buffer) = self.take_idle(slot) {
            self.returned.push_back(Returned { buffer, copied });
        }
    }

    fn at(&self, slot: Slot) -> &LentBuffer<B> {
        self.lent[slot].as_ref().expect(Self::OCCUPIED)
    }

    fn at_mut(&mut self, slot: Slot) -> &mut LentBuffer<B> {
        self.lent[slot].as_mut().expect(Self::OCCUPIED)
    }

    /// A slot goes to the transport with each send and comes back once for each: `Window` hands a
    /// send out once, and the kernel makes one notification for a request of io_uring.
    const OCCUPIED: &str = "a slot is free when its last send is complete, not before";
}

impl<B> Default for Held<B> {
    fn default() -> Self {
        Self {
            lent: Vec::new(),
            free: Vec::new(),
            returned: VecDeque::new(),
        }
    }
}

/// Leak only buffers in flight: the next owner of freed memory would overwrite it while the kernel
/// still sends it.
impl<B> Drop for Held<B> {
    fn drop(&mut self) {
        self.lent.drain(..).for_each(mem::forget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(buffers: &[&str]) -> (Held<Vec<u8>>, Vec<Slot>) {
        let mut held = Held::default();
        let slots = buffers
            .iter()
            .map(|text| held.put(text.as_bytes().to_vec()))
            .collect();
        (held, slots)
    }

    fn returned(held: &mut Held<Vec<u8>>) -> Option<(String, bool)> {
        let Returned { buffer, copied } = held.next_returned()?;
        Some((String::from_utf8(buffer).unwrap(), copied))
    }

    #[test]
    fn a_buffer_comes_back_when_all_of_it_is_sent_and_every_send_complete() {
        let (mut held, slots) = held(&["first", "second"]);
        for _ in 0..2 {
            held.lend(slots[0]);
        }
        held.complete(slots[0], true);
        held.close(slots[0]);
        assert_eq!(returned(&mut held), None, "its second send is in flight");
        held.complete(slots[0], false);
        assert_eq!(returned(&mut held), Some(("first".into(), true)));
        assert_eq!(held.in_flight(), 1);

        held.lend(slots[1]);
        held.complete(slots[1], false);
        assert_eq!(returned(&mut held), None, "more of it is to be sent");
        held.close(slots[1]);
        assert_eq!(returned(&mut held), Some(("second".into(), false)));
        assert_eq!(held.in_flight(), 0);
    }

    #[test]
    fn what_is_sent_of_parts_is_left_out() {
        let mut held = Held::default();
        let slot = held.put((b"head".to_vec(), [b"".to_vec(), b"body".to_vec()]));
        assert_eq!(held.length(slot), 8);
        let rest = |sent| {
            let pieces = held.rest(slot, sent);
            let text = |piece: &IoSlice<'_>| String::from_utf8(piece.to_vec()).unwrap();
            pieces.as_slice().iter().map(text).collect::<Vec<_>>()
        };
        assert_eq!(rest(0), ["head", "body"]);
        assert_eq!(rest(3), ["d", "body"]);
        assert_eq!(rest(4), ["body"]);
        assert_eq!(rest(7), ["y"]);
        assert!(rest(8).is_empty());
        assert!(held.take_idle(slot).is_some(), "nothing of it is in flight");
    }

    #[test]
    fn buffers_keep_their_address_while_others_come_and_go() {
        // Each takes Miri some 30 ms.
        const OTHERS: usize = if cfg!(miri) { 50 } else { 1000 };
        let (mut held, slots) = held(&["stays"]);
        let start = |held: &Held<Vec<u8>>| held.rest(slots[0], 0).as_slice()[0].as_ptr();
        let address = start(&held);
        let others: Vec<_> = (0..OTHERS).map(|_| held.put(vec![0; 10])).collect();
        assert_eq!(start(&held), address);
        for other in others {
            assert_eq!(held.take_idle(other), Some(vec![0; 10]));
        }
        assert_eq!(start(&held), address);
        assert!(held.put(Vec::new()) != slots[0]);
        assert_eq!(held.lent.len(), OTHERS + 1, "free slots are used again");
        assert_eq!(held.take_idle(slots[0]), Some(b"stays".to_vec()));
    }
}
