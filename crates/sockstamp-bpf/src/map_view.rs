//! Turn bytes that the kernel wrote into typed values. These values are safe for any use.

use std::mem::{offset_of, size_of};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use sockstamp_model::stage::Direction;

use crate::abi::raw::{
    group as Group, nic_stamp, packet_record, rx_stamps, stuck_socket, stuck_unix, tx_stamps,
    unix_flow, unix_wait, wait_record,
};
use crate::abi::{Bank, Record};

/// The kernel's banks, mapped read-only: looking costs no system call.
#[derive(Debug)]
pub struct Banks {
    map: MmapRaw,
    count: usize,
}

/// How many messages there have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Traffic {
    pub(crate) messages: u64,
    pub(crate) measured: u64,
}

/// What the banks have counted of one direction, by weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// The part of these that went over UDP.
    pub(crate) datagrams: u64,
    pub(crate) datagram_bytes: u64,
}

impl Tally {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            messages: self.messages - before.messages,
            bytes: self.bytes - before.bytes,
            datagrams: self.datagrams - before.datagrams,
            datagram_bytes: self.datagram_bytes - before.datagram_bytes,
        }
    }

    pub(crate) fn of_tcp(self) -> (f64, f64) {
        (
            (self.messages - self.datagrams) as f64,
            (self.bytes - self.datagram_bytes) as f64,
        )
    }
}

const BANK_WORDS: usize = size_of::<Bank>() / size_of::<u64>();

impl Banks {
    /// Map the `banks` array map (`BPF_F_MMAPABLE`) of `count` elements.
    pub fn map(banks: &impl AsFd, count: usize) -> std::io::Result<Self> {
        let map = MmapOptions::new()
            .len(count * size_of::<Bank>())
            .map_raw_read_only(&banks.as_fd())?;
        Ok(Self { map, count })
    }

    /// Copy every bank. Each word is read whole; words that are counted together may be read before
    /// and after a message.
    pub fn read(&self) -> Vec<Bank> {
        // In place: what a bank takes of the stack would stay resident.
        let mut banks = Vec::<Bank>::with_capacity(self.count);
        let target = banks.spare_capacity_mut().as_mut_ptr().cast::<u64>();
        for index in 0..self.count * BANK_WORDS {
            let value = self.word(index / BANK_WORDS, index % BANK_WORDS);
            // SAFETY: `index` is below the words of `count` banks, for which there is room, and
            // which are ours alone.
            unsafe { target.add(index).write(value) };
        }
        // SAFETY: all words of `count` banks were written above, and any value is valid for the
        // integers that Bank consists of.
        unsafe { banks.set_len(self.count) };
        banks
    }

    /// Return the numbers of messages, without a copy of the banks.
    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            messages: self.both(offset_of!(Bank, messages)),
            measured: self.both(offset_of!(Bank, measured)),
        }
    }

    /// Return the counts of each direction, without a copy of the banks.
    pub(crate) fn tally(&self) -> [Tally; 2] {
        Direction::ALL.map(|way| Tally {
            messages: self.of(way, offset_of!(Bank, messages)),
            bytes: self.of(way, offset_of!(Bank, bytes)),
            datagrams: self.of(way, offset_of!(Bank, datagrams)),
            datagram_bytes: self.of(way, offset_of!(Bank, datagram_bytes)),
        })
    }

    /// Return the bytes that connections have moved in each direction, as far as they are counted.
    pub(crate) fn moved(&self) -> [u64; 2] {
        Direction::ALL.map(|way| self.of(way, offset_of!(Bank, moved)))
    }

    /// Return the sum of a count of both directions.
    fn both(&self, offset: usize) -> u64 {
        Direction::ALL.map(|way| self.of(way, offset)).iter().sum()
    }

    /// Return a count of one direction.
    fn of(&self, way: Direction, offset: usize) -> u64 {
        let word = offset / size_of::<u64>() + way as usize;
        (0..self.count).map(|bank| self.word(bank, word)).sum()
    }

    fn word(&self, bank: usize, word: usize) -> u64 {
        assert!(bank < self.count && word < BANK_WORDS, "no such word");
        let source = self.map.as_ptr().cast::<u64>();
        // SAFETY: the address lies within the `count * size_of::<Bank>()` bytes that `map()` mapped
        // and that stay mapped while `self` lives, as asserted. It is aligned: a mapping starts at
        // a page, and the kernel rounds elements of an array map up to 8 bytes (array_map_alloc(),
        // kernel/bpf/arraymap.c), which Bank, made of u64 alone, already is. The kernel changes
        // these words while we read: hence atomic loads. The mapping is read-only, and `load` never
        // writes.
        unsafe {
            AtomicU64::from_ptr(source.add(bank * BANK_WORDS + word).cast_mut())
                .load(Ordering::Relaxed)
        }
    }
}

/// The group in a copy of its element of the map, or `None` if the copy has another size.
pub fn group(bytes: &[u8]) -> Option<Box<Group>> {
    if bytes.len() != size_of::<Group>() {
        return None;
    }
    let mut group = Box::<Group>::default();
    let target = std::ptr::from_mut(group.as_mut()).cast::<u8>();
    // SAFETY: both are this long, the box is ours alone, so they do not overlap, and every bit
    // pattern is a valid Group: it consists of integers.
    unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Some(group)
}

/// Records of one kind, which programs send by a ring buffer.
///
/// # Safety
///
/// Every bit pattern is a valid one.
pub(crate) unsafe trait Sampled: Copy + 'static {
    /// The record that begins a ring-buffer sample, or `None` if it is not one of ours.
    fn in_sample(sample: &[u8]) -> Option<&Self> {
        let pointer = sample.as_ptr().cast::<Self>();
        if sample.len() < size_of::<Self>() || !pointer.is_aligned() {
            return None;
        }
        // SAFETY: length and alignment are checked above, the lifetime is that of the sample, and
        // every bit pattern is valid, as implementors promise.
        Some(unsafe { &*pointer })
    }
}

// SAFETY: it consists of integers and unions of integers.
unsafe impl Sampled for Record {}
// SAFETY: it consists of integers.
unsafe impl Sampled for wait_record {}
// SAFETY: it consists of integers.
unsafe impl Sampled for nic_stamp {}
// SAFETY: it consists of integers.
unsafe impl Sampled for packet_record {}
// SAFETY: it consists of integers.
unsafe impl Sampled for unix_wait {}

/// The record of a packet that begins a ring-buffer sample, or `None` if it is not one of ours.
pub fn packet(sample: &[u8]) -> Option<&packet_record> {
    packet_record::in_sample(sample)
}

/// Copy the record of a socket, or return `None` if the bytes are none.
pub(crate) fn stuck(bytes: &[u8]) -> Option<stuck_socket> {
    if bytes.len() != size_of::<stuck_socket>() {
        return None;
    }
    // SAFETY: the length is checked above, the read needs no alignment, and every bit pattern is a
    // valid stuck_socket: it consists of integers.
    Some(unsafe { bytes.as_ptr().cast::<stuck_socket>().read_unaligned() })
}

/// Copy the record of a Unix socket, or return `None` if the bytes are none.
pub(crate) fn stuck_unix(bytes: &[u8]) -> Option<stuck_unix> {
    if bytes.len() != size_of::<stuck_unix>() {
        return None;
    }
    // SAFETY: the length is checked above, the read needs no alignment, and every bit pattern is a
    // valid stuck_unix: it consists of integers.
    Some(unsafe { bytes.as_ptr().cast::<stuck_unix>().read_unaligned() })
}

/// Copy the value of a Unix connection, or return `None` if the bytes are none.
pub(crate) fn unix_flow(bytes: &[u8]) -> Option<unix_flow> {
    if bytes.len() != size_of::<unix_flow>() {
        return None;
    }
    // SAFETY: the length is checked above, the read needs no alignment, and every bit pattern is a
    // valid unix_flow: it consists of integers.
    Some(unsafe { bytes.as_ptr().cast::<unix_flow>().read_unaligned() })
}

impl Record {
    /// The stamps of a record whose direction is TX.
    pub(crate) fn tx_stamps(&self) -> &tx_stamps {
        // SAFETY: both members of the union consist of integers alone, for which any bits are
        // valid.
        unsafe { &self.stamps.tx }
    }

    /// The stamps of a record whose direction is RX.
    pub(crate) fn rx_stamps(&self) -> &rx_stamps {
        // SAFETY: both members of the union consist of integers alone, and the record was zeroed
        // before it was filled, so all bytes are initialised.
        unsafe { &self.stamps.rx }
    }
}
