//! Read a ring buffer, and pass its records to a closure that lives no longer than the call.

use std::cell::RefCell;
use std::rc::Rc;

use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use nix::errno::Errno;

use super::Record;
use crate::error::{Error, Tried};
use crate::map_view;

/// Records that libbpf hands over at one go: few enough that their copies stay in the processor's
/// cache.
const GO: usize = 256;
/// Goes per call. Where records come faster than they are read, reading would go on for ever.
const GOES: usize = 40;

/// The records that programs send. libbpf keeps one closure for as long as the ring is open, which
/// shares the inbox with this type: the closure moves records there, and each go hands them over.
pub(crate) struct Ring<T> {
    ring: RingBuffer<'static>,
    inbox: Rc<RefCell<Vec<T>>>,
}

impl<T: 'static> Ring<T> {
    /// Open the ring; read up to `most` records at one go, and leave out samples without one.
    pub(crate) fn open(
        records: &dyn MapCore,
        most: usize,
        record: fn(&[u8]) -> Option<T>,
    ) -> Result<Self, Error> {
        let inbox = Rc::new(RefCell::new(Vec::new()));
        let outbox = Rc::clone(&inbox);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(records, move |sample| {
                let mut outbox = outbox.borrow_mut();
                outbox.extend(record(sample));
                // A negative number ends the reading behind this record (ringbuf_process_ring() of
                // libbpf).
                match outbox.len() < most {
                    true => 0,
                    false => -(Errno::EINTR as i32),
                }
            })
            .tried("read the ring buffer")?;
        let ring = builder.build().tried("read the ring buffer")?;
        Ok(Self { ring, inbox })
    }

    /// Hand over the records of one go, to be taken out. Return whether it came to the end of the
    /// ring.
    pub(crate) fn go(&self, take: impl FnOnce(&mut Vec<T>)) -> Result<bool, Error> {
        let all = some_or_all(self.ring.consume()).tried("read records")?;
        let mut inbox = self.inbox.borrow_mut();
        take(&mut inbox);
        inbox.clear();
        Ok(all)
    }
}

impl Ring<Record> {
    /// Open the ring of messages.
    pub(crate) fn of_messages(records: &dyn MapCore) -> Result<Self, Error> {
        Self::open(records, GO, |sample| map_view::record(sample).copied())
    }

    /// Take what is in the ring, but stop where records come faster than they are read.
    pub(crate) fn read(&self, take: &mut dyn FnMut(&Record)) -> Result<(), Error> {
        for _ in 0..GOES {
            if self.go(|records| records.iter().for_each(&mut *take))? {
                break;
            }
        }
        Ok(())
    }

    /// Take everything that is in the ring.
    pub(crate) fn empty(&self, take: &mut dyn FnMut(&Record)) -> Result<(), Error> {
        while !self.go(|records| records.iter().for_each(&mut *take))? {}
        Ok(())
    }
}

/// Return whether reading came to the end of the ring. If not, a signal came between, or a go is
/// over: the rest stays.
fn some_or_all<T>(read: libbpf_rs::Result<T>) -> libbpf_rs::Result<bool> {
    match read {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == libbpf_rs::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}
