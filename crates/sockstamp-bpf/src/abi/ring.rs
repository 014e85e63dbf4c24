//! Read the ring buffer, and pass records to a closure that lives no longer than the call.

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

/// The records that programs send. libbpf calls one closure for as long as the ring is open: it
/// moves them here.
pub(crate) struct Ring {
    ring: RingBuffer<'static>,
    inbox: Rc<RefCell<Vec<Record>>>,
}

impl Ring {
    pub(crate) fn open(records: &dyn MapCore) -> Result<Self, Error> {
        let inbox = Rc::new(RefCell::new(Vec::with_capacity(GO)));
        let outbox = Rc::clone(&inbox);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(records, move |sample| {
                let mut outbox = outbox.borrow_mut();
                outbox.extend(map_view::record(sample).copied());
                // A negative number ends the reading behind this record (ringbuf_process_ring() of
                // libbpf).
                if outbox.len() == GO {
                    -(Errno::EINTR as i32)
                } else {
                    0
                }
            })
            .tried("read the ring buffer")?;
        let ring = builder.build().tried("read the ring buffer")?;
        Ok(Self { ring, inbox })
    }

    /// Take what is in the ring, but stop where records come faster than they are read.
    pub(crate) fn read(&self, take: &mut dyn FnMut(&Record)) -> Result<(), Error> {
        for _ in 0..GOES {
            if self.go(take)? {
                break;
            }
        }
        Ok(())
    }

    /// Take everything that is in the ring.
    pub(crate) fn empty(&self, take: &mut dyn FnMut(&Record)) -> Result<(), Error> {
        while !self.go(take)? {}
        Ok(())
    }

    /// Return whether it came to the end of the ring.
    fn go(&self, take: &mut dyn FnMut(&Record)) -> Result<bool, Error> {
        let all = some_or_all(self.ring.consume()).tried("read records")?;
        self.hand_over(take);
        Ok(all)
    }

    fn hand_over(&self, take: &mut dyn FnMut(&Record)) {
        let mut inbox = self.inbox.borrow_mut();
        inbox.iter().for_each(take);
        inbox.clear();
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
