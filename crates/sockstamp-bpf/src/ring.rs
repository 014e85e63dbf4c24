//! Read a ring buffer.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::slice;

use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use nix::errno::Errno;

use crate::error::{Error, Tried};
use crate::map_view::Sampled;

/// Records of messages that libbpf hands over at one go: few enough that their copies stay in the
/// processor's cache.
const GO: usize = 256;
/// Goes per call. Where records come faster than they are read, reading would go on for ever.
const GOES: usize = 40;

/// The records that programs send. libbpf keeps one closure for as long as the ring is open, which
/// shares the inbox with this type: the closure copies records there.
pub(crate) struct Ring<I> {
    ring: RingBuffer<'static>,
    inbox: Rc<RefCell<I>>,
}

impl<I: Default + 'static> Ring<I> {
    /// Open the ring. `add` copies a sample into the inbox, and returns false where a go is over.
    pub(crate) fn open(
        records: &dyn MapCore,
        add: fn(&mut I, &[u8]) -> bool,
    ) -> Result<Self, Error> {
        let inbox = Rc::new(RefCell::new(I::default()));
        let outbox = Rc::clone(&inbox);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(records, move |sample| {
                // A negative number ends the reading behind this record (ringbuf_process_ring() of
                // libbpf).
                match add(&mut outbox.borrow_mut(), sample) {
                    true => 0,
                    false => -(Errno::EINTR as i32),
                }
            })
            .tried("read the ring buffer")?;
        let ring = builder.build().tried("read the ring buffer")?;
        Ok(Self { ring, inbox })
    }

    /// Copy the records of one go into the inbox. Return whether it came to the end of the ring.
    pub(crate) fn go(&self) -> Result<bool, Error> {
        some_or_all(self.ring.consume()).tried("read records")
    }

    /// The records that were read.
    pub(crate) fn inbox(&self) -> RefMut<'_, I> {
        self.inbox.borrow_mut()
    }
}

impl<R: Sampled> Ring<Vec<R>> {
    /// Open a ring of such records.
    pub(crate) fn of_records(records: &dyn MapCore) -> Result<Self, Error> {
        Self::open(records, |inbox: &mut Vec<R>, sample| {
            if let Some(record) = R::in_sample(sample) {
                // A slice is copied into its place at once, a value by way of the stack.
                inbox.extend_from_slice(slice::from_ref(record));
            }
            inbox.len() < GO
        })
    }

    /// Take what is in the ring, but stop where records come faster than they are read.
    pub(crate) fn read(&self, take: &mut dyn FnMut(&R)) -> Result<(), Error> {
        for _ in 0..GOES {
            if self.hand_over(take)? {
                break;
            }
        }
        Ok(())
    }

    /// Take everything that is in the ring.
    pub(crate) fn empty(&self, take: &mut dyn FnMut(&R)) -> Result<(), Error> {
        while !self.hand_over(take)? {}
        Ok(())
    }

    fn hand_over(&self, take: &mut dyn FnMut(&R)) -> Result<bool, Error> {
        let all = self.go()?;
        let mut records = self.inbox();
        records.iter().for_each(take);
        records.clear();
        Ok(all)
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
