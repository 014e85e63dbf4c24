//! The buffers that are not the caller's for now.

use std::collections::VecDeque;
use std::mem;

use crate::sys::zerocopy::StableBuffer;

/// A buffer that is the caller's again: the kernel reads it no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returned<B> {
    /// The buffer, with the content that was sent.
    pub buffer: B,
    /// The kernel made a copy after all.
    pub copied: bool,
}

/// Names a buffer in [`Held`].
pub type Place = usize;

/// Buffers in flight, at places that are used again.
#[derive(Debug)]
pub(super) struct Held<B> {
    lent: Vec<Option<LentBuffer<B>>>,
    free: Vec<Place>,
    returned: VecDeque<Returned<B>>,
}

#[derive(Debug)]
struct LentBuffer<B> {
    buffer: B,
    /// Sends of it that the kernel has not completed.
    sends: u32,
    /// More of the buffer is to be sent.
    open: bool,
    copied: bool,
}

impl<B: StableBuffer> Held<B> {
    pub(super) fn put(&mut self, buffer: B) -> Place {
        let lent = Some(LentBuffer {
            buffer,
            sends: 0,
            open: true,
            copied: false,
        });
        if let Some(place) = self.free.pop() {
            self.lent[place] = lent;
            return place;
        }
        self.lent.push(lent);
        self.lent.len() - 1
    }

    pub(super) fn bytes(&self, place: Place) -> &[u8] {
        self.at(place).buffer.bytes()
    }

    /// Count one more send of the buffer in flight.
    pub(super) fn lend(&mut self, place: Place) {
        self.at_mut(place).sends += 1;
    }

    /// Count one send of the buffer as complete.
    pub(super) fn complete(&mut self, place: Place, copied: bool) {
        let lent = self.at_mut(place);
        lent.sends -= 1;
        lent.copied |= copied;
        self.give_back(place);
    }

    /// No more of the buffer is to be sent.
    pub(super) fn close(&mut self, place: Place) {
        self.at_mut(place).open = false;
        self.give_back(place);
    }

    /// Takes the buffer out, unless some of it is in flight.
    pub(super) fn take_idle(&mut self, place: Place) -> Option<B> {
        if self.at(place).sends > 0 {
            return None;
        }
        self.free.push(place);
        self.lent[place].take().map(|lent| lent.buffer)
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

    fn give_back(&mut self, place: Place) {
        let lent = self.at(place);
        if lent.open || lent.sends > 0 {
            return;
        }
        let copied = lent.copied;
        if let Some(buffer) = self.take_idle(place) {
            self.returned.push_back(Returned { buffer, copied });
        }
    }

    fn at(&self, place: Place) -> &LentBuffer<B> {
        self.lent[place].as_ref().expect(Self::OCCUPIED)
    }

    fn at_mut(&mut self, place: Place) -> &mut LentBuffer<B> {
        self.lent[place].as_mut().expect(Self::OCCUPIED)
    }

    /// A place goes to the transport with each send and comes back once for each: `Window` hands a
    /// send out once, and the kernel makes one notification for a request of io_uring.
    const OCCUPIED: &str = "a place is free when its last send is complete, not before";
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

    fn held(buffers: &[&str]) -> (Held<Vec<u8>>, Vec<Place>) {
        let mut held = Held::default();
        let places = buffers
            .iter()
            .map(|text| held.put(text.as_bytes().to_vec()))
            .collect();
        (held, places)
    }

    fn returned(held: &mut Held<Vec<u8>>) -> Option<(String, bool)> {
        let Returned { buffer, copied } = held.next_returned()?;
        Some((String::from_utf8(buffer).unwrap(), copied))
    }

    #[test]
    fn a_buffer_comes_back_when_all_of_it_is_sent_and_every_send_complete() {
        let (mut held, places) = held(&["first", "second"]);
        for _ in 0..2 {
            held.lend(places[0]);
        }
        held.complete(places[0], true);
        held.close(places[0]);
        assert_eq!(returned(&mut held), None, "its second send is in flight");
        held.complete(places[0], false);
        assert_eq!(returned(&mut held), Some(("first".into(), true)));
        assert_eq!(held.in_flight(), 1);

        held.lend(places[1]);
        held.complete(places[1], false);
        assert_eq!(returned(&mut held), None, "more of it is to be sent");
        held.close(places[1]);
        assert_eq!(returned(&mut held), Some(("second".into(), false)));
        assert_eq!(held.in_flight(), 0);
    }

    #[test]
    fn buffers_keep_their_address_while_others_come_and_go() {
        // Each takes Miri some 30 ms.
        const OTHERS: usize = if cfg!(miri) { 50 } else { 1000 };
        let (mut held, places) = held(&["stays"]);
        let address = held.bytes(places[0]).as_ptr();
        let others: Vec<_> = (0..OTHERS).map(|_| held.put(vec![0; 10])).collect();
        assert_eq!(held.bytes(places[0]).as_ptr(), address);
        for other in others {
            assert_eq!(held.take_idle(other), Some(vec![0; 10]));
        }
        assert_eq!(held.bytes(places[0]).as_ptr(), address);
        assert!(held.put(Vec::new()) != places[0]);
        assert_eq!(held.lent.len(), OTHERS + 1, "free places are used again");
        assert_eq!(held.take_idle(places[0]), Some(b"stays".to_vec()));
    }
}
