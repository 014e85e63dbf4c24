//! Hold the resources of an application that has joined.

use std::os::fd::BorrowedFd;

use libbpf_rs::MapHandle;
use sockstamp::completions::protocol::{Refusal, Registered};

use super::publisher::Publisher;
use crate::error::Error;

/// Its memory, and the sockets in it.
pub(super) struct Application {
    pub(super) index: u32,
    pub(super) memory: MapHandle,
    pub(super) slots: Vec<Slot>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    Free,
    Registered {
        registration: u64,
        /// Its sends may be stamped without error-queue entries.
        stamped: bool,
    },
    /// A program that runs may still write it.
    Released,
}

impl Application {
    /// Publish what happens on `socket` from now on in a free slot; with `select`, its sends are
    /// stamped.
    pub(super) fn register(
        &mut self,
        publisher: &mut Publisher,
        socket: BorrowedFd<'_>,
        select: bool,
    ) -> Result<Result<Registered, Refusal>, Error> {
        let Some(slot) = self.free_slot(publisher)? else {
            return Ok(Err(Refusal::TooManySockets));
        };
        let number = u32::try_from(slot).unwrap_or(u32::MAX);
        let written = Publisher::written(&self.memory, number)?;
        let Some(registration) =
            publisher.mark(self.registration_slot(publisher, number), socket, select)?
        else {
            return Ok(Err(Refusal::AlreadyRegistered));
        };
        self.slots[slot] = Slot::Registered {
            registration,
            stamped: select,
        };
        Ok(Ok(Registered {
            slot: number,
            stamps: select,
            registration,
            ranges_written: written.ranges,
            stamps_written: written.stamps,
        }))
    }

    /// Stop publishing a socket.
    pub(super) fn release(
        &mut self,
        publisher: &Publisher,
        slot: u32,
        released: u64,
    ) -> Result<(), Error> {
        match self.slots.get_mut(slot as usize) {
            Some(known @ &mut Slot::Registered { registration, .. })
                if registration == released =>
            {
                *known = Slot::Released;
                publisher.unmark(self.registration_slot(publisher, slot))
            }
            _ => Ok(()),
        }
    }

    /// Find a free slot: one is given again once no program can be writing about its last socket.
    fn free_slot(&mut self, publisher: &Publisher) -> Result<Option<usize>, Error> {
        let free = |slots: &[Slot]| slots.iter().position(|slot| *slot == Slot::Free);
        if free(&self.slots).is_none() && self.slots.contains(&Slot::Released) {
            publisher.put_memory(self.index, &self.memory)?;
            for slot in &mut self.slots {
                if *slot == Slot::Released {
                    *slot = Slot::Free;
                }
            }
        }
        Ok(free(&self.slots))
    }

    pub(super) fn registered(&self) -> usize {
        let registered = |slot: &&Slot| matches!(slot, Slot::Registered { .. });
        self.slots.iter().filter(registered).count()
    }

    pub(super) fn is_stamped(&self) -> bool {
        let stamped = |slot: &Slot| matches!(slot, Slot::Registered { stamped: true, .. });
        self.slots.iter().any(stamped)
    }

    pub(super) fn end(&self, publisher: &Publisher) -> Result<(), Error> {
        for (slot, _) in (0..).zip(&self.slots) {
            publisher.unmark(self.registration_slot(publisher, slot))?;
        }
        publisher.take_memory(self.index)
    }

    /// Return the slot in the table of all applications' registrations.
    fn registration_slot(&self, publisher: &Publisher, slot: u32) -> u32 {
        self.index * publisher.sockets() + slot
    }
}
